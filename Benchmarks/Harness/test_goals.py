# SPDX-License-Identifier: Apache-2.0
#
# How verdicts become the rows of what is to be reached.

import pathlib
import tempfile
import unittest

import goals
from report import Verdict


def row(key, verdicts):
    return goals.table(verdicts)[2 + list(goals.ROWS).index(key)]


class GoalTests(unittest.TestCase):
    def test_what_no_section_measured_says_so(self):
        self.assertTrue(row("drain", []).endswith("|  | not measured |"))

    def test_a_row_is_reached_if_all_its_figures_are(self):
        good = Verdict("CPU, N=1000", "≤ 1.2×", "1.10×", True, "", "floor", 0.92)
        bad = Verdict("CPU, N=10000", "≤ 1.2×", "1.30×", False, "", "floor", 1.08)
        self.assertTrue(row("floor", [good]).endswith("| 1.10× | reached |"))
        self.assertTrue(row("floor", [good, bad]).endswith("| **not reached** |"))

    def test_many_figures_are_told_by_the_worst(self):
        found = [Verdict(f"N={n}", "", f"{n}", n < 3, "", "floor", n) for n in range(4)]
        self.assertIn("| 3 of 4; worst: N=3: 3 | **not reached** |", row("floor", found))

    def test_another_programs_verdicts_hold_for_its_commit_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = [{"what": "w", "wanted": "", "reached": "", "is_good": True}]
            goals.keep(pathlib.Path(folder), "stress", "abc", lines)
            self.assertEqual(goals.kept(pathlib.Path(folder), "stress", "abc"), lines)
            self.assertEqual(goals.kept(pathlib.Path(folder), "stress", "abd"), [])
            self.assertEqual(goals.kept(pathlib.Path(folder), "compare", "abc"), [])


if __name__ == "__main__":
    unittest.main()
