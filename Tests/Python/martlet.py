# SPDX-License-Identifier: Apache-2.0
"""Martlet's wire protocol for Python, from its document alone.

Every frame is a list of fields, written down once in FRAMES as the document lists them; one walker
reads and one writes them. `Device` and `Sender` are small blocking clients on top. Nothing but the
standard library is used, and nothing of the Swift code was looked at: where the two disagree, one of
them or the document is wrong.
"""

import json
import socket
import struct
import time

VERSION = 1
DEFAULT_PORT = 5228
ABSENT = 0xFFFFFFFF
NOT_STORED = 1 << 63
BROKER_FRAME_BYTES_MAX = 262_144

ROLES = {1: "device", 2: "sender", 3: "new device", 4: "administrator"}
PLATFORMS = {1: "android", 2: "apple", 3: "web"}
TARGETS = {1: "token", 2: "topic", 3: "condition"}
STATES = {1: "active", 2: "background", 3: "doze"}
RECEIPTS = {1: "received", 2: "displayed", 3: "opened"}
WORDS = {
    1: "INVALID_ARGUMENT", 2: "UNAUTHENTICATED", 3: "PERMISSION_DENIED", 4: "NOT_FOUND",
    5: "ALREADY_EXISTS", 6: "UNREGISTERED", 7: "SENDER_ID_MISMATCH", 8: "QUOTA_EXCEEDED",
    9: "RESOURCE_EXHAUSTED", 10: "TOO_MANY_TOPICS", 11: "UNAVAILABLE", 12: "INTERNAL",
    13: "PROTOCOL_VIOLATION", 14: "REPLACED", 15: "DEADLINE_EXCEEDED",
}

# Bits of flags. A field of type "u64 by flag" is there only with OWN_NUMBER.
WANTS_RECEIPTS = 1
OWN_NUMBER = 2

OVERLOADS = {1: "defer", 2: "refuse"}

INTEGERS = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q", "i64": "<q"}
C = ("correlation", "u32")
A_PROJECT = [("ID", "str"), ("sender ID", "u64"), ("topics per condition", "u8"),
             ("instances", "u64"), ("topics", "u64"), ("weight", "u32"),
             ("on overload", "u8", OVERLOADS)]
A_FANOUT = [("project ID", "str"), ("message number", "u64"), ("target kind", "u8", TARGETS),
            ("target", "str"), ("since", "i64"), ("deferred place", "u64"), ("recipients", "u64"),
            ("delivered", "u64"), ("progress", "u32"), ("rate", "u32"), ("share", "u32"),
            ("seconds left", "u32")]
A_PROJECT_STATUS = [("ID", "str"), ("weight", "u32"), ("connections", "u64"), ("delivered", "u64"),
                    ("fanouts in progress", "u32"), ("fanouts deferred", "u32"),
                    ("fanout bytes", "u64"), ("frame bytes", "u64"),
                    ("request bytes", "u64"), ("share", "u32")]
HELLO_BY_ROLE = {
    1: [("project ID", "str"), ("token", "str"), ("device key", "str"),
        ("device state", "u8", STATES), ("unconfirmed", [("stream ID", "u64")])],
    2: [("project ID", "str"), ("server key", "str")],
    3: [("project ID", "str"), ("app name", "str"), ("platform", "u8", PLATFORMS)],
    4: [("administrator key", "str"), ("project ID", "str")],
}

