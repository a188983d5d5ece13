# SPDX-License-Identifier: Apache-2.0
#
# Builds what is measured, in a release build of a package, and says where the programs lie.

import pathlib
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
