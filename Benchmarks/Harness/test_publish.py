# SPDX-License-Identifier: Apache-2.0
#
# The figures that the README names are measured ones: each is in the published report.

import pathlib
import unittest

import publish

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Published(unittest.TestCase):
    def test_every_figure_of_the_readme_is_in_the_published_report(self):
        self.assertGreaterEqual(len(publish.FIGURE.findall((ROOT / "README.md").read_text())), 8)
        self.assertEqual(publish.strays(ROOT), [])

    def test_a_figure_is_compared_whole(self):
        text = "**176,708** a second, **0.5 s** and **1.74×**, and **bold** words"
        self.assertEqual(publish.FIGURE.findall(text), ["176,708", "0.5", "1.74"])


if __name__ == "__main__":
    unittest.main()
