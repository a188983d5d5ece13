# SPDX-License-Identifier: Apache-2.0
"""Runs the tests that a build has left in a folder, in groups beside each other.

    run.py FOLDER quick | rest

Most tests wait, for sockets, processes and clocks, so groups of them run at a time, and one that computes runs in what is left
of the processors. In a group two tests run at a time: a test that blocks its thread would hold up those that wait for
one. quick is `make test`. rest is what `make test-all` adds; together they have every test. Everything that a group prints
is in .build/tests/GROUP.log; what failed is printed."""

import os
import pathlib
import re
import subprocess
import sys
import time

LOGS = pathlib.Path(".build/tests")

# Tests that wait for sockets or processes. Histories of a cluster's log compute.
CLUSTER = r"^MartletClusterTests\.(Cluster|Operator|Outage|Postgres|RefusedNode)"
GATEWAYS = r"^Martlet(Gateway|XMPP)Tests\.|^MartletBridgeTests\.PushClient"
BROKERS = r"^Martlet(Client)?Tests\."
PROCESSES = r"^EndToEndTests\."
# What takes minutes: histories, worlds, stores grown large, and mailboxes of tens of thousands.
LENGTHY = (r"^SimulationTests\.|^Martlet(Cluster|Mailbox)Tests\.HistoryTests/"
           r"|[./](DayReportTests/bounded|PassTests/|SetFormTests/|StorageReturnTests/)")
# Other people's software, PostgreSQL among it, disks that fail, brokers that are killed fifty times, and backups read whole.
FOREIGN = (CLUSTER + r"|[./](AdminSDK\w*|APNs|Backup\w*|ConsoleBrowser|Crash|DiscoveryClient|DiskFailure|Encryption|PushClient"
           r"|Slixmpp|WebClient|WebPush)Tests/")
LONG = LENGTHY + "|" + FOREIGN
WAITING = "|".join((CLUSTER, GATEWAYS, BROKERS, PROCESSES))

# By name: the tests, those left out, and the environment.
GROUPS = {
    "quick": {
        "processes-a-l": (PROCESSES + "[A-L]", LONG, {}),
        "processes-m-z": (PROCESSES + "[M-Z]", LONG, {}),
        "brokers": (BROKERS, LONG, {}),
        "gateways": (GATEWAYS, LONG, {}),
        "computing": ("", WAITING + "|" + LONG, {}),
    },
    # On epoll again: the tests of transports themselves run on both at once.
    "rest": {
        "foreign": (FOREIGN, "", {}),
        "processes-epoll": (PROCESSES, LONG, {"MARTLET_TRANSPORT": "epoll"}),
        "brokers-epoll": (BROKERS, LONG, {"MARTLET_TRANSPORT": "epoll"}),
        "computing": ("", WAITING, {}),
    },
}


def start(program, name, tests, left_out, environment):
    command = [program, "--testing-library", "swift-testing", "--experimental-maximum-parallelization-width", "2"]
    for option, value in (("--filter", tests), ("--skip", left_out)):
        if value:
            command += [option, value]
    nice = 10 if name == "computing" else 0
    log = open(LOGS / f"{name}.log", "wb")
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=os.environ | environment,
        preexec_fn=lambda: os.nice(nice))


def tell(name, code, seconds):
    """Prints how a group ended: its last line, and what failed or, after a signal, what came last."""
    lines = (LOGS / f"{name}.log").read_text(errors="replace").splitlines()
    last = next((line for line in reversed(lines) if re.search(r"Test run with \d+ test", line)), None)
    print(f"{name}: {last or f'ended with {code}'} ({seconds:.0f} s)", flush=True)
    if last is None:
        print("\n".join(lines[-40:]), flush=True)
    elif code:
        isTold = False
        for line in lines:
            isTold = line.startswith("✘") or isTold and line.startswith(("↳", " "))
            if isTold:
                print(line, flush=True)


def main():
    folder, kind = sys.argv[1:]
    program = pathlib.Path(folder).resolve() / "martlet-brokerPackageTests.xctest"
    LOGS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    running = {name: start(program, name, *group) for name, group in GROUPS[kind].items()}
    failed = 0
    try:
        while running:
            time.sleep(0.2)
            for name in [name for name, process in running.items() if process.poll() is not None]:
                code = running.pop(name).returncode
                tell(name, code, time.monotonic() - began)
                failed |= code != 0
    finally:
        for process in running.values():
            process.kill()
    sys.exit(failed)


main()
