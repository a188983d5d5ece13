# SPDX-License-Identifier: Apache-2.0
"""OPS-7: a cluster is upgraded node by node under load, as the article Cluster says, and no send fails.

    upgrade.py FORMER_PROGRAM PROGRAM

The senders retry; a send without an acceptance within half a minute is a failure. At the end each accepted message must
have come to its recipients, and all stores must be equal. Exits 0 then, else 1 and leaves the folder."""

import argparse
import pathlib
import time

import load
from servers import Failed

SEND_SECONDS_MAX = 30


def wait_until_level(cluster, node):
    deadline = time.monotonic() + 60
    while True:
        told = [one for one in cluster.status()["nodes"] if one["node"] == node.name]
        if told and told[0]["role"] in ("follows", "active") and told[0]["behind"] < 100 \
                and told[0]["seenSeconds"] < 2:
            return
        if time.monotonic() > deadline:
            raise Failed(f"node {node.name} is not level: {told}")
        time.sleep(0.2)


def replace(cluster, node, program):
    node.stop()
    node.start(program=program)
    wait_until_level(cluster, node)


def upgrade(cluster, options):
    world, senders, key, _ = load.begin(cluster, options)
    try:
        time.sleep(3)
        first = cluster.active()
        followers = [node for node in cluster.serving() if node is not first]
        for node in followers:
            world.event = f"upgrade of follower {node.name}"
            replace(cluster, node, options.program)
            print(f"{world.event}: {len(world.accepted)} accepted", flush=True)
            time.sleep(3)
        world.event = f"upgrade of active {first.name}"
        replace(cluster, first, options.program)
        print(f"{world.event}: {len(world.accepted)} accepted", flush=True)
        time.sleep(3)
        # The new program hands over by command, to each node and back.
        for node in [first, *followers]:
            if cluster.active() is node:
                continue
            world.event = f"handover to {node.name}"
            print(run_new(cluster, options, "handover", "--to", node.name).strip(), flush=True)
            time.sleep(1)
        load.end(world, senders, key)
        longest = max(world.longest.values())
        if longest > SEND_SECONDS_MAX:
            world.note_wrong(f"a send took {longest:.0f} s")
    finally:
        world.is_over.set()
    return world.wrong


def run_new(cluster, options, *words):
    cluster.program = options.program
    return cluster.command("cluster", *words, "--cluster", cluster.pair.address)


def main():
    parser = argparse.ArgumentParser()
    for name in ("former", "program"):
        parser.add_argument(name, type=lambda path: pathlib.Path(path).absolute())
    load.options_of(parser)
    options = parser.parse_args()
    load.run(options, options.former, upgrade)
    print("No send has failed.")


main()
