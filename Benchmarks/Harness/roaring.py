# SPDX-License-Identifier: Apache-2.0
#
# The audiences of Audiences.swift by CRoaring (pyroaring), bulk operations on sets in memory. Run by
# an interpreter that has pyroaring; the sets come from `bench-store audience … dump`. Each condition
# is written twice, in the way that is fastest with the library: as a number, with an operation that
# makes no result for the last step, and as the set itself, which a send needs. Prints one JSON object
# per condition.

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


def measured(work, rounds=61):
    """What `work` returns, and the middle of the times it took, in ms."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter_ns()
        result = work()
        times.append(time.perf_counter_ns() - began)
    return result, sorted(times)[rounds // 2] / 1e6


def main(folder):
    sets = {name: load(folder, name) for name in [
        "half", "third", "tenth", "fortieth", "percent", "fifth", "quarter", "twentieth",
        "twofifths", "threefifths"] + [
        f"{kind}{number}" for kind in ["sparse", "cluster"] for number in range(1, 6)]}
    half, third, tenth, fortieth, percent = (
        sets[name] for name in ["half", "third", "tenth", "fortieth", "percent"])
    fifth, quarter, twentieth, twofifths, threefifths = (
        sets[name] for name in ["fifth", "quarter", "twentieth", "twofifths", "threefifths"])
    s1, s2, s3, s4, s5 = (sets[f"sparse{number}"] for number in range(1, 6))
    c1, c2, c3, c4, c5 = (sets[f"cluster{number}"] for number in range(1, 6))

    def twelve():
        return [half & third, tenth & fortieth, percent & fifth, s1 & s2, c1 & c2, c3 & s3]

    def twenty():
        return twelve() + [twofifths & quarter, threefifths & twentieth, s4 & s5, c4 & c5]

    # The number, the set.
    conditions = {
        "1 dense": (lambda: len(half), lambda: half.copy()),
        "2 dense": (lambda: half.intersection_cardinality(third), lambda: half & third),
        "3 dense": (lambda: half.intersection_cardinality(third | fifth),
                    lambda: half & (third | fifth)),
        "4 dense": (lambda: (half & third).union_cardinality(fifth & twofifths),
                    lambda: (half & third) | (fifth & twofifths)),
        "5 dense": (
            lambda: ((half & third) | (fifth & twofifths)).difference_cardinality(threefifths),
            lambda: ((half & third) | (fifth & twofifths)) - threefifths),
        "1 mixed": (lambda: len(tenth), lambda: tenth.copy()),
        "2 mixed": (lambda: half.intersection_cardinality(fortieth), lambda: half & fortieth),
        "3 mixed": (lambda: half.intersection_cardinality(tenth | fortieth),
                    lambda: half & (tenth | fortieth)),
        "3 mixed, negated": (lambda: (half - tenth).union_cardinality(percent),
                             lambda: (half - tenth) | percent),
        "4 mixed": (lambda: (half & (tenth | fortieth)).difference_cardinality(percent),
                    lambda: (half & (tenth | fortieth)) - percent),
        "5 mixed": (
            lambda: ((half | tenth) - (third & fortieth)).union_cardinality(percent),
            lambda: ((half | tenth) - (third & fortieth)) | percent),
        "1 sparse": (lambda: len(s1), lambda: s1.copy()),
        "2 sparse": (lambda: s1.intersection_cardinality(s2), lambda: s1 & s2),
        "3 sparse": (lambda: s1.intersection_cardinality(s2 | s3), lambda: s1 & (s2 | s3)),
        "3 sparse, any": (lambda: (s1 | s2).union_cardinality(s3), lambda: s1 | s2 | s3),
        "4 sparse": (lambda: (s1 | s2).intersection_cardinality(s3 | s4),
                     lambda: (s1 | s2) & (s3 | s4)),
        "5 sparse": (lambda: len(BitMap.union(s1, s2, s3, s4, s5)),
                     lambda: BitMap.union(s1, s2, s3, s4, s5)),
        "sparse of dense": (lambda: len((s1 & half) | (s1 & third)),
                            lambda: (s1 & half) | (s1 & third)),
        "1 clustered": (lambda: len(c1), lambda: c1.copy()),
        "2 clustered": (lambda: c1.intersection_cardinality(c2), lambda: c1 & c2),
        "3 clustered": (lambda: c1.intersection_cardinality(c2 | c3), lambda: c1 & (c2 | c3)),
        "4 clustered": (lambda: (c1 | c2).intersection_cardinality(c3 | c4),
                        lambda: (c1 | c2) & (c3 | c4)),
        "5 clustered": (lambda: ((c1 | c2) & (c3 | c4)).difference_cardinality(c5),
                        lambda: ((c1 | c2) & (c3 | c4)) - c5),
        "12 topics": (lambda: len(BitMap.union(*twelve())), lambda: BitMap.union(*twelve())),
        "20 topics": (lambda: len(BitMap.union(*twenty())), lambda: BitMap.union(*twenty())),
    }
    for kind, (number, members) in conditions.items():
        matches, count = measured(number)
        built, build = measured(members)
        if len(built) != matches:
            raise SystemExit(f"CRoaring counts {matches} and builds {len(built)} for '{kind}'")
        print(json.dumps({
            "kind": kind, "matches": matches, "countMilliseconds": count,
            "buildMilliseconds": build}))


main(sys.argv[1])
