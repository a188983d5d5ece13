# SPDX-License-Identifier: Apache-2.0
"""The load on a cluster: senders that repeat with idempotency keys, devices on all nodes, and the comparison of what was
accepted with what has come. See soak.py and upgrade.py."""

import collections
import json
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "Python"))
import martlet  # noqa: E402
from servers import Cluster, Failed  # noqa: E402

PROJECT = "tides"
APP = "com.example.tides"
GROUPS = 4
# Clients try these again; every other word is final and ends the client for good.
# DEADLINE_EXCEEDED: the client itself was too slow, as on a busy machine.
RETRIED = {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "QUOTA_EXCEEDED", "DEADLINE_EXCEEDED"}
# Without the rules of mailboxes and quotas, a message without delivery is lost.
OPTIONS = ["--log-level", "info"] + [word for limit in (
    "stored-per-instance-max", "device-messages-per-minute", "device-messages-per-hour",
    "sender-connections-per-minute", "refusals-per-minute-per-address",
    "device-topic-burst", "registrations-per-second-per-address") for word in ("--limit", f"{limit}=0")]


class World:
    """What all threads know."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.lock = threading.Lock()
        self.devices = {}
        # Message key: the names of its recipients.
        self.accepted = {}
        self.wrong = []
        self.counts = collections.Counter()
        self.last_accepted = time.monotonic()
        self.longest = collections.defaultdict(float)
        self.event = "start"
        self.is_ending, self.is_over = threading.Event(), threading.Event()

    def note_accepted(self, key, recipients):
        with self.lock:
            now = time.monotonic()
            self.longest[self.event] = max(self.longest[self.event], now - self.last_accepted)
            self.last_accepted = now
            self.accepted[key] = recipients

    def note_wrong(self, text):
        with self.lock:
            self.wrong.append(text)
        print(f"WRONG: {text}", flush=True)

    def port(self, rng, but=None):
        nodes = self.cluster.serving()
        others = [node for node in nodes if node.port != but]
        if not nodes:
            raise ConnectionError("no node serves")
        return rng.choice(others or nodes).port


class Client(threading.Thread):
    """A client that connects again, to any node, until the world is over."""

    def __init__(self, world, name, seed):
        super().__init__(name=name, daemon=True)
        self.world, self.rng = world, random.Random(f"{seed}-{name}")
        self.connection, self.port = None, None

    def run(self):
        while not self.finished():
            try:
                if self.connection is None:
                    self.port = self.world.port(self.rng, self.port)
                    self.connection = self.connect(self.port)
                self.step()
            except martlet.MartletError as error:
                self.close()
                self.world.counts[error.word] += 1
                if error.word == "REPLACED":
                    self.world.counts["replaced"] += 1
                elif error.word not in RETRIED:
                    self.world.note_wrong(f"{self.name} is refused for good: {error}")
                time.sleep(0.1 + self.rng.random() * 0.2)
            except (OSError, martlet.ProtocolViolation) as error:
                self.close()
                if isinstance(error, martlet.ProtocolViolation):
                    self.world.note_wrong(f"{self.name}: {error}")
                self.world.counts["lost connections"] += 1
                time.sleep(0.1 + self.rng.random() * 0.2)
        self.close()

    def finished(self):
        return self.world.is_over.is_set()

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Sender(Client):
    """Sends one message after another, each until it is accepted."""

    def __init__(self, world, name, seed, key):
        super().__init__(world, name, seed)
        self.key, self.number, self.pending = key, 0, None

    def finished(self):
        return self.world.is_over.is_set() or self.pending is None and self.world.is_ending.is_set()

    def connect(self, port):
        return martlet.Sender("127.0.0.1", port, PROJECT, self.key, timeout=15)

    def step(self):
        if self.pending is None:
            self.pending = self.next()
        key, kind, target, recipients = self.pending
        content = martlet.message(data={"key": key})
        accepted = self.connection.send_message(kind, target, content, idempotency_key=key)
        if accepted["recipients"] != len(recipients):
            self.world.note_wrong(f"{key} to {target} has {accepted['recipients']} recipients, "
                                  f"not {len(recipients)}")
        self.world.note_accepted(key, recipients)
        self.pending = None
        time.sleep(0.01 + self.rng.random() * 0.03)

    def next(self):
        self.number += 1
        key = f"{self.name}-{self.number}"
        with self.world.lock:
            steady = [device for device in self.world.devices.values() if device.is_steady]
            everybody = [device for device in self.world.devices.values() if device.is_known]
        kind = self.rng.random()
        if kind < 0.5:
            device = self.rng.choice(everybody)
            return key, "token", device.token, frozenset([device.name])
        group = self.rng.randrange(GROUPS)
        names = {device.name for device in steady if device.group == group}
        if kind < 0.8:
            return key, "topic", f"group{group}", frozenset(names)
        other = (group + 1) % GROUPS
        names |= {device.name for device in steady if device.group == other}
        return (key, "condition", f"'group{group}' in topics || 'group{other}' in topics",
                frozenset(names))


class Device(Client):
    """Registers, subscribes to its group, receives, and subscribes to topics of its own."""

    def __init__(self, world, name, seed, registration_key, group=None):
        super().__init__(world, name, seed)
        self.registration_key, self.group = registration_key, group
        self.token = self.device_key = None
        # A steady device is a recipient of its group's messages.
        self.is_steady = self.is_known = False
        self.received, self.recent, self.doubles = set(), collections.deque(maxlen=50), 0
        # Topics of which a subscription was acknowledged, and those of which its end was.
        self.topics, self.topic_number = set(), 0
        self.left, self.is_unsure = set(), False
        self.moves = time.monotonic() + 5 + self.rng.random() * 20

    def connect(self, port):
        if self.token is None:
            device = martlet.Device("127.0.0.1", port, PROJECT, APP, timeout=15,
                                    registration_key=self.registration_key)
            self.token, self.device_key = device.token, device.device_key
            self.world.counts["registered"] += 1
        else:
            device = martlet.Device("127.0.0.1", port, PROJECT, token=self.token,
                                    device_key=self.device_key, unconfirmed=list(self.recent),
                                    timeout=15)
        self.is_known = True
        self.world.counts["connected"] += 1
        return device

    def subscribe(self, topic):
        result = self.connection.subscribe(f"/topics/{topic}")
        if result["failures"]:
            raise martlet.MartletError(
                {"word": result["failures"][0]["word"], "retry delay": 0, "field": topic,
                 "message": "SUBSCRIBE"})

    def step(self):
        if self.group is not None and not self.is_steady:
            self.subscribe(f"group{self.group}")
            self.is_steady = True
        if not self.world.is_ending.is_set():
            if self.rng.random() < 0.04:
                # Repeated until it is acknowledged; nothing ends it.
                topic = f"{self.name}-{self.topic_number}"
                was_unsure, self.is_unsure = self.is_unsure, True
                self.subscribe(topic)
                self.topics.add(topic)
                self.topic_number += 1
                self.is_unsure = False
                if not was_unsure and self.rng.random() < 0.3:
                    # A subscription with an answer at once: nothing is on the way that could come after the end.
                    self.topics.remove(topic)
                    self.connection.unsubscribe(f"/topics/{topic}")
                    self.left.add(topic)
            if time.monotonic() > self.moves:
                self.moves = time.monotonic() + 5 + self.rng.random() * 20
                self.close()
                return
        self.connection.socket.settimeout(0.2)
        self.connection.timeout = 0.2
        try:
            delivered, message = self.connection.next_message()
        except TimeoutError:
            self.connection.timeout = 15
            self.silent()
            return
        finally:
            if self.connection is not None:
                self.connection.timeout = 15
        key = message["data"]["key"]
        self.doubles += key in self.received
        self.received.add(key)
        self.recent.append(delivered["stream ID"])
        self.connection.acknowledge(delivered["stream ID"])

    def silent(self):
        """A peer that is frozen or gone says nothing: a ping finds out."""
        if self.rng.random() < 0.1:
            self.connection.timeout = 5
            self.connection.ping(self.rng.randrange(1 << 32))
            self.connection.timeout = 15


def prepare(cluster):
    """A project; returns its registration key and a sender's key."""
    data = cluster.nodes["a"].data
    cluster.active()
    made = json.loads(cluster.command("project", "create", PROJECT, "--data", data, "--json"))
    key = json.loads(cluster.command(
        "key", "create", "--project", PROJECT, "--name", "soak", "--data", data, "--json"))
    return made["registrationKey"], key["key"]


