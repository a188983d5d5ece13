# SPDX-License-Identifier: Apache-2.0
"""Every frame as a list of fields, written down once in FRAMES as the document lists them; one walker
reads and one writes them. See martlet.py."""

import struct

from martlet_message import (
    BLOCK_TAGS, BLOCKS, ProtocolViolation, message_fields, message_name, message_text)

VERSION = 1
DEFAULT_PORT = 5228
ABSENT = 0xFFFFFFFF
NOT_STORED = 1 << 63
BROKER_FRAME_BYTES_MAX = 262_144

ROLES = {1: "device", 2: "sender", 3: "new device", 4: "administrator", 5: "shared",
         6: "node"}
APPS_PER_CONNECTION_MAX = 64
PLATFORMS = {1: "android", 2: "apple", 3: "web"}
TARGETS = {1: "token", 2: "topic", 3: "condition", 4: "group"}
# What DELIVER and FANOUT_PAGE say of a message for several targets.
TARGETS_TOLD = {**TARGETS, 5: "several"}
STATES = {1: "active", 2: "background", 3: "doze"}
RECEIPTS = {1: "received", 2: "displayed", 3: "opened"}
WORDS = {
    1: "INVALID_ARGUMENT", 2: "UNAUTHENTICATED", 3: "PERMISSION_DENIED", 4: "NOT_FOUND",
    5: "ALREADY_EXISTS", 6: "UNREGISTERED", 7: "SENDER_ID_MISMATCH", 8: "QUOTA_EXCEEDED",
    9: "RESOURCE_EXHAUSTED", 10: "TOO_MANY_TOPICS", 11: "UNAVAILABLE", 12: "INTERNAL",
    13: "PROTOCOL_VIOLATION", 14: "REPLACED", 15: "DEADLINE_EXCEEDED",
    16: "THIRD_PARTY_AUTH_ERROR",
}

# A bit of DELIVER's flags.
WANTS_RECEIPTS = 1

OVERLOADS = {1: "defer", 2: "refuse"}
REGISTRATIONS = {1: "key", 2: "ticket", 3: "open"}
# The prefixes of policy 3 follow; for the others their list is empty.
TOPIC_POLICIES = {1: "all", 2: "none", 3: "prefixes"}
LIMITS = {1: "topics-per-instance-max", 2: "tokens-per-topic-request", 3: "group-members",
          4: "payload-bytes-max", 5: "time-to-live-seconds-max", 6: "topic-changes-per-second",
          7: "topics-per-condition-max", 8: "registrations-per-second",
          9: "instances-per-project-max"}
TICKET_ALGORITHMS = {1: "HS256", 2: "RS256", 3: "ES256"}

INTEGERS = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q", "i64": "<q"}
C = ("correlation", "u32")
A_PROJECT = [("ID", "str"), ("sender ID", "u64"), ("topics per condition", "u8"),
             ("instances", "u64"), ("topics", "u64"), ("weight", "u32"),
             ("on overload", "u8", OVERLOADS)]
A_FANOUT = [("project ID", "str"), ("message number", "u64"),
            ("target kind", "u8", TARGETS_TOLD), ("target", "str"), ("since", "i64"),
            ("deferred place", "u64"), ("recipients", "u64"), ("delivered", "u64"), ("progress", "u32"), ("rate", "u32"), ("share", "u32"),
            ("seconds left", "u32")]
A_NODE_STATUS = [("node", "str"), ("active", "u8", {0: "", 1: ""}), ("connections", "u64"),
                 ("delivered", "u64"), ("acknowledged", "u64")]
A_PROJECT_STATUS = [("ID", "str"), ("weight", "u32"), ("connections", "u64"), ("delivered", "u64"),
                    ("fanouts in progress", "u32"), ("fanouts deferred", "u32"),
                    ("fanout bytes", "u64"), ("frame bytes", "u64"),
                    ("request bytes", "u64"), ("share", "u32")]
# What SEND and MULTICAST, and their answers, have in common.
A_SENDING = [("time to live", "u32"), ("priority", "u8", {0: "", 1: "", 2: ""}),
             ("collapse key", "str"), ("restricted package name", "str"),
             ("idempotency key", "str"), ("send at", "i64"),
             ("not received", "u64 by flag 4"), ("message", "rest")]
