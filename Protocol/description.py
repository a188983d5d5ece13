# SPDX-License-Identifier: Apache-2.0
"""Reads `martlet.protocol`, which says itself how it is written, into frames, groups, choices and parts."""

import pathlib
import re
from dataclasses import dataclass, field

PATH = pathlib.Path(__file__).resolve().parent / "martlet.protocol"
# Bytes of the types that have always the same, without the 16 of `16 bytes`.
FIXED = {"version": 1, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "i64": 8, "flag": 1, "error word": 2, "instant": 8, "day": 4,
         "project": 4, "part": 4, "rate": 4, "milliseconds": 4}
HEAD = re.compile(r"(0x[0-9A-F]{2}) (\w+)(?: \((\w+)\))?")


@dataclass
class Type:
    """`n × BASE? or SENTINEL`, and what else a type says."""
    base: str  # one of FIXED, "str", "bytes", "rest", "end", "N bytes", or the name of a choice, a group or a FRAME
    is_list: bool = False
    is_size: bool = False  # `u16 size`
    sentinel: str = ""  # "0" or "max"
    refused: int = 0  # `but 3`
    is_optional: bool = False  # `?`
    mask: int = 0  # `if flags 2`
    is_frame: bool = False  # `as FRAME`
    name: str = ""  # of the field, for errors

    @classmethod
    def parse(cls, text):
        kind = cls("")
        if text.startswith("n × "):
            kind.is_list, text = True, text[4:]
        if text.endswith("?"):
            kind.is_optional, text = True, text[:-1]
        if found := re.fullmatch(r"(.*) if flags (\d+)", text):
            text, kind.mask = found[1], int(found[2])
        if found := re.fullmatch(r"(.*) or (0|max)", text):
            text, kind.sentinel = found[1], found[2]
        if found := re.fullmatch(r"(.*) but (\d+)", text):
            text, kind.refused = found[1], int(found[2])
        if found := re.fullmatch(r'(.*) "([^"]*)"', text):
            text, kind.name = found[1], found[2]
        if text.endswith(" size"):
            kind.is_size, text = True, text[:-5]
        if text.startswith("as "):
            kind.is_frame, text = True, text[3:]
        kind.base = text
        return kind


@dataclass
class Field:
    name: str
    code: str  # the name in code
    type: Type
    text: str
    remark: str  # what code says beside the text
    condition: tuple = ()  # (field, value)


@dataclass
class Layout:
    """A frame or a group."""
    name: str
    type: str
    notes: list
    sentences: str = ""
    fields: list = field(default_factory=list)

    def has(self, note):
        return note in self.notes


@dataclass
class Frame(Layout):
    number: int = 0
    case: str = ""  # the name in enumerations
    way: str = ""
    answers: list = field(default_factory=list)
    is_streamed: bool = False  # frames follow the answer
    part: object = None
    is_answer: bool = False  # of any request
    # Whether `u32 correlation` comes first; in `as ACCEPTED` it is a part of ACCEPTED.
    has_correlation: bool = False

    def goes(self, sides):
        """Whether one of the sides sends the frame."""
        return any(sides & set(senders) for senders in self.senders)

    @property
    def format(self):
        """The first format of links with the frame."""
        return next((int(note[5:]) for note in self.notes if note.startswith("link ")), 1)

    @property
    def senders(self):
        """The sides that send the frame, for each of its ways."""
        for way in self.way.split("; "):
            left, arrow, right = re.fullmatch(r"(.*) (→|↔) (.*)", way).groups()
            yield left.split(", ") + (right.split(", ") if arrow == "↔" else [])


@dataclass
class Choice:
    name: str
    type: str
    error: str
    text: str

    @property
    def values(self):
        """The numbers that the choice has."""
        if found := re.fullmatch(r"(\d+) to (\d+)", self.text):
            return set(range(int(found[1]), int(found[2]) + 1))
        return {int(value.split()[0]) for value in self.text.split(" · ")}


@dataclass
class Part:
    name: str
    notes: list
    text: str = ""
    members: list = field(default_factory=list)


def camel(name):
    """`stream ID` as `streamID`, `RECEIPT_ACK` as `receiptAck`."""
    words = [w.lower() for w in name.split("_")] if name.isupper() and name != "ID" else re.split(r"[ -]", name)
    return words[0].lower() + "".join(word[0].upper() + word[1:] for word in words[1:])


