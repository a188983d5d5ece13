# SPDX-License-Identifier: Apache-2.0
#
# The machines of a measured cluster, all on this one: PostgreSQL with two standbys, three nodes, a broker alone beside
# them, and senders that try again. Rests on the processes of the cluster's tests (Tests/Cluster/servers.py).

import contextlib
import importlib.util
import json
import os
import pathlib
import secrets
import shutil
import sys
import threading
import time

from servers import Unavailable
from tools import Folder

TESTS = pathlib.Path(__file__).resolve().parents[2] / "Tests"
# The project of the senders; those of the load generator have others.
PROJECT = "pauses"
NODES = ["a", "b", "c"]
# As bench-broker is: what is measured is not what limits allow.
NO_LIMITS = [word for name in (
    "stored-per-instance-max", "device-messages-per-minute", "device-messages-per-hour",
    "sender-connections-per-minute", "refusals-per-minute-per-address", "device-topic-burst",
    "registrations-per-second-per-address", "registrations-per-second"
) for word in ("--limit", f"{name}=0")]



def loaded(name, path):
    """A module of the tests. Its folder has modules of names that this folder has too."""
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Served:
    """A broker as the load generator's callers take it."""

    def __init__(self, binaries, node, project="bench"):
        self.project = project
        self.load, self.port, self.process = binaries / "bench-load", node.port, node.process
        self.data = node.data

    def options(self):
        return ["--admin-key", str(self.data / "admin.key"), "--project", self.project]


class Machines:
    """Starts what is measured, and ends it."""

    def __init__(self, binaries):
        self.binaries = binaries
        self.processes = loaded("cluster_processes", TESTS / "Cluster/servers.py")
        if not self.processes.POSTGRES.exists():
            raise Unavailable("PostgreSQL is not installed (package postgresql)")

    @contextlib.contextmanager
    def servers(self):
        """PostgreSQL in a folder."""
        with Folder() as folder:
            os.chmod(folder, 0o711)
            trio = trio_of(self.processes)(pathlib.Path(folder))
            try:
                yield trio, pathlib.Path(folder)
            finally:
                trio.crash()

    @contextlib.contextmanager
    def cluster(self, names=NODES, data=None):
        """Nodes that serve. With `data` they begin with this folder."""
        processes, program = self.processes, self.binaries / "martlet"

        class Node(processes.Node):
            @property
            def place(self):
                # Straight to PostgreSQL, but where a test cuts the node off.
                if self.is_cut:
                    return super().place
                return ["--cluster", self.cluster.pair.address, "--node", self.name,
                        "--node-address", f"127.0.0.1:{self.node_port}"]

            is_cut = False

        with self.servers() as (trio, folder):
            cluster = processes.Cluster.__new__(processes.Cluster)
            cluster.folder, cluster.program, cluster.options = folder, program, NO_LIMITS
            cluster.pair, cluster.lock, cluster.node = trio, threading.Lock(), Node
            if data:
                shutil.move(data, folder / NODES[0])
            processes.run(program, "cluster", "init", "--data", folder / NODES[0], "--cluster",
                          trio.address)
            for name in names[1:]:
                shutil.copytree(folder / NODES[0], folder / name)
            cluster.nodes = {name: Node(cluster, name) for name in names}
            try:
                for node in cluster.nodes.values():
                    node.start()
                cluster.active()
                yield cluster
            finally:
                for node in cluster.nodes.values():
                    if node.process is not None and node.process.poll() is None:
                        node.kill()
                    for way in node.ways:
                        way.end()

    @contextlib.contextmanager
    def alone(self):
        """One broker without a log, of the same program with the same options."""
        processes, program = self.processes, self.binaries / "martlet"
        with Folder() as folder:
            folder = pathlib.Path(folder)

            class Alone(processes.Node):
                place = []

            holder = type("Holder", (), {})()
            holder.folder, holder.program, holder.options = folder, program, NO_LIMITS
            holder.pair = type("None", (), {"ports": []})()
            node = Alone(holder, "alone")
            node.start()
            try:
                yield node
            finally:
                node.kill()


