# SPDX-License-Identifier: Apache-2.0
#
# Messages at a fixed rate, each counted from when it was due: beside Redis and the kernel floor, and
# beside another project's topic changes; and how soon a message that is not stored is accepted.
# Rests on fanout.py and on the groups of guard_cells.py.

import fanout
from guard_cells import BESIDE_RATE, RATES, acceptance, beside
from servers import Floor, Martlet, MartletDurable, Redis
from tools import fsync_microseconds, medians, table

SECONDS, SECONDS_QUICK = 3, 1
# More than are ever due at once unless a server holds everything up.
OUTSTANDING = 1024
KINDS = [Floor, Martlet, MartletDurable, Redis]
REDIS_MAX, BESIDE_MAX = 1.2, 2.0
# A second's worth of counts, written with something else.
COUNTS_BYTES_MAX = 200


def cells(quick):
    return [
        fanout.Cell(subscribers, 128, OUTSTANDING, rate)
        for subscribers, rate in RATES.items() if subscribers == 1 or not quick]


def run(bench):
    found = fanout.run(
        bench.binaries, cells(bench.quick), KINDS, bench.repeats,
        SECONDS_QUICK if bench.quick else SECONDS, bench.progress, bench.report.record("latency"))
    bench.report.section("Latency at a fixed rate", "\n".join(open_loop(found, bench)))
    judge(found, bench.report, fsync_microseconds())
    bench.report.section("Messages that are not stored, accepted", "\n".join(accepted(bench)))
    bench.report.section(
        "Live messages beside another project's topic changes", "\n".join(head_of_line(bench)))


def name(cell):
    return f"N={cell.subscribers} {cell.rate:,}/s"


def open_loop(found, bench):
    rows, missing = [], []
    for cell in cells(bench.quick):
        row = [name(cell)]
        for kind in KINDS:
            figures = found[kind.name, cell]
            if "fault" in figures:
                missing.append(f"- not measured: {kind.name}, {name(cell)}: {figures['fault']}")
                row.append("–")
            else:
                row.append(" / ".join(
                    f"{figures[part]:,.0f}" for part in ["median", "p99", "p999"]))
        rows.append(row)
    return [
        "Due → delivered in µs: median / p99 / p99.9. A message counts from when it was due, not from "
        "when it was sent.", "", *table(["cell", *(kind.name for kind in KINDS)], rows), "", *missing]


def judge(found, report, fsync):
    for (server, cell), mine in found.items():
        redis = found.get((Redis.name, cell), {"fault": ""})
        if "fault" in mine:
            continue
        if server == Martlet.name and "fault" not in redis:
            for part, text in [("median", "p50"), ("p99", "p99")]:
                what = f"{text} at a fixed rate in µs, {name(cell)}"
                report.compare(what, Redis.name, mine[part], redis[part], True)
                if cell.subscribers == 1:
                    report.at_most(
                        f"lone message, TTL 0, {text} against Redis", mine[part] / redis[part],
                        REDIS_MAX, "{:.2f}×", "lone live",
                        f"{mine[part]:.0f} and {redis[part]:.0f} µs.")
        if server == MartletDurable.name and cell.subscribers == 1:
            report.at_most(
                "lone message, stored, p50 of delivery in µs", mine["median"], fsync + 100,
                "{:,.0f}", "lone stored", f"One fsync alone takes {fsync:.0f} µs in this run.")


def rounds(bench, group):
    """The medians of a group's cells, Martlet alone."""
    runs = {}
    for repeat in range(bench.repeats):
        bench.progress(repeat + 1, bench.repeats, group.name)
        measured = group.measure(lambda **options: Martlet(bench.binaries, **options))
        for cell, figures in measured.items():
            bench.report.figures("latency", cell, "Martlet", repeat, figures)
            runs.setdefault(cell, []).append(figures)
    return {cell: medians(figures) for cell, figures in runs.items()}


def accepted(bench):
    rows = []
    for cell, figures in rounds(bench, acceptance()).items():
        rows.append([
            cell, f"{figures['rate']:,.0f}", f"{figures['p50']:,.0f} / {figures['p99']:,.0f}",
            f"{figures['cpu'] / 1e3:.1f}", f"{figures['written']:,.0f}"])
        if cell.endswith("W=1"):
            bench.report.at_most(
                f"bytes written a message, {cell}", figures["written"], COUNTS_BYTES_MAX,
                "{:,.0f}", "live")
    return table(
        ["one device, away", "per second", "µs to acceptance, p50 / p99", "CPU µs each",
         "bytes written each"], rows)


def head_of_line(bench):
    rows = []
    for kind, is_judged in [("TTL 0", True), ("stored", False)]:
        quiet, loud = rounds(bench, beside(kind)).values()
        rows.append([kind] + [
            f"{figures['p50']:,.0f} / {figures['p99']:,.0f}" for figures in (quiet, loud)])
        for part in ["p50", "p99"]:
            if is_judged:
                bench.report.at_most(
                    f"live messages beside topic changes, {part} against quiet",
                    loud[part] / quiet[part], BESIDE_MAX, "{:.2f}×", "beside",
                    f"{loud[part]:,.0f} and {quiet[part]:,.0f} µs.")
    return [
        f"One project's messages to one device, {BESIDE_RATE} a second, while another has 16 requests "
        "outstanding that each change a topic of a thousand tokens. Due → delivered in µs.", "",
        *table(["", "quiet, p50 / p99", "beside the changes, p50 / p99"], rows)]
