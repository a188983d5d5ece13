# SPDX-License-Identifier: Apache-2.0
#
# Durable work over the wire, beside what one would use instead: NATS JetStream with a durable consumer
# for each device, and Mosquitto with lasting sessions. Every server does the same work in turn, and
# all of them again in the next run. Rests on the load generator and servers.py.

import signal
import time

import svg
from servers import JetStream, MartletDurable, MosquittoLasting, Unavailable
from tools import bytes_written, fsync_microseconds, generator, medians, table

KINDS = [MartletDurable, JetStream, MosquittoLasting]
DIRECT_DEVICES = 1000
OFFLINE_MESSAGES = 10
# What one publish is counted as durable by, told under the table.
FOOTNOTE = """\
*Accepted* is not the same everywhere. Martlet answers when the message is on disk (fsync).
JetStream answers when it has written to a file, and calls fsync every two minutes; Debian's version
2.9 cannot be told otherwise. What it accepted survives a crash of the process, not a loss of power.
Mosquitto answers from memory and writes its whole database every 30 minutes or when told: its bytes
per recipient are those of one such save. JetStream's devices acknowledge through the last message
(`ack_policy: all`)."""


def direct_options(kind):
    """Protocol and options with which each message goes to one device."""
    if kind is MartletDurable:
        return "martlet-direct", []
    return kind.protocol, ["--direct"]


def direct(kind, binaries, folder, quick):
    """Messages to one device each, and subscriptions. {(what, outstanding): figures}"""
    found = {}
    protocol, options = direct_options(kind)
    with kind(binaries) as server:
        devices = folder / f"{kind.protocol}-direct"
        generator(
            server, kind.protocol, DIRECT_DEVICES, "--save", devices, "--idle", *options)
        for outstanding, count in [(1, 500), (16, 4000), (64, 10_000), (256, 20_000)]:
            figures = generator(
                server, protocol, DIRECT_DEVICES, "--load", devices, *options, "--offline",
                count if quick else 2 * count, "--outstanding", outstanding)
            figures["bytesEach"] = figures["bytesWritten"] / figures["offline"]
            found["direct", outstanding] = figures
        for outstanding, batch, count in [(1, 1, 300), (256, 1, 5000), (16, 1000, 40)]:
            if batch > 1 and kind is JetStream:
                continue
            found["subscriptions", outstanding, batch] = generator(
                server, protocol, DIRECT_DEVICES, "--load", devices, *options, "--subscribe",
                count, "--batch", batch, "--outstanding", outstanding)
    return found


def offline(kind, binaries, folder, devices_count):
    """One topic's message to everybody who is away, several times; then they come back."""
    with kind(binaries) as server:
        devices = folder / f"{kind.protocol}-{devices_count}"
        began = time.monotonic()
        generator(server, kind.protocol, devices_count, "--save", devices, "--idle")
        setup = time.monotonic() - began
        figures = generator(
            server, kind.protocol, devices_count, "--load", devices, "--offline",
            OFFLINE_MESSAGES)
        written, saving = figures["bytesWritten"], 0.0
        if kind is MosquittoLasting:
            written, saving = save(server)
        drained = generator(
            server, kind.protocol, devices_count, "--load", devices, "--drain",
            OFFLINE_MESSAGES)
    return {
        "setupSeconds": setup, "acceptedMilliseconds": figures["acceptedMilliseconds"],
        "bytesPerRecipient": written / devices_count / OFFLINE_MESSAGES,
        "savingSeconds": saving, "drainSeconds": drained["seconds"],
        "deliveriesPerSecond": drained["deliveriesPerSecond"],
        "serverNanoseconds": drained["serverNanoseconds"]}


def save(server):
    """Has Mosquitto write its database; (bytes, seconds). Its size is steady once it is written."""
    before, began, last = bytes_written(server.process.pid), time.monotonic(), -1
    server.process.send_signal(signal.SIGUSR1)
    while time.monotonic() - began < 60:
        time.sleep(0.05)
        written = bytes_written(server.process.pid) - before
        if written > 0 and written == last:
            return written, time.monotonic() - began - 0.05
        last = written
    raise RuntimeError("Mosquitto did not save its sessions")


def run(binaries, folder, quick, repeats, progress, report):
    """Returns the Markdown of the section; records every run."""
    sizes = [1000] if quick else [1000, 10_000]
    runs, missing = {}, {}
    total = repeats * len(KINDS) * (1 + len(sizes))
    done = 0
    for repeat in range(repeats):
        for size in [0] + sizes:
            for kind in KINDS:
                done += 1
                progress(done, total, f"{kind.name}, durable, " + (
                    f"{size:,} devices away" if size else "direct and subscriptions"))
                try:
                    found = {("offline", size): offline(kind, binaries, folder, size)} if size \
                        else direct(kind, binaries, folder, quick)
                except (Unavailable, RuntimeError) as error:
                    missing[kind.name, size] = str(error).splitlines()[-1]
                    continue
                for key, figures in found.items():
                    report.figures("durable", " ".join(map(str, key)), kind.name, repeat, figures)
                    runs.setdefault((kind.name, key), []).append(figures)
    return markdown({key: medians(found) for key, found in runs.items()}, sizes, missing, report)


