#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Runs the benchmarks and writes a report. Python 3 without packages; builds what it measures.
#
#     Benchmarks/run.py [--quick] [--only fanout,…] [--servers martlet,floor,redis] [--out FOLDER]
#     Benchmarks/run.py --publish FOLDER     put a report into Benchmarks/README.md and Benchmarks/Published

import argparse
import datetime
import os
import pathlib
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "Harness"))

import apns  # noqa: E402
import audience_plot  # noqa: E402
import cluster  # noqa: E402
import console  # noqa: E402
import durable  # noqa: E402
import fanout  # noqa: E402
import fanout_report  # noqa: E402
import gateway  # noqa: E402
import goals  # noqa: E402
import inside  # noqa: E402
import latency  # noqa: E402
import micro  # noqa: E402
import publish  # noqa: E402
import scale  # noqa: E402
import tools  # noqa: E402
import webpush  # noqa: E402
from build import built  # noqa: E402
from report import Report  # noqa: E402
from servers import Unavailable  # noqa: E402

PRODUCTS = [
    "bench-load", "bench-floor", "bench-ring", "bench-rows", "bench-broker", "bench-store", "bench-log",
    "martlet"]
# A window of a second holds hundreds of messages but for the largest cells, where it holds one and
# more: a run always ends with all that was published delivered.
SECONDS, SECONDS_QUICK = 0.8, 0.6


class Progress:
    """A line that is written over on a terminal, and one line for each step elsewhere."""

    def __init__(self):
        self.began = time.monotonic()
        self.section = ""

    def __call__(self, done, total, text):
        elapsed = time.monotonic() - self.began
        line = f"[{elapsed:5.0f} s] {self.section} {done}/{total} {text}"
        if sys.stdout.isatty():
            print(f"\r{line[:100]:100}", end="", flush=True)
        else:
            print(line, flush=True)


