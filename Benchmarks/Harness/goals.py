# SPDX-License-Identifier: Apache-2.0
#
# The figures to reach, as Benchmarks/README.md shows them: one row for each, made of one measurement or more. A
# verdict of a report names its row, and a row without verdicts was not measured. Two rows belong to
# other programs: `make stress` and `make bench-compare` leave their verdicts beside the reports, and
# a report of the same commit takes them over.

import json

ROWS = {
    "base": ("every cell beside an older commit's (`make bench-compare`)", "≤ 1.05× slower"),
    "live": ("TTL 0 with 1 outstanding, bytes written a message", "0 (counts of a second: < 200)"),
    "lone live": ("lone message, TTL 0, N=1 at 2,000/s: p50, p99", "≤ 1.2× Redis"),
    "lone stored": ("lone message, stored, N=1: p50 of delivery", "≤ one fsync + 100 µs"),
    "hundred": ("N=100, TTL 0: CPU and rate at W=1, 16, 256", "better than Redis in each"),
    "floor": (
        "CPU against the kernel floor, N ≥ 1000", "≤ 1.2× at W=1 and 16, ≤ 1.5× at W=256"),
    "epoll": ("CPU on epoll against the epoll floor, N ≥ 1000", "≤ 1.5×"),
    "tls": (
        "CPU over TLS against plain text, N ≥ 1000", "≤ 450 ns more at W=1, ≤ 1.25× at 16 and 256"),
    "stored": (
        "stored and acknowledged against TTL 0, CPU", "≤ 1.5× at W=1, ≤ 2× at 16 and 256"),
    "direct": (
        "direct stored sends: 256 outstanding; 1 outstanding",
        "≥ 120,000/s; ≤ one fsync + 100 µs"),
    "drain": ("drain, 10,000 devices", "≥ 2 M/s"),
    "idle": (
        "idle connection, user space, at 10,000 and 100,000; each further app on a shared one",
        "≤ 400 B; ≤ 200 B"),
    "beside": (
        "another project's live messages beside 16 × 1000 topic changes: p50, p99", "≤ 2× quiet"),
    "flood": (
        "others' p99 beside a flood (`make stress`), median of five attempts", "≤ 2× quiet"),
    "backup": (
        "10 M instances: backup; p99 of deliveries beside it; restore and start",
        "≤ 10 s; ≤ 2× quiet; ≤ 30 s"),
    "console": ("open consoles at the greatest rate: what 1 and 20 viewers add", "< 1 % of a loop each"),
    "log rate": (
        "accepted/s of one node with a cluster's log against a broker alone, 1, 16, 256 outstanding",
        "≥ 0.35×; 0.4×; 0.75×"),
    "log live": ("live deliveries/s of one node with the log against a broker alone", "≥ 0.97×"),
    "cluster rate": (
        "accepted/s of three nodes on these cores against a broker alone, 1, 16, 256 outstanding",
        "≥ 0.35×; 0.4×; 0.75×"),
    "cluster live": ("live deliveries/s of three nodes on these cores against a broker alone", "≥ 0.97×"),
    "cluster lag": ("delivery by a follower after the acknowledgement, p99", "≤ 20 ms"),
    "cluster pause": (
        "active node killed; frozen or cut off; primary promoted", "≤ 4 s; ≤ 12 s; ≤ 1 s"),
    "cluster join": ("a node joins a cluster of 1 M instances while it serves", "≤ 10 s"),
    "webpush": ("idle Web Push user agent with a channel, user space", "≤ 8 KB"),
    "lone bytes": ("bytes written by one lone stored send", "≤ 40 KB"),
    "sets": ("sets against CRoaring: clustered; two dense", "≥ 1×; ≥ 0.9×"),
    "cores": (
        "deliveries/s with two loops on two cores, the generator's cost taken off",
        "≥ one loop on one core"),
}
# Rows made of more measurements than this say how many hold, and the worst.
TOLD_MAX = 3


def table(verdicts):
    """Markdown: a row for each of ROWS."""
    lines = ["| what | wanted | measured | |", "| --- | --- | --- | --- |"]
    for key, (what, wanted) in ROWS.items():
        found = [verdict for verdict in verdicts if verdict.goal == key]
        good = [verdict.is_good for verdict in found]
        mark = "not measured" if not found or None in good else \
            "reached" if all(good) else "**not reached**"
        lines.append(f"| {what} | {wanted} | {told(found)} | {mark} |")
    return lines


def told(found):
    if len(found) <= TOLD_MAX:
        return "; ".join(
            f"{verdict.what}: {verdict.reached}" if len(found) > 1 else verdict.reached
            for verdict in found)
    good = sum(verdict.is_good is True for verdict in found)
    worst = max(found, key=lambda verdict: verdict.excess)
    return f"{good} of {len(found)}; worst: {worst.what}: {worst.reached}"


def file(folder, program):
    return folder / f"{program}.json"


def keep(folder, program, commit, lines):
    """What a program found at a commit: the arguments of a report's verdicts."""
    folder.mkdir(parents=True, exist_ok=True)
    file(folder, program).write_text(json.dumps({"commit": commit, "lines": lines}))


def kept(folder, program, commit):
    """The same, if it was this commit."""
    try:
        found = json.loads(file(folder, program).read_text())
    except (OSError, ValueError):
        return []
    return found["lines"] if found["commit"] == commit else []
