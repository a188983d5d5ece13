# SPDX-License-Identifier: Apache-2.0
"""Golden vectors, walked by the description: whether they agree, and a skeleton for a new one.

The walk needs no other code of the protocol, so it holds the frames whose codecs are written by hand to the description."""

import struct

from description import FIXED

INTEGERS = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}


class Malformed(Exception):
    """The bytes are not what the description says."""


class Walk:
    """The body of a frame, cut into the fields of its description: `notes` has the path of each by its offset."""

    def __init__(self, description, frame, body):
        self.description, self.body, self.offset, self.notes = description, body, 0, {}
        if frame.has_correlation:
            self.notes[0] = "correlation"
            if self.integer(4) == 0:
                raise Malformed("correlation 0")
        self.fields(frame.fields, "")
        if self.offset != len(body):
            raise Malformed(f"{len(body) - self.offset} bytes behind the last field")

    def take(self, count):
        self.offset += count
        if self.offset > len(self.body):
            raise Malformed(f"{self.offset - len(self.body)} bytes are missing")
        return self.body[self.offset - count:self.offset]

    def integer(self, count):
        return struct.unpack(INTEGERS[count], self.take(count))[0]

    def fields(self, fields, prefix):
        values = {}
        for each in fields:
            name, value = each.condition or ("", 0)
            if (name and values[name] != value) or (each.type.mask and not values["flags"] & each.type.mask):
                continue
            if each.type.base == "end":
                if self.offset == len(self.body):
                    return
                continue
            path = prefix + each.name
            self.notes.setdefault(self.offset, path)
            if each.type.is_list:
                for index in range(self.integer(2)):
                    self.one(each, f"{path}[{index}] ")
            else:
                values[each.name] = self.one(each, prefix)

    def one(self, each, prefix):
        kind = each.type
        if kind.is_frame:
            self.notes.pop(self.offset, None)
            frame = self.description.frame(kind.base)
            if frame.has_correlation:
                self.notes[self.offset] = "correlation"
                self.take(4)
            return self.fields(frame.fields, prefix)
        if kind.base in self.description.groups:
            self.notes.pop(self.offset, None)
            return self.fields(self.description.groups[kind.base].fields, prefix)
        if choice := self.description.choices.get(kind.base):
            value = self.integer(1)
            if value not in choice.values | ({0} if kind.sentinel else set()) or value == kind.refused != 0:
                raise Malformed(f"{each.name} {value} is no {kind.base}")
            return value
        if kind.base in FIXED:
            value = self.integer(FIXED[kind.base])
            if kind.base == "flag" and value > 1:
                raise Malformed(f"{each.name} is the flag {value}")
            return value
        if kind.base == "rest":
            # The comments of a vector go into the fields of a message.
            self.notes.pop(self.offset, None)
            return self.take(len(self.body) - self.offset)
        if kind.base == "str":
            return self.take(self.integer(2)).decode("utf-8")
        if kind.base == "bytes":
            return self.take(self.integer(2))
        return self.take(int(kind.base.split()[0]))


def parse(text):
    """The frame of a vector, and the path that its comment names by the offset of the field in the body."""
    frame, paths, start = b"", {}, 0
    for line in text.splitlines():
        code, _, comment = line.partition("#")
        frame += bytes.fromhex(code)
        if code.strip() and comment:
            paths[start - 5] = comment.split(" = ")[0].strip()
            start = len(frame)
    return frame, paths


def faults(description, folder):
    """What in the vectors of a folder the description does not say, as sentences."""
    shown = set()
    for path in sorted(folder.glob("*.hex")):
        frame, paths = parse(path.read_text(encoding="utf-8"))
        is_node = path.name.startswith("node-hello")
        one = next((f for f in description.frames
                    if f.number == frame[4] and f.goes({"node"}) >= is_node), None)
        if not one:
            yield f"{path.name}: no frame has the number {frame[4]:#x}"
            continue
        shown.add(one.type)
        try:
            notes = Walk(description, one, frame[5:]).notes
        except Malformed as fault:
            yield f"{path.name}: {fault}"
            continue
        for offset, said in paths.items():
            if offset >= 0 and notes.get(offset, said) != said:
                yield f"{path.name}: {said} is {notes[offset]} in the description"
    for one in description.frames:
        if one.type not in shown:
            yield f"{one.name}: no vector shows it"


def skeleton(description, frame):
    """A vector of a frame whose fields are 0 or empty, and lists have one entry: to be filled in."""
    lines = ["# What the frame says, in a sentence."]

    def line(count, comment):
        lines.append(f"{' '.join(['00'] * count):<47}  # {comment}")

    def begin(frame):
        if frame.has_correlation:
            lines.append(f"{'01 00 00 00':<47}  # correlation = 1")

    def fields(several, prefix):
        for each in several:
            if each.condition:
                lines.append(f"# if {each.condition[0]} = {each.condition[1]}:")
            if each.type.base == "end":
                lines.append("# The frame may end here.")
            elif each.type.mask:
                lines.append(f"# if flags {each.type.mask}: {each.name}")
            elif each.type.is_list:
                lines.append(f"{'01 00':<47}  # {prefix}{each.name} = 1")
                one(each, f"{prefix}{each.name}[0] ", True)
            else:
                one(each, prefix, False)

    def one(each, prefix, is_element):
        kind = each.type
        if kind.is_frame:
            begin(description.frame(kind.base))
            fields(description.frame(kind.base).fields, prefix)
        elif kind.base in description.groups:
            fields(description.groups[kind.base].fields, prefix)
        elif kind.base == "rest":
            lines.append(f"# {prefix}{each.name}")
        else:
            name = each.name.removesuffix("s") if is_element else each.name
            kind.is_list, before = False, kind.is_list
            line(description.least(kind), f"{prefix}{name} =")
            kind.is_list = before

    begin(frame)
    fields(frame.fields, "")
    count = 1 + sum(len(bytes.fromhex(each.partition("#")[0])) for each in lines)
    lines[1:1] = [f"{struct.pack('<I', count).hex(' ').upper():<47}  # length = {count}",
                  f"{frame.number:02X}{'':<45}  # type = {frame.name}"]
    return "\n".join(lines) + "\n"
