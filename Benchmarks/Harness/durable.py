# SPDX-License-Identifier: Apache-2.0
#
# Durable work: fanouts to millions of instances that are offline, changes through the embedding API,
# the same over the wire beside JetStream and Mosquitto (peers.py), and devices that come back. Rests
# on bench-store, bench-rows and the load generator.

import os
import pathlib

import peers
from servers import MartletDurable
from tools import Folder, generator, lines, table

RETURNING = 10_000


def run(binaries, quick, repeats, progress, report):
    """A section of the report for each part, so that what was measured stays if a later one fails."""
    progress(1, 4, "durable fanouts to offline instances")
    report.section("Durable fanouts to offline instances", "\n".join(fanouts(binaries, report)))
    progress(2, 4, "durable changes through the API")
    report.section("Durable changes through the API", "\n".join(changes(binaries, report)))
    with Folder() as folder:
        report.section("Durable work over the wire", "\n".join(peers.run(
            binaries, pathlib.Path(folder), quick, repeats, progress, report)))
    progress(4, 4, f"{RETURNING:,} devices come back")
    report.section("Devices that come back", "\n".join(returning(binaries, quick, report)))


def fanouts(binaries, report):
    """Accepted sends to 1 M and 10 M instances, beside one row per recipient in plain LMDB."""
    with Folder() as folder:
        found = lines([f"{binaries}/bench-store", "durable", f"{folder}/data", 10_000_000])
        os.mkdir(f"{folder}/rows")
        rows = lines([f"{binaries}/bench-rows", f"{folder}/rows", 1_000_000, 10])[0]
    for line in found:
        report.figures("durable", f"fanout to {line['recipients']}", "Martlet durable", 0, line)
    report.figures("durable", f"fanout to {rows['recipients']}", "rows in LMDB", 0, rows)
    first = found[0]
    ratio = rows["nanosecondsPerRecipient"] / first["nanosecondsPerRecipient"]
    report.verdict(
        "accepted durable fanout to 1 M offline of 10 M", "< 6 ms",
        f"{first['milliseconds']:.2f} ms", first["milliseconds"] < 6)
    report.verdict(
        "bytes written per recipient of it", "< 3", f"{first['bytesPerRecipient']:.2f}",
        first["bytesPerRecipient"] < 3)
    report.verdict("against one row per recipient", "≥ 50×", f"{ratio:.0f}×", ratio >= 50)
    named = [
        (f"{line['recipients']:,} of {line['instances']:,} offline", line) for line in found
    ] + [(f"{rows['recipients']:,}, one row per recipient in plain LMDB", rows)]
    return table(
        ["accepted durable fanout", "ms", "bytes written per recipient", "ns per recipient"],
        [[name, f"{line['milliseconds']:.2f}", f"{line['bytesPerRecipient']:.3f}",
          f"{line['nanosecondsPerRecipient']:.2f}"] for name, line in named])


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
        rows.append([
            messages, f"{found['seconds']:.2f}", f"{found['deliveriesPerSecond']:,.0f}",
            f"{found['serverNanoseconds']:,.0f}"])
    return table(
        [f"{RETURNING:,} devices of Martlet come back at once, messages each", "seconds",
         "deliveries/s", "CPU ns per delivery"], rows)
