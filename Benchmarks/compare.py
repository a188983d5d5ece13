#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Compares this tree's broker with that of an older commit, in one run and with this tree's load
# generator. Ends with 1 if a cell is slower. Python 3 without packages.
#
#     Benchmarks/compare.py --base COMMIT [--cells fanout,latency,…] [--rounds N]
#     Benchmarks/compare.py --base-binaries FOLDER --binaries FOLDER      builds nothing

import argparse
import fnmatch
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "Harness"))

from build import base_built, built, commit_of  # noqa: E402
import goals  # noqa: E402
import tools  # noqa: E402
from guard import ROUNDS, Comparison, Tree  # noqa: E402
from guard_cells import GROUPS  # noqa: E402

# The whole run without building, rounds for doubtful cells included.
SECONDS_MAX = 570


def selected(patterns):
    """The groups whose names begin with one of these words, or fit it as a pattern."""
    words = [word.strip() for word in patterns.split(",") if word.strip()] or [""]
    found = [
        group for group in GROUPS
        if any(group.name.startswith(word) or fnmatch.fnmatchcase(group.name, word)
               for word in words)]
    if not found:
        sys.exit("no such cells; there are:\n" + "\n".join(group.name for group in GROUPS))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", default="", help="the commit to compare with")
    parser.add_argument("--cells", default="", help="how the groups' names begin, with commas between")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--base-binaries", default="", help="do not build the base, take these")
    parser.add_argument("--binaries", default="", help="do not build this tree, take these")
    parser.add_argument("--load", default="", help="take this load generator")
    parser.add_argument("--out", default="", help="also write the tables into this file")
    options = parser.parse_args()
    if not options.base and not options.base_binaries:
        parser.error("--base COMMIT")
    groups = selected(options.cells)
    root = HERE.parent
    binaries = pathlib.Path(options.binaries) if options.binaries else built(
        root, ["bench-broker", "bench-load"])
    load = options.load or binaries / "bench-load"
    base = options.base_binaries or base_built(root, options.base)
    name = commit_of(root, options.base) if options.base else "base"
    began = time.monotonic()

    def progress(text):
        print(f"[{time.monotonic() - began:5.0f} s] {text}", file=sys.stderr, flush=True)

    comparison = Comparison(Tree(name, base, load), Tree("now", binaries, load), progress)
    is_whole = True
    try:
        comparison.run(groups, options.rounds, SECONDS_MAX)
    except KeyboardInterrupt:
        is_whole = False
    lines = [
        f"{name} and this tree, {time.monotonic() - began:.0f} s, load of the machine at the end "
        f"{os.getloadavg()[0]:.1f}. Ratios are now / base: median, lowest–highest of the rounds.", "",
        *comparison.table(), "", "Medians. CPU in ns per delivery or send, rate per second, times "
        "in µs, written in bytes per message, memory in bytes per connection.", "",
        *comparison.figures_table(), ""]
    lines += [f"not measured: {fault}" for fault in comparison.faults()]
    lines += [f"slower: {line}" for line in comparison.slower()] or ["no cell is slower"]
    print("\n".join(lines))
    if options.base and not options.cells and is_whole:
        goals.keep(HERE / "Reports", "compare", tools.commit(root), comparison.verdicts(name))
    if options.out:
        pathlib.Path(options.out).write_text("\n".join(lines) + "\n")
    if not is_whole:
        print("ended early: not every cell was measured")
    return 0 if is_whole and comparison.is_good() else 1


if __name__ == "__main__":
    sys.exit(main())