# What was counted of messages.
COUNTS = [(name, "u64") for name in (
    "targeted", "sent", "displayed", "opened", "acknowledged", "collapsed", "expired",
    "rate-limited", "discarded too many", "discarded inactive", "unregistered", "cancelled",
    "now or never", "handed over", "refused")]
PUSH_SERVICES = {1: "apns", 2: "webpush"}
AN_ACCEPTANCE = [("message number", "u64"), ("recipients", "u64"), ("rate-limited", "u64"),
                 ("inactive", "u64"), ("deferred place", "u64")]
CREDENTIALS = {1: "key", 2: "ticket"}
HELLO_BY_ROLE = {
    1: [("project ID", "str"), ("token", "str"), ("device key", "str"),
        ("device state", "u8", STATES), ("unconfirmed", [("stream ID", "u64")])],
    2: [("project ID", "str"), ("server key", "str")],
    3: [("project ID", "str"), ("app name", "str"), ("platform", "u8", PLATFORMS),
        ("credential", "end"),  # a frame of an older client ends here
        ("credential kind", "u8", CREDENTIALS), ("credential", "str")],
    4: [("administrator key", "str"), ("project ID", "str")],
    5: [],
    6: [("incarnation", "16 bytes"), ("epoch", "u32"), ("row", "u64"), ("chain", "16 bytes"),
        ("node", "str"), ("address", "str"), ("process", "u64"), ("run", "u32"),
        ("peer run", "u32"), ("active", "u8", {0: "", 1: ""}), ("lowest row format", "u16"),
        ("highest row format", "u16"), ("lowest command format", "u8"),
        ("highest command format", "u8")],
}

