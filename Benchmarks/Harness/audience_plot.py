# SPDX-License-Identifier: Apache-2.0
#
# Audiences beside CRoaring as a plot and comparisons, from the section's own table, by the names of
# its columns. Rests on svg.py.

import svg

MINE, OTHER = "count, ms", "CRoaring, ms"
# The size that the figures are set for: the tables of the others stand in the report.
SIZE = "**10,000,000 instances**"


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def number(text):
    """Of a cell, or None."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def rows(text):
    """[(topics, ours, CRoaring's)] of every line of the 10 M table that has both."""
    found, columns, is_meant = [], None, False
    for line in text.splitlines():
        if line.startswith("**"):
            is_meant = line.startswith(SIZE)
        if not line.startswith("|"):
            columns = None
            continue
        fields = cells(line)
        if MINE in fields and OTHER in fields:
            columns = fields.index(MINE), fields.index(OTHER)
        elif is_meant and columns and len(fields) > max(columns):
            mine, other = (number(fields[column]) for column in columns)
            if mine and other:
                found.append((fields[0], mine, other))
    return found


def add(report, title):
    """Draws the section of this title, shows the plot in it, and compares."""
    texts = dict(report.sections)
    found = rows(texts.get(title, ""))
    if not found:
        return
    report.drawing("audience", svg.bars(
        "Audience of a condition over 10 million instances", "milliseconds; less is better",
        [name for name, _, _ in found],
        [("Martlet", [mine for _, mine, _ in found]),
         ("CRoaring", [other for _, _, other in found])]))
    for name, mine, other in found:
        report.compare(f"audience of 10 M, {name}, ms", "CRoaring", mine, other, True)
    texts[title] += "\n![Audience of a condition](audience.svg)\n"
    report.sections = list(texts.items())
    report.write()
