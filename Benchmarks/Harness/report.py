# SPDX-License-Identifier: Apache-2.0
#
# What a run leaves behind: a Markdown report with a verdict on every figure that was set, the raw
# runs as TSV, and plots. It is written anew after every section, so that a run which is ended leaves
# what it has. Rests on goals.py and reasons.py.

import dataclasses
import datetime
import os
import pathlib
import platform

import goals
import reasons
import tools

COLUMNS = [
    "deliveriesPerSecond", "serverNanoseconds", "generatorNanoseconds", "serverLoad",
    "generatorLoad", "first", "median", "p99", "p999", "last", "lastP99", "bytesEach", "idleBytes",
    "seconds", "messages", "deliveries"]


@dataclasses.dataclass
class Verdict:
    """A figure that was set. `is_good` None: not measured. `note`: what the same run says of it.
    `goal`: its row in goals.py; `excess`: by how many times it is over its limit."""

    what: str
    wanted: str
    reached: str
    is_good: bool | None
    note: str = ""
    goal: str = ""
    excess: float = 0


class Report:
    def __init__(self, folder, root, command=""):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.command = command
        self.began = datetime.datetime.now().astimezone()
        self.raw = self.tsv("raw.tsv", [
            "section", "server", "subscribers", "payload", "outstanding", "rate", "run", "fault",
            *COLUMNS])
        self.other = self.tsv("figures.tsv", ["section", "what", "server", "run", "figure", "value"])
        self.sections = []
        self.verdicts = []
        self.comparisons = []
        self.failures = []
        self.headline = []

    # Raw figures.

    def tsv(self, name, columns):
        file = open(self.folder / name, "w", buffering=1)
        file.write("\t".join(columns) + "\n")
        return file

    def record(self, section):
        def write(server, cell, run, figures):
            self.raw.write("\t".join(str(field) for field in [
                section, server, cell.subscribers, cell.payload, cell.outstanding, cell.rate, run,
                figures.get("fault", "")] + [figures.get(name, "") for name in COLUMNS]) + "\n")
        return write

    def figures(self, section, what, server, run, figures):
        """One run of anything but a fanout, a line for each figure."""
        for name, value in figures.items():
            if isinstance(value, (int, float)):
                self.other.write(f"{section}\t{what}\t{server}\t{run}\t{name}\t{value}\n")

    # What is said of them.

    def verdict(self, what, wanted, reached, is_good, note="", goal="", excess=0.0):
        self.verdicts.append(Verdict(what, wanted, reached, is_good, note, goal, excess))

    def at_most(self, what, value, limit, form, goal, note="", wanted=""):
        """A figure with an upper bound; `form` says how both are told."""
        self.verdict(
            what, wanted or "≤ " + form.format(limit), form.format(value), value <= limit, note, goal,
            value / limit)

    def at_least(self, what, value, limit, form, goal, note=""):
        self.verdict(
            what, "≥ " + form.format(limit), form.format(value), value >= limit, note, goal,
            limit / value if value else float("inf"))

    def compare(self, what, peer, mine, other, is_less, note=""):
        """Martlet beside a peer; `is_less`: less is better; `note`: what is to be known with it."""
        self.comparisons.append((what, peer, mine, other, is_less, note))

    def section(self, title, text):
        self.sections.append((title, text))
        self.write()

    def drawing(self, name, text):
        (self.folder / f"{name}.svg").write_text(text)

    def failed(self, section, error):
        """A section that could not be measured; the others go on."""
        lines = str(error).strip().splitlines() or [type(error).__name__]
        self.failures.append(f"{section}: {lines[-1]}")
        self.section(f"Failed: {section}", f"This section was not measured: {lines[-1]}")

    def missing(self, texts):
        if texts:
            self.section("Not installed", "\n".join(f"- {text}" for text in texts))

    # The header.

    def machine(self):
        model = ""
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
        memory = int(open("/proc/meminfo").readline().split()[1]) // 1024 // 1024
        commit = tools.commit(self.root)
        spent = (datetime.datetime.now().astimezone() - self.began).total_seconds()
        return [
            f"- {self.began:%Y-%m-%d %H:%M %Z}, commit {commit}",
            f"- {os.cpu_count()} × {model}, {memory + 1} GiB, Linux {platform.release()}",
            f"- {self.command}; {spent / 60:.1f} minutes; load average at the end "
            f"{os.getloadavg()[0]:.1f} (the run itself makes 1–2)"]

    # The parts.

    def failures_text(self):
        return ["**Sections that failed:** " + "; ".join(self.failures), ""] if self.failures else []

    def slower(self):
        """What a peer does better, by more than the noise of one in twenty."""
        out = []
        for what, peer, mine, other, is_less, note in self.comparisons:
            ratio = mine / other if is_less else other / mine if mine else 0
            if ratio > 1.05:
                out.append(
                    f"- {what}: {number(mine)}, {peer} {number(other)} ({ratio:.2f}×)"
                    + (f"; {note}" if note else ""))
        return out or ["Nothing that was compared."]

    def verdict_table(self):
        lines = ["| what | wanted | measured | |", "| --- | --- | --- | --- |"]
        for verdict in self.verdicts:
            mark = {True: "reached", False: "**not reached**", None: "not measured"}
            lines.append(
                f"| {verdict.what} | {verdict.wanted} | {verdict.reached} | "
                f"{mark[verdict.is_good]} |")
        return lines

    def write(self):
        lines = ["# Martlet's benchmark report", "", *self.machine(), "", *self.failures_text()]
        if self.verdicts:
            good = sum(verdict.is_good is True for verdict in self.verdicts)
            lines += ["## What is to be reached", "", *goals.table(self.verdicts), "",
                      "## The figures", "", f"{good} of {len(self.verdicts)} reached.", "",
                      *self.verdict_table(), "",
                      "## Not reached", "", reasons.section(self.verdicts), ""]
        if self.comparisons:
            lines += ["## Slower than a peer", "", *self.slower(), ""]
        for title, text in self.sections:
            lines += [f"## {title}", "", text, ""]
        (self.folder / "report.md").write_text("\n".join(lines))
        (self.folder / "summary.md").write_text("\n".join(self.summary()))

    def summary(self):
        """What Benchmarks/README.md shows: see publish.py."""
        good = sum(verdict.is_good is True for verdict in self.verdicts)
        return [
            *self.machine(), "", *self.headline, "", "What is to be reached:", "",
            *goals.table(self.verdicts), "", "Also in this run, with what was wanted in parentheses:", "",
            *(f"- {verdict.what}: {verdict.reached} ({verdict.wanted})"
              for verdict in self.verdicts
              if " N=" not in verdict.what and not verdict.goal), "",
            f"{good} of the {len(self.verdicts)} figures that were set are reached; the report says "
            "which are not, and why.", "",
            "Slower than a peer in this run:", "", *self.slower(), ""]


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
