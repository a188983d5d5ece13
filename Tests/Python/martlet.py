# SPDX-License-Identifier: Apache-2.0
"""Martlet's wire protocol for Python, from its document alone.

`martlet_frames` has the frames, `martlet_message` what they carry; both are offered here as well.
`Device` and `Sender` are small blocking clients on top. Nothing but the standard library is used, and
nothing of the Swift code was looked at: where the two disagree, one of them or the document is wrong.
"""

import socket
import struct
import time

from martlet_frames import *  # noqa: F401,F403
from martlet_frames import (
    ABSENT, BROKER_FRAME_BYTES_MAX, RECEIPTS, STATES, TARGETS, VERSION, WORDS, decode, encode)
from martlet_message import *  # noqa: F401,F403
from martlet_message import ProtocolViolation, read_message


class MartletError(Exception):
    """An ERROR frame."""

    def __init__(self, values):
        self.word = WORDS[values["word"]]
        delay = values["retry delay"]
        self.retry_seconds = None if delay == ABSENT else delay / 1000
        self.field = values["field"]
        super().__init__(f"{self.word} {self.field}: {values['message']}")


def _number(names, name):
    return {text: number for number, text in names.items()}[name]


# An ssl.SSLContext with which all connections speak TLS; None: plain text.
tls_context = None


class Connection:
    """One connection after HELLO and WELCOME; answers PING by itself."""

    def __init__(self, host, port, timeout=10.0, **hello):
        self.socket = socket.create_connection((host, port), timeout=timeout)
        if tls_context:
            self.socket = tls_context.wrap_socket(self.socket, server_hostname=host)
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
                 device_key=None, state=1, unconfirmed=(), timeout=10.0, registration_key=None,
                 ticket=None):
        if token is None:
            proof = {}
            if registration_key is not None:
                proof = {"credential_kind": 1, "credential": registration_key}
            elif ticket is not None:
                proof = {"credential_kind": 2, "credential": ticket}
            super().__init__(host, port, timeout, role=3, project_ID=project, app_name=app,
                             platform=platform, **proof)
            self.token, self.device_key = self.welcome["token"], self.welcome["device key"]
        else:
            super().__init__(host, port, timeout, role=1, project_ID=project, token=token,
                             device_key=device_key, device_state=state,
                             unconfirmed=[{"stream ID": stream_id} for stream_id in unconfirmed])
            # A former token lets it in, and WELCOME has the present one.
            self.token, self.device_key = self.welcome["token"] or token, device_key

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

    def send_upstream(self, message_id, data, time_to_live=ABSENT, group=""):
        """To the project, or to a group by its key. Returns the message's number."""
        return self.request("UPSTREAM", group=group, message_ID=message_id,
                            time_to_live=time_to_live,
                            message=message(data=data))[1]["number"]

    def unregister(self):
        return self.request("UNREGISTER")


class SharedConnection(Connection):
    """Several apps of a device, each on a channel."""

    def __init__(self, host, port, timeout=10.0):
        self.heard, self.told, self.arrived = 0, 0, {}
        super().__init__(host, port, timeout, role=5)

    def send_on(self, channel, frame_name, /, **values):
        if channel != self.told:
            self.send("CHANNEL", channel=channel)
            self.told = channel
        self.send(frame_name, **values)

    def receive_on(self, channel):
        """The next frame of a channel; what comes for others is kept."""
        while not self.arrived.setdefault(channel, []):
            name, content = self.receive()
            if name == "CHANNEL":
                self.heard = content["channel"]
            else:
                self.arrived.setdefault(self.heard, []).append((name, content))
        return self.arrived[channel].pop(0)

    def attach(self, channel, project, token, device_key):
        """The app's WELCOME, or the error that it is refused with."""
        self.send_on(channel, "HELLO", version=VERSION, role=1, project_ID=project, token=token,
                     device_key=device_key, device_state=1, unconfirmed=[])
        name, content = self.receive_on(channel)
        if name == "ERROR":
            raise MartletError(content)
        if name != "WELCOME":
            raise ProtocolViolation(f"WELCOME expected, {name} received")
        return content


class Sender(Connection):
    """A sender of one project."""

    def __init__(self, host, port, project, server_key, timeout=10.0):
        self.upstream = []
        super().__init__(host, port, timeout, role=2, project_ID=project, server_key=server_key)

    def send_message(self, kind, target, content, time_to_live=ABSENT, priority=0,
                     validate_only=False, receipts=False, collapse_key="", package_name="",
                     idempotency_key="", send_at=0, not_received=None):
        flags = int(validate_only) | 2 * int(receipts) | (0 if not_received is None else 4)
        return self.request("SEND", flags=flags,
                            target_kind=_number(TARGETS, kind), target=target,
                            time_to_live=time_to_live, priority=priority,
                            collapse_key=collapse_key, restricted_package_name=package_name,
                            idempotency_key=idempotency_key, send_at=send_at,
                            not_received=not_received, message=content)[1]

    def send_to_all(self, targets, content, time_to_live=ABSENT, priority=0):
        """`targets` are pairs such as ("topic", "storm"). MULTICAST_RESULT's fields."""
        listed = [{"target kind": _number(TARGETS, kind), "target": target}
                  for kind, target in targets]
        return self.request("MULTICAST", flags=0, targets=listed, time_to_live=time_to_live,
                            priority=priority, collapse_key="", restricted_package_name="",
                            idempotency_key="", send_at=0, message=content)[1]

    def create_group(self, name, *tokens):
        return self.request("CREATE_GROUP", name=name,
                            tokens=[{"token": token} for token in tokens])[1]

    def change_group(self, operation, name, key, *tokens):
        """1 adds, 2 removes."""
        return self.request("CHANGE_GROUP", operation=operation, name=name, key=key,
                            tokens=[{"token": token} for token in tokens])[1]

    def find_group(self, name):
        return self.request("FIND_GROUP", name=name)[1]

    def list_groups(self):
        """All of them, page by page."""
        groups, more = [], True
        while more:
            page = self.request("LIST_GROUPS", after=groups[-1]["name"] if groups else "",
                                limit=1000)[1]
            groups, more = groups + page["groups"], page["more"]
        return groups

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

    def keep(self, name, content):
        if name != "UPSTREAM_MESSAGE":
            return super().keep(name, content)
        self.upstream.append(content)
        return True

    def listen_upstream(self):
        self.request("LISTEN_UPSTREAM")

    def next_upstream(self):
        """UPSTREAM_MESSAGE's fields; `acknowledge_upstream` says that it was taken."""
        while not self.upstream:
            name, content = self.receive()
            if not self.keep(name, content) and name == "ERROR":
                raise MartletError(content)
        return self.upstream.pop(0)

    def acknowledge_upstream(self, *numbers):
        self.send("UPSTREAM_ACK", numbers=[{"number": number} for number in numbers])

    def quotas(self):
        """name: QUOTA_LIST's fields of it"""
        return {quota["name"]: quota for quota in self.request("QUOTAS")[1]["quotas"]}

    def report(self, message_number):
        """REPORT_RESULT's fields"""
        return self.request("REPORT", message_number=message_number)[1]

    def not_received(self, message_number, limit=1000):
        """The first tokens of those that have not got the message."""
        page = self.request("LIST_NOT_RECEIVED", message_number=message_number, cursor="",
                            limit=limit)[1]
        return [entry["token"] for entry in page["tokens"]]

    def audience(self, condition):
        return self.request("AUDIENCE", condition=condition)[1]
