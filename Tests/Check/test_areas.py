# SPDX-License-Identifier: Apache-2.0
"""Which tests `make check` runs."""

import re
import unittest

from areas import ELSEWHERE, ROOT, expression, python_folders, suites, tests_of, tests_of_all


class AreasTests(unittest.TestCase):
    def test_each_module_of_the_sources_has_tests(self):
        for folder in sorted((ROOT / "Sources").iterdir()):
            with self.subTest(folder.name):
                self.assertTrue(tests_of(f"Sources/{folder.name}/Some.swift"))

    def test_what_the_table_names_is_there(self):
        for beginning, tests in ELSEWHERE:
            with self.subTest(beginning):
                self.assertTrue(list(ROOT.glob(beginning + "*")) or (ROOT / beginning).exists())
                for test in tests.split():
                    module, _, suite = test.partition(".")
                    files = list((ROOT / "Tests" / module).rglob("*.swift"))
                    self.assertTrue(files)
                    if suite:
                        self.assertIn(suite, [name for file in files for name in suites(file.relative_to(ROOT))])

    def test_a_changed_module_has_its_tests_and_a_changed_suite_itself(self):
        self.assertEqual(tests_of("Sources/MartletWire/Hello.swift"), ["MartletWireTests"])
        self.assertEqual(tests_of("Sources/Martlet/Broker.swift"), ["MartletTests"])
        self.assertEqual(tests_of("Tests/MartletTests/DeliveryTests.swift"), ["MartletTests.DeliveryTests"])
        # A file without a suite serves its whole module.
        self.assertEqual(tests_of("Tests/MartletGatewayTests/HTTPPeer.swift"), ["MartletGatewayTests"])

    def test_articles_and_files_of_no_module_have_the_tests_that_always_run(self):
        for path in ("README.md", "Package.swift", "Sources/Martlet/Martlet.docc/Mailbox.md", "Makefile"):
            with self.subTest(path):
                self.assertEqual(tests_of_all([path]), ["TidyTests"])

    def test_a_suite_does_not_stand_beside_its_module(self):
        paths = ["Sources/Martlet/Broker.swift", "Tests/MartletTests/DeliveryTests.swift"]
        self.assertEqual(tests_of_all(paths), ["MartletTests", "TidyTests"])

    def test_the_expression_takes_these_tests_and_no_others(self):
        wanted = re.compile(expression(["MartletTests.DeliveryTests", "TidyTests"]))
        self.assertTrue(wanted.search("MartletTests.DeliveryTests/inOrder()"))
        self.assertTrue(wanted.search("TidyTests.TidyTests/names()"))
        for other in ("MartletTests.DeliveryTestsOfOthers/a()", "MartletTests.ClockTests/a()",
                      "MartletTestsX.DeliveryTests/a()", "XTidyTests.Some/a()"):
            self.assertFalse(wanted.search(other), other)

    def test_python_files_have_the_tests_of_their_folder(self):
        folders = ["Benchmarks/Harness", "Tests/Kernels"]
        self.assertEqual(
            python_folders(["Tests/Kernels/packages.py", "Tests/Python/martlet.py", "Tests/Kernels/kernel.mk"], folders),
            ["Tests/Kernels"])
        self.assertEqual(python_folders(["Tests/Kernels/kernel.mk"], folders), [])


if __name__ == "__main__":
    unittest.main()
