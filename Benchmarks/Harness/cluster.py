# SPDX-License-Identifier: Apache-2.0
#
# A cluster of three nodes beside a broker alone: PostgreSQL with two standbys of which one confirms, all on this machine.
# Appends by themselves; accepted messages and live fanouts with and without the log; how far followers are behind, and what
# a row costs them; takeovers, promotions and a joining node. Rests on cluster_machines.py, on bench-log and on the load
# generator.

import contextlib
import pathlib
import statistics
import threading
import time

from cluster_machines import NODES, PROJECT, Machines, Senders, Served, applied, client, cpu, project
from tools import Folder, generator, lines, measurements, medians, table

DIRECT = {1: 500, 16: 6000, 256: 30_000}
# The parts of one machine's rate that a cluster reaches.
PARTS = {1: 0.35, 16: 0.4, 256: 0.75}
# The devices' registrations are behind all nodes after a second.
SUBSCRIBERS, WINDOW, SECONDS, WARMUP = 1000, 16, 2, 1
LIVE_PART, LAG_P99_MAX = 0.97, 20.0
KILLED_MAX, SILENT_MAX, PROMOTED_MAX = 4.0, 12.0, 1.0
JOINING, JOIN_MAX = 1_000_000, 10.0
# A pause is measured by senders that try again, for so long.
WATCH_SECONDS = {"killed": 6, "frozen": 15, "cut off": 15, "promoted": 6}
ROUNDS = {"killed": 5, "frozen": 3, "cut off": 3, "promoted": 5}


def run(binaries, quick, repeats, progress, report):
    """A section of the report for each part, so that what was measured stays if a later one fails."""
    world = Measuring(pathlib.Path(binaries).absolute(), report)
    progress(1, 5, "appends to the log")
    report.section("Appends to a cluster's log", "\n".join(world.appends()))
    progress(2, 5, "with and without the log")
    report.section("A cluster beside a broker alone", "\n".join(world.beside(1 if quick else repeats)))
    progress(3, 5, "followers")
    report.section("Followers of a cluster", "\n".join(world.followers()))
    progress(4, 5, "takeovers")
    report.section("Pauses of a cluster", "\n".join(world.pauses(quick)))
    progress(5, 5, "a node joins")
    report.section("A node joins", "\n".join(world.join()))