def markdown(found, sizes, missing, report):
    names = [kind.name for kind in KINDS]

    def cells(key, field, form):
        return [
            form.format(found[name, key][field]) if (name, key) in found else "–"
            for name in names]

    out = ["One core for the server, one for the generator.", "", FOOTNOTE, ""]
    rows = []
    for outstanding in [1, 16, 64, 256]:
        key = ("direct", outstanding)
        rows.append(
            [f"messages to one device each, per second, {outstanding} outstanding"]
            + cells(key, "messagesPerSecond", "{:,.0f}"))
        rows.append(
            [f"… server CPU µs / bytes written each, {outstanding} outstanding"]
            + [" / ".join(pair) for pair in zip(
                cells(key, "serverMicroseconds", "{:.1f}"), cells(key, "bytesEach", "{:,.0f}"))])
    for outstanding, batch, text in [
            (1, 1, "subscriptions per second, one at a time"),
            (256, 1, "… single, 256 outstanding"),
            (16, 1000, "… in requests of 1000, 16 outstanding")]:
        rows.append([text] + cells(
            ("subscriptions", outstanding, batch), "subscriptionsPerSecond", "{:,.0f}"))
    for size in sizes:
        key = ("offline", size)
        rows += [
            [f"message to {size:,} devices away, ms to acceptance"]
            + cells(key, "acceptedMilliseconds", "{:.2f}"),
            ["… bytes written per recipient"] + cells(key, "bytesPerRecipient", "{:.1f}"),
            [f"… {size:,} come back for {OFFLINE_MESSAGES} messages each, seconds"]
            + cells(key, "drainSeconds", "{:.2f}"),
            ["… deliveries per second"] + cells(key, "deliveriesPerSecond", "{:,.0f}"),
            ["… server CPU ns per delivery"] + cells(key, "serverNanoseconds", "{:,.0f}")]
    out += table([""] + names, rows) + [""]
    for (name, size), reason in sorted(missing.items()):
        what = f"{size:,} devices away" if size else "direct and subscriptions"
        out.append(f"- not measured: {name}, {what}: {reason}")
    compare(found, sizes, report)
    judge(found, report)
    drawing = plot(found, sizes, names)
    if drawing:
        report.drawing("durable", drawing)
        out += ["", "![Durable work per second](durable.svg)"]
    return out


def compare(found, sizes, report):
    """Tells the report where Martlet stands."""
    wanted = [(("direct", w), "messagesPerSecond", False, f"direct messages/s, {w} outstanding")
              for w in [1, 16, 64, 256]]
    wanted += [(("subscriptions", w, b), "subscriptionsPerSecond", False,
                f"subscriptions/s, {b} a request, {w} outstanding")
               for w, b in [(1, 1), (256, 1), (16, 1000)]]
    for size in sizes:
        wanted += [
            (("offline", size), "acceptedMilliseconds", True, f"acceptance for {size:,} away, ms"),
            (("offline", size), "deliveriesPerSecond", False, f"deliveries/s to {size:,} back"),
            (("offline", size), "serverNanoseconds", True, f"CPU per delivery to {size:,} back")]
    for key, field, is_less, what in wanted:
        mine = found.get((MartletDurable.name, key))
        for kind in KINDS[1:]:
            other = found.get((kind.name, key))
            if mine and other:
                note = "Martlet alone has called fsync" if key[0] != "offline" \
                    or field == "acceptedMilliseconds" else ""
                report.compare(what, kind.name, mine[field], other[field], is_less, note)


def judge(found, report):
    """The direct messages' figures that were set."""
    many, one = (found.get((MartletDurable.name, ("direct", w))) for w in [256, 1])
    if not many or not one:
        return
    fsync = fsync_microseconds()
    report.at_least(
        "direct stored sends/s, 256 outstanding", many["messagesPerSecond"], 120_000, "{:,.0f}",
        "direct")
    report.at_most(
        "direct stored send, 1 outstanding, µs to acceptance", one["acceptedMilliseconds"] * 1e3,
        fsync + 100, "{:,.0f}", "direct", f"One fsync alone takes {fsync:.0f} µs in this run.")
    report.at_most(
        "bytes written by one lone stored send", one["bytesEach"], 40_000, "{:,.0f}",
        "lone bytes")


def plot(found, sizes, names):
    groups = [
        ("direct, W=1", ("direct", 1), "messagesPerSecond"),
        ("direct, W=16", ("direct", 16), "messagesPerSecond"),
        ("direct, W=256", ("direct", 256), "messagesPerSecond"),
        ("subscribe, W=1", ("subscriptions", 1, 1), "subscriptionsPerSecond"),
        ("subscribe, W=256", ("subscriptions", 256, 1), "subscriptionsPerSecond")]
    groups += [(f"drain, {n:,}", ("offline", n), "deliveriesPerSecond") for n in sizes]
    return svg.bars(
        "Durable work over the wire, per second", "more is better; Martlet alone calls fsync first",
        [name for name, _, _ in groups],
        [(name, [found.get((name, key), {}).get(field) for _, key, field in groups])
         for name in names])
