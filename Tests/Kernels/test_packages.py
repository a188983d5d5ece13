# SPDX-License-Identifier: Apache-2.0
"""Where packages of Debian come from: the sources of the system's own apt."""

import unittest

from packages import Mirrors, Unavailable

DEBIAN = """http://mirror.example/debian/ bookworm main
http://mirror.example/debian/ bookworm contrib
http://mirror.example/debian/ bookworm-updates main
http://security.example/ bookworm-security main
"""


class MirrorsTests(unittest.TestCase):
    def test_both_mirrors_are_those_of_apt(self):
        mirrors = Mirrors(DEBIAN)
        self.assertEqual(
            mirrors.bookworm(),
            (("http://mirror.example/debian/", "bookworm"), ("http://security.example/", "bookworm-security")))
        self.assertEqual(mirrors.backports(), (("http://mirror.example/debian/", "bookworm-backports"),))

    def test_sources_of_other_people_do_not_count(self):
        mirrors = Mirrors("https://other.example/node nodistro main\nhttps://other.example/apt bookworm main-tools\n"
                          + DEBIAN)
        self.assertEqual(mirrors.archive, "http://mirror.example/debian/")

    def test_a_system_without_debian_says_so(self):
        with self.assertRaises(Unavailable):
            Mirrors("https://other.example/node nodistro main\n")


if __name__ == "__main__":
    unittest.main()
