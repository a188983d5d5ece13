# SPDX-License-Identifier: Apache-2.0
#
# What the sections share: folders on the measured disk, programs that print JSON lines, the kernel's
# view of a process, and medians. Rests on servers.py.

import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time

from servers import GENERATOR_CORE, SERVER_CORE, scratch


class Folder:
    """A temporary folder on the disk that is measured."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="martlet-bench-", dir=scratch())
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def lines(command, core=SERVER_CORE, timeout=600):
    """The JSON objects that a program prints, one a line."""
    pinned = ["taskset", "-c", core] if core else []
    try:
        done = subprocess.run(
            pinned + [str(part) for part in command], capture_output=True, text=True,
            timeout=timeout, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"not done after {timeout} s") from error
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1])
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def measurements(server, protocol, subscribers, *options):
    """All lines of the load generator, on its core. Standard input is at its end, so that it does
    not stay where it would only hold connections."""
    command = [
        server.load, "--protocol", protocol, "--port", server.port, "--subscribers", subscribers,
        "--server", server.process.pid, *server.options(), *options]
    return lines(command, core=GENERATOR_CORE, timeout=180)


def generator(server, protocol, subscribers, *options):
    """Its first line."""
    return measurements(server, protocol, subscribers, *options)[0]


def medians(runs):
    """Of each figure over the runs, which have the same keys."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def anonymous(process):
    """Bytes of user-space memory that are the process's own."""
    for line in open(f"/proc/{process}/status"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def commit(root):
    """The short name of the commit that lies in a folder, and whether something was changed since."""
    def git(*arguments):
        try:
            return subprocess.run(
                ["git", *arguments], capture_output=True, text=True, cwd=root).stdout.strip()
        except OSError:
            return ""

    name = git("rev-parse", "--short", "HEAD") or "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no")
    return name + (" with changes" if changed else "")


def fsync_microseconds():
    """The median time of one fsync after as many pages as a small commit writes, on the measured disk."""
    pages, page, times = 1024, bytes(4096), []
    chosen = random.Random(1)
    with Folder() as folder:
        descriptor = os.open(f"{folder}/pages", os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(descriptor, page * pages, 0)
        os.fsync(descriptor)
        for _ in range(300):
            began = time.perf_counter_ns()
            for _ in range(4):
                os.pwrite(descriptor, page, 4096 * chosen.randrange(pages))
            os.fdatasync(descriptor)
            times.append(time.perf_counter_ns() - began)
        os.close(descriptor)
    return statistics.median(times) / 1e3


def bytes_written(process):
    """What the process has caused to be written to a disk."""
    for line in open(f"/proc/{process}/io"):
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    return 0


def kernel_memory():
    """Slab memory of the whole system."""
    for line in open("/proc/meminfo"):
        if line.startswith("Slab:"):
            return int(line.split()[1]) * 1024
    return 0


def table(head, rows):
    """Markdown; all columns but the first are numbers."""
    return [
        "| " + " | ".join(head) + " |",
        "| --- |" + " ---: |" * (len(head) - 1),
        *("| " + " | ".join(str(field) for field in row) + " |" for row in rows)]