# (number, name, fields). A field is (name, type) or (name, type, allowed values); a type is an
# integer, "str", "bytes", "16 bytes", "all", "rest" (a message), "magic", "hello", "end", at which a frame without the named field may end,
# "u64 by flag BIT", which is there only if the flags have that bit, or a list of fields, which stands for `u16 n · n × (…)`.
FRAMES = [
    (0x01, "HELLO", [("magic", "magic"), ("version", "u8", {1: "1"}), ("role", "u8", ROLES),
                     ("by role", "hello")]),
    (0x02, "WELCOME", [("version", "u8", {1: "1"}), ("role", "u8", {1: "", 2: "", 4: "", 5: ""}),
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
                       ("target kind", "u8", TARGETS_TOLD), ("priority", "u8", {1: "", 2: ""}),
                       ("flags", "u8", range(4)), ("from", "str"),
                       ("message number", "u64 by flag 2"), ("message", "rest")]),
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
    (0x1B, "APNS_TOKEN", [C, ("token", "bytes"), ("sandbox", "u8", {0: "", 1: ""}),
                          ("bundle", "str")]),
    (0x20, "SEND", [C, ("flags", "u8", range(8)),
                    ("target kind", "u8", TARGETS), ("target", "str")] + A_SENDING),
    (0x21, "ACCEPTED", [C] + AN_ACCEPTANCE),
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
    (0x31, "PROJECT", [C] + A_PROJECT + [("registration key", "str")]),
    (0x32, "LIST_PROJECTS", [C, ("after", "str"), ("limit", "u16")]),
    (0x33, "PROJECT_PAGE", [C, ("more", "u8", {0: "", 1: ""}), ("projects", A_PROJECT)]),
    (0x34, "CREATE_KEY", [C, ("project ID", "str"), ("name", "str")]),
    (0x35, "KEY", [C, ("key ID", "str"), ("server key", "str")]),
    (0x36, "REVOKE_KEY", [C, ("project ID", "str"), ("key ID", "str")]),
    (0x37, "LIST_KEYS", [C, ("project ID", "str")]),
    (0x38, "KEY_PAGE", [C, ("keys", [("key ID", "str"), ("name", "str"), ("created", "i64"),
                                     ("revoked", "u8", {0: "", 1: ""})])]),
    (0x39, "CHANGE_PROJECT", [C, ("project ID", "str"), ("weight", "u32"),
                              ("on overload", "u8", {0: "", **OVERLOADS}),
                              ("topics in a condition", "u8")]),
    (0x40, "CANCEL", [C, ("message number", "u64")]),
    (0x41, "CANCELLED", [C, ("flags", "u8", {0: "", 1: "was scheduled"}), ("delivered", "u64")]),
    (0x42, "LISTEN_RECEIPTS", [C]),
    (0x43, "RECEIPT_EVENT", [("event ID", "u64"), ("message number", "u64"), ("token", "str"),
                             ("kind", "u8", RECEIPTS), ("instant", "i64")]),
    (0x44, "RECEIPT_ACK", [("through", "u64")]),
    (0x45, "UNREGISTER_TOKEN", [C, ("token", "str")]),
    (0x50, "LIST_FANOUTS", [C, ("project ID", "str"), ("cursor", "str"), ("limit", "u16")]),
    (0x51, "FANOUT_PAGE", [C, ("next cursor", "str"), ("fanouts", A_FANOUT)]),
    (0x52, "STATUS", [C]),
    (0x53, "STATUS_RESULT", [C, ("now", "i64"), ("connections", "u64"), ("delivered", "u64"),
                             ("acknowledged", "u64"), ("fell behind", "u64"),
                             ("commands waiting", "u64"), ("frame bytes", "u64"),
                             ("request bytes", "u64"), ("store bytes", "u64"),
                             ("allocated bytes", "u64"),
                             ("projects", A_PROJECT_STATUS), ("nodes", "end"),
                             ("nodes", A_NODE_STATUS)]),
    (0x54, "METRICS", [C]),
    (0x55, "METRICS_RESULT", [C, ("lines", [("line", "str")])]),
    (0x60, "CREATE_GROUP", [C, ("name", "str"), ("tokens", [("token", "str")])]),
    (0x61, "CHANGE_GROUP", [C, ("operation", "u8", {1: "add", 2: "remove"}), ("name", "str"),
                            ("key", "str"), ("tokens", [("token", "str")])]),
    (0x62, "GROUP", [C, ("name", "str"), ("key", "str"), ("tokens", [("token", "str")])]),
    (0x63, "FIND_GROUP", [C, ("name", "str")]),
    (0x64, "LIST_GROUPS", [C, ("after", "str"), ("limit", "u16")]),
    (0x65, "GROUP_PAGE", [C, ("more", "u8", {0: "", 1: ""}),
                          ("groups", [("name", "str"), ("key", "str"), ("members", "u16")])]),
    (0x66, "GROUP_ACCEPTED", [C] + AN_ACCEPTANCE
     + [("successes", "u16"), ("failures", [("token", "str"), ("word", "u16", WORDS)])]),
    (0x67, "MULTICAST", [C, ("flags", "u8", range(8)),
                         ("targets", [("target kind", "u8", TARGETS), ("target", "str")])]
     + A_SENDING),
    (0x68, "MULTICAST_RESULT", [C] + AN_ACCEPTANCE
     + [("successes", "u16"), ("failures", [("index", "u16"), ("word", "u16", WORDS)])]),
    (0x70, "UPSTREAM", [C, ("group", "str"), ("message ID", "str"), ("time to live", "u32"),
                        ("message", "rest")]),
    (0x71, "UPSTREAM_ACCEPTED", [C, ("number", "u64")]),
    (0x72, "LISTEN_UPSTREAM", [C]),
    (0x73, "UPSTREAM_MESSAGE", [("number", "u64"), ("accepted", "i64"), ("expires", "i64"),
                                ("token", "str"), ("app name", "str"), ("message ID", "str"),
                                ("message", "rest")]),
    (0x74, "UPSTREAM_ACK", [("numbers", [("number", "u64")])]),
    (0x80, "REPORT", [C, ("message number", "u64")]),
    (0x81, "REPORT_RESULT", [C, ("message number", "u64"), ("accepted", "i64"),
                             ("unsettled", "u64")] + COUNTS
     + [("refusals", [("push service", "u8", PUSH_SERVICES), ("reason", "str"),
                      ("count", "u64")])]),
    (0x82, "LIST_DAYS", [C, ("first day", "u32"), ("last day", "u32"), ("cursor", "str"),
                         ("limit", "u16")]),
    (0x83, "DAY_PAGE", [C, ("next cursor", "str"),
                        ("days", [("day", "u32"), ("app", "str"),
                                  ("platform", "u8", PLATFORMS)] + COUNTS)]),
    (0x84, "LIST_NOT_RECEIVED", [C, ("message number", "u64"), ("cursor", "str"),
                                 ("limit", "u16")]),
    (0x98, "CHANNEL", [("channel", "u8", range(1 + APPS_PER_CONNECTION_MAX))]),
    (0x99, "DETACH", []),
    (0x9A, "DETACHED", []),
    (0x90, "CREATE_SERVICE_ACCOUNT", [C, ("project ID", "str"), ("key ID", "str"),
                                      ("name", "str"), ("client e-mail", "str"),
                                      ("public key", "bytes")]),
    (0x91, "REVOKE_SERVICE_ACCOUNT", [C, ("project ID", "str"), ("key ID", "str")]),
    (0x92, "LIST_SERVICE_ACCOUNTS", [C, ("project ID", "str")]),
    (0x93, "SERVICE_ACCOUNT_PAGE", [C, ("accounts", [("key ID", "str"), ("name", "str"),
                                                     ("client e-mail", "str"),
                                                     ("created", "i64"),
                                                     ("revoked", "u8", {0: "", 1: ""})])]),
    (0xA0, "CREATE_REGISTRATION_KEY", [C, ("project ID", "str"), ("name", "str")]),
    (0xA1, "REGISTRATION_KEY", [C, ("key ID", "str"), ("registration key", "str")]),
    (0xA2, "REVOKE_REGISTRATION_KEY", [C, ("project ID", "str"), ("key ID", "str")]),
    (0xA3, "LIST_REGISTRATION_KEYS", [C, ("project ID", "str")]),
    (0xA4, "REGISTRATION_KEY_PAGE", [C, ("keys", [("key ID", "str"), ("name", "str"),
                                                  ("created", "i64"),
                                                  ("revoked", "u8", {0: "", 1: ""})])]),
    (0xA5, "ADD_TICKET_KEY", [C, ("project ID", "str"), ("key ID", "str"), ("name", "str"),
                              ("algorithm", "u8", TICKET_ALGORITHMS), ("secret", "bytes"),
                              ("public key", "str")]),
    (0xA6, "REVOKE_TICKET_KEY", [C, ("project ID", "str"), ("key ID", "str")]),
    (0xA7, "LIST_TICKET_KEYS", [C, ("project ID", "str")]),
    (0xA8, "TICKET_KEY_PAGE", [C, ("keys", [("key ID", "str"), ("name", "str"),
                                            ("algorithm", "u8", TICKET_ALGORITHMS),
                                            ("created", "i64"),
                                            ("revoked", "u8", {0: "", 1: ""})])]),
    (0xA9, "CREATE_APP", [C, ("project ID", "str"), ("app", "str"),
                          ("platform", "u8", PLATFORMS)]),
    (0xAA, "DELETE_APP", [C, ("project ID", "str"), ("app", "str"),
                          ("platform", "u8", PLATFORMS)]),
    (0xAB, "LIST_APPS", [C, ("project ID", "str")]),
    (0xAC, "APP_PAGE", [C, ("apps", [("app", "str"), ("platform", "u8", PLATFORMS),
                                     ("instances", "u64"),
                                     ("being deleted", "u8", {0: "", 1: ""})])]),
    (0xAD, "FIND_POLICIES", [C, ("project ID", "str")]),
    (0xAE, "POLICIES", [C, ("registration", "u8", REGISTRATIONS),
                        ("topics", "u8", TOPIC_POLICIES), ("prefixes", [("prefix", "str")])]),
    (0xAF, "CHANGE_POLICIES", [C, ("project ID", "str"),
                               ("registration", "u8", {0: "", **REGISTRATIONS}),
                               ("topics", "u8", {0: "", **TOPIC_POLICIES}),
                               ("prefixes", [("prefix", "str")])]),
    (0xB0, "FIND_LIMITS", [C, ("project ID", "str")]),
    (0xB1, "LIMITS", [C, ("limits", [("limit", "u8", LIMITS), ("value", "u32"),
                                     ("own", "u8", {0: "", 1: ""})])]),
    (0xB2, "CHANGE_LIMITS", [C, ("project ID", "str"),
                             ("limits", [("limit", "u8", LIMITS), ("value", "u32")])]),
    (0xB3, "ADD_BRIDGE_KEY", [C, ("project ID", "str"), ("push service", "u8", PUSH_SERVICES),
                              ("key ID", "str"), ("owner", "str"), ("private key", "str")]),
    (0xB4, "REMOVE_BRIDGE_KEY", [C, ("project ID", "str"), ("push service", "u8", PUSH_SERVICES),
                                 ("key ID", "str")]),
    (0xB5, "LIST_BRIDGE_KEYS", [C, ("project ID", "str")]),
    (0xB6, "BRIDGE_KEY_PAGE", [C, ("keys", [("push service", "u8", PUSH_SERVICES),
                                            ("key ID", "str"), ("owner", "str"),
                                            ("created", "i64")])]),
    (0xB7, "BACKUP", [C, ("backup", "u64")]),
    (0xB8, "BACKUP_PART", [C, ("backup", "u64"), ("last", "u8", {0: "", 1: ""}),
                           ("content", "all")]),
    (0xC1, "COMMITTED", [("row", "u64"), ("chain", "16 bytes")]),
    (0xC3, "FORWARD", [("run", "u32"), ("number", "u64"), ("command", "all")]),
    (0xC6, "ENDED", [("fanouts", [("project", "u32"), ("message number", "u64"),
                                  ("delivered", "u64"), ("blocks", "u32"),
                                  ("ended", "u8", {0: "", 1: ""})])]),
    (0xC7, "LISTEN", [("operation", "u8", {1: "listen", 2: "retire", 3: "leave", 4: "taken"}),
                      ("project", "u32"), ("listener", "u64"), ("kept", [("number", "u64")])]),
    (0xC8, "NODE_UPSTREAM", [("listener", "u64"), ("number", "u64"), ("accepted", "i64"),
                             ("expires", "i64"), ("token", "str"), ("app name", "str"),
                             ("message ID", "str"), ("message", "rest")]),
    (0xCA, "NODE_FIGURES", [("node", "str"), ("active", "u8", {0: "", 1: ""}),
                            ("fanouts", A_FANOUT), ("now", "i64"), ("connections", "u64"),
                            ("delivered", "u64"), ("acknowledged", "u64"),
                            ("fell behind", "u64"), ("commands waiting", "u64"),
                            ("frame bytes", "u64"), ("request bytes", "u64"),
                            ("store bytes", "u64"), ("allocated bytes", "u64"),
                            ("projects", A_PROJECT_STATUS), ("nodes", "end"),
                            ("nodes", A_NODE_STATUS)]),
    (0xCB, "NODE_WATCH", [("projects", [("project", "u32"), ("ID", "str")])]),
    (0xCC, "NODE_EVENTS", [("node", "str"), ("project", "u32"), ("connections", "u64"),
                           ("accepted", "u64"), ("upstream", "u64"), ("refusals", "u64"),
                           ("connected", "u64"), ("disconnected", "u64"), ("dropped", "u64"),
                           *COUNTS, ("events", "all")]),
    (0xCD, "NODE_FANOUT", [("row", "u64"), ("events", "all")]),
    (0xCE, "NODE_ROW", [("epoch", "u32"), ("row", "u64"), ("chain", "16 bytes"),
                        ("body", "all")]),
    (0xCF, "NODE_QUOTAS", [("quotas", [
        ("project", "u32"),
        ("quota", "u8", {1: "topic changes", 2: "registrations", 3: "messages of devices"}),
        ("remaining", "u64"), ("until full", "u64")])]),
]
NAMES = {number: name for number, name, _ in FRAMES}
NUMBERS = {name: number for number, name, _ in FRAMES}
FIELDS = {name: fields for _, name, fields in FRAMES}


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
            elif kind == "end":
                if self.offset == len(self.body):
                    break
            elif kind == "bytes":
                raw = self.take(2)
                values[name] = self.take(struct.unpack("<H", raw)[0])
                self.notes.append((raw + values[name], path, f"{len(values[name])} bytes"))
            elif kind == "16 bytes":
                values[name] = self.take(16)
                self.notes.append((values[name], path, values[name].hex()))
            elif kind == "all":
                values[name] = self.take(len(self.body) - self.offset)
                if values[name]:
                    self.notes.append((values[name], path, f"{len(values[name])} bytes"))
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
            elif kind.startswith("u64 by flag"):
                if values["flags"] & int(kind.split()[-1]):
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
        elif kind == "bytes":
            out += struct.pack("<H", len(value)) + value
        elif kind == "end":
            if value is None:
                break
        elif kind == "magic":
            out += b"MRTL"
        elif kind == "hello":
            out += write_fields(HELLO_BY_ROLE[values["role"]], values)
        elif kind in ("rest", "all", "16 bytes"):
            out += value
        elif kind.startswith("u64 by flag"):
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