# (number, name, fields). A field is (name, type) or (name, type, allowed values); a type is an
# integer, "str", "rest", "magic", "hello", or a list of fields, which stands for `u16 n · n × (…)`.
FRAMES = [
    (0x01, "HELLO", [("magic", "magic"), ("version", "u8", {1: "1"}), ("role", "u8", ROLES),
                     ("by role", "hello")]),
    (0x02, "WELCOME", [("version", "u8", {1: "1"}), ("role", "u8", {1: "", 2: "", 4: ""}),
                       ("idle seconds", "u32"), ("frame bytes", "u32"), ("now", "i64"),
                       ("sender ID", "u64"), ("acknowledged-through", "u64"), ("token", "str"),
                       ("device key", "str")]),
    (0x03, "PING", [("value", "u64")]),
    (0x04, "PONG", [("value", "u64")]),
    (0x05, "ERROR", [("correlation", "u32 or 0"), ("word", "u16", WORDS), ("retry delay", "u32"),
                     ("byte offset", "u32"), ("field", "str"), ("message", "str")]),
    (0x06, "DRAINING", [("reconnect delay", "u32")]),
    (0x07, "DONE", [C]),
    (0x10, "DELIVER", [("stream ID", "u64"), ("accepted", "i64"), ("expires", "i64"),
                       ("target kind", "u8", TARGETS), ("priority", "u8", {1: "", 2: ""}),
                       ("flags", "u8", range(4)), ("from", "str"),
                       ("message number", "u64 by flag"), ("message", "rest")]),
    (0x11, "ACK", [("through", "u64"), ("stream IDs", [("stream ID", "u64")])]),
    (0x12, "SUBSCRIBE", [C, ("topics", [("topic", "str")])]),
    (0x13, "UNSUBSCRIBE", [C, ("topics", [("topic", "str")])]),
    (0x14, "UNREGISTER", [C]),
    (0x15, "STATE", [("device state", "u8", STATES)]),
    (0x16, "CONFIRMED", [("through", "u64")]),
    (0x17, "DELETED", [("stream ID", "u64"), ("count", "u64")]),
    (0x18, "RECEIPT", [C, ("kind", "u8", RECEIPTS), ("stream ID", "u64")]),
    (0x19, "ROTATE", [C]),
    (0x1A, "ROTATED", [C, ("token", "str")]),
    (0x20, "SEND", [C, ("flags", "u8", range(4)),
                    ("target kind", "u8", TARGETS), ("target", "str"), ("time to live", "u32"),
                    ("priority", "u8", {0: "", 1: "", 2: ""}), ("collapse key", "str"),
                    ("restricted package name", "str"), ("idempotency key", "str"),
                    ("send at", "i64"), ("message", "rest")]),
    (0x21, "ACCEPTED", [C, ("message number", "u64"), ("recipients", "u64"),
                        ("rate-limited", "u64"), ("inactive", "u64"),
                        ("deferred place", "u64")]),
    (0x22, "CHANGE_TOPIC", [C, ("operation", "u8", {1: "", 2: ""}), ("topic", "str"),
                            ("tokens", [("token", "str")])]),
    (0x23, "TOPIC_RESULT", [C, ("successes", "u16"),
                            ("failures", [("index", "u16"), ("word", "u16", WORDS)])]),
    (0x24, "AUDIENCE", [C, ("condition", "str")]),
    (0x25, "AUDIENCE_RESULT", [C, ("total", "u64"), ("android", "u64"), ("apple", "u64"),
                               ("web", "u64"),
                               ("apps", [("app", "str"), ("platform", "u8", PLATFORMS),
                                         ("count", "u64")])]),
    (0x26, "EXPLAIN", [C, ("condition", "str")]),
    (0x27, "EXPLANATION", [C, ("tree", "str"), ("bytecode", "str"),
                           ("parts", [("start", "u32"), ("end", "u32"), ("count", "u64")]),
                           ("advice", [("offset", "u32"), ("text", "str")])]),
    (0x28, "LIST_TOPICS", [C, ("after", "str"), ("limit", "u16")]),
    (0x29, "TOPIC_PAGE", [C, ("more", "u8", {0: "", 1: ""}),
                          ("topics", [("name", "str"), ("subscribers", "u64")])]),
    (0x2A, "LIST_SUBSCRIBERS", [C, ("topic", "str"), ("cursor", "str"), ("limit", "u16")]),
    (0x2E, "LIST_AUDIENCE", [C, ("condition", "str"), ("cursor", "str"), ("limit", "u16")]),
    (0x2B, "TOKEN_PAGE", [C, ("total", "u64"), ("next cursor", "str"),
                          ("tokens", [("token", "str")])]),
    (0x2C, "LIST_INSTANCE_TOPICS", [C, ("token", "str"), ("after", "str"), ("limit", "u16")]),
    (0x2D, "QUOTAS", [C]),
    (0x2F, "QUOTA_LIST", [C, ("quotas", [("name", "str"), ("limit", "u64"), ("remaining", "u64"),
                                         ("until full", "u32")])]),
    (0x30, "CREATE_PROJECT", [C, ("project ID", "str"), ("topics per condition", "u8")]),
    (0x31, "PROJECT", [C] + A_PROJECT),
    (0x32, "LIST_PROJECTS", [C, ("after", "str"), ("limit", "u16")]),
    (0x33, "PROJECT_PAGE", [C, ("more", "u8", {0: "", 1: ""}), ("projects", A_PROJECT)]),
    (0x34, "CREATE_KEY", [C, ("project ID", "str"), ("name", "str")]),
    (0x35, "KEY", [C, ("key ID", "str"), ("server key", "str")]),
    (0x36, "REVOKE_KEY", [C, ("project ID", "str"), ("key ID", "str")]),
    (0x37, "LIST_KEYS", [C, ("project ID", "str")]),
    (0x38, "KEY_PAGE", [C, ("keys", [("key ID", "str"), ("name", "str"), ("created", "i64"),
                                     ("revoked", "u8", {0: "", 1: ""})])]),
    (0x39, "CHANGE_PROJECT", [C, ("project ID", "str"), ("weight", "u32"),
                              ("on overload", "u8", {0: "", **OVERLOADS})]),
    (0x40, "CANCEL", [C, ("message number", "u64")]),
    (0x41, "CANCELLED", [C, ("flags", "u8", {0: "", 1: "was scheduled"}), ("delivered", "u64")]),
    (0x42, "LISTEN_RECEIPTS", [C]),
    (0x43, "RECEIPT_EVENT", [("event ID", "u64"), ("message number", "u64"), ("token", "str"),
                             ("kind", "u8", RECEIPTS), ("instant", "i64")]),
    (0x44, "RECEIPT_ACK", [("through", "u64")]),
    (0x50, "LIST_FANOUTS", [C, ("project ID", "str"), ("cursor", "str"), ("limit", "u16")]),
    (0x51, "FANOUT_PAGE", [C, ("next cursor", "str"), ("fanouts", A_FANOUT)]),
    (0x52, "STATUS", [C]),
    (0x53, "STATUS_RESULT", [C, ("now", "i64"), ("connections", "u64"), ("delivered", "u64"),
                             ("acknowledged", "u64"), ("fell behind", "u64"),
                             ("commands waiting", "u64"), ("frame bytes", "u64"),
                             ("request bytes", "u64"), ("store bytes", "u64"),
                             ("allocated bytes", "u64"),
                             ("projects", A_PROJECT_STATUS)]),
]
NAMES = {number: name for number, name, _ in FRAMES}
NUMBERS = {name: number for number, name, _ in FRAMES}
FIELDS = {name: fields for _, name, fields in FRAMES}


