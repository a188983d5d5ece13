# SPDX-License-Identifier: Apache-2.0
#
# Two brokers measured in turn, and what is said of them. A round measures each group of cells with one
# broker and then with the other; the next round begins with the other. So a change of the machine's
# speed falls on both. A figure's ratio is taken within a round; its spread is the lowest and the
# highest ratio of all rounds.
#
# A figure is slower if every one of its ratios is above the bound. Three rounds of a figure that is
# only noisy are all above it one time in eight, so a group with such a figure is measured in more
# rounds, and all rounds count. Rests on guard_cells.py.

import dataclasses
import statistics
import time

from guard_cells import FIGURES
from servers import Martlet

SLOWER_MAX = 1.05
ROUNDS, MORE_ROUNDS = 3, 3


@dataclasses.dataclass
class Tree:
    """One of the two brokers: its name in reports and the folder with its bench-broker."""

    name: str
    binaries: object
    load: object

    def start(self, **options):
        return Martlet(self.binaries, load=self.load, **options)


class Result:
    """The rounds of one cell. `base` and `now` have a dictionary of figures for each round."""

    def __init__(self, name, judged):
        self.name, self.judged, self.base, self.now, self.faults = name, judged, [], [], []

    def ratios(self, figure):
        """Now by base, a ratio for each round."""
        added = FIGURES[figure][2]
        return [
            (now[figure] + added) / (base[figure] + added)
            for base, now in zip(self.base, self.now)
            if base.get(figure) is not None and now.get(figure) is not None
            and base[figure] + added > 0 and now[figure] + added > 0]

    def worse(self, figure):
        """The same, turned so that more is worse."""
        ratios = self.ratios(figure)
        return ratios if FIGURES[figure][1] else [1 / ratio for ratio in ratios]

    def slower(self):
        """The judged figures that are slower than the bound beyond their spread."""
        return [
            figure for figure in FIGURES if figure in self.judged and self.worse(figure)
            and min(self.worse(figure)) > SLOWER_MAX]

    def median(self, tree, figure):
        found = [run[figure] for run in tree if run.get(figure) is not None]
        return statistics.median(found) if found else None


class Comparison:
    def __init__(self, base, now, progress):
        self.trees, self.progress, self.results = (base, now), progress, {}

    def measure(self, group, number):
        """One round of a group with both, the one that began the last round second."""
        found = {}
        for tree in self.trees if number % 2 == 0 else reversed(self.trees):
            self.progress(f"round {number + 1}, {group.name}, {tree.name}")
            try:
                found[tree.name] = group.measure(tree.start)
            except RuntimeError as error:
                found[tree.name] = {}
                fault = f"{tree.name}: {str(error).splitlines()[-1]}"
                self.result(group.name, group).faults.append(fault)
        base, now = (found[tree.name] for tree in self.trees)
        for cell in now | base:
            result = self.result(cell, group)
            result.base.append(base.get(cell, {}))
            result.now.append(now.get(cell, {}))

    def result(self, cell, group):
        return self.results.setdefault(cell, Result(cell, group.judged))

    def run(self, groups, rounds=ROUNDS, seconds=None):
        """All groups in every round; then more rounds of those with a cell that looks slower, as long
        as there is time."""
        began, owner = time.monotonic(), {}

        def has_time():
            return seconds is None or time.monotonic() - began < seconds

        for number in range(rounds):
            for group in groups:
                if number >= (group.rounds or rounds) or not has_time():
                    continue
                known = set(self.results)
                self.measure(group, number)
                owner |= {cell: group for cell in set(self.results) - known}
        if rounds < ROUNDS:
            return
        doubtful = {owner[cell].name: owner[cell] for cell, result in self.results.items()
                    if result.slower() and not owner[cell].rounds}
        for number in range(rounds, rounds + MORE_ROUNDS):
            for group in doubtful.values():
                if has_time():
                    self.measure(group, number)

    # What is said.

    def table(self):
        """A row for each cell: the ratio of each figure with its spread."""
        head = ["cell, now / base"] + [FIGURES[figure][0] for figure in FIGURES] + ["rounds", ""]
        rows = []
        for result in self.results.values():
            if not result.base:
                continue
            rows.append(
                [result.name] + [self.ratio(result, figure) for figure in FIGURES]
                + [len(result.base), "slower" if result.slower() else ""])
        return aligned(head, rows)

    def ratio(self, result, figure):
        ratios = result.ratios(figure)
        if not ratios:
            only = result.median(result.now, figure)
            return "" if only is None else f"({number_text(only)})"
        text = f"{statistics.median(ratios):.2f}"
        return text + (f" {min(ratios):.2f}–{max(ratios):.2f}" if len(ratios) > 1 else "")

    def figures_table(self):
        """The medians of both, a row for each cell."""
        head = ["cell, base → now"] + [FIGURES[figure][0] for figure in FIGURES]
        rows = []
        for result in self.results.values():
            row = [result.name]
            for figure in FIGURES:
                pair = [result.median(tree, figure) for tree in (result.base, result.now)]
                row.append("" if pair == [None, None] else " → ".join(
                    "–" if value is None else number_text(value) for value in pair))
            if result.base:
                rows.append(row)
        return aligned(head, rows)

    def slower(self):
        """A line for each figure that is slower."""
        lines = []
        for result in self.results.values():
            for figure in result.slower():
                worse = result.worse(figure)
                pair = [number_text(result.median(tree, figure))
                        for tree in (result.base, result.now)]
                lines.append(
                    f"{result.name}: {FIGURES[figure][0]} {pair[0]} → {pair[1]}, "
                    f"{statistics.median(worse):.2f}× ({min(worse):.2f}–{max(worse):.2f}) slower")
        return lines

    def verdicts(self, base):
        """For a report: see goals.py."""
        slower = self.slower()
        worst = max((
            statistics.median(result.worse(figure)) for result in self.results.values()
            for figure in result.slower()), default=0)
        text = f"{len(slower)} figures of {len(self.results)} cells are slower than {base}"
        return [{
            "what": f"figures slower than at {base}", "wanted": "none", "goal": "base",
            "reached": text if slower else f"none of {len(self.results)} cells", "note": "",
            "is_good": self.is_good(), "excess": worst}]

    def faults(self):
        """What could not be measured, once for each; the base's own do not count against the tree."""
        return sorted({
            f"{result.name}: {fault}" for result in self.results.values() for fault in result.faults})

    def is_good(self):
        now = self.trees[1].name
        broken = [fault for fault in self.faults() if f": {now}: " in fault]
        return not self.slower() and not broken


def number_text(value):
    return f"{value:,.0f}" if abs(value) >= 100 or value == 0 else f"{value:.3g}"


def aligned(head, rows):
    """Markdown whose columns stand below each other in a terminal too; empty columns are left out."""
    kept = [index for index in range(len(head))
            if index == 0 or any(str(row[index]) for row in rows)]
    lines = [[str(row[index]) for index in kept] for row in [head, *rows]]
    widths = [max(len(line[index]) for line in lines) for index in range(len(kept))]
    text = [
        "| " + " | ".join(
            field.ljust(width) if index == 0 else field.rjust(width)
            for index, (field, width) in enumerate(zip(line, widths))) + " |" for line in lines]
    rule = "| " + " | ".join(
        "-" * width if index == 0 else "-" * (width - 1) + ":"
        for index, width in enumerate(widths)) + " |"
    return [text[0], rule, *text[1:]]
