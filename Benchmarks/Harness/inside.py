# SPDX-License-Identifier: Apache-2.0
#
# What is measured without a fanout to connected devices: conditions, durable work, reconnecting,
# many idle connections, restart. Each returns Markdown and tells the report its verdicts. Rests on
# bench-store, bench-rows, bench-load and servers.py.

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from servers import GENERATOR_CORE, SERVER_CORE, Martlet, scratch


class Folder:
    """A temporary folder on the disk that is measured."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="martlet-bench-", dir=scratch())
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def lines(command, core=SERVER_CORE, timeout=1200):
    """The JSON objects that a program prints, one a line."""
    pinned = ["taskset", "-c", core] if core else []
    done = subprocess.run(
        pinned + [str(part) for part in command], capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1])
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def interpreter(here, progress):
    """A Python that has pyroaring, made on first use; None without a network."""
    folder = pathlib.Path(here) / ".venv"
    python = folder / "bin" / "python"
    if not python.exists():
        progress(0, 1, "fetching pyroaring")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True)
    check = [str(python), "-c", "import pyroaring; print(pyroaring.__croaring_version__)"]
    try:
        done = subprocess.run(check, capture_output=True, text=True)
        if done.returncode != 0:
            subprocess.run(
                [str(python), "-m", "pip", "install", "-q", "pyroaring"], capture_output=True)
            done = subprocess.run(check, capture_output=True, text=True)
        return (str(python), done.stdout.strip()) if done.returncode == 0 else None
    except OSError:
        return None


def audience(binaries, here, quick, progress, report):
    sizes = [1_000_000, 10_000_000] + ([] if quick else [100_000_000])
    out = []
    roaring = interpreter(here, progress)
    for number, size in enumerate(sizes):
        progress(number + 1, len(sizes), f"conditions over {size:,} instances")
        compared = {}
        with Folder() as folder:
            command = [f"{binaries}/bench-store", "audience", f"{folder}/data", size]
            is_compared = roaring and size == 10_000_000
            found = lines(command + (["dump"] if is_compared else []))
            if is_compared:
                compared = {
                    line["kind"]: line for line in lines(
                        [roaring[0], pathlib.Path(here) / "Harness" / "roaring.py",
                         f"{folder}/data"])}
        machine = found[0]
        out += [
            f"**{size:,} instances**, warm, {machine['level']}; this core reads "
            f"{machine['gigabytesPerSecond']:.1f} GB/s", "",
            "| topics | matches | count, ms | recipients built, ms | ns per block | CRoaring, ms | × |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
        for line in found[1:]:
            kind, other = line["kind"], compared.get(line["kind"])
            if other and other["matches"] != line["matches"]:
                raise RuntimeError(f"CRoaring counts {other['matches']} for '{kind}'")
            ratio = other["milliseconds"] / line["countMilliseconds"] if other else None
            out.append(
                f"| {kind} | {line['matches']:,} | {line['countMilliseconds']:.3f} | "
                f"{line['buildMilliseconds']:.3f} | {line['nanosecondsPerBlock']:.0f} | "
                + (f"{other['milliseconds']:.3f} | {ratio:.2f} |" if other else "– | – |"))
            if size != 10_000_000:
                continue
            limit = {"3": 0.2, "5": 0.4}.get(kind.split()[0])
            if limit:
                report.verdict(
                    f"audience at 10 M, {kind}", f"< {limit} ms",
                    f"{line['countMilliseconds']:.3f} ms", line["countMilliseconds"] < limit)
            if other:
                least = 0.5 if "sparse" in kind else 0.9 if kind == "2 dense" else \
                    8 if "mixed" in kind else None
                if least:
                    report.verdict(
                        f"audience against CRoaring {roaring[1]}, {kind}", f"≥ {least}×",
                        f"{ratio:.2f}×", ratio >= least)
        out.append("")
    report.section("Audience of a condition, from LMDB", "\n".join(out))


def durable(binaries, quick, progress, report):
    out = []
    progress(1, 3, "durable fanout to offline instances")
    with Folder() as folder:
        fanouts = lines([f"{binaries}/bench-store", "durable", f"{folder}/data", 10_000_000])
        os.mkdir(f"{folder}/rows")
        rows = lines([f"{binaries}/bench-rows", f"{folder}/rows", 1_000_000, 10])[0]
        restart(binaries, folder, report)
    out += ["| accepted durable fanout | ms | bytes written per recipient | ns per recipient |",
            "| --- | ---: | ---: | ---: |"]
    for line in fanouts:
        out.append(
            f"| {line['recipients']:,} of {line['instances']:,} offline | "
            f"{line['milliseconds']:.2f} | {line['bytesPerRecipient']:.3f} | "
            f"{line['nanosecondsPerRecipient']:.2f} |")
    out.append(
        f"| {rows['recipients']:,}, one row per recipient in plain LMDB | "
        f"{rows['milliseconds']:.0f} | {rows['bytesPerRecipient']:.0f} | "
        f"{rows['nanosecondsPerRecipient']:.0f} |")
    first = fanouts[0]
    ratio = rows["nanosecondsPerRecipient"] / first["nanosecondsPerRecipient"]
    report.verdict(
        "accepted durable fanout to 1 M offline of 10 M", "< 6 ms",
        f"{first['milliseconds']:.2f} ms", first["milliseconds"] < 6)
    report.verdict(
        "bytes written per recipient of it", "< 3", f"{first['bytesPerRecipient']:.2f}",
        first["bytesPerRecipient"] < 3)
    report.verdict("against one row per recipient", "≥ 50×", f"{ratio:.0f}×", ratio >= 50)

    progress(2, 3, "durable topic changes and direct sends")
    with Folder() as folder:
        changes = lines([f"{binaries}/bench-store", "changes", f"{folder}/data"], core=None)
    out += ["", "| durable, through the API | outstanding | per second | CPU µs each | bytes written each |",
            "| --- | ---: | ---: | ---: | ---: |"]
    for line in changes:
        out.append(
            f"| {line['kind']} | {line['outstanding']} | {line['perSecond']:,.0f} | "
            f"{line['cpuMicroseconds']:.1f} | {line['bytesWritten']:,.0f} |")
        limit = 100_000 if "one topic, batches" in line["kind"] else \
            30_000 if "100,000 topics" in line["kind"] else None
        if limit:
            report.verdict(
                f"durable {line['kind']}", f"≥ {limit:,}/s", f"{line['perSecond']:,.0f}/s",
                line["perSecond"] >= limit)

    progress(3, 3, "10,000 devices come back")
    out += ["", "| 10,000 devices come back at once | messages each | seconds | deliveries/s | CPU ns per delivery |",
            "| --- | ---: | ---: | ---: | ---: |"]
    for messages in [1, 10, 100]:
        with Martlet(binaries) as server, Folder() as folder:
            command = [
                f"{binaries}/bench-load", "--protocol", "martlet-durable", "--port", server.port,
                "--subscribers", 10000, "--server", server.process.pid] + server.options()
            devices = f"{folder}/devices"
            lines(command + ["--save", devices, "--idle"], core=GENERATOR_CORE)
            lines(command + ["--load", devices, "--offline", messages, "--outstanding", 16],
                  core=GENERATOR_CORE)
            found = lines(
                command + ["--load", devices, "--drain", messages], core=GENERATOR_CORE)[0]
        out.append(
            f"| | {messages} | {found['seconds']:.2f} | {found['deliveriesPerSecond']:,.0f} | "
            f"{found['serverNanoseconds']:,.0f} |")
    report.section("Durable work", "\n".join(out))


def micro(binaries, progress, report):
    progress(1, 1, "the delivery path without a kernel")
    out = ["| | ns each | ns per send | bytes allocated each |", "| --- | ---: | ---: | ---: |"]
    for line in lines([f"{binaries}/bench-store", "micro", "-"]):
        out.append(
            f"| {line['kind']} | {line['nanoseconds']:.2f} | "
            f"{line.get('nanosecondsPerSend', '–')} | {line['bytesAllocated']} |")
    report.section("The delivery path without a kernel, 10,000 sessions", "\n".join(out))


def restart(binaries, folder, report):
    """From the start of the process on a folder of 10 M instances to the first delivery."""
    class Restarted(Martlet):
        def command(self):
            return [self.binaries / "bench-broker", f"{folder}/data", self.port, 1]

        def options(self):
            return ["--admin-key", f"{folder}/data/admin.key"]

    began = time.monotonic()
    with Restarted(binaries) as server:
        lines([
            f"{binaries}/bench-load", "--protocol", "martlet", "--port", server.port,
            "--subscribers", 1, "--topic", "first", "--warmup", 0, "--seconds", 0.001,
            "--server", server.process.pid] + server.options(), core=GENERATOR_CORE)
        seconds = time.monotonic() - began
    report.verdict(
        "restart at 10 M instances, to the first delivery (a new device's, with 0.2 s of waiting)",
        "< 1 s", f"{seconds:.2f} s", seconds < 1)


def scale(binaries, quick, progress, report):
    rows, told = [], []
    for processes, each, loops in [(1, 10_000, 1)] + ([] if quick else [(6, 17_000, 8)]):
        idle(binaries, processes, each, loops, progress, report, rows, told)
    report.section("Idle connections", "\n".join([
        "| connections | loops | open descriptors | user-space memory, all / per connection | "
        "kernel slab memory, both ends, per connection |", "| ---: | ---: | ---: | ---: | ---: |",
        *rows, "", "One message to all of them, the generators on the same cores:", "", *told]))


def idle(binaries, processes, each, loops, progress, report, rows, messages):
    """Idle connections: reconnecting devices, so that nothing of registering is counted."""

    class Many(Martlet):
        data = None

        def command(self):
            return [self.binaries / "bench-broker", f"{self.data}/data", self.port, loops]

        def options(self):
            return ["--admin-key", f"{self.data}/data/admin.key"]

    with Folder() as folder:
        Many.data = folder

        def generators(server, option, one):
            started = []
            for number in range(processes):
                command = [
                    f"{binaries}/bench-load", "--protocol", "martlet", "--port", server.port,
                    "--subscribers", each, "--first-source", 10 * number, option,
                    f"{folder}/devices-{number}"] + server.options() + ["--idle"]
                process = subprocess.Popen(
                    [str(part) for part in command], stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                started.append(process)
                progress(number + 1, processes, f"{each * (number + 1):,} connections, {one}")
                if not process.stdout.readline():
                    raise RuntimeError("the connections did not open")
            return started

        def end(started):
            """What each process was delivered."""
            found = []
            for process in started:
                process.stdin.close()
                found.append(json.loads(process.stdout.readline()))
                process.wait()
            return found

        with Many(binaries, all_cores=True) as server:
            end(generators(server, "--save", "registering"))
        with Many(binaries, all_cores=True) as server:
            before = anonymous(server.process.pid)
            kernel = kernel_memory()
            started = generators(server, "--load", "coming back")
            time.sleep(1)
            after = anonymous(server.process.pid)
            kernel = kernel_memory() - kernel
            descriptors = len(os.listdir(f"/proc/{server.process.pid}/fd"))
            sent = lines([
                f"{binaries}/bench-load", "--protocol", "martlet", "--port", server.port,
                "--subscribers", processes * each, "--offline", 1, "--server",
                server.process.pid] + server.options(), core=None)[0]
            time.sleep(3)
            told = end(started)
    count = processes * each
    per_connection = (after - before) / count
    delivered = sum(one["delivered"] for one in told)
    if delivered != count:
        raise RuntimeError(f"{delivered} of {count} connections got the message")
    first = (min(one["firstDelivery"] for one in told) - sent["published"]) / 1e6
    last = (max(one["lastDelivery"] for one in told) - sent["published"]) / 1e6
    report.verdict(
        f"user-space memory per idle connection, {count:,} connections", "≤ 512 B",
        f"{per_connection:.0f} B", per_connection <= 512)
    rows.append(
        f"| {count:,} | {loops} | {descriptors} | {after / 1e6:.1f} MB / {per_connection:.0f} B | "
        f"{kernel / count:,.0f} B |")
    messages.append(
        f"- {count:,}: first delivery after {first:.1f} ms, last after {last:.0f} ms")


def anonymous(process):
    for line in open(f"/proc/{process}/status"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def kernel_memory():
    """Slab memory of the whole system."""
    for line in open("/proc/meminfo"):
        if line.startswith("Slab:"):
            return int(line.split()[1]) * 1024
    return 0