def begin(cluster, options):
    """Starts the nodes, the devices and the senders. Returns the world, the senders, the key of senders, and a function that
    makes a further device."""
    world = World(cluster)
    for node in cluster.nodes.values():
        node.start()
    registration, key = prepare(cluster)

    def add(name, group=None):
        device = Device(world, name, options.seed, registration, group)
        device.start()
        deadline = time.monotonic() + 30
        while not (device.is_known if group is None else device.is_steady):
            if time.monotonic() > deadline:
                raise Failed(f"{name} cannot register")
            time.sleep(0.05)
        with world.lock:
            world.devices = {**world.devices, name: device}

    for number in range(options.devices):
        add(f"device{number}", number % GROUPS)
    senders = [Sender(world, f"sender{number}", options.seed, key)
               for number in range(options.senders)]
    for sender in senders:
        sender.start()
    return world, senders, key, add


def end(world, senders, key):
    """Ends the load, and compares."""
    world.event = "end"
    world.is_ending.set()
    for sender in senders:
        sender.join(60)
        if sender.is_alive():
            world.note_wrong(f"{sender.name} waits for an answer")
    lost, strangers, gone = check(world, key)
    world.is_over.set()
    for client in world.devices.values():
        client.join(30)
    report(world, lost, strangers, gone, wait_for_equal(world))


