# SPDX-License-Identifier: Apache-2.0
"""The processes of a cluster on this machine: PostgreSQL with a synchronous standby, and nodes of the program martlet.
Everything lies in one folder and ends with `Cluster.end`. Needs PostgreSQL 15, and nothing of Python but the standard
library."""

import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import threading
import time

from network import Way

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "Python"))
from ports import free_port  # noqa: E402

POSTGRES = pathlib.Path("/usr/lib/postgresql/15/bin")
STANDBY = "standby"
# On a machine that builds besides, PostgreSQL takes a minute.
START_SECONDS_MAX = 120
# A backup yields to all other processes, so a busy machine makes it slow.
COMMAND_SECONDS_MAX = 300


class Failed(Exception):
    """A step of the test itself did not work."""


def run(*words, timeout=COMMAND_SECONDS_MAX):
    try:
        done = subprocess.run([str(word) for word in words], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(map(str, words))}: not done in {timeout} s") from error
    if done.returncode:
        raise Failed(f"{' '.join(map(str, words))}: {done.stdout.strip()}")
    return done.stdout


class Server:
    """A server of PostgreSQL. PostgreSQL refuses root, so root starts its programs as the user postgres."""

    def __init__(self, folder, name):
        self.folder, self.port = folder / name, free_port()
        self.log = folder / f"{name}.log"
        self.log.touch()
        if os.geteuid() == 0:
            shutil.chown(self.log, "postgres")

    @staticmethod
    def prefix():
        if os.geteuid() != 0:
            return []
        owner = pwd.getpwnam("postgres")
        return ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups",
                "--"]

    def make_folder(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")

    def program(self, name, *words):
        return run(*self.prefix(), POSTGRES / name, *words)

    def initialise(self):
        self.make_folder()
        self.program("initdb", "-D", self.folder, "-U", "martlet", "-A", "trust", "--locale=C",
                     "-E", "UTF8", "--no-sync", "--no-instructions")

    def copy(self, other):
        """Makes this server a standby of the other."""
        self.make_folder()
        self.program(
            "pg_basebackup", "-d",
            f"host=127.0.0.1 port={other.port} user=martlet application_name={STANDBY}",
            "-D", self.folder, "-X", "stream", "-c", "fast", "--no-sync", "-R")

    def start(self):
        self.program(
            "pg_ctl", "start", "-s", "-w", "-D", self.folder, "-l", self.log, "-o",
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= "
            "-c max_connections=60")

    def crash(self):
        """Ends the server without a checkpoint."""
        if (self.folder / "postmaster.pid").exists():
            try:
                self.program("pg_ctl", "stop", "-s", "-m", "immediate", "-D", self.folder)
            except Failed:
                pass

    def promote(self):
        self.program("pg_ctl", "promote", "-s", "-w", "-D", self.folder)

    def sql(self, statement, database="postgres"):
        return run(POSTGRES / "psql", "-h", "127.0.0.1", "-p", self.port, "-U", "martlet", "-d",
                   database, "-qAtc", statement).strip()

    def processes(self):
        """The server and its children."""
        first = int((self.folder / "postmaster.pid").read_text().split()[0])
        children = subprocess.run(["pgrep", "-P", str(first)], text=True, stdout=subprocess.PIPE)
        return [first, *map(int, children.stdout.split())]

    def signal(self, number):
        for process in self.processes():
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass


class Pair:
    """A primary and its synchronous standby."""

    def __init__(self, folder):
        self.primary, self.standby = Server(folder, "postgres-1"), Server(folder, "postgres-2")
        self.ports = [self.primary.port, self.standby.port]
        self.primary.initialise()
        self.primary.start()
        self.primary.sql("create database martlet")
        # Before the copy, so that the standby has the setting too when the standby is the primary.
        self.primary.sql(f"alter system set synchronous_standby_names = 'ANY 1 ({STANDBY})'")
        self.primary.sql("select pg_reload_conf()")
        self.attach()

    @staticmethod
    def address_at(ports):
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://martlet@{hosts}/martlet"

    @property
    def address(self):
        return self.address_at(self.ports)

    def attach(self):
        self.standby.copy(self.primary)
        self.standby.start()
        self.wait_for_standby()

    def wait_for_standby(self):
        """Waits until commits wait for the standby."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while self.primary.sql("select count(*) from pg_stat_replication where sync_state = 'quorum' "
                               "and state = 'streaming'") != "1":
            if time.monotonic() > deadline:
                raise Failed("the standby does not confirm")
            time.sleep(0.1)

    def promote(self):
        """The primary is lost; the standby becomes the primary, and gets a new standby."""
        self.primary.crash()
        self.primary, self.standby = self.standby, self.primary
        self.primary.promote()
        self.attach()

    def restart(self):
        self.primary.start()
        self.standby.start()
        self.wait_for_standby()

    def crash(self):
        self.standby.crash()
        self.primary.crash()


class Node:
    """A node of the cluster: a data folder and, mostly, a process."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.data = cluster.folder / name
        self.port, self.node_port, self.metrics_port = free_port(), free_port(), free_port()
        # The node's own ways to the servers of PostgreSQL.
        self.ways = [Way(port) for port in cluster.pair.ports]
        self.log = open(cluster.folder / f"{name}.log", "a")
        self.process = None
        self.is_frozen = False
        self.environment = {}

    @property
    def place(self):
        return ["--cluster", Pair.address_at(way.port for way in self.ways), "--node", self.name,
                "--node-address", f"127.0.0.1:{self.node_port}"]

    def start(self, program=None):
        self.process = subprocess.Popen(
            [program or self.cluster.program, "serve", "--data", str(self.data), "--port",
             str(self.port), "--metrics", f"127.0.0.1:{self.metrics_port}", *self.place,
             "--loops", "1", "--json", *self.cluster.options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env=self.environment or None)
        self.is_frozen = False
        if not self.process.stdout.readline():
            raise Failed(f"node {self.name} does not start: {self.last_lines()}")

    def last_lines(self):
        return "".join(open(self.log.name).readlines()[-5:])

    @property
    def is_serving(self):
        return self.process is not None and self.process.poll() is None and not self.is_frozen

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        if self.process.wait(timeout=60) != 0:
            raise Failed(f"node {self.name} ended with {self.process.returncode}: "
                         f"{self.last_lines()}")

    def cut_off(self):
        """Nothing goes between the node and PostgreSQL any more."""
        for way in self.ways:
            way.hold()

    def reconnect(self):
        for way in self.ways:
            way.resume()

    def freeze(self):
        self.is_frozen = True
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)
        self.is_frozen = False


class Cluster:
    """PostgreSQL, and nodes of the given names."""

    def __init__(self, folder, program, names, options=()):
        self.folder, self.program, self.options = folder, program, options
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)
        self.pair = Pair(folder)
        self.lock = threading.Lock()
        first = folder / names[0]
        for name in names:
            self.make_disk(folder / name)
        run(program, "cluster", "init", "--data", first, "--cluster", self.pair.address)
        for name in names[1:]:
            shutil.copytree(first, folder / name, dirs_exist_ok=True)
        self.nodes = {name: Node(self, name) for name in names}

    def make_disk(self, folder):
        """Makes the disk of a node, for clusters whose nodes have disks of their own."""

    def command(self, *words):
        return run(self.program, *words)

    def status(self):
        return json.loads(self.command("cluster", "status", "--cluster", self.pair.address, "--json"))

    def active(self):
        """The active node; waits for one."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                for node in self.status()["nodes"]:
                    if node["role"] == "active" and node["node"] in self.nodes:
                        return self.nodes[node["node"]]
            except Failed:
                pass
            time.sleep(0.1)
        raise Failed("no node is active")

    def serving(self):
        with self.lock:
            return [node for node in self.nodes.values() if node.is_serving]

    def join(self, name):
        """A further node, from a backup of a serving one."""
        source = self.serving()[0]
        backup = self.folder / f"backup-{name}"
        shutil.rmtree(backup, ignore_errors=True)
        shutil.rmtree(self.folder / name, ignore_errors=True)
        self.command("backup", "--data", source.data, backup)
        self.command("cluster", "join", backup, self.folder / name)
        shutil.rmtree(backup)
        node = Node(self, name)
        node.start()
        with self.lock:
            self.nodes[name] = node
        return node

    def leave(self, name):
        with self.lock:
            node = self.nodes.pop(name)
        node.stop()
        self.command("cluster", "remove", name, "--cluster", self.pair.address)

    def verify(self):
        """By node, row and digest of its store."""
        return {pathlib.Path(one["folder"]).name: (one["row"], one["digest"])
                for one in json.loads(self.command(
                    "cluster", "verify", "--json", *(node.data for node in self.nodes.values())))}

    def end(self):
        for node in self.nodes.values():
            if node.process is not None and node.process.poll() is None:
                node.kill()
            for way in node.ways:
                way.end()
        self.pair.crash()
