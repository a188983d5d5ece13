# SPDX-License-Identifier: Apache-2.0
"""The tables of the article WireProtocol, made from the description. The prose around them is written by hand.

- The table below a line that begins with `### ` or `**` and names a frame (`0x16 CONFIRMED`) has the frame's fields. Where the
  line names several frames, their tables follow in order; a frame without fields has none, and equal frames have one.
- A paragraph that begins so and goes on with a colon (`**0x62 GROUP**:`) has the fields in one sentence, and nothing else.
- Both hold for groups of fields too (`*A fanout*`, `*A project*:`). Such a group is named where it occurs; the fields of others
  stand in their place.
- In a table of frames, the columns `body`, `answer` and `from`."""

import re
import textwrap
from dataclasses import replace

WIDTH = 118
TYPES = {"version": "u8", "flag": "u8", "error word": "u16", "instant": "i64", "day": "u32", "project": "u32", "part": "u32", "rate": "u32",
         "milliseconds": "u32", "bytes": "n × u8"}
HEAD = "| field | type | |"


def wrap(text):
    """Lines that do not break within code."""
    whole = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(whole, WIDTH, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


class Article:
    def __init__(self, description, text):
        self.description, self.lines = description, text.splitlines()
        self.named = {group.name for line in self.lines if (group := self.title(line))}
        self.shown = set()

    def title(self, line):
        """The group that a line begins with."""
        found = re.match(r"\*([A-Z][^*]*)\*", line)
        return found and self.description.groups.get(found[1][0].lower() + found[1][1:])

    def titles(self, line):
        """The frames with fields that a line is about; equal ones once."""
        frames = []
        for number, name in re.findall(r"0x([0-9A-F]{2}) (\w+)", line):
            frame = self.frame(int(number, 16), name, "role 6" in line)
            if all(other.fields != frame.fields for other in frames):
                frames.append(frame)
            self.shown.add(frame.name)
        return [frame for frame in frames if frame.fields]

    def frame(self, number, name, is_node=False):
        frames = [f for f in self.description.frames if (f.number, f.name) == (number, name)]
        return frames[-1 if is_node else 0]

    # Cells

    def bare(self, kind):
        """The type of one value, as the article writes it."""
        return "u8" if kind.base in self.description.choices else TYPES.get(kind.base, kind.base)

    def type(self, kind, joint=" · "):
        if kind.is_frame:
            return f"as {kind.base}"
        if group := self.description.groups.get(kind.base):
            if not kind.is_list:
                return kind.base
            if kind.base in self.named:
                return f"`u16` n{joint}`n ×` {kind.base}"
            inner = ", ".join(each.type.base if each.type.base in self.named else f"{self.bare(each.type)} {each.name}"
                              for each in self.flat(group.fields))
            return f"`u16` n{joint}`n × ({inner})`"
        if kind.is_list or kind.base == "bytes":
            return f"`u16` n{joint}`{'n × ' * kind.is_list}{self.bare(kind)}`"
        return self.bare(kind) if " " in self.bare(kind) else f"`{self.bare(kind)}`"

    def text(self, each):
        choice = self.description.choices.get(each.type.base)
        values = choice.text.split(" · ") if choice and " · " in choice.text else []
        values = " · ".join(value for value in values if not value.startswith(f"{each.type.refused} "))
        if each.type.base == "flag" and not each.text:
            return f"1 if {each.name}"
        return "; ".join(part for part in (values, each.text) if part)

    def flat(self, fields):
        """The fields, with those of groups that have no table of their own."""
        for each in fields:
            group = self.description.groups.get(each.type.base)
            if group and not each.type.is_list and group.name not in self.named:
                yield from (replace(inner, condition=each.condition or inner.condition) for inner in self.flat(group.fields))
            elif each.type.base != "end":
                yield each

    def table(self, layout):
        rows, condition = [HEAD, "| --- | --- | --- |"], ()
        if getattr(layout, "has_correlation", False):
            rows.append("| correlation | `u32` | |")
        for each in self.flat(layout.fields):
            if each.condition != condition:
                condition = each.condition
                rows.append(f"| *{' '.join(map(str, condition))}:* | | |")
            if each.type.is_frame:
                rows.append(f"| {each.type.base}'s fields | | |")
            else:
                text = self.text(each)
                rows.append(f"| {each.name} | {self.type(each.type)} | {text + ' ' if text else ''}|")
        return rows

    def body(self, layout, after_correlation=False, joint=", "):
        """The fields of a frame or of a group in one sentence."""
        out = ["`u32` correlation"] if getattr(layout, "has_correlation", False) and not after_correlation else []
        for each in self.flat(layout.fields):
            if each.type.is_frame:
                out.append(f"then as {each.type.base}")
                continue
            text = f" ({self.text(each)})" if self.text(each) else ""
            is_group = each.type.base in self.description.groups
            out.append(self.type(each.type, joint) + " " * (not is_group) + each.name * (not is_group) + text)
        return joint.join(out)

    def answer(self, frame):
        """The numbers of the answers, and DONE by its name too."""
        names = [self.description.frame(name) for name in frame.answers]
        return ", ".join(f"0x{each.number:02X}" + " DONE" * (each.name == "DONE") for each in names)

    # The article

    def made(self):
        """The article with its tables made anew."""
        out, titles, heads, index = [], [], [], 0
        begun = re.compile(r"(?:\*\*0x.. \w+\*\*|\*[A-Z][^*]*\*)(?: \([^)]*\))?: ")
        while index < len(self.lines):
            line = self.lines[index]
            if line.startswith(("### ", "**0x")):
                titles = self.titles(line)
            elif group := self.title(line):
                titles = [group]
            if (found := begun.match(line)) and titles and not out[-1]:
                while index < len(self.lines) and self.lines[index]:
                    index += 1
                text = found[0] + self.body(titles.pop(0), joint=" · ") + "."
                out += wrap(text)
                continue
            if line == HEAD and titles:
                while index < len(self.lines) and self.lines[index].startswith("|"):
                    index += 1
                out += self.table(titles.pop(0))
                continue
            if line.startswith("| ") and not out[-1].startswith("|"):
                heads = [cell.strip() for cell in line.strip("|").split("|")]
            if found := re.match(r"\| 0x([0-9A-F]{2}) (\w+) \|", line):
                line = self.row(heads, self.frame(int(found[1], 16), found[2]), line)
            out.append(line)
            index += 1
        return "\n".join(out) + "\n"

    def row(self, heads, frame, line):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for index, head in enumerate(heads):
            if head.startswith("body") and cells[index] != "below":
                cells[index] = self.body(frame, "correlation" in head)
                self.shown.add(frame.name)
            elif head == "from":
                senders = [side for sides in frame.senders for side in sides]
                cells[index] = senders[0] if len(senders) == 1 else "either side"
            elif head == "answer":
                cells[index] = self.answer(frame)
        return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"

    def missing(self):
        """The frames that the article does not show."""
        return [frame.name for frame in self.description.frames if frame.name not in self.shown]