class ProtocolViolation(Exception):
    """Bytes that are not a frame of the protocol."""


class MartletError(Exception):
    """An ERROR frame."""

    def __init__(self, values):
        self.word = WORDS[values["word"]]
        delay = values["retry delay"]
        self.retry_seconds = None if delay == ABSENT else delay / 1000
        self.field = values["field"]
        super().__init__(f"{self.word} {self.field}: {values['message']}")


class Walker:
    """Reads a body field by field and notes what each field's bytes were."""

    def __init__(self, body):
        self.body, self.offset, self.notes = body, 0, []

    def take(self, count):
        if self.offset + count > len(self.body):
            raise ProtocolViolation(f"{count} bytes needed, {len(self.body) - self.offset} left")
        self.offset += count
        return self.body[self.offset - count:self.offset]

    def integer(self, kind, name, allowed=None):
        raw = self.take(struct.calcsize(INTEGERS[kind]))
        value = struct.unpack(INTEGERS[kind], raw)[0]
        if allowed is not None and value not in allowed:
            raise ProtocolViolation(f"{name} has the unknown value {value}")
        self.notes.append((raw, name, str(value)))
        return value

    def text(self, name):
        start = self.offset
        count = struct.unpack("<H", self.take(2))[0]
        try:
            value = self.take(count).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolViolation(f"{name} is not UTF-8") from error
        self.notes.append((self.body[start:self.offset], name, repr(value)))
        return value

    def fields(self, fields, prefix=""):
        values = {}
        for name, kind, *allowed in fields:
            path = prefix + name
            allowed = allowed[0] if allowed else None
            if isinstance(kind, list):
                count = self.integer("u16", path)
                values[name] = [self.fields(kind, f"{path}[{i}] ") for i in range(count)]
            elif kind == "str":
                values[name] = self.text(path)
            elif kind == "magic":
                raw = self.take(4)
                if raw != b"MRTL":
                    raise ProtocolViolation("the magic is not MRTL")
                self.notes.append((raw, path, "MRTL"))
                values[name] = raw
            elif kind == "hello":
                values.update(self.fields(HELLO_BY_ROLE[values["role"]], prefix))
            elif kind == "rest":
                values[name] = self.take(len(self.body) - self.offset)
                self.message_notes(values[name])
            elif kind == "u32 or 0":
                values[name] = self.integer("u32", path)
            elif kind == "u64 by flag":
                if values["flags"] & OWN_NUMBER:
                    values[name] = self.integer("u64", path)
            else:
                values[name] = self.integer(kind, path, allowed)
                if name == "correlation" and values[name] == 0:
                    raise ProtocolViolation("correlation 0")
        return values

    def message_notes(self, raw):
        """One note for each field of a message, so that vectors can be read by hand. A block's
        own head is one note, and each field in it another."""
        for tag, content in message_fields(raw):
            head = struct.pack("<BH", tag, len(content))
            if tag in BLOCKS:
                self.notes.append((head, BLOCKS[tag], f"{len(content)} bytes"))
                for inner, value in message_fields(content):
                    if inner not in BLOCK_TAGS[tag]:
                        raise ProtocolViolation(f"tag {inner} is not for the block of tag {tag}")
                    whole = struct.pack("<BH", inner, len(value)) + value
                    self.notes.append((whole, f"{BLOCKS[tag]} {message_name(inner)}",
                                       message_text(inner, value)))
            else:
                self.notes.append((head + content, message_name(tag), message_text(tag, content)))


