# SPDX-License-Identifier: Apache-2.0
#
# What a run leaves behind: a Markdown report with a verdict on every figure that was set, the raw
# runs as TSV, and plots. Rests on svg.py.

import datetime
import os
import pathlib
import platform
import subprocess

import svg
from fanout import Cell

COLUMNS = [
    "deliveriesPerSecond", "serverNanoseconds", "generatorNanoseconds", "serverLoad",
    "generatorLoad", "first", "median", "p99", "last", "lastP99", "idleBytes", "seconds",
    "messages", "deliveries"]


class Report:
    def __init__(self, folder, root):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.raw = open(self.folder / "raw.tsv", "w", buffering=1)
        self.raw.write("\t".join(
            ["section", "server", "subscribers", "payload", "outstanding", "rate", "run", "fault"]
            + COLUMNS) + "\n")
        self.sections = []
        self.verdicts = []

    def record(self, section):
        def write(server, cell, run, figures):
            self.raw.write("\t".join(str(field) for field in [
                section, server, cell.subscribers, cell.payload, cell.outstanding, cell.rate, run,
                figures.get("fault", "")] + [figures.get(name, "") for name in COLUMNS]) + "\n")
        return write

    def verdict(self, what, wanted, reached, is_good):
        """is_good None: not measured."""
        self.verdicts.append((what, wanted, reached, is_good))

    def section(self, title, text):
        self.sections.append((title, text))
        self.write()

    # What the header says.

    def machine(self):
        def output(*command):
            try:
                return subprocess.run(
                    command, capture_output=True, text=True, cwd=self.root).stdout.strip()
            except OSError:
                return ""
        model = ""
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
        memory = int(open("/proc/meminfo").readline().split()[1]) // 1024 // 1024
        commit = output("git", "rev-parse", "--short", "HEAD") or "unknown"
        if output("git", "status", "--porcelain", "--untracked-files=no"):
            commit += " with changes"
        return [
            f"- {datetime.datetime.now().astimezone():%Y-%m-%d %H:%M %Z}, commit {commit}",
            f"- {os.cpu_count()} × {model}, {memory + 1} GiB, Linux {platform.release()}",
            f"- load average at the end: {os.getloadavg()[0]:.1f} (the run itself makes 1–2)"]

    def write(self):
        lines = ["# Martlet's benchmark report", ""] + self.machine() + [""]
        if self.verdicts:
            lines += ["## The figures", "", "| what | at least | measured | |", "| --- | --- | --- | --- |"]
            for what, wanted, reached, good in self.verdicts:
                mark = {True: "reached", False: "**not reached**", None: "not measured"}[good]
                lines.append(f"| {what} | {wanted} | {reached} | {mark} |")
            lines.append("")
        for title, text in self.sections:
            lines += [f"## {title}", "", text, ""]
        (self.folder / "report.md").write_text("\n".join(lines))

    # The fanout.

    def fanout(self, title, results, kinds, name):
        names = [kind.name for kind in kinds]
        cells = sorted(
            {cell for _, cell in results},
            key=lambda c: (c.subscribers, c.payload, c.outstanding, c.rate))
        lines = []
        tables = [
            ("Server CPU per delivery, ns", "serverNanoseconds", "{:,.0f}"),
            ("Deliveries per second, thousands", "deliveriesPerSecond", None),
            ("Publish → first / median / p99 / last delivery, ms", None, None)]
        for heading, key, form in tables:
            lines += [f"**{heading}**", "", "| cell | " + " | ".join(names) + " |",
                      "| --- |" + " ---: |" * len(names)]
            for cell in cells:
                row = []
                for server in names:
                    figures = results.get((server, cell), {"fault": ""})
                    if "fault" in figures:
                        row.append("–")
                    elif key is None:
                        row.append(" / ".join(
                            milliseconds(figures[part])
                            for part in ["first", "median", "p99", "last"]))
                    elif form:
                        row.append(form.format(figures[key]))
                    else:
                        row.append(f"{figures[key] / 1000:,.0f}")
                lines.append(f"| {cell.text} | " + " | ".join(row) + " |")
            lines.append("")
        faults = sorted({
            f"- {server}, {cell.text}: {figures['fault']}"
            for (server, cell), figures in results.items() if figures.get("fault")})
        if faults:
            lines += ["Not measured:", ""] + faults + [""]
        large = [cell for cell in cells if cell.payload == 128 and not cell.rate]
        if large:
            drawing = svg.bars(
                "Server CPU per delivery, 128 B", "ns, logarithmic; less is better",
                [f"N={c.subscribers} W={c.outstanding}" for c in large],
                [(server, [results.get((server, c), {}).get("serverNanoseconds") for c in large])
                 for server in names])
            (self.folder / f"{name}.svg").write_text(drawing)
            lines += [f"![Server CPU per delivery]({name}.svg)", ""]
        self.section(title, "\n".join(lines))

    def idle(self, results, kinds):
        lines = ["| server | bytes of user-space memory per idle connection |", "| --- | ---: |"]
        for kind in kinds:
            found = [
                figures["idleBytes"] for (server, cell), figures in results.items()
                if server == kind.name and cell.subscribers == 10000 and "fault" not in figures]
            if found:
                lines.append(f"| {kind.name} | {sorted(found)[len(found) // 2]:,.0f} |")
        lines += ["", "Martlet's devices were registered meanwhile; the figure of devices that only "
                  "connect is under *Idle connections*."]
        self.section("Memory per idle connection, N=10000", "\n".join(lines))

    def judge_fanout(self, results):
        def cpu(server, cell):
            return results.get((server, cell), {}).get("serverNanoseconds")

        def figures(server, cell, key):
            return results.get((server, cell), {}).get(key)

        cells = sorted(
            {cell for _, cell in results},
            key=lambda c: (c.subscribers, c.payload, c.outstanding))
        for cell in cells:
            mine, floor = cpu("Martlet", cell), cpu("kernel floor", cell)
            if cell.subscribers >= 1000 and mine and floor:
                limit = 1.35 if cell.outstanding == 1 else 2
                self.verdict(
                    f"CPU against the kernel floor, {cell.text}", f"≤ {limit}×",
                    f"{mine / floor:.2f}×", mine / floor <= limit)
            redis = cpu("Redis", cell)
            if cell.payload == 128 and cell.subscribers >= 1000 and mine and redis:
                limit = {1: 1.2, 16: 1.5, 256: 4}[cell.outstanding]
                self.verdict(
                    f"CPU against Redis, {cell.text}", f"≥ {limit}× less", f"{redis / mine:.2f}×",
                    redis / mine >= limit)
                rate = figures("Martlet", cell, "deliveriesPerSecond")
                other = figures("Redis", cell, "deliveriesPerSecond")
                self.verdict(
                    f"deliveries/s against Redis, {cell.text}", "≥ 1×", f"{rate / other:.2f}×",
                    rate >= other)
            for peer in ["NATS", "Mosquitto QoS 0"]:
                other = cpu(peer, cell)
                if mine and other:
                    self.verdict(
                        f"CPU against {peer}, {cell.text}", "≥ 2.5× less", f"{other / mine:.2f}×",
                        other / mine >= 2.5)
            durable, other = cpu("Martlet durable", cell), cpu("Mosquitto QoS 1", cell)
            if mine and durable:
                self.verdict(
                    f"durable against TTL 0, {cell.text}", "≤ 2.5×", f"{durable / mine:.2f}×",
                    durable / mine <= 2.5)
            if durable and other:
                self.verdict(
                    f"durable, CPU against Mosquitto QoS 1, {cell.text}", "≥ 2.5× less",
                    f"{other / durable:.2f}×", other / durable >= 2.5)

    def judge_equal_load(self, results):
        for (server, cell), mine in results.items():
            redis = results.get(("Redis", cell))
            if server != "Martlet" or not redis or "fault" in mine or "fault" in redis:
                continue
            self.verdict(
                f"p99 at equal load against Redis, {cell.text}", "≤ 1×",
                f"{mine['p99'] / redis['p99']:.2f}×", mine["p99"] <= redis["p99"])


def milliseconds(microseconds):
    value = microseconds / 1000
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


__all__ = ["Report", "Cell"]
