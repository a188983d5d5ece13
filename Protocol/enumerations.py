# SPDX-License-Identifier: Apache-2.0
"""The Swift enumerations of all frames: their types, and the frames of each side as one value."""

import textwrap

from swift import CODE, HEADER, Swift

TYPES = """// Numbers of the frame types, as in the document WireProtocol, and the list of requests. A number is part of the
// protocol and is never reused."""
REQUESTS = """extension FrameType {
    /// All requests of senders and administrators that have one answer, of one type.
    package static let requests: [any WireRequest.Type] = ["""
# Between the switch that encodes and the one that decodes.
DECODING = """
    /// Decodes the body of a frame of type `number`.
{throws}
    {level}static func decode(
        type number: UInt8, body: UnsafeRawBufferPointer
    ) throws(WireError) -> Self {{
        guard let type = FrameType(rawValue: number) else {{ throw .unknownFrameType(number) }}
        var reader = WireReader(body)
        let frame = try decode(type, from: &reader)
        try reader.finish()
        return frame
    }}

    /// Decodes the body of a frame of type `number`, for callers without pointers.
    {level}static func decode(type number: UInt8, body: RawSpan) throws(WireError) -> Self {{
        try body.withUnsafeBytes {{ (bytes) throws(WireError) in
            try decode(type: number, body: bytes)
        }}
    }}

    private static func decode(
        _ type: FrameType, from reader: inout WireReader
    ) throws(WireError) -> Self {{
        switch type {{"""


def types(description):
    """`FrameType`."""
    cases = {frame.name: f"    case {frame.case} = 0x{frame.number:02X}" for frame in description.frames}
    requests = sorted({frame.type for frame in description.frames if Swift(description).is_request(frame)})
    return "\n".join([
        HEADER.format(TYPES), "/// Type of a frame: the byte after the length field.",
        "public enum FrameType: UInt8, Sendable, CaseIterable, Hashable {", *cases.values(), "}", "", REQUESTS,
        *textwrap.wrap(", ".join(f"{name}.self" for name in requests) + ",", CODE, initial_indent=" " * 8,
                       subsequent_indent=" " * 8), "    ]", "}", ""])


class Enumeration:
    """The frames that some sides send. Requests, or answers to requests alone, share a case, which holds any of them."""

    def __init__(self, description, name, level, sides, shared=""):
        self.description, self.swift = description, Swift(description)
        self.name, self.level, self.shared = name, level, shared
        self.own, self.boxed = {}, []
        for frame in description.frames:
            if frame.goes(sides):
                if self.is_boxed(frame):
                    self.boxed.append(frame)
                else:
                    self.own.setdefault(self.case(frame), []).append(frame)
        self.cases = [shared] * bool(shared) + list(self.own)

    def is_boxed(self, frame):
        return {"request": self.swift.is_request, "answer": self.swift.is_only_answer}.get(self.shared, lambda _: False)(frame)

    @property
    def box(self):
        return {"request": "RequestFrame", "answer": "AnswerFrame"}[self.shared]

    def case(self, frame):
        if self.swift.is_shared(frame):
            name = frame.type.removesuffix("Request")
            return name[0].lower() + name[1:]
        name = frame.case.removeprefix("node")
        return name[0].lower() + name[1:]

    def text(self, what, whose, who):
        """The file: one value for every frame type that `what`; a frame `whose`; decoding fails if `who` sends no such."""
        lines = [HEADER.format(f"// `{self.name}`: one value for every frame type that {what}."), f"/// A frame {whose}.",
                 f"{self.level}enum {self.name}: Sendable, Hashable {{"]
        if self.shared:
            lines += [{"request": "    /// A request of a sender or an administrator that has one answer, of one type.",
                       "answer": "    /// An answer to a `RequestFrame`."}[self.shared], f"    case {self.shared}({self.box})"]
        lines += [f"    case {case}({frames[0].type})" for case, frames in self.own.items()]
        lines += ["", "    package var type: FrameType {", *self.switch("type")]
        if self.shared:
            lines += ["", "    /// Number that ties an answer to its request; nil for frames without a correlation.",
                      f"    {self.level}var correlation: UInt32? {{", *self.switch("correlation", self.uncorrelated)]
        lines += ["", "    /// Appends the whole frame to the writer: length, type and body.",
                  f"    {self.level}func encode(into writer: inout WireWriter) {{", *self.switch("encode(into: &writer)")]
        throws = self.swift.comment(f"- Throws: `WireError` if {who} sends no frame of type `number`, or if the body is"
                                    " malformed, too short or too long for the type.", 4)
        lines += [DECODING.format(level=self.level, throws="\n".join(throws)), *self.decoding(), "        }", "    }", "}", ""]
        return "\n".join(lines)

    @property
    def uncorrelated(self):
        """The cases of frames without a correlation."""
        return [case for case, (frame, *_) in self.own.items()
                if not (frame.answers or frame.is_answer or any(each.code == "correlation" for each in frame.fields))]

    def switch(self, member, without=()):
        """A switch that asks each frame for a member, and its function's end."""
        lines = ["        switch self {"]
        if without:
            lines += [*self.list(without), "            nil"]
        for case in self.cases:
            if case not in without:
                lines.append(f"        case .{case}(let frame): {'frame.value' if case == self.shared else 'frame'}.{member}")
        return lines + ["        }", "    }"]

    def decoding(self):
        """The cases of the switch that decodes, by the frame's type."""
        lines = []
        for case, frames in self.own.items():
            for frame in frames:
                type = f".{frame.case}, " if len(frames) > 1 else ""
                tries = "try " if frame.fields or frame.has_correlation else ""
                lines.append(f"        case .{frame.case}: .{case}({tries}{frame.type}({type}from: &reader))")
        for frame in self.boxed:
            head, value = f"        case .{frame.case}:", f".{self.shared}({self.box}(try {frame.type}(from: &reader)))"
            lines += [f"{head} {value}"] if len(head) + 1 + len(value) <= CODE else [head, " " * 12 + value]
        mine = {frame.case for frames in self.own.values() for frame in frames} | {frame.case for frame in self.boxed}
        others = dict.fromkeys(frame.case for frame in self.description.frames if frame.case not in mine)
        return lines + [*self.list(others), "            throw .unexpectedFrame(type)"]

    @staticmethod
    def list(cases):
        names = textwrap.wrap(", ".join("." + case for case in cases), CODE - 13, break_long_words=False)
        return ("        case " + ("\n" + " " * 12).join(names) + ":").split("\n")


def files(description):
    """Each file by its name."""
    return {
        "FrameType.swift": types(description),
        "ClientFrame.swift": Enumeration(
            description, "ClientFrame", "public ", {"client", "device", "sender", "administrator"}, "request").text(
                "a client sends to the broker. The codec accepts all of them;\n// the broker decides whether the"
                " connection's role and state allow a frame", "from a client to the broker", "a client"),
        "BrokerFrame.swift": Enumeration(description, "BrokerFrame", "public ", {"broker"}, "answer").text(
            "the broker sends to a client", "from the broker to a client", "the broker"),
        "NodeFrame.swift": Enumeration(description, "NodeFrame", "package ", {"node", "active node", "follower"}).text(
            "a node sends to another", "of a link between two nodes", "a node")}
