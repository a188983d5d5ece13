#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From `martlet.protocol`: the Swift codecs, the tables of the article WireProtocol, and skeletons of golden vectors.

    generate.py              writes codecs and tables
    generate.py --check      says what it would write, and where a golden vector contradicts the description; 1 if anything
    generate.py --skeleton NAME   prints a vector of the frame NAME to be filled in

Codecs for another language are another file beside `swift.py`, with the same `Description`."""

import pathlib
import sys

import enumerations
import vectors
from article import Article
from description import Description
from swift import Swift

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARTICLE = ROOT / "Sources/Martlet/Martlet.docc/WireProtocol.md"
CODECS = ROOT / "Sources/MartletWire/Generated"


def main(arguments):
    description = Description()
    if arguments[:1] == ["--skeleton"]:
        print(vectors.skeleton(description, description.frame(arguments[1])), end="")
        return 0
    codecs = Swift(description).files() | enumerations.files(description)
    files = {CODECS / name: text for name, text in codecs.items()}
    article = Article(description, ARTICLE.read_text(encoding="utf-8"))
    files[ARTICLE] = article.made()
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
    faults += [f"{name} is not in {ARTICLE.name}" for name in article.missing()]
    faults += vectors.faults(description, ROOT / "Tests/Vectors")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
