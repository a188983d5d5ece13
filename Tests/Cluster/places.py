# SPDX-License-Identifier: Apache-2.0
"""Nodes in network namespaces of their own and with small disks of their own, for partitions of the network and for full
disks. Needs root, `ip` and `mount`, and nothing of Python but the standard library.

    network = Network("soak")                 # a bridge 10.91.N.1/24 on this machine; N is free, or given
    place = network.place("a")                # a namespace with a veth pair to the bridge; place.host is its address
    cluster = NetworkCluster(folder, program, ["a", "b", "c"], options, network=network)   # servers.Cluster, in namespaces
    cluster.nodes["a"].cut()                  # nothing goes between the node and anybody: clients, nodes, PostgreSQL
    cluster.nodes["a"].mend()
    cluster.nodes["a"].part(cluster.nodes["b"])    # the two nodes alone do not reach each other (blackhole routes)
    cluster.nodes["a"].meet(cluster.nodes["b"])
    cluster.nodes["a"].fill()                 # the disk of the node is full
    cluster.nodes["a"].empty()
    route_clients(martlet, cluster)           # Sender and Device of Tests/Python/martlet.py find the nodes by their ports
    network.end()                             # removes namespaces, veth pairs and the bridge

The bridge has the machine's end of all cables, so PostgreSQL must listen at `network.host` too: `NetworkPair` does so,
and adds a line to pg_hba.conf. Clients on this machine reach a node at `node.host`, `node.port`. The name of a network
has at most 8 letters, because names of interfaces have at most 15. A killed test leaves its bridge and namespaces:
`Network.clear("soak")` removes them, and `Network("soak")` does so first.

A cut cable drops packets silently, as a lost switch does: TCP connections stay and wait. `Way` (network.py) holds
connections with living peers; with a cut cable the kernel itself repeats and gives up."""

import os
import subprocess

import servers


DISK_MEBIBYTES = 512