class Measuring(Machines):
    """The parts of the section."""

    def __init__(self, binaries, report):
        super().__init__(binaries)
        self.report = report

    # Appends

    def appends(self):
        with self.servers() as (trio, _):
            trio.primary.sql("create database appends")
            found = lines(
                [self.binaries / "bench-log", trio.address.removesuffix("/martlet") + "/appends"],
                core=None)
        for line in found:
            self.report.figures("cluster", f"append, {line['bytes']} B", "Martlet", 0, line)
        return table(
            ["bytes of a row, one in flight", "p50 ms", "p99 ms"],
            [[f"{line['bytes']:,}", f"{line['p50']:.2f}", f"{line['p99']:.1f}"] for line in found])

    # With and without the log

    def beside(self, repeats):
        """A broker alone, one node with the log, and three nodes of which one is measured: the difference between the
        first two is the log, and that between the last two are the followers on the same cores."""
        found = {"alone": [], "log": [], "cluster": []}
        for number in range(repeats):
            with self.alone() as node:
                found["alone"].append(self.load(node, "alone", number))
            for name, nodes in (("log", NODES[:1]), ("cluster", NODES)):
                with self.cluster(nodes) as cluster:
                    found[name].append(self.load(cluster.active(), name, number))
        alone, log, cluster = sides = [medians(found[name]) for name in found]
        rows = []
        for window in DIRECT:
            key = f"direct {window}"
            parts = [side[f"{key} rate"] / alone[f"{key} rate"] for side in (log, cluster)]
            for name, goal, part in zip(("one node with the log", "a cluster"), ("log", "cluster"), parts):
                self.report.at_least(
                    f"accepted/s of {name} against a broker alone, {window} outstanding", part,
                    PARTS[window], "{:.2f}×", f"{goal} rate")
            rows.append([f"direct, stored, accepted/s, {window} outstanding; p50 ms"] + [
                f"{side[f'{key} rate']:,.0f}; {side[f'{key} p50']:.2f}" for side in sides
            ] + [f"{part:.2f}×" for part in parts])
        for kind in ("TTL 0", "stored"):
            parts = [side[f"live {kind}"] / alone[f"live {kind}"] for side in (log, cluster)]
            for name, goal, part in zip(("one node with the log", "a cluster"), ("log", "cluster"), parts):
                self.report.at_least(
                    f"live deliveries/s of {name} against a broker alone, {kind}", part, LIVE_PART,
                    "{:.2f}×", f"{goal} live")
            rows.append([f"live to {SUBSCRIBERS:,}, {kind}, deliveries/s, {WINDOW} outstanding"] + [
                f"{side[f'live {kind}']:,.0f}" for side in sides] + [f"{part:.2f}×" for part in parts])
        return table(
            ["all connections on the active node", "alone", "one node with the log", "three nodes",
             "log / alone", "three / alone"], rows)

    def load(self, node, name, number):
        served, found = Served(self.binaries, node), {}
        with Folder() as folder:
            devices = f"{folder}/devices"
            generator(served, "martlet-durable", SUBSCRIBERS, "--save", devices, "--idle")
            for window, count in DIRECT.items():
                line = generator(
                    served, "martlet-direct", SUBSCRIBERS, "--load", devices, "--offline", count,
                    "--outstanding", window)
                self.report.figures("cluster", f"direct {window}", name, number, line)
                found[f"direct {window} rate"] = line["messagesPerSecond"]
                found[f"direct {window} p50"] = line["acceptedMilliseconds"]
        for kind, protocol in (("TTL 0", "martlet"), ("stored", "martlet-durable")):
            line = self.live(node, protocol)
            self.report.figures("cluster", f"live {kind}", name, number, line)
            found[f"live {kind}"] = line["deliveriesPerSecond"]
        return found

    def live(self, node, protocol):
        # The topic has these devices alone.
        served = Served(self.binaries, node, f"live-{protocol}")
        return measurements(
            served, protocol, SUBSCRIBERS, "--outstanding", WINDOW, "--seconds", SECONDS, "--warmup",
            WARMUP)[0]

    # Followers

    def followers(self):
        with self.cluster() as cluster:
            active = cluster.active()
            follower = next(node for node in cluster.nodes.values() if node is not active)
            quiet = self.lags(cluster, active, follower)
            rows, spent = self.costs(cluster, active, follower)
            with self.loading(active):
                loaded = self.lags(cluster, active, follower)
            shares = self.shares(cluster, active, follower)
        for name, found in (("quiet", quiet), ("with 16 direct sends outstanding", loaded)):
            p50, p99 = found
            self.report.figures("cluster", f"lag, {name}", "Martlet", 0, {"p50": p50, "p99": p99})
            self.report.at_most(
                f"delivery by a follower after the acknowledgement, p99 in ms, {name}", p99,
                LAG_P99_MAX, "{:.1f}", "cluster lag")
        mine, theirs = spent[active.name], spent[follower.name]
        self.report.figures("cluster", "CPU of a row", "Martlet", 0, {
            "active": mine / rows, "follower": theirs / rows})
        return [
            f"Device on a follower, sender on the active node: acknowledgement → delivery, p50 / p99: "
            f"{quiet[0]:.1f} / {quiet[1]:.1f} ms quiet, {loaded[0]:.1f} / {loaded[1]:.1f} ms beside 16 direct "
            f"sends outstanding.", "",
            f"CPU of a row with 16 direct sends outstanding ({rows:,} rows): active node "
            f"{mine / rows * 1e6:.0f} µs, a follower {theirs / rows * 1e6:.0f} µs.", "",
            f"Devices and sender on a follower, {SUBSCRIBERS:,} devices, {WINDOW} outstanding: a delivery costs the "
            f"follower {shares[0]:.0f} ns and the active node {shares[1]:.0f} ns."]

    def lags(self, cluster, active, follower, count=300):
        """Milliseconds from the sender's answer to the device's message; a message before its answer counts 0."""
        wire = client()
        key, registration = project(cluster, active)
        device = wire.Device("127.0.0.1", follower.port, PROJECT, "com.example.bench", timeout=30,
                             registration_key=registration)
        arrived, answered = {}, {}

        def receive():
            while len(arrived) < count:
                delivered, message = device.next_message()
                arrived[message["data"]["n"]] = time.monotonic()
                device.acknowledge(delivered["stream ID"])

        thread = threading.Thread(target=receive, daemon=True)
        thread.start()
        sender = wire.Sender("127.0.0.1", active.port, PROJECT, key, timeout=30)
        for number in range(count):
            sender.send_message("token", device.token, wire.message(data={"n": str(number)}))
            answered[str(number)] = time.monotonic()
            time.sleep(0.01)
        thread.join(30)
        sender.close()
        device.close()
        late = sorted(max(0, arrived[name] - answered[name]) * 1e3 for name in answered)
        return statistics.median(late), late[len(late) * 99 // 100]

    @contextlib.contextmanager
    def loading(self, node):
        """16 direct sends outstanding until the block ends."""
        is_over = threading.Event()

        def send():
            with Folder() as folder:
                served = Served(self.binaries, node, "loading")
                generator(served, "martlet-durable", 100, "--save", f"{folder}/devices", "--idle")
                while not is_over.is_set():
                    generator(served, "martlet-direct", 100, "--load", f"{folder}/devices", "--offline",
                              DIRECT[16], "--outstanding", 16)

        thread = threading.Thread(target=send)
        thread.start()
        time.sleep(1)
        yield
        is_over.set()
        thread.join()

    def costs(self, cluster, active, follower):
        """Rows of a run, and the CPU seconds of two nodes for them."""
        with Folder() as folder:
            served, devices = Served(self.binaries, active, "rows"), f"{folder}/devices"
            generator(served, "martlet-durable", 100, "--save", devices, "--idle")
            time.sleep(1)
            nodes = (active, follower)
            before, first = [cpu(node) for node in nodes], applied(cluster, active)
            generator(served, "martlet-direct", 100, "--load", devices, "--offline", DIRECT[16],
                      "--outstanding", 16)
            time.sleep(1)
            after, last = [cpu(node) for node in nodes], applied(cluster, active)
        return last - first, {
            node.name: end - begin for node, begin, end in zip(nodes, before, after)}

    def shares(self, cluster, active, follower):
        """Nanoseconds of a delivery on the follower with the devices, and on the active node."""
        time.sleep(1)
        before = cpu(active)
        line = self.live(follower, "martlet-durable")
        spent = cpu(active) - before
        self.report.figures("cluster", "devices on a follower", "Martlet", 0, line)
        # The active node's CPU has the time of registering and warming up in it, a part of some per cent.
        return line["serverNanoseconds"], spent / max(line["deliveries"], 1) * 1e9

    # Pauses

    def pauses(self, quick):
        rows = []
        for name, most in (("killed", KILLED_MAX), ("frozen", SILENT_MAX), ("cut off", SILENT_MAX),
                           ("promoted", PROMOTED_MAX)):
            found = []
            with self.cluster() as cluster:
                for _ in range(1 if quick else ROUNDS[name]):
                    found.append(self.pause(cluster, name))
            text = {"killed": "active node killed", "frozen": "active node frozen",
                    "cut off": "active node cut off from PostgreSQL",
                    "promoted": "primary killed, a standby promoted by a script"}[name]
            for number, seconds in enumerate(found):
                self.report.figures("cluster", f"pause, {name}", "Martlet", number, {"seconds": seconds})
            self.report.at_most(
                f"nothing is accepted, s: {text}", max(found), most, "{:.1f}", "cluster pause")
            rows.append([text] + [f"{value:.2f}" for value in (statistics.median(found), max(found))]
                        + [len(found)])
        return table(["longest time without an accepted message", "median s", "worst s", "rounds"], rows)

    def pause(self, cluster, name):
        """Seconds without an accepted message around an event. Four senders try again, at any node that serves."""
        if name == "cut off":
            # Its ways to PostgreSQL go through the test from now on.
            for node in cluster.nodes.values():
                if not node.is_cut:
                    node.stop()
                    node.is_cut = True
                    node.start()
        active = cluster.active()
        senders = Senders(cluster, *project(cluster, active))
        with senders.sending():
            time.sleep(1)
            if name == "killed":
                active.kill()
            elif name == "frozen":
                active.freeze()
            elif name == "cut off":
                active.cut_off()
            else:
                cluster.pair.promote()
            time.sleep(WATCH_SECONDS[name])
            seconds = senders.longest()
        if name == "killed":
            active.start()
        elif name == "frozen":
            active.thaw()
        elif name == "cut off":
            active.reconnect()
        else:
            cluster.pair.rebuild()
        time.sleep(2)
        return seconds

    # A node joins

    def join(self):
        with Folder() as folder:
            lines([self.binaries / "bench-store", "instances", f"{folder}/data", JOINING], core=None)
            with self.cluster(NODES[:2], data=f"{folder}/data") as cluster:
                active = cluster.active()
                with self.loading(active):
                    began = time.monotonic()
                    cluster.command("backup", "--data", active.data, cluster.folder / "backup")
                    copied = time.monotonic()
                    cluster.command("cluster", "join", cluster.folder / "backup", cluster.folder / "c")
                    node = cluster.node(cluster, "c")
                    cluster.nodes["c"] = node
                    node.start()
                    while True:
                        time.sleep(0.05)
                        if applied(cluster, node) + 50 > applied(cluster, active):
                            break
                    seconds = time.monotonic() - began
        self.report.figures("cluster", "join", "Martlet", 0, {
            "seconds": seconds, "copySeconds": copied - began})
        self.report.at_most(
            f"a node joins a cluster of {JOINING:,} instances, s", seconds, JOIN_MAX, "{:.1f}",
            "cluster join")
        return [f"A backup of the active node with {JOINING:,} instances, beside 16 direct sends outstanding: "
                f"{copied - began:.1f} s. The new node serves and is level after {seconds:.1f} s."]
