# SPDX-License-Identifier: Apache-2.0
#
# The end-to-end fanout: every server in every cell, several times in turn, so that a disturbance of
# the machine falls on all of them. Rests on servers.py and the load generator.

import dataclasses
import json
import statistics
import subprocess

from servers import ALL, GENERATOR_CORE, SECURE, TRANSPORTS, Martlet, Redis, Unavailable

# Payload of one window that a slow server is asked for, at most: Mosquitto takes 6 s for 30 MB in
# messages of 128 bytes, and a run is two windows and more.
SLOW_WINDOW_BYTES_MAX = 30_000_000
SLOW = {"mqtt0", "mqtt1"}
# At a fixed rate a run has few messages, and one that the machine disturbs delays N deliveries: among
# fewer than 100 messages it alone is the p99. So such runs last for so many, within the seconds, and
# are repeated.
RATED_MESSAGES = 250
RATED_SECONDS_MAX = 4
RATED_REPEATS = 3


@dataclasses.dataclass(frozen=True)
class Cell:
    subscribers: int
    payload: int
    outstanding: int
    # Messages per second for all alike; 0: as many as the window allows.
    rate: int = 0

    @property
    def text(self):
        text = f"N={self.subscribers} {self.payload} B W={self.outstanding}"
        return text + (f" {self.rate}/s" if self.rate else "")


def cells(quick):
    sizes = [1000, 10000] if quick else [100, 1000, 10000]
    payloads = [128] if quick else [128, 1024]
    return [Cell(n, b, w) for n in sizes for b in payloads for w in [1, 16, 256]]


def measure(kind, cell, binaries, seconds, all_cores=False):
    """One run. A dictionary of figures, or of {"fault": text}."""
    window = cell.subscribers * cell.outstanding * cell.payload
    if kind.protocol in SLOW and window > SLOW_WINDOW_BYTES_MAX:
        return {"fault": "left out: a window of more than 30 MB takes too long"}
    try:
        with kind(binaries, all_cores=all_cores) as server:
            command = [] if all_cores else ["taskset", "-c", GENERATOR_CORE]
            command += [
                f"{binaries}/bench-load", "--protocol", kind.protocol, "--port", str(server.port),
                "--subscribers", str(cell.subscribers), "--payload", str(cell.payload),
                "--outstanding", str(cell.outstanding), "--seconds", str(seconds), "--warmup",
                str(seconds / 4), "--rate", str(cell.rate), "--server", str(server.process.pid)]
            done = subprocess.run(
                command + server.options(), capture_output=True, text=True, timeout=180)
            if done.returncode != 0:
                lines = done.stderr.strip().splitlines()
                return {"fault": lines[-1] if lines else f"exit {done.returncode}"}
            return json.loads(done.stdout)
    except Unavailable as error:
        return {"fault": str(error)}
    except subprocess.TimeoutExpired:
        return {"fault": "not done after 180 s"}
    except RuntimeError as error:
        return {"fault": str(error).splitlines()[-1]}


def median(runs):
    """Of each figure over the runs that succeeded; the first fault if none did."""
    good = [run for run in runs if "fault" not in run]
    if not good:
        return runs[0]
    result = dict(good[0])
    for key, value in good[0].items():
        if isinstance(value, (int, float)):
            result[key] = statistics.median(run[key] for run in good)
    result["runs"] = len(good)
    faults = [run["fault"] for run in runs if "fault" in run]
    if faults:
        result["faults"] = faults
    return result


def run(binaries, cell_list, kinds, repeats, seconds, progress, record, all_cores=False):
    """Returns {(server name, cell): figures}."""
    runs = {}
    if any(cell.rate for cell in cell_list):
        repeats = max(repeats, RATED_REPEATS)
    total = repeats * len(cell_list) * len(kinds)
    done = 0
    for repeat in range(repeats):
        for cell in cell_list:
            for kind in kinds:
                done += 1
                progress(done, total, f"{kind.name}, {cell.text}")
                enough = min(RATED_MESSAGES / cell.rate, RATED_SECONDS_MAX) if cell.rate else 0
                figures = measure(kind, cell, binaries, max(seconds, enough), all_cores)
                record(kind.name, cell, repeat, figures)
                runs.setdefault((kind.name, cell), []).append(figures)
    return {key: median(values) for key, values in runs.items()}


def equal_load_cells(results):
    """p99 means little between servers of different speed: the same rate for all, half of what
    Redis reached with one message outstanding."""
    found = []
    for (name, cell), figures in results.items():
        if name == Redis.name and cell.outstanding == 1 and cell.payload == 128 and \
                cell.subscribers >= 1000 and "fault" not in figures:
            rate = figures["deliveriesPerSecond"] / cell.subscribers / 2
            if rate >= 2:
                found.append(Cell(cell.subscribers, 128, 64, int(rate)))
    return found


def kinds(names):
    if not names:
        return ALL
    wanted = {name.strip() for name in names.split(",")}
    return [kind for kind in ALL if kind.protocol in wanted]


__all__ = ["Cell", "cells", "run", "equal_load_cells", "kinds", "Martlet", "Redis", "SECURE", "TRANSPORTS"]