def ip(*words, check=True):
    done = subprocess.run(["ip", *map(str, words)], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if check and done.returncode:
        raise servers.Failed(f"ip {' '.join(map(str, words))}: {done.stdout.strip()}")
    return done.stdout


def route_clients(martlet, cluster):
    """Clients of Tests/Python/martlet.py connect to 127.0.0.1 and a node's port (load.py does so). Afterwards they connect
    to the node's place."""
    connection = martlet.Connection
    original = connection.__init__

    def connect(self, host, port, *words, **hello):
        for node in list(cluster.nodes.values()):
            if node.port == port:
                host = node.host
        original(self, host, port, *words, **hello)

    connection.__init__ = connect


class Place:
    """A network namespace with a cable to the bridge."""

    def __init__(self, network, name, number):
        self.network, self.name = network, name
        self.namespace = f"{network.name}-{name}"
        self.host = f"{network.prefix}.{number}"
        # The end of the cable at the bridge.
        self.cable = f"v{number}{network.name}"
        inner = f"w{number}{network.name}"
        ip("netns", "add", self.namespace)
        ip("link", "add", self.cable, "type", "veth", "peer", "name", inner)
        ip("link", "set", inner, "netns", self.namespace, "name", "eth0")
        ip("link", "set", self.cable, "master", network.bridge, "up")
        for words in (("link", "set", "lo", "up"), ("addr", "add", f"{self.host}/24", "dev", "eth0"),
                      ("link", "set", "eth0", "up")):
            ip("-n", self.namespace, *words)
        self.parted = set()

    @property
    def prefix(self):
        """Words before a command that is to run in the namespace. The process that is started is the command itself."""
        return ["ip", "netns", "exec", self.namespace]

    def cut(self):
        ip("link", "set", self.cable, "down")

    def mend(self):
        ip("link", "set", self.cable, "up")

    def part(self, other):
        """Nothing goes from this place to the other. The connections stay, and wait."""
        ip("-n", self.namespace, "route", "replace", "blackhole", f"{other.host}/32")
        self.parted.add(other.host)

    def meet(self, other):
        ip("-n", self.namespace, "route", "del", "blackhole", f"{other.host}/32", check=False)
        self.parted.discard(other.host)

    def end(self):
        ip("link", "del", self.cable, check=False)
        ip("netns", "del", self.namespace, check=False)


class Network:
    """A bridge on this machine, and places at it."""

    def __init__(self, name, number=None):
        if len(name) > 8 or not name.isalnum():
            raise servers.Failed(f"a network's name has up to 8 letters: {name}")
        self.clear(name)
        self.name, self.bridge, self.places = name, f"br{name}", {}
        taken = ip("-4", "addr")
        numbers = [number] if number is not None else range(1, 255)
        free = [one for one in numbers if f" 10.91.{one}." not in taken]
        if not free:
            raise servers.Failed("no network 10.91.N.0/24 is free")
        self.prefix = f"10.91.{free[0]}"
        self.host = f"{self.prefix}.1"
        ip("link", "add", self.bridge, "type", "bridge")
        # A port of the bridge forwards as soon as its cable is mended.
        ip("link", "set", self.bridge, "type", "bridge", "stp_state", "0", "forward_delay", "0",
           check=False)
        ip("addr", "add", f"{self.host}/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")

    def place(self, name):
        if name not in self.places:
            used = {int(place.host.rpartition(".")[2]) for place in self.places.values()}
            number = next(one for one in range(11, 250) if one not in used)
            self.places[name] = Place(self, name, number)
        return self.places[name]

    def remove(self, name):
        self.places.pop(name).end()

    def end(self):
        for name in list(self.places):
            self.remove(name)
        ip("link", "del", self.bridge, check=False)

    @staticmethod
    def clear(name):
        """Removes what a killed test of the name has left."""
        for line in ip("netns", "list").splitlines():
            if line.split() and line.split()[0].startswith(f"{name}-"):
                ip("netns", "del", line.split()[0], check=False)
        # The cables of a namespace end with it.
        ip("link", "del", f"br{name}", check=False)


class NetworkServer(servers.Server):
    """A server of PostgreSQL that listens at the bridge too."""

    network = None

    def initialise(self):
        super().initialise()
        with open(self.folder / "pg_hba.conf", "a") as rules:
            rules.write(f"host all all {self.network.prefix}.0/24 trust\n")

    def start(self):
        self.program(
            "pg_ctl", "start", "-s", "-w", "-D", self.folder, "-l", self.log, "-o",
            f"-p {self.port} -c listen_addresses=127.0.0.1,{self.network.host} "
            "-c unix_socket_directories= -c max_connections=60")


class NetworkNode(servers.Node):
    """A node in a place of its own. Clients reach the node at `host`."""

    def __init__(self, cluster, name):
        super().__init__(cluster, name)
        for way in self.ways:
            way.end()
        self.ways = []
        self.at = cluster.network.place(name)
        self.host = self.at.host
        self.is_cut = False

    @property
    def place(self):
        hosts = ",".join(f"{self.cluster.network.host}:{port}" for port in self.cluster.pair.ports)
        return ["--cluster", f"postgresql://martlet@{hosts}/martlet", "--node", self.name,
                "--node-address", f"{self.host}:{self.node_port}"]

    def start(self, program=None):
        words = [*self.at.prefix, program or self.cluster.program, "serve", "--data", self.data,
                 "--listen", f"127.0.0.1:{self.port},plain",
                 "--listen", f"{self.host}:{self.port},plain", "--plain-elsewhere",
                 "--metrics", f"{self.host}:{self.metrics_port}", *self.place, "--loops", "1", "--json", *self.cluster.options]
        self.process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=self.log, text=True, env=self.environment or None)
        self.is_frozen = False
        if not self.process.stdout.readline():
            raise servers.Failed(f"node {self.name} does not start: {self.last_lines()}")

    @property
    def is_serving(self):
        """A client on another machine finds out that a node is cut off; the load does not try such a node."""
        return super().is_serving and not self.is_cut

    def cut(self):
        self.is_cut = True
        self.at.cut()

    def mend(self):
        self.at.mend()
        self.is_cut = False

    # The names that soak.py uses for a node without PostgreSQL: here the node is without everybody.
    cut_off, reconnect = cut, mend

    @property
    def has_disk(self):
        """A node that joins later has its folder on the disk of the machine."""
        return os.path.ismount(self.data)

    @property
    def ballast(self):
        return self.data / "ballast"

    def fill(self):
        """Takes all room that the disk has."""
        with open(self.ballast, "wb") as file:
            try:
                while True:
                    file.write(bytes(1 << 20))
                    file.flush()
            except OSError:
                pass

    def empty(self):
        self.ballast.unlink(missing_ok=True)

    def part(self, other):
        """The two nodes do not reach each other; both reach PostgreSQL and their clients."""
        self.at.part(other.at)
        other.at.part(self.at)

    def meet(self, other):
        self.at.meet(other.at)
        other.at.meet(self.at)


class NetworkCluster(servers.Cluster):
    """A cluster with each node in a network namespace. Commands run on this machine, which reaches all nodes by the bridge."""

    def __init__(self, folder, program, names, options=(), network=None):
        self.network = network or Network(f"m{os.getpid() % 1000000}")
        # servers.Cluster makes its servers and nodes by these names.
        server, node = servers.Server, servers.Node
        servers.Server = type("NetworkServer", (NetworkServer,), {"network": self.network})
        servers.Node = NetworkNode
        try:
            super().__init__(folder, program, names, options)
        except BaseException:
            self.network.end()
            raise
        finally:
            servers.Server, servers.Node = server, node

    def make_disk(self, folder):
        folder.mkdir(mode=0o700)
        servers.run("mount", "-t", "tmpfs", "-o", f"size={DISK_MEBIBYTES}m,mode=700", "none", folder)

    def command(self, *words):
        """A command that asks a node by its data folder runs in the node's namespace, because administrators come from the
        node's own machine."""
        if "--data" in words:
            data = str(words[words.index("--data") + 1])
            for node in self.nodes.values():
                if str(node.data) == data:
                    return servers.run(*node.at.prefix, self.program, *words)
        return super().command(*words)

    def join(self, name):
        node, servers.Node = servers.Node, NetworkNode
        try:
            return super().join(name)
        finally:
            servers.Node = node

    def leave(self, name):
        super().leave(name)
        self.network.remove(name)

    def end(self):
        try:
            super().end()
        finally:
            self.network.end()
            for folder in self.folder.iterdir():
                if os.path.ismount(folder):
                    servers.run("umount", "-l", folder)
