#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From `martlet.protocol`: the Swift codecs, and skeletons of golden vectors.

    generate.py              writes the codecs
    generate.py --check      says what it would write, and where a golden vector contradicts the description; 1 if anything
    generate.py --skeleton NAME   prints a vector of the frame NAME to be filled in
"""

import pathlib
import sys

import vectors
from description import Description
from swift import Swift

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODECS = ROOT / "Sources/MartletWire/Generated"


def main(arguments):
    description = Description()
    if arguments[:1] == ["--skeleton"]:
        print(vectors.skeleton(description, description.frame(arguments[1])), end="")
        return 0
    files = {CODECS / name: text for name, text in Swift(description).files().items()}
    stale = [path for path in CODECS.glob("*.swift") if path not in files]
    if arguments != ["--check"]:
        CODECS.mkdir(exist_ok=True)
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
        for path in stale:
            path.unlink()
        return 0
    faults = [f"{path.relative_to(ROOT)} is not what Protocol/martlet.protocol says; run `make protocol`"
              for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    faults += [f"{path.relative_to(ROOT)} is no file of the description" for path in stale]
    faults += vectors.faults(description, ROOT / "Tests/Vectors")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
