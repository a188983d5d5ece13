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


def audience(binaries, here, quick, progress, report):
    sizes = [1_000_000, 10_000_000] + ([] if quick else [100_000_000])
    out = []
    roaring = interpreter(here, progress)
    for number, size in enumerate(sizes):
        progress(number + 1, len(sizes), f"conditions over {size:,} instances")
        compared = {}
        with Folder() as folder:
            command = [f"{binaries}/bench-store", "audience", f"{folder}/data", size]
            is_compared = roaring and size == 10_000_000
            found = lines(command + (["dump"] if is_compared else []))
            if is_compared:
                compared = {
                    line["kind"]: line for line in lines(
                        [roaring[0], pathlib.Path(here) / "Harness" / "roaring.py",
                         f"{folder}/data"])}
        machine = found[0]
        out += [
            f"**{size:,} instances**, warm, {machine['level']}; this core reads "
            f"{machine['gigabytesPerSecond']:.1f} GB/s", "",
            "| topics | matches | count, ms | recipients built, ms | ns per block | CRoaring, ms | × |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
        for line in found[1:]:
            kind, other = line["kind"], compared.get(line["kind"])
            if other and other["matches"] != line["matches"]:
                raise RuntimeError(f"CRoaring counts {other['matches']} for '{kind}'")
            ratio = other["milliseconds"] / line["countMilliseconds"] if other else None
            out.append(
                f"| {kind} | {line['matches']:,} | {line['countMilliseconds']:.3f} | "
                f"{line['buildMilliseconds']:.3f} | {line['nanosecondsPerBlock']:.0f} | "
                + (f"{other['milliseconds']:.3f} | {ratio:.2f} |" if other else "– | – |"))
            if size != 10_000_000:
                continue
            limit = {"3": 0.2, "5": 0.4}.get(kind.split()[0])
            if limit:
                report.verdict(
                    f"audience at 10 M, {kind}", f"< {limit} ms",
                    f"{line['countMilliseconds']:.3f} ms", line["countMilliseconds"] < limit)
            if other:
                least = 0.5 if "sparse" in kind else 0.9 if kind == "2 dense" else \
                    8 if "mixed" in kind else None
                if least:
                    report.verdict(
                        f"audience against CRoaring {roaring[1]}, {kind}", f"≥ {least}×",
                        f"{ratio:.2f}×", ratio >= least)
        out.append("")
    report.section("Audience of a condition, from LMDB", "\n".join(out))
