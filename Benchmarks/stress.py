#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Whether the broker can be drowned: many projects at a steady rate, measured alone and then beside
# stopped readers, floods and reconnect storms. Ends with 1 if a bound is broken. Python 3 without
# packages.
#
#     Benchmarks/stress.py [--quick] [--strangers COUNT] [--broker PATH] [--load PATH]

import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "Harness"))

from build import built  # noqa: E402
import goals  # noqa: E402
import tools  # noqa: E402
from stress_run import Plan, run  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="in under two minutes")
    parser.add_argument(
        "--strangers", type=int, help="peers without a credential that come to do harm, up to 1000000")
    parser.add_argument("--broker", default="", help="do not build, take this martlet")
    parser.add_argument("--load", default="", help="do not build, take this bench-load")
    parser.add_argument("--verbose", action="store_true", help="tell what the generators tell")
    options = parser.parse_args()
    broker = options.broker or built(HERE.parent, ["martlet"]) / "martlet"
    load = options.load or built(HERE.parent, ["bench-load"]) / "bench-load"
    began = time.monotonic()
    plan = Plan.quick() if options.quick else Plan.full()
    if options.strangers:
        plan.strangers = options.strangers
        plan.xmpp_strangers = min(options.strangers, 100_000)
    faults, verdicts = run(broker, load, plan, options.verbose)
    if verdicts and not (options.quick or options.broker):
        goals.keep(HERE / "Reports", "stress", tools.commit(HERE.parent), verdicts)
    print(f"\n{time.monotonic() - began:.0f} s")
    for fault in faults:
        print(f"broken: {fault}")
    if not faults:
        print("every bound holds")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
