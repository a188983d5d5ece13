# SPDX-License-Identifier: Apache-2.0
#
# The audience of conditions, from LMDB, beside CRoaring where a network or a cache has it. Rests on
# bench-store and roaring.py.

import pathlib
import subprocess
import sys

from tools import Folder, lines


def interpreter(here, progress):
    """A Python that has pyroaring, made on first use; None without a network."""
    folder = pathlib.Path(here) / ".venv"
    python = folder / "bin" / "python"
    if not python.exists():
        progress(0, 1, "fetching pyroaring")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True)
    check = [str(python), "-c", "import pyroaring; print(pyroaring.__croaring_version__)"]
    try:
        done = subprocess.run(check, capture_output=True, text=True)
        if done.returncode != 0:
            subprocess.run(
                [str(python), "-m", "pip", "install", "-q", "pyroaring"], capture_output=True)
            done = subprocess.run(check, capture_output=True, text=True)
        return (str(python), done.stdout.strip()) if done.returncode == 0 else None
    except OSError:
        return None


# CRoaring's speed times this, at 10 M instances.
AGAINST_CROARING = {
    "2 dense": 0.9, "3 mixed": 8, "3 mixed, negated": 8, "5 mixed": 8, "3 sparse": 0.5,
    "3 sparse, any": 0.5, "sparse of dense": 0.5, "1 clustered": 1, "2 clustered": 1,
    "3 clustered": 1, "4 clustered": 1, "5 clustered": 1}
SETS_GOAL = ("2 dense", "clustered")


def audience(binaries, here, quick, progress, report):
    sizes = [1_000_000, 10_000_000] + ([] if quick else [100_000_000])
    out = []
    roaring = interpreter(here, progress)
    for number, size in enumerate(sizes):
        progress(number + 1, len(sizes), f"conditions over {size:,} instances")
        compared = {}
        with Folder() as folder:
            command = [f"{binaries}/bench-store", "audience", f"{folder}/data", size]
            found = lines(command + (["dump"] if roaring else []))
            if roaring:
                compared = {
                    line["kind"]: line for line in lines(
                        [roaring[0], pathlib.Path(here) / "Harness" / "roaring.py",
                         f"{folder}/data"])}
        machine = found[0]
        out += [
            f"**{size:,} instances**, warm, {machine['level']}. This core counts bits at "
            f"{machine['fromMemory']:.0f} GB/s from memory and at {machine['fromCache']:.0f} GB/s from "
            "its caches (3 MB). GB/s below is all bytes of the sets by the time of the count; a "
            "conjunction with a small set does not read them all. CRoaring counts without building "
            "the last set, or builds it; × is its time by ours.", "",
            "| topics | matches | sets, MB | count, ms | GB/s | CRoaring, ms | × | recipients built, ms"
            " | CRoaring, ms | × |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
        for line in found[1:]:
            kind, other = line["kind"], compared.get(line["kind"])
            if other and other["matches"] != line["matches"]:
                raise RuntimeError(f"CRoaring counts {other['matches']} for '{kind}'")

            def beside(name):
                if not other:
                    return "– | –"
                return f"{other[name]:.3f} | {other[name] / line[name]:.2f}"

            speed = line["setBytes"] / line["countMilliseconds"] / 1e6
            out.append(
                f"| {kind} | {line['matches']:,} | {line['setBytes'] / 1e6:.2f} | "
                f"{line['countMilliseconds']:.3f} | {speed:.1f} | {beside('countMilliseconds')} | "
                f"{line['buildMilliseconds']:.3f} | {beside('buildMilliseconds')} |")
            if size == 10_000_000:
                audience_verdicts(line, other, roaring, report)
        out.append("")
    report.section("Audience of a condition, from LMDB", "\n".join(out))


def audience_verdicts(line, other, roaring, report):
    kind = line["kind"]
    limit = {"3": 0.2, "5": 0.4}.get(kind.split()[0])
    if limit:
        report.verdict(
            f"audience at 10 M, {kind}", f"< {limit} ms", f"{line['countMilliseconds']:.3f} ms",
            line["countMilliseconds"] < limit)
    least = AGAINST_CROARING.get(kind)
    if not other or not least:
        return
    for name, told in [("countMilliseconds", "counted"), ("buildMilliseconds", "the set built")]:
        ratio = other[name] / line[name]
        report.verdict(
            f"audience against CRoaring {roaring[1]}, {told}, {kind}", f"≥ {least}×",
            f"{ratio:.2f}×", ratio >= least,
            goal="sets" if kind.endswith(SETS_GOAL) else "", excess=least / ratio)