def trio_of(processes):
    """A primary and two standbys of which one confirms, so that a promotion needs no new standby."""

    class Trio(processes.Pair):
        def __init__(self, folder):
            self.folder, self.made = folder, 0
            self.primary = self.server()
            self.standbys = [self.server(), self.server()]
            self.ports = [server.port for server in (self.primary, *self.standbys)]
            self.primary.initialise()
            self.primary.start()
            self.primary.sql("create database martlet")
            self.primary.sql("alter system set synchronous_standby_names = "
                             "'ANY 1 (standby1, standby2, standby3)'")
            self.primary.sql("select pg_reload_conf()")
            for standby in self.standbys:
                standby.follow(self.primary)
                standby.start()
            self.wait_for_standbys()

        def server(self):
            self.made += 1
            return Standby(self.folder, f"postgres-{self.made}", f"standby{self.made}")

        def wait_for_standbys(self):
            deadline = time.monotonic() + processes.START_SECONDS_MAX
            while self.primary.sql("select count(*) from pg_stat_replication where "
                                   "sync_state = 'quorum' and state = 'streaming'") != "2":
                if time.monotonic() > deadline:
                    raise processes.Failed("the standbys do not confirm")
                time.sleep(0.05)

        def promote(self):
            """The standby with the most rows becomes the primary, and the other follows it."""
            self.primary.crash()
            first, other = sorted(self.standbys, key=Standby.received, reverse=True)
            other.point_at(first)
            first.promote()
            self.lost, self.primary, self.standbys = self.primary, first, [other]

        def rebuild(self):
            """The lost server comes back as a standby."""
            self.lost.follow(self.primary)
            self.lost.start()
            self.standbys.append(self.lost)
            self.wait_for_standbys()

        def crash(self):
            for server in (*self.standbys, self.primary):
                server.crash()

    class Standby(processes.Server):
        def __init__(self, folder, name, application):
            super().__init__(folder, name)
            self.application = application

        def place_of(self, other):
            return (f"host=127.0.0.1 port={other.port} user=martlet "
                    f"application_name={self.application}")

        def follow(self, other):
            self.make_folder()
            self.program("pg_basebackup", "-d", self.place_of(other), "-D", self.folder, "-X",
                         "stream", "-c", "fast", "--no-sync", "-R")

        def received(self):
            return int(self.sql("select pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')"))

        def point_at(self, other):
            self.sql(f"alter system set primary_conninfo = '{self.place_of(other)}'")
            self.sql("select pg_reload_conf()")

    return Trio


class Senders:
    """Threads that send, each message until it is accepted, at any node that serves."""

    COUNT = 4

    def __init__(self, cluster, key, registration):
        self.cluster, self.key = cluster, key
        # An address in memory, which Python uses again, would repeat the keys of a former round.
        self.name = secrets.token_hex(8)
        self.wire = client()
        self.is_over, self.lock = threading.Event(), threading.Lock()
        self.last, self.gap = time.monotonic(), 0.0
        port = cluster.serving()[0].port
        device = self.wire.Device("127.0.0.1", port, PROJECT, "com.example.bench", timeout=30,
                                  registration_key=registration)
        self.token = device.token
        device.close()

    @contextlib.contextmanager
    def sending(self):
        threads = [threading.Thread(target=self.send, args=(number,)) for number in range(self.COUNT)]
        self.last = time.monotonic()
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.is_over.set()
            for thread in threads:
                thread.join()

    def longest(self):
        with self.lock:
            return max(self.gap, time.monotonic() - self.last)

    def send(self, number):
        sender, count = None, 0
        while not self.is_over.is_set():
            nodes = self.cluster.serving()
            try:
                if sender is None:
                    node = nodes[(number + count) % len(nodes)]
                    sender = self.wire.Sender("127.0.0.1", node.port, PROJECT, self.key, timeout=15)
                sender.send_message("token", self.token, self.wire.message(data={"n": "1"}),
                                    idempotency_key=f"{self.name}-{number}-{count}")
                with self.lock:
                    now = time.monotonic()
                    self.gap, self.last = max(self.gap, now - self.last), now
                count += 1
                time.sleep(0.005)
            except (OSError, self.wire.MartletError):
                if sender is not None:
                    sender.close()
                sender, count = None, count + 1
                time.sleep(0.05)
        if sender is not None:
            sender.close()


def project(cluster, active):
    """The project of the senders, made once: a key of senders, and one of registrations."""
    if not hasattr(cluster, "keys"):
        made = json.loads(cluster.command(
            "project", "create", PROJECT, "--data", active.data, "--json"))
        key = json.loads(cluster.command(
            "key", "create", "--project", PROJECT, "--name", "bench", "--data", active.data, "--json"))
        cluster.keys = key["key"], made["registrationKey"]
    return cluster.keys


def client():
    if str(TESTS / "Python") not in sys.path:
        sys.path.append(str(TESTS / "Python"))
    import martlet
    return martlet


def cpu(node):
    """CPU seconds of a node's process."""
    fields = open(f"/proc/{node.process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def applied(cluster, node):
    return next(each["applied"] for each in cluster.status()["nodes"] if each["node"] == node.name)
