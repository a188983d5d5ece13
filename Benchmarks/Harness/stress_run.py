# SPDX-License-Identifier: Apache-2.0
#
# The course of a stress run and its bounds. Two generators work against one `martlet serve`: one
# holds the many projects that are measured, the other the one project that floods, so that what the
# flood's clients do does not hold up the measuring. Each disturbance is measured five times, each time
# right after the quiet it is compared with. The median decides, and all are told.
#
# A flood takes all of a small machine, its clients' part too, and then every process on it waits for its
# turn whatever the broker does. So where the median is above the bound, the same flood is run once
# against a second broker, and the others are measured beside that. That tells how much the machine
# itself has to do with it; the bound stays what it is.

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from servers import Unavailable, certificate, free_port, scratch
from xmpp_strangers import ENDED

MEBIBYTE = 1 << 20
# How much slower the others may become (their p99), and below what that is not looked at: on two
# cores a thread that is woken waits for a slice of another's time.
SLOWER_MAX = 2.0
NEGLIGIBLE_MILLISECONDS = 5.0
# What the broker may hold at its worst beyond what it held once all were connected, and in the end:
# four and three times what was measured (26 and 17 MiB).
GROWTH_AT_WORST_BYTES = 104 * MEBIBYTE
GROWTH_IN_THE_END_BYTES = 52 * MEBIBYTE
SETTLE_SECONDS = 60
# Peers without a credential that come in a second at least: half of the 2000 at a time keep their connection for three
# seconds, and the machine may be busy with others.
STRANGERS_PER_SECOND_MIN = 200
# With handshakes, which cost both sides a core's milliseconds.
XMPP_STRANGERS_PER_SECOND_MIN = 30


@dataclasses.dataclass
class Attempt:
    """The others' p99 beside something, and in the quiet just before, in milliseconds."""

    loud: float
    quiet: float

    @property
    def bound(self):
        return max(SLOWER_MAX * self.quiet, NEGLIGIBLE_MILLISECONDS)

    @property
    def excess(self):
        """How many times the bound it is."""
        return self.loud / self.bound

    @property
    def ratio(self):
        return self.loud / self.quiet


