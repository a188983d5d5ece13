# SPDX-License-Identifier: Apache-2.0
#
# The audiences of Audiences.swift by CRoaring (pyroaring), bulk operations on sets in memory. Run by
# an interpreter that has pyroaring; the sets come from `bench-store audience … dump`. Each condition
# is written in the way that is fastest with the library: cardinalities without a result where it has
# them for two sets, results otherwise. Prints one JSON object per condition.

import array
import json
import sys
import time

from pyroaring import BitMap


def load(folder, name):
    values = array.array("I")
    path = f"{folder}/topic-{name}.u32"
    with open(path, "rb") as file:
        values.frombytes(file.read())
    result = BitMap(values)
    result.run_optimize()
    return result


def main(folder):
    sets = {name: load(folder, name) for name in [
        "half", "third", "tenth", "fortieth", "percent", "sparse1", "sparse2", "sparse3",
        "cluster1", "cluster2", "cluster3", "fifth"]}
    half, third, tenth, fortieth, percent = (
        sets[name] for name in ["half", "third", "tenth", "fortieth", "percent"])
    s1, s2, s3 = (sets[name] for name in ["sparse1", "sparse2", "sparse3"])
    c1, c2, c3 = (sets[name] for name in ["cluster1", "cluster2", "cluster3"])
    fifth = sets["fifth"]
    conditions = {
        "2 dense": lambda: half.intersection_cardinality(third),
        "3 mixed": lambda: half.intersection_cardinality(tenth | fortieth),
        "3 mixed, negated": lambda: (half - tenth).union_cardinality(percent),
        "5 mixed": lambda: ((half | tenth) - (third & fortieth)).union_cardinality(percent),
        "3 sparse": lambda: s1.intersection_cardinality(s2 | s3),
        "3 sparse, any": lambda: (s1 | s2).union_cardinality(s3),
        "3 clustered": lambda: c1.intersection_cardinality(c2 | c3),
        "sparse of dense": lambda: len((s1 & half) | (s1 & third)),
        "12 topics": lambda: len(BitMap.union(
            half & third, tenth & fortieth, percent & fifth, s1 & s2, c1 & c2, c3 & s3)),
    }
    for kind, work in conditions.items():
        times = []
        for _ in range(15):
            began = time.perf_counter_ns()
            matches = work()
            times.append(time.perf_counter_ns() - began)
        print(json.dumps({
            "kind": kind, "matches": matches, "milliseconds": sorted(times)[7] / 1e6}))


main(sys.argv[1])
