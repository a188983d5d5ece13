# SPDX-License-Identifier: Apache-2.0
#
# Durable work: fanouts to millions of instances that are offline, with no limit and with every rule,
# changes through the embedding API, messages for one instance, weeks of the same load, durable work over
# the wire beside JetStream and Mosquitto (peers.py), and devices that come back. Rests on bench-store,
# bench-rows and the load generator.

import os
import pathlib

import peers
from servers import MartletDurable
from tools import Folder, generator, lines, table

RETURNING = 10_000


def run(binaries, quick, repeats, progress, report):
    """A section of the report for each part, so that what was measured stays if a later one fails."""
    progress(1, 5, "durable fanouts to offline instances")
    report.section("Durable fanouts to offline instances", "\n".join(fanouts(binaries, report)))
    progress(2, 5, "durable changes through the API")
    report.section("Durable changes through the API", "\n".join(changes(binaries, report)))
    report.section("Messages for one instance", "\n".join(direct(binaries, report)))
    progress(3, 5, "weeks of the same load")
    report.section("The store under a steady load", "\n".join(steady(binaries, report)))
    with Folder() as folder:
        report.section("Durable work over the wire", "\n".join(peers.run(
            binaries, pathlib.Path(folder), quick, repeats, progress, report)))
    progress(5, 5, f"{RETURNING:,} devices come back")
    report.section("Devices that come back", "\n".join(returning(binaries, quick, report)))


# What bench-store calls the state of the limiter of devices, and what the report says of it.
LIMITERS = {
    "off": "no limit, no collapse key",
    "at rest": "all rules on, collapse key",
    "at work": "all rules on, collapse key, limiter at work",
    "refusing": "the same, one in a hundred over its limit"}


def fanouts(binaries, report):
    """Accepted sends to 1 M and 10 M instances, beside one row per recipient in plain LMDB."""
    with Folder() as folder:
        found = lines([f"{binaries}/bench-store", "durable", f"{folder}/data", 10_000_000])
        os.mkdir(f"{folder}/rows")
        rows = lines([f"{binaries}/bench-rows", f"{folder}/rows", 1_000_000, 10])[0]
    for line in found:
        what = f"{line['kind']}, {line['limiter']}, {line['topics']} topics"
        report.figures(
            "durable", f"{what}, to {line['recipients']}", "Martlet durable", 0, line)
    report.figures("durable", f"fanout to {rows['recipients']}", "rows in LMDB", 0, rows)
    stored = [line for line in found if line["kind"] == "durable fanout"]
    alone = [line for line in found if line["kind"] == "limiter alone"]
    for limiter, text in LIMITERS.items():
        line = next(line for line in stored if line["limiter"] == limiter)
        report.verdict(
            f"accepted durable fanout to 1 M offline of 10 M, {text}", "< 6 ms",
            f"{line['milliseconds']:.2f} ms", line["milliseconds"] < 6)
        report.verdict(
            f"bytes written per recipient of it, {text}", "< 3",
            f"{line['bytesPerRecipient']:.2f}", line["bytesPerRecipient"] < 3)
    for line in alone:
        if line["limiter"] == "at work":
            report.verdict(
                f"limiter of devices at work, 1 M of 10 M, {line['topics']} topics in turn",
                "≤ 3 ms", f"{line['meanMilliseconds']:.2f} ms", line["meanMilliseconds"] <= 3)
    ratio = rows["nanosecondsPerRecipient"] / stored[0]["nanosecondsPerRecipient"]
    report.verdict("against one row per recipient", "≥ 50×", f"{ratio:.0f}×", ratio >= 50)
    named = [
        (f"{line['recipients']:,} of {line['instances']:,} offline; {LIMITERS[line['limiter']]}",
         line) for line in stored
    ] + [(f"{rows['recipients']:,}, one row per recipient in plain LMDB", rows)]
    return table(
        ["accepted durable fanout", "ms", "bytes written per recipient", "ns per recipient"],
        [[name, f"{line['milliseconds']:.2f}", f"{line['bytesPerRecipient']:.3f}",
          f"{line['nanosecondsPerRecipient']:.2f}"] for name, line in named]) + [""] + table(
        ["the same to a tenth, not stored: the limiter alone", "ms, median", "mean", "worst"],
        [[f"{LIMITERS[line['limiter']]}; {line['topics']} topics in turn",
          f"{line['milliseconds']:.2f}", f"{line['meanMilliseconds']:.2f}",
          f"{line['worstMilliseconds']:.2f}"] for line in alone])


