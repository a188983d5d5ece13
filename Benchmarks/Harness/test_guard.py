# SPDX-License-Identifier: Apache-2.0
#
# The guard's arithmetic, without a broker: when a figure is slower, whose turn it is, and what a
# failure of one of the two means.

import unittest

from guard import Comparison, Result, Tree, aligned
from guard_cells import Group


def result(base, now, judged=("cpu", "rate", "written")):
    found = Result("cell", set(judged))
    found.base, found.now = base, now
    return found


class Brokers:
    """Groups that return prepared figures, and remember who was asked."""

    def __init__(self, cpu):
        self.cpu, self.asked = cpu, []

    def comparison(self):
        comparison = Comparison(Tree("base", "", ""), Tree("now", "", ""), lambda text: None)
        for tree in comparison.trees:
            tree.start = tree.name
        return comparison

    def measure(self, start):
        self.asked.append(start)
        return {"cell": {"cpu": next(self.cpu[start])}}


class GuardTests(unittest.TestCase):
    def test_a_figure_is_slower_if_it_is_so_in_every_round(self):
        above = [{"cpu": cpu} for cpu in [106, 120, 110]]
        self.assertEqual(result([{"cpu": 100}] * 3, above).slower(), ["cpu"])
        self.assertEqual(result([{"cpu": 100}] * 3, above[:2] + [{"cpu": 104}]).slower(), [])

    def test_a_lower_rate_is_slower_and_a_higher_one_is_not(self):
        self.assertEqual(result([{"rate": 100}] * 3, [{"rate": 90}] * 3).slower(), ["rate"])
        self.assertEqual(result([{"rate": 90}] * 3, [{"rate": 100}] * 3).slower(), [])

    def test_a_figure_that_does_not_decide_is_only_shown(self):
        self.assertEqual(result([{"p50": 1}], [{"p50": 9}]).slower(), [])

    def test_bytes_of_counts_are_as_good_as_none(self):
        self.assertEqual(result([{"written": 0}], [{"written": 9}]).slower(), [])
        self.assertEqual(result([{"written": 0}], [{"written": 29_000}]).slower(), ["written"])

    def test_a_cell_that_the_base_lacks_is_not_slower(self):
        self.assertEqual(result([{}], [{"cpu": 9}]).slower(), [])

    def test_rounds_begin_with_the_one_and_the_other_in_turn(self):
        brokers = Brokers({"base": iter([100] * 3), "now": iter([100] * 3)})
        brokers.comparison().run([Group("group", brokers.measure, {"cpu"})], rounds=3)
        self.assertEqual(brokers.asked, ["base", "now", "now", "base", "base", "now"])

    def test_what_looks_slower_is_measured_again_and_all_rounds_count(self):
        brokers = Brokers({"base": iter([100] * 6), "now": iter([110, 110, 110, 100, 110, 110])})
        comparison = brokers.comparison()
        comparison.run([Group("group", brokers.measure, {"cpu"})], rounds=3)
        self.assertEqual(len(comparison.results["cell"].now), 6)
        self.assertTrue(comparison.is_good())
        brokers = Brokers({"base": iter([100] * 6), "now": iter([110] * 6)})
        comparison = brokers.comparison()
        comparison.run([Group("group", brokers.measure, {"cpu"})], rounds=3)
        self.assertFalse(comparison.is_good())
        self.assertEqual(
            comparison.slower(), ["cell: CPU 100 → 110, 1.10× (1.10–1.10) slower"])

    def test_only_this_trees_failures_count_against_it(self):
        for broken, is_good in [("base", True), ("now", False)]:
            def measure(start):
                if start == broken:
                    raise RuntimeError("it ended")
                return {"cell": {"cpu": 1}}
            comparison = Brokers({}).comparison()
            comparison.run([Group("group", measure, {"cpu"})], rounds=1)
            self.assertEqual(comparison.is_good(), is_good)
            self.assertEqual(comparison.faults(), [f"group: {broken}: it ended"])

    def test_columns_without_a_field_are_left_out(self):
        self.assertEqual(
            aligned(["a", "b", "c"], [["x", "", "12"]]), ["| a |  c |", "| - | -: |", "| x | 12 |"])


if __name__ == "__main__":
    unittest.main()