def columns(line):
    return re.split(r" {2,}", line.strip())


class Description:
    correlation = Field("correlation", "correlation", Type("correlation", name="correlation"), "", "")

    def __init__(self, path=PATH):
        self.frames, self.groups, self.choices, self.parts = [], {}, {}, []
        # Each entry: its head and the lines below.
        for head, *body in self.entries(path.read_text(encoding="utf-8")):
            if head.startswith("choice "):
                name, kind, values = columns(head[7:])
                kind, _, error = kind.partition(" ")
                self.choices[name] = Choice(name, kind, error.strip('"') or name, values)
            elif head.startswith("part "):
                name, *notes = columns(head[5:])
                self.parts.append(Part(name, notes, " ".join(line.strip() for line in body)))
            else:
                self.layout(head, body)
        names = {answer for frame in self.frames for answer in frame.answers}
        for frame in self.frames:
            frame.is_answer = frame.name in names
            begun = bool(frame.fields) and frame.fields[0].type.is_frame
            frame.has_correlation = (bool(frame.answers) or frame.is_answer) and not begun

    @staticmethod
    def entries(text):
        entry = []
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            if line and not line.startswith(" "):
                if entry:
                    yield entry
                entry = []
            if line or entry:
                entry.append(line)
        yield entry

    def layout(self, head, body):
        if found := HEAD.match(head):
            _, kind, way, *notes = columns(head)
            frame = Frame(found[2], kind, [note for note in notes if not note.startswith("answered")], number=int(found[1], 16),
                          case=found[3] or camel(found[2]), way=way, part=self.parts[-1])
            for note in notes:
                if note.startswith("answered by "):
                    answers, *then = note[12:].split(", then ")
                    frame.answers, frame.is_streamed = answers.split(" or "), bool(then)
            self.frames.append(frame)
            made = frame
        else:
            name, kind, *notes = columns(head)
            made = self.groups[name] = Layout(name, kind, notes)
        self.parts[-1].members.append(made)
        while body and not body[-1]:
            body.pop()
        sentences, fields = body, []
        if "" in body:
            sentences, fields = body[:body.index("")], body[body.index("") + 1:]
        elif not isinstance(made, Frame):
            sentences, fields = [], body
        made.sentences = " ".join(line.strip() for line in sentences)
        made.fields = list(self.fields(fields))

    @staticmethod
    def fields(lines):
        joined = []
        for line in lines:
            if line.startswith("     "):
                joined[-1] += " " + line.strip()
            else:
                joined.append(line)
        condition = ()
        for line in joined:
            if found := re.fullmatch(r" *if (\w+) (\d+)", line):
                condition = (found[1], int(found[2]))
                continue
            name, kind, *text = columns(line)
            if found := re.fullmatch(r"(.*) \((\w+)\)", name):
                name, code = found.groups()
            else:
                code = camel(name)
            kind = Type.parse(kind)
            kind.name = kind.name or name
            text, _, remark = "  ".join(text).partition("//")
            yield Field(name, code, kind, text.strip(), remark.strip(), condition)

    def frame(self, name):
        return next(frame for frame in self.frames if frame.name == name)

    def least(self, kind):
        """The bytes of the shortest value of a type."""
        if kind.mask or kind.base in ("end", "rest"):
            return 0
        if kind.is_list or kind.base in ("str", "bytes"):
            return 2
        if kind.base in FIXED:
            return FIXED[kind.base]
        if kind.base in self.choices:
            return 1
        if found := re.fullmatch(r"(\d+) bytes", kind.base):
            return int(found[1])
        if kind.is_frame:
            frame = self.frame(kind.base)
            return 4 * frame.has_correlation + self.least_of(frame)
        return self.least_of(self.groups[kind.base])

    def least_of(self, layout):
        """The bytes of the shortest frame, without a correlation, or of the shortest group."""
        total, choices, ended = 0, {}, False
        for each in layout.fields:
            ended = ended or each.type.base == "end"
            if each.condition:
                choices[each.condition] = choices.get(each.condition, 0) + self.least(each.type)
            elif not ended:
                total += self.least(each.type)
        return total + min(choices.values(), default=0)
