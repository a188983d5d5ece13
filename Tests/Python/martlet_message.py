# SPDX-License-Identifier: Apache-2.0
"""What a sender says and a device receives: the fields of a message and its blocks."""

import struct


class ProtocolViolation(Exception):
    """Bytes that are not a frame of the protocol."""


# tag: (name, kind). What may come more than once says "pair".
MESSAGE_TAGS = {
    1: ("title", "text"), 2: ("body", "text"), 3: ("image", "text"), 4: ("data", "pair"),
    5: ("android", "block"), 6: ("apns", "block"), 7: ("webpush", "block"),
    8: ("opaque", "bytes"),
    16: ("time to live", "<I"), 17: ("expiration", "<q"), 18: ("priority", "<B"),
    19: ("collapse key", "text"), 20: ("restricted package name", "text"), 21: ("option", "pair"),
    32: ("badge", "<I"), 33: ("sound", "text"), 34: ("category", "text"),
    35: ("content-available", "mark"), 36: ("thread-id", "text"), 37: ("mutable-content", "mark"),
    38: ("custom", "pair"), 39: ("subtitle", "text"), 40: ("aps", "pair"),
}
BLOCKS = {5: "android", 6: "apns", 7: "webpush"}
BLOCK_TAGS = {
    5: {1, 2, 3, 4, 16, 18, 19, 20, 21},
    6: {1, 2, 3, 4, 17, 18, 19, 21, *range(32, 41)},
    7: {1, 2, 3, 4, 16, 18, 19, 21},
}


def message_name(tag):
    return MESSAGE_TAGS[tag][0] if tag in MESSAGE_TAGS else f"tag {tag}"


def message_value(tag, content):
    kind = MESSAGE_TAGS[tag][1] if tag in MESSAGE_TAGS else "unknown"
    if kind == "text":
        return content.decode("utf-8")
    if kind == "pair":
        return data_entry(content)
    if kind == "mark":
        if content:
            raise ProtocolViolation(f"tag {tag} has content")
        return True
    if kind.startswith("<"):
        if len(content) != struct.calcsize(kind):
            raise ProtocolViolation(f"tag {tag} has {len(content)} bytes")
        return struct.unpack(kind, content)[0]
    return content


def message_text(tag, content):
    value = message_value(tag, content)
    return f"{value[0]!r} -> {value[1]!r}" if isinstance(value, tuple) else repr(value)


def message_field(tag, value):
    """One field's bytes. A pair is (key, value), a block the bytes of its fields."""
    kind = MESSAGE_TAGS[tag][1]
    if kind == "text":
        content = value.encode("utf-8")
    elif kind == "pair":
        key = value[0].encode("utf-8")
        content = struct.pack("<H", len(key)) + key + value[1].encode("utf-8")
    elif kind == "mark":
        content = b""
    elif kind in ("block", "bytes"):
        content = value
    else:
        content = struct.pack(kind, value)
    return struct.pack("<BH", tag, len(content)) + content


def message(title=None, body=None, image=None, data=None, android=None, apns=None, webpush=None,
            opaque=None, **more):
    """The bytes of a message, or of a block: by the names of MESSAGE_TAGS, with `_` for blanks and
    hyphens. Pairs are dictionaries, blocks dictionaries of the arguments of this function."""
    named = dict(more, title=title, body=body, image=image, data=data, android=android, apns=apns,
                 webpush=webpush, opaque=opaque)
    out = b""
    for tag, (name, kind) in sorted(MESSAGE_TAGS.items()):
        value = named.pop(name.replace(" ", "_").replace("-", "_"), None)
        if value is None or (kind == "mark" and not value):
            continue
        if kind == "pair":
            out += b"".join(message_field(tag, pair) for pair in value.items())
        else:
            out += message_field(tag, message(**value) if kind == "block" else value)
    if named:
        raise ValueError(f"no field is called {', '.join(named)}")
    return out


def message_fields(raw):
    fields, offset, last = [], 0, 0
    while offset < len(raw):
        if offset + 3 > len(raw):
            raise ProtocolViolation("the message ends inside a field's head")
        tag, count = struct.unpack_from("<BH", raw, offset)
        if offset + 3 + count > len(raw):
            raise ProtocolViolation("the message ends inside a field")
        single = tag == 0 or (tag in MESSAGE_TAGS and MESSAGE_TAGS[tag][1] != "pair")
        if tag < last or (tag == last and single):
            raise ProtocolViolation(f"tag {tag} is out of order")
        fields.append((tag, raw[offset + 3:offset + 3 + count]))
        offset, last = offset + 3 + count, tag
    return fields


def data_entry(content):
    if len(content) < 2 or 2 + struct.unpack("<H", content[:2])[0] > len(content):
        raise ProtocolViolation("a data entry ends inside its key")
    end = 2 + struct.unpack("<H", content[:2])[0]
    return content[2:end].decode("utf-8"), content[end:].decode("utf-8")


def read_message(raw):
    """As a device does: tags it does not know are skipped. Pairs are dictionaries, everything else
    is there by its name if it was said."""
    shown = {"title": None, "body": None, "image": None, "data": {}}
    for tag, content in message_fields(raw):
        if tag not in MESSAGE_TAGS or tag in BLOCKS or 16 <= tag <= 20:
            continue
        name, kind = MESSAGE_TAGS[tag]
        value = message_value(tag, content)
        if kind == "pair":
            shown.setdefault(name, {})[value[0]] = value[1]
        else:
            shown[name] = value
    return shown