def _number(names, name):
    return {text: number for number, text in names.items()}[name]


def write_fields(fields, values):
    out = b""
    for name, kind, *_ in fields:
        value = values if kind == "hello" else values.get(name)
        if isinstance(kind, list):
            out += struct.pack("<H", len(value))
            out += b"".join(write_fields(kind, entry) for entry in value)
        elif kind == "str":
            raw = value.encode("utf-8")
            out += struct.pack("<H", len(raw)) + raw
        elif kind == "magic":
            out += b"MRTL"
        elif kind == "hello":
            out += write_fields(HELLO_BY_ROLE[values["role"]], values)
        elif kind == "rest":
            out += value
        elif kind == "u64 by flag":
            out += b"" if value is None else struct.pack("<Q", value)
        else:
            out += struct.pack(INTEGERS[kind.split()[0]], value)
    return out


def encode(frame_name, /, **values):
    """A whole frame. Field names are the document's, with `_` for blanks and hyphens."""
    body = write_fields(FIELDS[frame_name], _spelled(FIELDS[frame_name], values))
    return struct.pack("<IB", 1 + len(body), NUMBERS[frame_name]) + body


def _spelled(fields, values):
    names = {name for name, *_ in fields}
    for extra in HELLO_BY_ROLE.values():
        names |= {name for name, *_ in extra}
    spelled = {name.replace(" ", "_").replace("-", "_"): name for name in names}
    return {spelled.get(key, key): value for key, value in values.items()}


def decode(frame):
    """(name, values, notes) of one whole frame that must be used up exactly."""
    if len(frame) < 5 or struct.unpack("<I", frame[:4])[0] != len(frame) - 4:
        raise ProtocolViolation("the length does not fit the frame")
    number = frame[4]
    if number not in NAMES:
        raise ProtocolViolation(f"no frame has the number {number}")
    walker = Walker(frame[5:])
    values = walker.fields(FIELDS[NAMES[number]])
    if walker.offset != len(walker.body):
        raise ProtocolViolation(f"{len(walker.body) - walker.offset} bytes left over")
    return NAMES[number], values, walker.notes


# Messages


