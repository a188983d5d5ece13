# SPDX-License-Identifier: Apache-2.0
#
# The tables, plots and verdicts of a fanout, and what of it Benchmarks/README.md shows. Rests on svg.py and the
# report it writes into.

import svg
from tools import table

LIMITS_REDIS = {1: 1.2, 16: 1.5, 256: 4}
TITLES = [
    ("serverNanoseconds", "cpu", "Server CPU per delivery", "nanoseconds; less is better"),
    ("deliveriesPerSecond", "rate", "Deliveries per second", "more is better")]


def milliseconds(microseconds):
    value = microseconds / 1000
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def ordered(results):
    return sorted(
        {cell for _, cell in results},
        key=lambda c: (c.subscribers, c.payload, c.outstanding, c.rate))


def grid(results, names, cells, form):
    """A row for each cell, a column for each server."""
    rows = []
    for cell in cells:
        found = [results.get((name, cell), {"fault": ""}) for name in names]
        rows.append([cell.text] + [
            "–" if "fault" in figures else form(figures) for figures in found])
    return table(["cell", *names], rows) + [""]


def section(report, title, results, kinds, name):
    names, cells = [kind.name for kind in kinds], ordered(results)
    out = []
    for heading, form in [
            ("Server CPU per delivery, ns", lambda f: f"{f['serverNanoseconds']:,.0f}"),
            ("Deliveries per second, thousands", lambda f: f"{f['deliveriesPerSecond'] / 1e3:,.0f}"),
            ("Publish → first / median / p99 / last delivery, ms", lambda f: " / ".join(
                milliseconds(f[part]) for part in ["first", "median", "p99", "last"]))]:
        out += [f"**{heading}**", "", *grid(results, names, cells, form)]
    out += [f"![{text}]({file})\n" for file, text in drawings(report, results, names, cells, name)]
    faults = {}
    for (server, cell), figures in results.items():
        for fault in [figures.get("fault")] + figures.get("faults", []):
            if fault:
                faults.setdefault((server, fault), []).append(cell.text)
    if faults:
        out += ["Not measured:", ""] + [
            f"- {server}: {fault}: " + "; ".join(texts)
            for (server, fault), texts in sorted(faults.items())] + [""]
    report.section(title, "\n".join(out))


def drawings(report, results, names, cells, name):
    """A plot of each kind for each payload. [(file, text)]"""
    out = []
    for payload in sorted({cell.payload for cell in cells if not cell.rate}):
        shown = [cell for cell in cells if cell.payload == payload and not cell.rate]
        for key, short, title, unit in TITLES:
            drawing = svg.bars(
                f"{title}, {payload} bytes", unit,
                [f"N={c.subscribers:,} W={c.outstanding}" for c in shown],
                [(server, [results.get((server, c), {}).get(key) for c in shown])
                 for server in names])
            if drawing:
                file = f"{name}-{short}-{payload}"
                report.drawing(file, drawing)
                out.append((f"{file}.svg", f"{title}, {payload} bytes"))
    return out


def headline(report, results, kinds, repeats):
    """The table of Benchmarks/README.md."""
    names = [kind.name for kind in kinds]
    cells = [cell for cell in ordered(results) if cell.payload == 128]
    runs = "one run" if repeats == 1 else f"medians of {repeats} interleaved runs"
    report.headline = [
        f"Server CPU per delivery in nanoseconds, 128 bytes to each of N subscribers, W messages "
        f"outstanding; {runs}, server and generator on a core each:", "",
        *grid(results, names, cells, lambda f: f"{f['serverNanoseconds']:,.0f}")]


def judge(report, results):
    """Every cell against the figures that were set, and against each peer."""
    for cell in ordered(results):
        def figure(server, key="serverNanoseconds"):
            return results.get((server, cell), {}).get(key)

        judge_deliveries(report, results, cell)
        judge_floor(report, cell, figure)
        judge_redis(report, cell, figure)
        judge_peers(report, cell, figure)
        judge_durable(report, cell, figure)


def floor_note(figure, other):
    """What no server could do better, from the same run."""
    floor = figure("kernel floor")
    return f"The kernel floor itself reaches {other / floor:.2f}× in this run." if floor else ""


def judge_deliveries(report, results, cell):
    """A run in which a subscriber lacked a message, or got one twice, has no other figures."""
    for server in ["Martlet", "Martlet TLS", "Martlet durable"]:
        figures = results.get((server, cell), {})
        faults = [figures["fault"]] if "fault" in figures else figures.get("faults", [])
        if faults:
            report.verdict(
                f"every delivery once and in order, {server}, {cell.text}", "all", faults[0], False)


def judge_floor(report, cell, figure):
    mine, floor = figure("Martlet"), figure("kernel floor")
    if cell.subscribers >= 1000 and mine and floor:
        report.at_most(
            f"CPU against the kernel floor, {cell.text}", mine / floor,
            1.5 if cell.outstanding > 16 else 1.2, "{:.2f}×", "floor")


