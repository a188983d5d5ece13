# SPDX-License-Identifier: Apache-2.0
#
# Puts a report into the repository: its summary and plot into the README between two markers, the
# report with its raw figures into Benchmarks/Published. No figure there is typed by hand.

import pathlib
import shutil
import sys

BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
PLOT = "fanout-cpu-128.svg"


def publish(folder, root):
    folder, root = pathlib.Path(folder), pathlib.Path(root)
    readme = root / "README.md"
    text = readme.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"README.md needs one line '{BEGIN}' and one line '{END}' after it.")
    for name in ["report.md", "summary.md", PLOT]:
        if not (folder / name).exists():
            sys.exit(f"'{folder}' has no {name}: the report of a run with the section fanout has.")
    target = root / "Benchmarks" / "Published"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for file in sorted(folder.iterdir()):
        if file.suffix in (".md", ".svg", ".tsv") and file.name != "summary.md":
            shutil.copy(file, target / file.name)
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    shown = "\n".join([
        BEGIN, "", (folder / "summary.md").read_text().rstrip(), "",
        f"![Server CPU per delivery](Benchmarks/Published/{PLOT})", "",
        "[The whole report](Benchmarks/Published/report.md), with the raw figures beside it.", "",
        END])
    readme.write_text(before + shown + after)
    print(f"README.md and {target} show {folder}")