# tag: (name, kind). What may come more than once says "pair".
MESSAGE_TAGS = {
    1: ("title", "text"), 2: ("body", "text"), 3: ("image", "text"), 4: ("data", "pair"),
    5: ("android", "block"), 6: ("apns", "block"), 7: ("webpush", "block"),
    16: ("time to live", "<I"), 17: ("expiration", "<q"), 18: ("priority", "<B"),
    19: ("collapse key", "text"), 20: ("restricted package name", "text"), 21: ("option", "pair"),
    32: ("badge", "<I"), 33: ("sound", "text"), 34: ("category", "text"),
    35: ("content-available", "mark"), 36: ("thread-id", "text"), 37: ("mutable-content", "mark"),
    38: ("custom", "pair"), 39: ("subtitle", "text"),
}
BLOCKS = {5: "android", 6: "apns", 7: "webpush"}
BLOCK_TAGS = {
    5: {1, 2, 3, 4, 16, 18, 19, 20, 21},
    6: {1, 2, 3, 4, 17, 18, 19, *range(32, 40)},
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
    elif kind == "block":
        content = value
    else:
        content = struct.pack(kind, value)
    return struct.pack("<BH", tag, len(content)) + content


def message(title=None, body=None, image=None, data=None, android=None, apns=None, webpush=None,
            **more):
    """The bytes of a message, or of a block: by the names of MESSAGE_TAGS, with `_` for blanks and
    hyphens. Pairs are dictionaries, blocks dictionaries of the arguments of this function."""
    named = dict(more, title=title, body=body, image=image, data=data, android=android, apns=apns,
                 webpush=webpush)
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


def apns_dictionary(shown):
    """What an Apple application is given for a message that `read_message` returned."""
    aps = {}
    alert = {name: shown[name] for name in ("title", "subtitle", "body")
             if shown.get(name) is not None}
    if alert:
        aps["alert"] = alert
    for name in ("badge", "sound", "category", "thread-id"):
        if name in shown:
            aps[name] = shown[name]
    for name in ("content-available", "mutable-content"):
        if shown.get(name):
            aps[name] = 1
    custom = {key: json.loads(value) for key, value in shown.get("custom", {}).items()}
    return {**shown["data"], **custom, "aps": aps}


# Connections


class Connection:
    """One connection after HELLO and WELCOME; answers PING by itself."""

    def __init__(self, host, port, timeout=10.0, **hello):
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.timeout, self.buffer, self.correlation = timeout, b"", 0
        # What came while something else was waited for.
        self.delivered, self.deleted, self.receipts, self.confirmed = [], [], [], 0
        self.send("HELLO", version=VERSION, **hello)
        name, self.welcome = self.receive()
        if name == "ERROR":
            raise MartletError(self.welcome)
        if name != "WELCOME":
            raise ProtocolViolation(f"WELCOME expected, {name} received")

    def close(self):
        self.socket.close()

    def send(self, frame_name, /, **values):
        self.socket.sendall(encode(frame_name, **values))

    def receive(self):
        """The next frame that is neither PING nor DRAINING."""
        deadline = time.monotonic() + self.timeout
        while True:
            while len(self.buffer) < 4 or len(self.buffer) < 4 + self._length():
                self.socket.settimeout(max(0.001, deadline - time.monotonic()))
                received = self.socket.recv(65536)
                if not received:
                    raise ConnectionError("the broker closed the connection")
                self.buffer += received
            count = 4 + self._length()
            frame, self.buffer = self.buffer[:count], self.buffer[count:]
            name, values, _ = decode(frame)
            if name == "PING":
                self.send("PONG", value=values["value"])
            elif name != "DRAINING":
                return name, values

    def _length(self):
        length = struct.unpack("<I", self.buffer[:4])[0]
        if not 1 <= length <= BROKER_FRAME_BYTES_MAX:
            raise ProtocolViolation(f"a frame of {length} bytes")
        return length

    def request(self, frame_name, /, **values):
        """Sends a request and waits for its answer; messages that come meanwhile are kept."""
        self.correlation += 1
        self.send(frame_name, correlation=self.correlation, **values)
        while True:
            answer, content = self.receive()
            if self.keep(answer, content):
                continue
            if answer == "ERROR" and content["correlation"] in (0, self.correlation):
                raise MartletError(content)
            if content.get("correlation") == self.correlation:
                return answer, content

    def keep(self, name, content):
        """Whether it is something that comes by itself; it is kept for whoever asks for it."""
        if name == "DELIVER":
            self.delivered.append(content)
        elif name == "DELETED":
            self.deleted.append(content)
        elif name == "RECEIPT_EVENT":
            self.receipts.append(content)
        elif name == "CONFIRMED":
            self.confirmed = max(self.confirmed, content["through"])
        else:
            return False
        return True

    def ping(self, value=1):
        """Returns when the broker has seen everything that was sent before."""
        self.send("PING", value=value)
        while True:
            name, content = self.receive()
            if name == "PONG" and content["value"] == value:
                return
            if not self.keep(name, content) and name == "ERROR":
                raise MartletError(content)


class Device(Connection):
    """A device: registers itself when it is given no token."""

    def __init__(self, host, port, project, app="com.example.python", platform=1, token=None,
                 device_key=None, state=1, unconfirmed=(), timeout=10.0):
        if token is None:
            super().__init__(host, port, timeout, role=3, project_ID=project, app_name=app,
                             platform=platform)
            self.token, self.device_key = self.welcome["token"], self.welcome["device key"]
        else:
            super().__init__(host, port, timeout, role=1, project_ID=project, token=token,
                             device_key=device_key, device_state=state,
                             unconfirmed=[{"stream ID": stream_id} for stream_id in unconfirmed])
            self.token, self.device_key = token, device_key

    def subscribe(self, *topics):
        return self.request("SUBSCRIBE", topics=[{"topic": topic} for topic in topics])[1]

    def unsubscribe(self, *topics):
        return self.request("UNSUBSCRIBE", topics=[{"topic": topic} for topic in topics])[1]

    def next_message(self):
        """(DELIVER's fields, the message)"""
        while not self.delivered:
            name, content = self.receive()
            if not self.keep(name, content) and name == "ERROR":
                raise MartletError(content)
        deliver = self.delivered.pop(0)
        return deliver, read_message(deliver["message"])

    def acknowledge(self, through, *single):
        self.send("ACK", through=through,
                  stream_IDs=[{"stream ID": stream_id} for stream_id in single])

    def set_state(self, state):
        """"active", "background" or "doze"."""
        self.send("STATE", device_state=_number(STATES, state))

    def receipt(self, kind, stream_id):
        """"received", "displayed" or "opened"."""
        return self.request("RECEIPT", kind=_number(RECEIPTS, kind), stream_ID=stream_id)

    def rotate(self):
        """The old token is not registered any more; the device key stays."""
        self.token = self.request("ROTATE")[1]["token"]
        return self.token

    def unregister(self):
        return self.request("UNREGISTER")


class Sender(Connection):
    """A sender of one project."""

    def __init__(self, host, port, project, server_key, timeout=10.0):
        super().__init__(host, port, timeout, role=2, project_ID=project, server_key=server_key)

    def send_message(self, kind, target, content, time_to_live=ABSENT, priority=0,
                     validate_only=False, receipts=False, collapse_key="", package_name="",
                     idempotency_key="", send_at=0):
        return self.request("SEND", flags=int(validate_only) | 2 * int(receipts),
                            target_kind=_number(TARGETS, kind), target=target,
                            time_to_live=time_to_live, priority=priority,
                            collapse_key=collapse_key, restricted_package_name=package_name,
                            idempotency_key=idempotency_key, send_at=send_at, message=content)[1]

    def cancel(self, message_number):
        return self.request("CANCEL", message_number=message_number)[1]

    def listen_receipts(self):
        self.request("LISTEN_RECEIPTS")

    def next_receipt(self):
        """RECEIPT_EVENT's fields; `acknowledge_receipts` says that they were taken."""
        while not self.receipts:
            name, content = self.receive()
            if not self.keep(name, content) and name == "ERROR":
                raise MartletError(content)
        return self.receipts.pop(0)

    def acknowledge_receipts(self, through):
        self.send("RECEIPT_ACK", through=through)

    def quotas(self):
        """name: QUOTA_LIST's fields of it"""
        return {quota["name"]: quota for quota in self.request("QUOTAS")[1]["quotas"]}

    def audience(self, condition):
        return self.request("AUDIENCE", condition=condition)[1]
