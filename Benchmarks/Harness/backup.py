# SPDX-License-Identifier: Apache-2.0
#
# Backup and restore of a folder with millions of instances: seconds, and what deliveries beside a backup
# wait longer. The folder is built by the restarts of scale.py. Rests on the martlet command and the load
# generator.

import json
import pathlib
import shutil
import statistics
import subprocess
import threading
import time

from guard_cells import PROTOCOLS, delivered
from servers import Martlet
from tools import generator, table

BACKUP_SECONDS, RESTORE_SECONDS, P99_TIMES = 10, 30, 2.0
# A window of deliveries. A backup has several.
RATE, WINDOW_SECONDS, QUIET_WINDOWS = 500, 1.5, 4


def run(binaries, data, instances, progress, report):
    """One backup beside deliveries of each kind, then a restore and a start."""
    text = f"{instances // 1_000_000} M instances"
    folder = pathlib.Path(data).parent
    rows, seconds, sizes = [], [], []
    for number, kind in enumerate(PROTOCOLS):
        progress(number + 1, 3, f"backup of {text}, beside deliveries, {kind}")
        shutil.rmtree(folder / "backup", ignore_errors=True)
        with Martlet(binaries, data=data) as server:
            # The same device in all windows: another one would be one more subscriber of the topic.
            device = ["--project", f"deliveries-{number}", "--load", folder / "device"]
            generator(
                server, PROTOCOLS[kind], 1, *device[:2], "--save", folder / "device", "--idle")
            quiet = windows(server, kind, device, lambda found: len(found) == QUIET_WINDOWS)
            command = Command(binaries, "backup", folder / "backup", "--data", data)
            beside = windows(server, kind, device, lambda _: command.has_ended())
            seconds.append(command.seconds())
        # The last window began beside the backup and ended without.
        beside = beside[:-1] or beside
        sizes.append(json.loads((folder / "backup" / "manifest.json").read_text())["bytes"])
        for name, found in [("quiet", quiet), ("backup", beside)]:
            for window, figures in enumerate(found):
                report.figures("scale", f"deliveries, {kind}, {name}", "Martlet", window, figures)
        parts = [
            [statistics.median(figures[part] for figures in found) for part in ["p50", "p99"]]
            for found in (quiet, beside)]
        report.at_most(
            f"p99 of deliveries beside a backup of {text}, {kind}, against quiet",
            parts[1][1] / parts[0][1], P99_TIMES, "{:.2f}×", "backup",
            f"{parts[1][1]:,.0f} and {parts[0][1]:,.0f} µs.")
        rows.append([kind] + [" / ".join(f"{value:,.0f}" for value in pair) for pair in parts]
                    + [f"{seconds[-1]:.1f}"])
    progress(3, 3, f"restore of {text}")
    restored, started = restore(binaries, folder)
    report.figures("scale", "backup", "Martlet", 0, {
        "seconds": max(seconds), "bytes": sizes[-1], "restoreSeconds": restored,
        "startSeconds": started})
    report.at_most(
        f"backup of {text}, checked", max(seconds), BACKUP_SECONDS, "{:.1f} s", "backup")
    report.at_most(
        f"restore of {text}, checked, and start", restored + started, RESTORE_SECONDS, "{:.1f} s",
        "backup")
    report.section(f"Backup and restore of {instances:,} instances", "\n".join(table(
        [f"deliveries to one device, {RATE} a second", "quiet, p50 / p99 in µs",
         "beside the backup, p50 / p99", "seconds of the backup"], rows) + [
        "", f"A backup has {sizes[-1] / 1e9:.2f} GB. A restore takes {restored:.1f} s, the start of a "
        f"broker on the restored folder {started:.2f} s. Backup and restore check all indexes. Medians "
        f"of windows of {WINDOW_SECONDS} s."]))


def windows(server, kind, device, is_over):
    """Deliveries at a fixed rate, window after window."""
    found = []
    while not is_over(found):
        found.append(delivered(generator(
            server, PROTOCOLS[kind], 1, *device, "--rate", RATE, "--seconds", WINDOW_SECONDS,
            "--warmup", 0.2)))
    return found


class Command:
    """A running martlet command. A thread waits for it, because a window of deliveries may end later."""

    def __init__(self, binaries, *arguments):
        self.command = [str(part) for part in (pathlib.Path(binaries) / "martlet", *arguments)]
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        began = time.monotonic()
        self.done = subprocess.run(
            self.command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.elapsed = time.monotonic() - began

    def has_ended(self):
        return not self.thread.is_alive()

    def seconds(self):
        """How long it ran, at its end."""
        self.thread.join()
        if self.done.returncode != 0:
            raise RuntimeError((self.done.stderr.strip().splitlines() or ["it failed"])[-1])
        return self.elapsed


def restore(binaries, folder):
    """Seconds of the restore, and of the start of a broker on the restored folder."""
    restored = Command(binaries, "restore", folder / "backup", folder / "restored").seconds()
    began = time.monotonic()
    with Martlet(binaries, data=folder / "restored"):
        started = time.monotonic() - began
    return restored, started
