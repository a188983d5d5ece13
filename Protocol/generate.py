#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The description of the protocol, `martlet.protocol`, against the golden vectors, and skeletons of vectors.

    generate.py --check           says where a vector contradicts the description; 1 if anywhere
    generate.py --skeleton NAME   prints a vector of the frame NAME to be filled in
"""

import pathlib
import sys

import vectors
from description import Description

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main(arguments):
    description = Description()
    if arguments[:1] == ["--skeleton"]:
        print(vectors.skeleton(description, description.frame(arguments[1])), end="")
        return 0
    faults = list(vectors.faults(description, ROOT / "Tests/Vectors"))
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