def missing(world):
    lost = []
    for key, recipients in world.accepted.items():
        for name in recipients:
            if key not in world.devices[name].received:
                lost.append((key, name))
    return lost


def check(world, key):
    """Compares what was accepted with what has come."""
    deadline = time.monotonic() + 60
    while missing(world) and time.monotonic() < deadline:
        time.sleep(0.5)
    lost = missing(world)
    for message, name in lost[:20]:
        world.note_wrong(f"{message} has not come to {name}")
    strangers = 0
    for device in world.devices.values():
        for message in device.received:
            # A message without an answer may have come.
            recipients = world.accepted.get(message)
            if recipients is not None and device.name not in recipients:
                strangers += 1
                world.note_wrong(f"{message} has come to {device.name}, not a recipient")
    gone = 0
    sender = martlet.Sender("127.0.0.1", world.port(random), PROJECT, key, timeout=30)
    for device in world.devices.values():
        wanted = set(device.topics)
        if device.is_steady:
            wanted.add(f"group{device.group}")
        found, after = set(), ""
        while True:
            page = sender.request("LIST_INSTANCE_TOPICS", token=device.token, after=after,
                                  limit=1000)[1]
            found |= {topic["name"] for topic in page["topics"]}
            if not page["more"]:
                break
            after = page["topics"][-1]["name"]
        if device.left & found:
            gone += len(device.left & found)
            world.note_wrong(f"{device.name} is subscribed to {sorted(device.left & found)[:5]}, "
                             "which it has left")
        if wanted - found:
            gone += len(wanted - found)
            world.note_wrong(f"{device.name} is not subscribed to {sorted(wanted - found)[:5]}")
    sender.close()
    return len(lost), strangers, gone


def wait_for_equal(world):
    deadline = time.monotonic() + 60
    while True:
        try:
            digests = world.cluster.verify()
            if len(set(digests.values())) == 1:
                return digests
        except Failed as error:
            digests = str(error)
        if time.monotonic() > deadline:
            world.note_wrong(f"the stores are not equal: {digests}")
            return digests
        time.sleep(0.5)


def report(world, lost, strangers, gone, digests):
    deliveries = sum(len(device.received) for device in world.devices.values())
    doubles = sum(device.doubles for device in world.devices.values())
    topics = sum(len(device.topics) for device in world.devices.values())
    print(f"\naccepted {len(world.accepted)}, expected deliveries "
          f"{sum(map(len, world.accepted.values()))}, delivered {deliveries}, again {doubles}")
    print(f"lost {lost}, to wrong recipients {strangers}")
    left = sum(len(device.left) for device in world.devices.values())
    print(f"acknowledged subscriptions {topics} and ends of subscriptions {left}, of which wrong "
          f"{gone}; devices {len(world.devices)}")
    print(f"stores: {digests}")
    for name, count in sorted(world.counts.items()):
        print(f"{count:8} {name}")
    print("longest time without an accepted message, s:")
    for name, seconds in sorted(world.longest.items(), key=lambda pair: -pair[1]):
        print(f"{seconds:8.1f} {name}")


def options_of(parser):
    parser.add_argument(
        "--places", action="store_true",
        help="nodes in network namespaces and with small disks of their own; needs root")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--devices", type=int, default=16)
    parser.add_argument("--senders", type=int, default=4)
    parser.add_argument("--folder", type=pathlib.Path)


def run(options, program, act):
    """Runs `act(cluster)`, which returns a world with what is wrong. Exits 0 if nothing is."""
    folder = (options.folder or pathlib.Path(tempfile.mkdtemp(prefix="martlet-soak-"))).absolute()
    print(f"seed {options.seed}, folder {folder}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    if options.places:
        import places
        cluster = places.NetworkCluster(
            folder, program, ["a", "b", "c"], OPTIONS, network=places.Network("soak"))
        places.route_clients(martlet, cluster)
    else:
        cluster = Cluster(folder, program, ["a", "b", "c"], OPTIONS)
    wrong = []
    try:
        wrong = act(cluster, options)
    except Failed as error:
        wrong = [str(error)]
        print(f"WRONG: {error}")
    finally:
        cluster.end()
    if wrong:
        print(f"{len(wrong)} wrong; the logs are in {folder}")
        sys.exit(1)
    shutil.rmtree(folder, ignore_errors=True)
