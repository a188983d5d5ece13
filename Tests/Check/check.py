# SPDX-License-Identifier: Apache-2.0
"""The edit loop: the format of what changed, and the tests of its area.

    check.py [--base COMMIT] [--tests "MODULE MODULE.SUITE"]
             [--python "FOLDER FOLDER"] [--list]

What changed is what differs from the commit, which is the last one unless BASE names another, and new files. The tests
are built as `make test` builds them, so neither builds anything a second time."""

import argparse
import subprocess
import sys

from areas import ROOT, expression, python_folders, tests_of, tests_of_all

# As `make format-check`.
FORMATTED = ("Package.swift", "Sources/", "Tests/", "Benchmarks/Sources/")


def lines(*command):
    return subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()


def run(*command):
    print("→", " ".join(command), flush=True)
    if subprocess.run(command, cwd=ROOT).returncode:
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description="Checks the format of what changed, and runs the tests of its area.")
    parser.add_argument("--base", default="HEAD", help="the commit to compare with")
    parser.add_argument("--tests", default="", help="modules and suites to run instead")
    parser.add_argument("--python", default="", help="the folders with tests in Python")
    parser.add_argument("--list", action="store_true", help="say what would run, and run nothing")
    options = parser.parse_args()
    changed = sorted(set(
        lines("git", "diff", "--name-only", options.base, "--")
        + lines("git", "ls-files", "--others", "--exclude-standard")))
    tests = options.tests.split() or tests_of_all(changed)
    python = python_folders(changed, options.python.split())
    alone = [path for path in changed if path.endswith((".swift", ".c", ".h")) and not tests_of(path)]
    print(f"{len(changed)} files differ from {options.base}; tests: {' '.join(tests + python)}")
    if alone:
        print(f"make test alone has the tests of {' '.join(alone)}")
    if options.list:
        return
    formatted = [path for path in changed
                 if path.endswith(".swift") and path.startswith(FORMATTED) and (ROOT / path).exists()]
    if formatted:
        run("swift", "format", "lint", "--strict", "--parallel", *formatted)
    for folder in python:
        run("python3", "-m", "unittest", "discover", "-s", folder)
    run("swift", "build", "--build-tests")
    # Two at a time, as make test runs those that wait for sockets.
    run("swift", "test", "--skip-build", "--filter", expression(tests),
        "--experimental-maximum-parallelization-width", "2")


main()