def direct(binaries, report):
    """Rows of a message for one instance, in transactions like the committer's, without fsync."""
    with Folder() as folder:
        found = lines([f"{binaries}/bench-store", "direct", f"{folder}/data"])
    for line in found:
        report.figures("durable", f"direct, {line['batch']}", "Martlet durable", 0, line)
    return table(
        ["messages in a transaction", "appended, µs", "acknowledged, µs",
         "appended with the commit, µs", "acknowledged with the commit, µs"],
        [[f"{line['batch']:,}", f"{line['appendMicroseconds']:.2f}",
          f"{line['acknowledgeMicroseconds']:.2f}", f"{line['appendAndCommitMicroseconds']:.2f}",
          f"{line['acknowledgeAndCommitMicroseconds']:.2f}"] for line in found])


def steady(binaries, report):
    """Four weeks of a simulated clock: what the store has used of its file at the end of each."""
    with Folder() as folder:
        found = lines([f"{binaries}/bench-store", "steady", f"{folder}/data"])
    for line in found:
        report.figures("durable", f"steady load, week {line['week']}", "Martlet durable", 0, line)
    growth = found[-1]["bytesUsed"] / found[0]["bytesUsed"]
    report.verdict(
        "size of the store after four weeks of a steady load, to that after the first", "≤ 1.1",
        f"{growth:.2f}", growth <= 1.1)
    return [
        f"{found[0]['instances']:,} devices; each hour two messages to all and 200 to single ones, with "
        "two or three days to live; most come once a day, a tenth every fifth day, one in fifty never.",
        ""] + table(
        ["end of week", "messages so far", "pages of 4096 bytes used", "MB"],
        [[line["week"], f"{line['messages']:,}", f"{line['pages']:,}",
          f"{line['bytesUsed'] / 1e6:.1f}"] for line in found])


def changes(binaries, report):
    """Registrations, topic changes and direct sends by a program that embeds the broker."""
    with Folder() as folder:
        found = lines([f"{binaries}/bench-store", "changes", f"{folder}/data"], core=None)
    rows = []
    for line in found:
        report.figures(
            "durable", f"API, {line['kind']}, {line['outstanding']}", "Martlet durable", 0, line)
        rows.append([
            line["kind"], line["outstanding"], f"{line['perSecond']:,.0f}",
            f"{line['cpuMicroseconds']:.1f}", f"{line['bytesWritten']:,.0f}"])
        limit = 100_000 if "one topic, batches" in line["kind"] else \
            30_000 if "100,000 topics" in line["kind"] else None
        if limit:
            report.verdict(
                f"durable {line['kind']}", f"≥ {limit:,}/s", f"{line['perSecond']:,.0f}/s",
                line["perSecond"] >= limit)
    return table(
        ["durable, through the API", "outstanding", "per second", "CPU µs each",
         "bytes written each"], rows)


def returning(binaries, quick, report):
    """All at once, for what was stored while they were away."""
    rows = []
    for messages in [10] if quick else [1, 10, 100]:
        with MartletDurable(binaries) as server, Folder() as folder:
            devices = f"{folder}/devices"
            generator(server, "martlet-durable", RETURNING, "--save", devices, "--idle")
            generator(
                server, "martlet-durable", RETURNING, "--load", devices, "--offline", messages,
                "--outstanding", 16)
            found = generator(
                server, "martlet-durable", RETURNING, "--load", devices, "--drain", messages)
        report.figures("durable", f"{messages} messages each", "Martlet durable", 0, found)
        if messages > 1:
            report.at_least(
                f"{RETURNING:,} devices come back for {messages} messages each, M deliveries/s",
                found["deliveriesPerSecond"] / 1e6, 2, "{:.2f}", "drain")
        rows.append([
            messages, f"{found['seconds']:.2f}", f"{found['deliveriesPerSecond']:,.0f}",
            f"{found['serverNanoseconds']:,.0f}"])
    return table(
        [f"{RETURNING:,} devices of Martlet come back at once, messages each", "seconds",
         "deliveries/s", "CPU ns per delivery"], rows)
