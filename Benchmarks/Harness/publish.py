# SPDX-License-Identifier: Apache-2.0
#
# Puts a report into the repository: its summary and plot into Benchmarks/README.md between two markers, the report with its
# raw figures into Benchmarks/Published. No figure there is typed by hand. The README names a few figures, in bold; those
# that a new report has no more are told.

import pathlib
import re
import shutil
import sys

BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
PLOT = "fanout-cpu-128.svg"
# A figure in bold, with its unit or without: **176,708**, **0.5 s**.
FIGURE = re.compile(r"\*\*([0-9][0-9.,]*)(?:×| [A-Za-z]+)?\*\*")


def strays(root):
    """The figures of the README that the published report does not have."""
    report = (root / "Benchmarks" / "Published" / "report.md").read_text()
    return [figure for figure in FIGURE.findall((root / "README.md").read_text())
            if not re.search(rf"(?<![0-9.,]){re.escape(figure)}(?![0-9]|[.,][0-9])", report)]


def publish(folder, root):
    folder, root = pathlib.Path(folder), pathlib.Path(root)
    readme = root / "Benchmarks" / "README.md"
    text = readme.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"{readme} needs one line '{BEGIN}' and one line '{END}' after it.")
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
        f"![Server CPU per delivery](Published/{PLOT})", "",
        "[The whole report](Published/report.md), with the raw figures beside it.", "",
        END])
    readme.write_text(before + shown + after)
    print(f"{readme} and {target} show {folder}")
    if stray := strays(root):
        print(f"Figures of README.md that this report does not have: {' '.join(stray)}")