class Bench:
    """One run: a method for each section, in the order of the report."""

    def __init__(self, options, binaries, report):
        self.binaries, self.report, self.quick = binaries, report, options.quick
        self.repeats = options.repeats or (1 if options.quick else 3)
        self.seconds = options.seconds or (SECONDS_QUICK if options.quick else SECONDS)
        self.kinds = fanout.kinds(options.servers)
        self.progress = Progress()
        self.one_core = {}

    def measure(self, cells, kinds, name, **options):
        return fanout.run(
            self.binaries, cells, kinds, self.repeats, self.seconds, self.progress,
            self.report.record(name), **options)

    def fanout(self):
        results = self.one_core = self.measure(fanout.cells(self.quick), self.kinds, "fanout")
        fanout_report.judge(self.report, results)
        fanout_report.headline(self.report, results, self.kinds, self.repeats)
        fanout_report.section(
            self.report, "Fanout, one core for the server", results, self.kinds, "fanout")
        equal = fanout.equal_load_cells(results)
        if equal:
            # A rate is given for seconds; a quick run has them for the two that are judged.
            kinds = [kind for kind in self.kinds if kind.protocol not in fanout.SLOW and (
                not self.quick or kind in (fanout.Martlet, fanout.Redis))]
            found = self.measure(equal, kinds, "equal load")
            fanout_report.judge_equal_load(self.report, found)
            fanout_report.section(self.report, "Fanout at equal load", found, kinds, "equal")

    def epoll(self):
        """Martlet where io_uring is denied, beside itself and both floors in the same run."""
        kinds = fanout.TRANSPORTS
        results = self.measure(fanout.cells(quick=True), kinds, "epoll")
        fanout_report.judge_transports(self.report, results)
        fanout_report.section(
            self.report, "Fanout on io_uring and on epoll", results, kinds, "epoll")

    def tls(self):
        """Servers over TLS beside themselves in plain text."""
        kinds = fanout.SECURE
        results = self.measure(fanout.cells(quick=True), kinds, "tls")
        fanout_report.judge_secure(self.report, results)
        fanout_report.section(self.report, "Fanout over TLS", results, kinds, "tls")

    def latency(self):
        latency.run(self)

    def cores(self):
        """Nothing is pinned, and Martlet has as many loops as there are cores."""
        small = [(1000, 128, 16)] if self.quick else [
            (100, 128, 16), (1000, 128, 16), (1000, 1024, 16)]
        large = [] if self.quick else [(10000, 128, 16), (10000, 128, 256)]
        fast = [kind for kind in self.kinds if kind.protocol not in fanout.SLOW]
        results = {}
        for cells, kinds in [(small, self.kinds), (large, fast)]:
            results |= self.measure(
                [fanout.Cell(*cell) for cell in cells], kinds, "cores", all_cores=True)
        fanout_report.judge_cores(self.report, self.one_core, results, os.cpu_count())
        fanout_report.section(
            self.report, "Fanout, all cores for everybody", results, self.kinds, "cores")

    def audience(self):
        inside.audience(self.binaries, HERE, self.quick, self.progress, self.report)
        audience_plot.add(self.report, "Audience of a condition, from LMDB")

    def durable(self):
        durable.run(self.binaries, self.quick, self.repeats, self.progress, self.report)

    def gateway(self):
        gateway.run(self.binaries, self.quick, self.repeats, self.progress, self.report)

    def webpush(self):
        webpush.run(self.binaries, self.quick, self.repeats, self.progress, self.report)

    def apns(self):
        apns.run(self.binaries, self.quick, self.repeats, self.progress, self.report)

    def console(self):
        console.run(self.binaries, self.quick, self.repeats, self.progress, self.report)

    def cluster(self):
        cluster.run(self.binaries, self.quick, self.repeats, self.progress, self.report)

    def scale(self):
        scale.run(self.binaries, self.quick, self.repeats, self.progress, self.report)

    def micro(self):
        micro.run(self.binaries, self.progress, self.report)

    def missing(self):
        """What is not installed is said once, at the top."""
        texts = []
        for kind in self.kinds:
            try:
                if kind.executable:
                    kind.path()
            except Unavailable as error:
                texts.append(str(error))
        self.report.missing(sorted(set(texts)))

    def others(self):
        """What `make stress` and `make bench-compare` found at this commit."""
        for program in ["stress", "compare"]:
            for line in goals.kept(HERE / "Reports", program, tools.commit(HERE.parent)):
                self.report.verdict(**line)

    def run(self, sections):
        self.missing()
        self.others()
        for name in sections:
            self.progress.section = name
            try:
                getattr(self, name)()
            except Exception as error:
                # The other sections are still worth their time.
                traceback.print_exc()
                self.report.failed(name, error)


SECTIONS = [
    "fanout", "epoll", "tls", "latency", "cores", "audience", "durable", "gateway", "webpush",
    "apns", "console", "cluster", "scale", "micro"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="in under five minutes")
    parser.add_argument("--only", default="", help="sections, of: " + ", ".join(SECTIONS))
    parser.add_argument("--servers", default="", help="protocols, as the load generator names them")
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0, help="of one fanout measured")
    parser.add_argument("--out", default="")
    parser.add_argument("--binaries", default="", help="do not build, take these")
    parser.add_argument("--publish", default="", help="a report to put into Benchmarks/README.md")
    options = parser.parse_args()
    if options.publish:
        return publish.publish(options.publish, HERE.parent)
    sections = options.only.split(",") if options.only else SECTIONS
    for name in sections:
        if name not in SECTIONS:
            parser.error(f"no section '{name}'; there are " + ", ".join(SECTIONS))
    binaries = options.binaries or built(HERE.parent, PRODUCTS)
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    command = "a quick run" if options.quick else "a full run"
    if options.only:
        command += " of " + options.only
    report = Report(options.out or HERE / "Reports" / stamp, HERE.parent, command)
    Bench(options, binaries, report).run(sections)
    report.write()
    print(f"\n{report.folder / 'report.md'}")
    for failure in report.failures:
        print(f"failed: {failure}")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
