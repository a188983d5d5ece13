# SPDX-License-Identifier: Apache-2.0
#
# Grouped bars on a logarithmic axis, as SVG, with nothing but the standard library: a report must come
# out of a fresh machine. The colours follow the reader's light or dark mode.

import html
import math

COLOURS = {
    "kernel floor": "#8f98a3", "Martlet": "#d1495b", "Martlet durable": "#f0a35e",
    "epoll floor": "#c3c9d0", "Martlet on epoll": "#e39aa5",
    "Martlet TLS": "#a8324a", "Redis TLS": "#7fb8de", "Mosquitto QoS 0 TLS": "#a08cbf",
    "Redis": "#2e86c1", "NATS": "#2a9d6f", "Mosquitto QoS 0": "#7b5ea7",
    "Mosquitto QoS 1": "#b49bd8", "NATS JetStream": "#2a9d6f", "Mosquitto sessions": "#7b5ea7",
    "CRoaring": "#2e86c1"}

STYLE = """\
text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif;
       font-size: 12px; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.quiet { fill: #59636e }
.back { fill: #ffffff }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.minor { stroke: #eff2f5; stroke-width: 1 }
.axis { stroke: #59636e; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .quiet { fill: #9198a1 }
  .back { fill: #0d1117 }
  .grid { stroke: #3d444d }
  .minor { stroke: #1c2128 }
  .axis { stroke: #9198a1 }
}"""

LEFT, TOP, HEIGHT, RIGHT = 62, 96, 300, 16
BAR, GAP = 13, 24


class Axis:
    """From the power of ten below the least value to that above the greatest."""

    def __init__(self, values):
        self.low = math.floor(math.log10(min(values)))
        self.high = max(math.ceil(math.log10(max(values) * 1.02)), self.low + 1)

    def y(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return TOP + HEIGHT * (1 - share)

    def lines(self, right):
        for power in range(self.low, self.high + 1):
            at = self.y(10.0 ** power)
            if power < self.high:
                for step in range(2, 10):
                    minor = self.y(step * 10.0 ** power)
                    yield f'<path class="minor" d="M{LEFT} {minor:.1f}H{right}"/>'
            yield f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/>'
            yield (f'<text class="quiet" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">'
                   f'{short(10.0 ** power)}</text>')


def bars(title, unit, groups, series):
    """groups: names along the axis; series: [(name, [value or None per group])]. Empty without
    values. The axis is logarithmic, which the unit says."""
    series = [(name, column) for name, column in series if any(column)]
    values = [value for _, column in series for value in column if value]
    if not values:
        return ""
    axis = Axis(values)
    step = max(
        BAR * len(series) + GAP,
        12 + 6.6 * max(len(line) for group in groups for line in label(group)))
    legend_width = sum(30 + 7.2 * len(name) for name, _ in series)
    width = int(max(LEFT + step * len(groups), LEFT + legend_width, 480)) + RIGHT
    total = TOP + HEIGHT + 14 + 15 * max(len(label(group)) for group in groups)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total}" '
        f'width="{width}" height="{total}" role="img" aria-label="{html.escape(title)}">',
        f"<style>{STYLE}</style>",
        '<rect class="back" width="100%" height="100%"/>',
        f'<text class="title" x="{LEFT}" y="26">{html.escape(title)}</text>',
        f'<text class="quiet" x="{LEFT}" y="46">{html.escape(unit)} · logarithmic axis</text>',
        *legend(series), *axis.lines(width - RIGHT)]
    for index, group in enumerate(groups):
        x = LEFT + index * step + (step - BAR * len(series)) / 2
        out += columns(axis, x, index, group, series)
    out += [f'<path class="axis" d="M{LEFT} {TOP + HEIGHT}H{width - RIGHT}"/>', "</svg>"]
    return "\n".join(out) + "\n"


def label(group):
    """The lines of a group's name: broken before W, and after a comma."""
    return group.replace(" W=", "\nW=").replace(", ", ",\n").split("\n")


def legend(series):
    x = LEFT
    for name, _ in series:
        yield f'<rect x="{x:.0f}" y="62" width="12" height="12" rx="2" fill="{colour(name)}"/>'
        yield f'<text x="{x + 17:.0f}" y="72">{html.escape(name)}</text>'
        x += 30 + 7.2 * len(name)


def columns(axis, x, index, group, series):
    """The bars of one group and its name below them; what was not measured is a dash."""
    base = TOP + HEIGHT
    for number, (name, column) in enumerate(series):
        at, value = x + number * BAR, column[index]
        if not value:
            yield (f'<text class="quiet" x="{at + BAR / 2:.1f}" y="{base - 5}" '
                   'text-anchor="middle">–</text>')
            continue
        # A bar of the least value must still be seen.
        top = min(axis.y(value), base - 1.5)
        yield (f'<rect x="{at:.1f}" y="{top:.1f}" width="{BAR - 2}" height="{base - top:.1f}" '
               f'rx="1" fill="{colour(name)}"><title>{html.escape(group)}, {html.escape(name)}: '
               f'{value:,.4g}</title></rect>')
    for line, text in enumerate(label(group)):
        yield (f'<text class="quiet" x="{x + BAR * len(series) / 2:.1f}" y="{base + 17 + 15 * line}" '
               f'text-anchor="middle">{html.escape(text)}</text>')


def colour(name):
    return COLOURS.get(name, "#59636e")


def short(value):
    for limit, suffix in [(1e9, "G"), (1e6, "M"), (1e3, "k")]:
        if value >= limit:
            return f"{value / limit:g}{suffix}"
    return f"{value:g}"