def judge_transports(report, results):
    """epoll against its own floor."""
    for cell in ordered(results):
        mine = results.get(("Martlet on epoll", cell), {}).get("serverNanoseconds")
        floor = results.get(("epoll floor", cell), {}).get("serverNanoseconds")
        if mine and floor:
            report.at_most(
                f"CPU on epoll against its floor, {cell.text}", mine / floor, 1.5, "{:.2f}×",
                "epoll")


def judge_secure(report, results):
    """TLS against plain text, and against the peers over TLS."""
    for cell in ordered(results):
        def figure(server, key="serverNanoseconds"):
            return results.get((server, cell), {}).get(key)

        mine, plain = figure("Martlet TLS"), figure("Martlet")
        if not mine or not plain:
            continue
        if cell.outstanding == 1:
            report.at_most(
                f"CPU over TLS, more than in plain text, ns, {cell.text}", mine - plain, 450,
                "{:.0f}", "tls")
        else:
            report.at_most(
                f"CPU over TLS against plain text, {cell.text}", mine / plain, 1.25, "{:.2f}×",
                "tls")
        for peer in ["Redis TLS", "Mosquitto QoS 0 TLS"]:
            if figure(peer):
                report.compare(
                    f"CPU ns per delivery over TLS, {cell.text}", peer, mine, figure(peer), True)
                report.compare(
                    f"deliveries/s over TLS, {cell.text}", peer,
                    figure("Martlet TLS", "deliveriesPerSecond"),
                    figure(peer, "deliveriesPerSecond"), False)


def judge_redis(report, cell, figure):
    mine, redis = figure("Martlet"), figure("Redis")
    if cell.payload != 128 or not mine or not redis:
        return
    goal = "hundred" if cell.subscribers == 100 else ""
    limit = 1 if goal else LIMITS_REDIS[cell.outstanding]
    report.verdict(
        f"CPU against Redis, {cell.text}", f"≥ {limit}× less", f"{redis / mine:.2f}×",
        redis / mine >= limit, floor_note(figure, redis), goal, limit * mine / redis)
    rate, other = figure("Martlet", "deliveriesPerSecond"), figure("Redis", "deliveriesPerSecond")
    report.at_least(
        f"deliveries/s against Redis, {cell.text}", rate / other, 1, "{:.2f}×", goal)


def judge_peers(report, cell, figure):
    mine = figure("Martlet")
    for peer in ["Redis", "NATS", "Mosquitto QoS 0"]:
        other = figure(peer)
        if not mine or not other:
            continue
        if peer != "Redis":
            report.verdict(
                f"CPU against {peer}, {cell.text}", "≥ 2.5× less", f"{other / mine:.2f}×",
                other / mine >= 2.5, floor_note(figure, other))
        report.compare(f"CPU ns per delivery, {cell.text}", peer, mine, other, True)
        report.compare(
            f"deliveries/s, {cell.text}", peer, figure("Martlet", "deliveriesPerSecond"),
            figure(peer, "deliveriesPerSecond"), False)


def judge_durable(report, cell, figure):
    mine, durable, other = figure("Martlet"), figure("Martlet durable"), figure("Mosquitto QoS 1")
    if mine and durable:
        report.at_most(
            f"durable against TTL 0, {cell.text}", durable / mine,
            1.5 if cell.outstanding == 1 else 2, "{:.2f}×", "stored")
    if durable and other:
        report.verdict(
            f"durable, CPU against Mosquitto QoS 1, {cell.text}", "≥ 2.5× less",
            f"{other / durable:.2f}×", other / durable >= 2.5, floor_note(figure, other))
        report.compare(
            f"CPU ns per delivery, durable, {cell.text}", "Mosquitto QoS 1", durable, other, True)


def judge_cores(report, one, all_cores, cores):
    """The same cell with one loop on one core and with a loop on each, where the generator shares
    the cores: its part of them is taken off."""
    for (server, cell), mine in all_cores.items():
        single = one.get((server, cell), {"fault": ""})
        if server not in ("Martlet", "Martlet durable") or "fault" in mine or "fault" in single:
            continue
        left = (cores - mine["generatorLoad"]) / cores
        report.at_least(
            f"deliveries/s with all cores against one, {server}, {cell.text}",
            mine["deliveriesPerSecond"] / left / single["deliveriesPerSecond"], 1, "{:.2f}×",
            "cores", f"As measured, with the generator on the same cores: "
            f"{mine['deliveriesPerSecond'] / single['deliveriesPerSecond']:.2f}×.")


def judge_equal_load(report, results):
    for (server, cell), mine in results.items():
        redis = results.get(("Redis", cell))
        if server != "Martlet" or not redis or "fault" in mine or "fault" in redis:
            continue
        report.verdict(
            f"p99 at equal load against Redis, {cell.text}", "≤ 1×",
            f"{mine['p99'] / redis['p99']:.2f}×", mine["p99"] <= redis["p99"])
        report.compare(
            f"p99 at equal load in µs, {cell.text}", "Redis", mine["p99"], redis["p99"], True)
