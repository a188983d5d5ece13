# SPDX-License-Identifier: Apache-2.0
#
# Why a figure is not reached: what dominates, what was tried, what the limit is. The texts stand in
# reasons.md, each under a heading that is a pattern (fnmatch) for the figures' names, so that whoever
# learns more writes it there and every later report says it.

import fnmatch
import pathlib

FILE = pathlib.Path(__file__).with_name("reasons.md")


def read():
    """[(pattern, text)] in the order of the file."""
    found, pattern, text = [], None, []
    for line in FILE.read_text().splitlines() + ["## "]:
        if line.startswith("## "):
            if pattern:
                found.append((pattern, " ".join(text).strip()))
            pattern, text = line[3:].strip().strip("`"), []
        elif pattern:
            text.append(line.strip())
    return found


def of(what, reasons):
    """The texts for a figure, the general ones last."""
    return [text for pattern, text in reasons if fnmatch.fnmatchcase(what, pattern)]


def section(verdicts):
    """Markdown for every figure that was measured and not reached."""
    reasons = read()
    out = []
    for verdict in verdicts:
        if verdict.is_good is not False:
            continue
        out.append(f"- **{verdict.what}**: {verdict.reached} instead of {verdict.wanted}.")
        for text in ([verdict.note] if verdict.note else []) + of(verdict.what, reasons):
            out.append(f"  {text}")
        if not verdict.note and not of(verdict.what, reasons):
            out.append("  Nothing is known about it yet.")
    return "\n".join(out) or "Every figure that was measured is reached."
