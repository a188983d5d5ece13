# SPDX-License-Identifier: Apache-2.0
#
# Bars on a logarithmic axis, as SVG, with nothing but the standard library: a report must come out
# of a fresh machine.

import html
import math

COLOURS = {
    "kernel floor": "#9a9a9a", "Martlet": "#c0392b", "Martlet durable": "#e59866",
    "Redis": "#2e6da4", "NATS": "#3c8d5a", "Mosquitto QoS 0": "#7d5ba6",
    "Mosquitto QoS 1": "#b59ad6"}


def bars(title, unit, groups, series):
    """groups: names along the axis; series: [(name, [value or None per group])]."""
    values = [v for _, column in series for v in column if v]
    if not values:
        return ""
    low = 10 ** math.floor(math.log10(min(values)))
    high = 10 ** math.ceil(math.log10(max(values) * 1.01))
    left, top, height, bottom = 70, 60, 300, 50
    bar = 13
    group_width = bar * len(series) + 22
    width = left + group_width * len(groups) + 20

    def y(value):
        return top + height * (1 - math.log(value / low) / math.log(high / low))

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{top + height + bottom + 24 * ((len(series) + 3) // 4)}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="24" font-size="15">{html.escape(title)}</text>',
        f'<text x="{left}" y="44" fill="#555">{html.escape(unit)}</text>']
    tick = low
    while tick <= high * 1.0001:
        out.append(
            f'<line x1="{left}" x2="{width - 10}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" '
            'stroke="#ddd"/>'
            f'<text x="{left - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{short(tick)}</text>')
        tick *= 10
    for index, group in enumerate(groups):
        x = left + 11 + index * group_width
        for number, (name, column) in enumerate(series):
            value = column[index]
            if not value:
                continue
            out.append(
                f'<rect x="{x + number * bar}" y="{y(value):.1f}" width="{bar - 2}" '
                f'height="{top + height - y(value):.1f}" fill="{COLOURS.get(name, "#444")}">'
                f'<title>{html.escape(name)}: {value:,.1f}</title></rect>')
        out.append(
            f'<text x="{x + bar * len(series) / 2}" y="{top + height + 18}" '
            f'text-anchor="middle">{html.escape(group)}</text>')
    for number, (name, _) in enumerate(series):
        x, line = left + 150 * (number % 4), top + height + 40 + 22 * (number // 4)
        out.append(
            f'<rect x="{x}" y="{line - 10}" width="11" height="11" '
            f'fill="{COLOURS.get(name, "#444")}"/>'
            f'<text x="{x + 16}" y="{line}">{html.escape(name)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def short(value):
    for limit, suffix in [(1e9, "G"), (1e6, "M"), (1e3, "k")]:
        if value >= limit:
            return f"{value / limit:g}{suffix}"
    return f"{value:g}"
