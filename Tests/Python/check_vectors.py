# SPDX-License-Identifier: Apache-2.0
"""Checks Tests/Vectors against the document, without any of the Swift code.

For every vector: the field comments say what the bytes say, encoding what was decoded gives the
bytes again, every shorter frame and one with a byte too many is refused. At the end every frame of
the document has been seen. `--write HEX SENTENCE` prints a vector
for new bytes.
"""

import pathlib
import struct
import sys

import martlet

# Frames that end with a message.
OLDER_HELLO = 38  # bytes of hello-new-device.hex
WITH_REST = ("DELIVER", "SEND", "MULTICAST", "UPSTREAM", "UPSTREAM_MESSAGE", "NODE_UPSTREAM",
             "FORWARD", "BACKUP_PART", "NODE_EVENTS", "NODE_FANOUT",
             "NODE_ROW")

VECTORS = pathlib.Path(__file__).resolve().parent.parent / "Vectors"


def lines_of(frame):
    """The vector's lines, one for each field: (hex, comment)."""
    name, _, notes = martlet.decode(frame)
    lines = [(frame[:4], f"length = {len(frame) - 4}"), (frame[4:5], f"type = {name}")]
    return lines + [(raw, f"{field} = {value}") for raw, field, value in notes]


def render(frame, sentence):
    out = [f"# {line}" for line in sentence.split("\n")]
    for raw, comment in lines_of(frame):
        pieces = [raw[i:i + 16] for i in range(0, len(raw), 16)] or [b""]
        out += [piece.hex(" ").upper() for piece in pieces[:-1]]
        out.append(f"{pieces[-1].hex(' ').upper():<47}  # {comment}")
    return "\n".join(out) + "\n"


def parse(text):
    """(bytes, comments beside bytes, comments above them)"""
    frame, beside, above = b"", [], []
    for line in text.splitlines():
        code, _, comment = line.partition("#")
        if code.strip():
            frame += bytes.fromhex(code)
            if comment:
                beside.append(comment.strip())
        elif comment:
            above.append(comment.strip())
    return frame, beside, above


def refused(frame):
    try:
        martlet.decode(frame)
    except martlet.ProtocolViolation:
        return True
    return False


def with_length(body):
    return struct.pack("<I", len(body)) + body


def check(path):
    """The frame's name, or an AssertionError that says what is wrong."""
    frame, beside, above = parse(path.read_text(encoding="utf-8"))
    assert above, "a sentence is missing"
    name, values, _ = martlet.decode(frame)
    expected = [comment for _, comment in lines_of(frame)]
    assert beside == expected, f"comments: {beside} but the bytes say {expected}"
    fields = martlet.write_fields(martlet.FIELDS[name], values)
    assert frame[5:] == fields, "encoding gives other bytes"
    for count in range(1, len(frame) - 4):
        shorter = with_length(frame[4:4 + count])
        # What ends in `rest` may end at a boundary of the message's fields.
        # The HELLO of a new device may end before its credential, as from an older client.
        older = name == "HELLO" and len(shorter) == OLDER_HELLO and values["role"] == 3
        if not refused(shorter):
            assert name in WITH_REST or older, f"{count} bytes are taken for the whole frame"
    if name not in WITH_REST:
        assert refused(with_length(frame[4:] + b"\0")), "a byte too many is accepted"
    return name


def main():
    if sys.argv[1:2] == ["--write"]:
        print(render(bytes.fromhex(sys.argv[2]), sys.argv[3]), end="")
        return 0
    seen, failures = set(), 0
    paths = sorted(VECTORS.glob("*.hex"))
    for path in paths:
        try:
            seen.add(check(path))
        except (AssertionError, martlet.ProtocolViolation) as error:
            failures += 1
            print(f"{path.name}: {error}")
    missing = set(martlet.NUMBERS) - seen
    if missing:
        failures += 1
        print("no vector shows " + ", ".join(sorted(missing)))
    print(f"{len(paths)} vectors, {len(seen)} kinds of frame, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
