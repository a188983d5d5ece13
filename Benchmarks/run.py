#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Runs the benchmarks and writes a report. Python 3 without packages; builds what it measures.
#
#     Benchmarks/run.py [--quick] [--only fanout,…] [--servers martlet,floor,redis] [--out FOLDER]

import argparse
import datetime
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "Harness"))

import fanout  # noqa: E402
import inside  # noqa: E402
from report import Report  # noqa: E402

SECTIONS = ["fanout", "audience", "durable", "scale", "micro", "cores"]
PRODUCTS = ["bench-load", "bench-floor", "bench-rows", "bench-broker", "bench-store"]


def build():
    print("building (the first time takes minutes) …", flush=True)
    command = ["swift", "build", "-c", "release", "--package-path", str(HERE)]
    for product in PRODUCTS:
        done = subprocess.run(command + ["--product", product], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout[-4000:] + done.stderr[-4000:])
    path = subprocess.run(command + ["--show-bin-path"], capture_output=True, text=True)
    return path.stdout.strip()


class Progress:
    def __init__(self):
        self.began = time.monotonic()

    def __call__(self, done, total, text):
        elapsed = time.monotonic() - self.began
        line = f"[{elapsed:5.0f} s] {done}/{total} {text}"
        if sys.stdout.isatty():
            print(f"\r{line[:100]:100}", end="", flush=True)
        else:
            print(line, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="in under five minutes")
    parser.add_argument("--only", default="", help="sections, of: " + ", ".join(SECTIONS))
    parser.add_argument("--servers", default="", help="protocols, as the load generator names them")
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--out", default="")
    parser.add_argument("--binaries", default="", help="do not build, take these")
    options = parser.parse_args()
    binaries = options.binaries or build()
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    report = Report(options.out or HERE / "Reports" / stamp, HERE.parent)
    sections = options.only.split(",") if options.only else SECTIONS
    repeats = options.repeats or (1 if options.quick else 3)
    seconds = options.seconds or (0.8 if options.quick else 2)
    kinds = fanout.kinds(options.servers)
    progress = Progress()

    if "fanout" in sections:
        results = fanout.run(
            binaries, fanout.cells(options.quick), kinds, repeats, seconds, progress,
            report.record("fanout"))
        report.judge_fanout(results)
        report.fanout("Fanout, one core for the server", results, kinds, "fanout")
        report.idle(results, kinds)
        equal = fanout.equal_load_cells(results)
        if equal:
            found = fanout.run(
                binaries, equal, [k for k in kinds if k.protocol not in fanout.SLOW], repeats,
                seconds, progress, report.record("equal load"))
            report.judge_equal_load(found)
            report.fanout("Fanout at equal load", found, kinds, "equal")
    if "audience" in sections:
        inside.audience(binaries, HERE, options.quick, progress, report)
    if "durable" in sections:
        inside.durable(binaries, options.quick, progress, report)
    if "scale" in sections:
        inside.scale(binaries, options.quick, progress, report)
    if "micro" in sections:
        inside.micro(binaries, progress, report)
    if "cores" in sections and not options.quick:
        cells = [fanout.Cell(n, 128, w) for n in [1000, 10000] for w in [1, 16, 256]]
        results = fanout.run(
            binaries, cells, kinds, repeats, seconds, progress, report.record("cores"),
            all_cores=True)
        report.fanout("Fanout, all cores for everybody", results, kinds, "cores")
    report.write()
    print(f"\n{report.folder / 'report.md'}")


if __name__ == "__main__":
    main()
