# SPDX-License-Identifier: Apache-2.0
#
# Builds what is measured, in a release build of a package, and says where the programs lie.

import pathlib
import shutil
import subprocess
import sys


def built(package, products, scratch=None):
    """The folder with the programs of a package, which are built first. `scratch`: where the build
    lies instead of the package's own `.build`. Ends the program where the build fails."""
    command = ["swift", "build", "-c", "release", "--package-path", str(package)]
    if scratch:
        command += ["--scratch-path", str(scratch)]
    print(f"building {', '.join(products)} (the first time takes minutes) …", flush=True)
    for product in products:
        done = subprocess.run(command + ["--product", product], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout[-4000:] + done.stderr[-4000:])
    path = subprocess.run(command + ["--show-bin-path"], capture_output=True, text=True)
    return pathlib.Path(path.stdout.strip())


def output(root, *command):
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr.strip() or f"{command[0]} failed")
    return done.stdout.strip()


def commit_of(root, name):
    """The short name of a commit."""
    return output(root, "git", "rev-parse", "--short", f"{name}^{{commit}}")


def base_built(root, name):
    """The folder with the bench-broker of another commit. It is built beside this tree, with this tree's
    versions of the dependencies, and only the program is kept."""
    kept = pathlib.Path(root) / ".build" / "compare" / commit_of(root, name)
    if (kept / "bench-broker").exists():
        return kept
    tree = kept / "tree"
    output(root, "git", "worktree", "prune")
    if not tree.exists():
        output(root, "git", "worktree", "add", "--detach", "--force", str(tree), name)
    # The benchmarks of older commits are a package of their own.
    own = tree / "Benchmarks"
    package = own if (own / "Package.swift").exists() else tree
    versions = pathlib.Path(root) / "Package.resolved"
    if versions.exists():
        shutil.copy(versions, package / "Package.resolved")
    binaries = built(package, ["bench-broker"], kept / "scratch")
    shutil.copy(binaries / "bench-broker", kept / "bench-broker")
    output(root, "git", "worktree", "remove", "--force", str(tree))
    shutil.rmtree(kept / "scratch")
    return kept