def median(attempts):
    """The attempt in the middle, by how near its bound it came; their number is odd."""
    return sorted(attempts, key=lambda attempt: attempt.excess)[len(attempts) // 2]


def verdict(what, attempt):
    """For a report: see goals.py."""
    return {
        "what": f"others' p99 beside {what}", "wanted": f"≤ {SLOWER_MAX:g}× quiet",
        "reached": f"{attempt.ratio:.2f}× ({attempt.loud:.1f} ms beside {attempt.quiet:.1f})",
        "is_good": attempt.excess <= 1, "note": "", "goal": "flood", "excess": attempt.excess}


@dataclasses.dataclass
class Plan:
    """How much of everything."""

    projects: int
    devices_each: int
    fanouts: int
    window: float
    # Fanouts per second of each project.
    rate: float
    # Messages that wait for each device of the project whose devices come back.
    waiting: int
    # Seconds of a flood that some of its devices miss.
    missed: float
    # How often each disturbance is measured: an odd number, whose median one disturbance of the machine
    # by somebody else does not change.
    attempts: int
    # Peers without a credential that come to do harm.
    strangers: int = 20_000
    xmpp_strangers: int = 10_000
    payload: int = 512

    @staticmethod
    def full():
        """10,000 devices and 100 senders: 20,200 descriptors in all, of which 10,100 the broker's,
        which are entries of its rings' tables."""
        return Plan(projects=100, devices_each=100, fanouts=50, window=5, rate=2, waiting=3000,
            missed=2, attempts=5)

    @staticmethod
    def quick():
        return Plan(projects=20, devices_each=100, fanouts=10, window=2, rate=5, waiting=1000,
            missed=0.5, attempts=3, strangers=4000, xmpp_strangers=2400)


class Generator:
    """One `bench-load stress`, spoken to line by line."""

    def __init__(self, load, port, key, name, projects, devices, payload, source, nice=0, log=None):
        self.name, self.verbose = name, log
        self.process = subprocess.Popen(
            ["nice", "-n", str(nice), str(load), "stress", str(port), str(key), name,
             str(projects), str(devices), str(payload), str(source)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def begin(self, command):
        self.command = command
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def end(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"{self.name}, '{self.command}': " + (self.process.stderr.read().strip() or "ended"))
        if self.verbose:
            print(f"    {self.name} {self.command}: {line.strip()}", flush=True)
        return json.loads(line)

    def do(self, command):
        self.begin(command)
        return self.end()

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Broker:
    """`martlet serve` in a folder of its own, and what it holds, looked at all the time."""

    def __init__(self, path):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="martlet-stress-", dir=scratch()))
        self.port = free_port()
        self.log = open(self.folder / "log", "wb")
        # A device here gets more than a person would: its own limits are not what is measured.
        none = ["stored-per-instance-max", "collapse-keys-per-instance-max", "collapsible-burst",
                "device-messages-per-minute", "device-messages-per-hour"]
        ports = ["--listen", f"127.0.0.1:{self.port},plain"]
        self.path, self.secure_port, self.xmpp_port = path, 0, 0
        try:
            chain, key = certificate(self.folder)
            self.secure_port = free_port(self.port + 1)
            self.xmpp_port = free_port(self.secure_port + 1)
            ports += ["--listen", f"127.0.0.1:{self.secure_port},tls", "--tls-certificate",
                      str(chain), "--tls-key", str(key), "--xmpp", f"127.0.0.1:{self.xmpp_port}",
                      "--xmpp-certificate", str(chain), "--xmpp-key", str(key)]
        except Unavailable as error:
            print(f"without TLS: {error}")
        self.process = subprocess.Popen(
            [str(path), "serve", "--data", str(self.folder / "data")] + ports
            + [part for name in none for part in ("--limit", f"{name}=0")],
            stdout=self.log, stderr=self.log)
        self.key = self.folder / "data" / "admin.key"
        end = time.monotonic() + 30
        while b"listens on" not in (self.folder / "log").read_bytes():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the broker did not start: " + self.text())
            time.sleep(0.02)
        self.highest = 0
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()

    def text(self):
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def app_server(self, project):
        """Sender ID and server key of a new app server."""
        def told(*words):
            done = subprocess.run(
                [str(self.path), *words, "--data", str(self.folder / "data"), "--json"],
                capture_output=True, text=True, check=True)
            return json.loads(done.stdout)

        projects = told("project", "list")
        number = next(one["senderID"] for one in projects if one["project"] == project)
        return str(number), told("key", "create", "--project", project)["key"]

    def anonymous(self):
        """Memory of its own; the store's pages are the system's cache."""
        try:
            for line in open(f"/proc/{self.process.pid}/status"):
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
        except OSError:
            pass
        return 0

    def watch(self):
        while self.process.poll() is None:
            self.highest = max(self.highest, self.anonymous())
            time.sleep(0.05)

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        code = self.process.returncode
        text = self.text()
        shutil.rmtree(self.folder, ignore_errors=True)
        return code, text


class Run:
    def __init__(self, broker, load, plan, verbose):
        self.plan, self.rows, self.faults, self.verbose = plan, [], [], verbose
        self.verdicts = []
        self.path, self.load = broker, load
        self.broker = Broker(broker)
        port, key = self.broker.port, self.broker.key
        self.others = Generator(
            load, port, key, "other", plan.projects - 1, plan.devices_each, plan.payload, 1,
            log=verbose)
        # Its clients are other machines' in truth: they take what time the measuring leaves.
        self.flooding = Generator(
            load, port, key, "flood", 1, plan.devices_each, plan.payload, 2, nice=5, log=verbose)

    def row(self, what, result, memory=True):
        held = self.broker.anonymous() if memory else 0
        self.rows.append((what, result, held))
        print(f"{what:34} {result:58} {held / MEBIBYTE:7.0f} MiB", flush=True)

    def expect(self, holds, text):
        if not holds:
            self.faults.append(text)

    def both(self, command):
        self.others.begin(command)
        self.flooding.begin(command)
        return self.others.end(), self.flooding.end()

    def pace(self):
        return self.others.do(f"pace {self.plan.rate} {self.plan.window}")

    def elsewhere(self, command):
        """The others' p99 while the same flood is another broker's."""
        broker = Broker(self.path)
        clients = Generator(
            self.load, broker.port, broker.key, "elsewhere", 1, self.plan.devices_each,
            self.plan.payload, 3, nice=5, log=self.verbose)
        try:
            clients.do("setup")
            clients.begin(command)
            measured = self.pace()
            clients.end()
        finally:
            clients.close()
            broker.close()
        return measured["p99"]

    def beside(self, what, disturb, settle, before=lambda: None, flood=None):
        """The others' p99 while something goes on, against theirs without it just before: the median
        of some attempts, all of which are told."""
        attempts, done = [], []
        for _ in range(self.plan.attempts):
            before()
            quiet = self.pace()
            disturb()
            loud = self.pace()
            done.append(self.flooding.end())
            settle()
            attempts.append(Attempt(loud["p99"], quiet["p99"]))
            self.expect(
                quiet["settled"] and loud["settled"],
                f"{what}: the others did not get everything in {SETTLE_SECONDS} s")
        typical = median(attempts)
        self.row(what, f"p99 {typical.loud:.1f} ms, quiet {typical.quiet:.1f} ms, {typical.ratio:.2f}×")
        self.told("all attempts", ", ".join(
            f"{attempt.loud:.1f} beside {attempt.quiet:.1f}" for attempt in attempts))
        if flood:
            self.told("the one that floods", (
                f"{sum(part['deliveries'] for part in done)} deliveries in "
                f"{sum(part['seconds'] for part in done):.1f} s"))
            self.verdicts.append(verdict(what, typical))
        if typical.excess <= 1:
            return
        if flood:
            self.told("beside another broker's", f"p99 {self.elsewhere(flood):.1f} ms")
        self.expect(
            False, f"{what}: p99 of the others {typical.loud:.1f} ms, {typical.bound:.1f} ms at most")

    def told(self, what, text):
        print(f"  {what:32} {text}", flush=True)

    def settled(self, what, generator, command):
        result = generator.do(command)
        self.expect(result["settled"], f"{what}: not everything was delivered")
        return result

    def course(self):
        plan = self.plan
        first, second = self.both("setup")
        self.row(
            "connected", f"{first['devices'] + second['devices']} devices of {plan.projects} "
            f"projects in {max(first['seconds'], second['seconds']):.1f} s")
        self.pace()
        connected = self.broker.anonymous()

        def nothing():
            pass

        def catch_up():
            self.settled("after a flood", self.flooding, "settle 60")

        def stop():
            self.both("stop")
            self.flooding.begin("settle 1")

        # A tenth that does not read is part of everything from here on.
        self.beside("a tenth does not read", stop, nothing, before=lambda: self.both("read"))
        burst = self.both(f"burst {plan.fanouts}")
        self.row(
            f"{plan.projects} × {plan.fanouts} fanouts at once",
            f"{burst[0]['deliveries'] + burst[1]['deliveries']} deliveries in "
            f"{max(part['seconds'] for part in burst):.2f} s; p99 {burst[0]['p99']:.0f} ms")
        for part in burst:
            self.expect(part["settled"], "fanouts at once: not everything was delivered")
        length = plan.window + 1
        for what, flood in (("a flood of fanouts", f"flood topic 256 {length}"),
                            ("a flood of direct messages", f"flood direct 1024 {length}")):
            self.beside(
                what, lambda: self.flooding.begin(flood), catch_up, flood=flood)

        def away_in_a_flood():
            # Only what is measured disturbs.
            self.flooding.do("read")
            self.settled("who had stopped reads again", self.flooding, "settle 60")
            self.flooding.do("stop")
            self.flooding.do(f"flood topic 256 {plan.missed}")

        def read_again():
            self.flooding.do("read")
            self.flooding.begin("settle 60")

        def come_back():
            self.flooding.do("away")
            self.flooding.do(f"burst {plan.waiting}")
            self.flooding.begin("storm")

        self.beside(
            "who missed a flood reads it", read_again, catch_up, before=away_in_a_flood)
        self.beside("one project's devices come back", come_back, catch_up)
        self.strangers()
        self.xmpp_strangers()
        self.both("read")
        for generator in (self.others, self.flooding):
            self.settled("who had stopped reads again", generator, "settle 60")
        self.row("who had stopped reads again", "everything was delivered")
        self.both("away")
        self.others.begin("burst 10")
        self.others.end()
        storm = self.both("storm")
        self.row(
            "all devices come at once",
            f"connected in {max(part['open'] for part in storm):.1f} s, everything delivered in "
            f"{max(part['seconds'] for part in storm):.1f} s")
        for part in storm:
            self.expect(part["settled"], "a storm of all: not everything was delivered")
        self.pace()
        self.settled("in the end", self.flooding, "settle 30")
        self.memory(connected)
        self.once()

    def come(self, broker, count):
        """Begins that many peers without a credential."""
        return subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).parent / "strangers.py"),
             str(broker.port), str(broker.secure_port), "flood-0", str(count),
             str(max(300, count // STRANGERS_PER_SECOND_MIN)), str(self.plan.window)],
            stdout=subprocess.PIPE, text=True)

    def strangers(self):
        """The others' p99 beside peers without a credential, and beside those of another broker; what became of them,
        and the broker's memory."""
        told, processes = [], []
        each = self.plan.strangers // self.plan.attempts

        def come():
            self.flooding.begin("settle 1")
            processes.append(self.come(self.broker, each))

        def leave():
            told.append(json.loads(processes.pop().communicate()[0]))

        before, self.broker.highest = self.broker.highest, 0
        self.beside("strangers", come, leave)
        highest = self.broker.highest
        self.broker.highest = max(before, highest)
        self.told("beside another broker's", f"p99 {self.strangers_elsewhere(each):.1f} ms")
        sums = {name: sum(one[name] for one in told) for name in told[0] if name != "seconds"}
        self.told("memory at worst", f"{highest / MEBIBYTE:.0f} MiB")
        self.told("strangers", ", ".join(f"{name} {count}" for name, count in sums.items()))
        self.expect(
            sums["came"] == each * self.plan.attempts,
            f"strangers: {sums['came']} of {each * self.plan.attempts} came in the time")
        self.expect(
            sums["cameInWindow"] >= sums["came"] / 2,
            f"strangers: {sums['cameInWindow']} of {sums['came']} came while the others were measured")
        self.expect(
            sums["registered"] + sums["registrationsRefused"] > 0, "strangers: none came in")
        self.expect(
            sums["renegotiatedEnded"] == sums["renegotiated"],
            "strangers: a second handshake did not end the connection")

    def xmpp_strangers(self):
        """The others' p99 beside peers of the XMPP port without a credential, and an app server that signs in beside
        them."""
        if not self.broker.xmpp_port:
            return
        told, processes = [], []
        each = self.plan.xmpp_strangers // self.plan.attempts
        sender, key = self.broker.app_server("flood-0")

        def come():
            self.flooding.begin("settle 1")
            processes.append(subprocess.Popen(
                [sys.executable, str(pathlib.Path(__file__).parent / "xmpp_strangers.py"),
                 str(self.broker.xmpp_port), sender, key, str(each),
                 str(max(300, each // XMPP_STRANGERS_PER_SECOND_MIN))],
                stdout=subprocess.PIPE, text=True))

        def leave():
            told.append(json.loads(processes.pop().communicate()[0]))

        before, self.broker.highest = self.broker.highest, 0
        self.beside("strangers over XMPP", come, leave)
        self.told("memory at worst", f"{self.broker.highest / MEBIBYTE:.0f} MiB")
        self.broker.highest = max(before, self.broker.highest)
        slowest = max(one.pop("slowestSignIn") for one in told)
        sums = {name: sum(one[name] for one in told) for name in told[0]}
        self.told("strangers", ", ".join(f"{name} {count}" for name, count in sums.items()))
        self.told("an app server signs in", f"in {slowest:.2f} s at worst")
        self.expect(
            sums["came"] == each * self.plan.attempts,
            f"strangers over XMPP: {sums['came']} of {each * self.plan.attempts} came in the time")
        self.expect(
            sums["signedIn"] > 0 and sums["notSignedIn"] == 0,
            f"strangers over XMPP: the app server did not get in {sums['notSignedIn']} times")
        for kind in ENDED:
            self.expect(
                sums[kind + "Ended"] == sums[kind], f"strangers over XMPP: {kind} did not end the connection")

    def strangers_elsewhere(self, count):
        """The others' p99 while the same strangers are another broker's: what the machine has to do with it."""
        broker = Broker(self.path)
        clients = Generator(
            self.load, broker.port, broker.key, "flood", 1, self.plan.devices_each,
            self.plan.payload, 3, nice=5, log=self.verbose)
        try:
            clients.do("setup")
            process = self.come(broker, count)
            p99 = self.pace()["p99"]
            process.terminate()
            process.communicate()
        finally:
            clients.close()
            broker.close()
        return p99

    def memory(self, connected):
        now, highest = self.broker.anonymous(), self.broker.highest
        self.row(
            "memory", f"{connected / MEBIBYTE:.0f} MiB connected, {highest / MEBIBYTE:.0f} MiB at "
            f"worst, {now / MEBIBYTE:.0f} MiB in the end")
        self.expect(
            highest <= connected + GROWTH_AT_WORST_BYTES,
            f"memory: {GROWTH_AT_WORST_BYTES / MEBIBYTE:.0f} MiB more at worst are allowed")
        self.expect(
            now <= connected + GROWTH_IN_THE_END_BYTES,
            f"memory: {GROWTH_IN_THE_END_BYTES / MEBIBYTE:.0f} MiB more in the end are allowed")

    def once(self):
        for name, report in zip(("others", "flood"), self.both("report")):
            self.row(
                f"exactly once, {name}",
                f"{report['delivered']} taken, {report['repeated']} repeats dropped, "
                f"{report['disconnected']} connections lost")
            self.expect(
                report["devicesMissing"] == 0, f"{report['devicesMissing']} devices miss messages")
            self.expect(
                report["devicesWrong"] == 0, f"{report['devicesWrong']} devices got others' messages")

    def close(self):
        self.others.close()
        self.flooding.close()
        code, text = self.broker.close()
        if self.verbose:
            print(text)
        self.expect(code == 0, f"the broker ended with {code}: {text}")


def run(broker, load, plan, verbose):
    """Returns what was broken, and verdicts for a report."""
    print(
        f"{plan.projects} projects × {plan.devices_each} devices, {plan.rate:g} fanouts a second "
        f"each, {plan.payload} bytes; load of the machine {os.getloadavg()[0]:.1f}\n")
    one = Run(broker, load, plan, verbose)
    try:
        one.course()
    except RuntimeError as error:
        one.faults.append(str(error))
    finally:
        one.close()
    return one.faults, one.verdicts
