# SPDX-License-Identifier: Apache-2.0
"""OPS-7: a cluster under load and under failures, for as long as is wanted.

    soak.py PROGRAM [--minutes N] [--seed N] [--folder FOLDER] [--places]

Three nodes and two servers of PostgreSQL. Senders send with idempotency keys and repeat what is not answered; devices on
all nodes receive, acknowledge, subscribe, register and change nodes. Meanwhile processes are killed and frozen, the
standby is promoted, the active role is handed over, nodes are drained, join and leave, and everything is restarted. With
`--places` (as root) nodes have network namespaces and small disks, cables are cut, two nodes lose sight of each other, and
disks get full.
At the end each accepted message must have come to its recipients and to no other, all stores must be equal, and each
acknowledged subscription must be there. Exits 0 then, else 1 and leaves the folder."""

import argparse
import pathlib
import random
import signal
import time

import load
from servers import Failed

class Chaos:
    """The failures, one after another. Each ends before the next."""

    def __init__(self, world, seed):
        self.world, self.cluster = world, world.cluster
        self.rng = random.Random(f"{seed}-chaos")
        self.joined = 0
        self.events = [
            (self.kill_active, 4), (self.kill_follower, 2), (self.freeze_active, 3),
            (self.freeze_long, 1), (self.freeze_follower, 2), (self.restart_active, 2),
            (self.restart_follower, 1), (self.promote, 2), (self.freeze_standby, 2),
            (self.freeze_primary, 1), (self.restart_primary_alone, 2), (self.restart_everything, 1), (self.restart_brokers, 1),
            (self.cut_active_off, 2), (self.cut_follower_off, 2), (self.reset, 1),
            (self.join, 1), (self.kill_primary_and_active, 1)]
        if hasattr(self.cluster, "network"):
            self.events += [(self.part_active, 3), (self.part_followers, 2), (self.fill_active, 3),
                            (self.fill_follower, 3)]
        if "handover" in self.cluster.command("cluster", "--help"):
            self.events += [(self.hand_over, 3), (self.drain, 2)]

    def one(self):
        event = self.rng.choices([event for event, _ in self.events],
                                 [weight for _, weight in self.events])[0]
        name = event.__name__.replace("_", " ")
        self.world.event = name
        began = time.monotonic()
        event()
        self.recover(name)
        self.world.counts[f"event: {name}"] += 1
        print(f"{time.strftime('%H:%M:%S')} {name}: {time.monotonic() - began:.1f} s, "
              f"{len(self.world.accepted)} accepted", flush=True)
        time.sleep(1 + self.rng.random() * 3)

    def recover(self, name):
        """Waits until messages are accepted again, by all nodes."""
        before = time.monotonic()
        while self.world.last_accepted < before:
            if time.monotonic() - before > 60:
                raise Failed(f"nothing is accepted after '{name}'")
            for node in self.cluster.nodes.values():
                if node.process.poll() is not None:
                    raise Failed(f"node {node.name} has ended with {node.process.returncode}: "
                                 f"{node.last_lines()}")
            time.sleep(0.05)

    def follower(self):
        active = self.cluster.active()
        return self.rng.choice([node for node in self.cluster.serving() if node is not active])

    def kill(self, node):
        node.kill()
        time.sleep(self.rng.choice([0, 0, 0.5, 5]))
        node.start()

    def kill_active(self):
        self.kill(self.cluster.active())

    def kill_follower(self):
        self.kill(self.follower())

    def freeze(self, node, seconds):
        node.freeze()
        time.sleep(seconds)
        node.thaw()

    def freeze_active(self):
        self.freeze(self.cluster.active(), self.rng.random() * 6)

    def freeze_long(self):
        """Longer than the silence after which the node's connections count as lost."""
        self.freeze(self.rng.choice(self.cluster.serving()), 14)

    def freeze_follower(self):
        self.freeze(self.follower(), self.rng.random() * 8)

    def cut_off(self, node, seconds):
        """The node cannot reach PostgreSQL, while its links to the other nodes stand."""
        node.cut_off()
        time.sleep(seconds)
        node.reconnect()

    def cut_active_off(self):
        self.cut_off(self.cluster.active(), self.rng.random() * 12)

    def cut_follower_off(self):
        self.cut_off(self.follower(), self.rng.random() * 14)

    def part(self, node, other, seconds):
        """The two nodes do not reach each other, and both reach PostgreSQL and their clients."""
        node.part(other)
        time.sleep(seconds)
        node.meet(other)

    def part_active(self):
        self.part(self.cluster.active(), self.follower(), self.rng.random() * 14)

    def part_followers(self):
        active = self.cluster.active()
        first, second = self.rng.sample(
            [node for node in self.cluster.serving() if node is not active], 2)
        self.part(first, second, self.rng.random() * 14)

    def fill(self, node, seconds):
        if not node.has_disk:
            return
        node.fill()
        time.sleep(seconds)
        node.empty()
        if node.process.poll() is not None:
            self.world.counts["ended by a full disk"] += 1
            node.start()

    def fill_active(self):
        """Another node becomes active, because the disk takes nothing new."""
        self.fill(self.cluster.active(), self.rng.random() * 14)

    def fill_follower(self):
        self.fill(self.follower(), self.rng.random() * 14)

    def reset(self):
        """All connections to PostgreSQL end."""
        for node in self.cluster.nodes.values():
            for way in node.ways:
                way.reset()

    def restart_active(self):
        node = self.cluster.active()
        node.stop()
        node.start()

    def restart_follower(self):
        node = self.follower()
        node.stop()
        node.start()

    def promote(self):
        self.cluster.pair.promote()

    def freeze_server(self, server, seconds):
        server.signal(signal.SIGSTOP)
        time.sleep(seconds)
        server.signal(signal.SIGCONT)

    def freeze_standby(self):
        """Commits wait for the standby."""
        self.freeze_server(self.cluster.pair.standby, self.rng.random() * 8)

    def freeze_primary(self):
        self.freeze_server(self.cluster.pair.primary, self.rng.random() * 8)

    def restart_primary_alone(self):
        """The restarted primary shows rows that no other disk has, and nobody may believe them."""
        pair = self.cluster.pair
        pair.standby.signal(signal.SIGSTOP)
        time.sleep(self.rng.random())
        pair.primary.crash()
        pair.primary.start()
        time.sleep(self.rng.random() * 6)
        pair.standby.signal(signal.SIGCONT)

    def restart_everything(self):
        nodes = list(self.cluster.nodes.values())
        for node in nodes:
            node.kill()
        self.cluster.pair.crash()
        self.cluster.pair.restart()
        for node in nodes:
            node.start()

    def restart_brokers(self):
        nodes = list(self.cluster.nodes.values())
        for node in nodes:
            node.kill()
        for node in nodes:
            node.start()

    def kill_primary_and_active(self):
        node = self.cluster.active()
        node.kill()
        self.cluster.pair.promote()
        node.start()

    def join(self):
        """A further node joins, and the one that joined before leaves for good."""
        if self.joined:
            self.cluster.leave(f"joined{self.joined}")
        self.joined += 1
        self.cluster.join(f"joined{self.joined}")

    def hand_over(self):
        words = ["cluster", "handover", "--cluster", self.cluster.pair.address]
        if self.rng.random() < 0.5:
            words += ["--to", self.follower().name]
        # While no node is active, another one may take over before the wish is met, and the command says so.
        for attempt in range(3):
            try:
                return self.cluster.command(*words)
            except Exception as error:
                if attempt == 2 or "has taken over, and not" not in str(error):
                    raise
                self.world.counts["handovers after a takeover"] += 1
                time.sleep(1)

    def drain(self):
        node = self.rng.choice(self.cluster.serving())
        self.cluster.command("cluster", "drain", node.name, "--cluster", self.cluster.pair.address)
        time.sleep(3)
        self.cluster.command("cluster", "drain", node.name, "--undo", "--cluster",
                             self.cluster.pair.address)


def soak(cluster, options):
    world, senders, key, add = load.begin(cluster, options)
    try:
        chaos = Chaos(world, options.seed)
        end = time.monotonic() + options.minutes * 60
        later = 0
        while time.monotonic() < end and not world.wrong:
            chaos.one()
            if later < 40:
                # A further device, which is sent to by its token.
                add(f"later{later}")
                later += 1
        load.end(world, senders, key)
    finally:
        world.is_over.set()
    return world.wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=lambda path: pathlib.Path(path).absolute())
    parser.add_argument("--minutes", type=float, default=10)
    load.options_of(parser)
    options = parser.parse_args()
    load.run(options, options.program, soak)
    print("Nothing was lost.")


main()
