# SPDX-License-Identifier: Apache-2.0
#
# How attempts of a stress run are judged, without a broker.

import unittest

from stress_run import Attempt, Plan, median, verdict


class StressTests(unittest.TestCase):
    def test_the_median_attempt_decides(self):
        attempts = [Attempt(loud, 10) for loud in [39, 12, 26, 14, 11]]
        self.assertEqual(median(attempts).loud, 14)
        self.assertTrue(verdict("a flood", median(attempts))["is_good"])
        attempts = [Attempt(loud, 10) for loud in [39, 12, 26, 21, 11]]
        self.assertFalse(verdict("a flood", median(attempts))["is_good"])

    def test_an_attempt_is_measured_by_its_own_quiet(self):
        attempts = [Attempt(30, 20), Attempt(20, 6), Attempt(9, 8)]
        self.assertEqual(median(attempts), Attempt(30, 20))

    def test_below_five_milliseconds_nothing_is_slow(self):
        self.assertLessEqual(Attempt(4.9, 0.5).excess, 1)
        self.assertGreater(Attempt(5.1, 0.5).excess, 1)

    def test_attempts_are_odd_in_number(self):
        self.assertTrue(all(plan.attempts % 2 for plan in [Plan.full(), Plan.quick()]))


if __name__ == "__main__":
    unittest.main()
