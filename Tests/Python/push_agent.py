# SPDX-License-Identifier: Apache-2.0
"""A Web Push user agent of its own: WebSocket, the three dialects, and decryption.

The standard library and `cryptography`, which pywebpush brings along. Nothing of the Swift code was looked at.
"""

import base64
import hashlib
import hmac
import json
import os
import socket
import struct
import time
import urllib.parse
import uuid

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

TEXT, CONTINUATION, BINARY, CLOSE, PING, PONG = 1, 0, 2, 8, 9, 10


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Closed(Exception):
    """The peer has closed; `code` is None without a close frame."""

    def __init__(self, code):
        self.code = code
        super().__init__(f"closed with {code}")


class Refused(Exception):
    """The server did not switch protocols."""


class WebSocket:
    """The client's side of RFC 6455, no extensions."""

    def __init__(self, url, protocol=None, timeout=15):
        parts = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=timeout)
        self.buffer, self.timeout, self.pings = b"", timeout, 0
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {parts.path or '/'} HTTP/1.1", f"Host: {parts.netloc}", "Upgrade: websocket",
                 "Connection: keep-alive, Upgrade", f"Sec-WebSocket-Key: {key}",
                 "Sec-WebSocket-Version: 13",
                 "Sec-WebSocket-Extensions: permessage-deflate"]
        if protocol:
            lines.append(f"Sec-WebSocket-Protocol: {protocol}")
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        while b"\r\n\r\n" not in self.buffer:
            self._read()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        self.head = head.decode().lower()
        if " 101 " not in self.head.split("\r\n")[0]:
            raise Refused(self.head)
        proof = base64.b64encode(hashlib.sha1(
            (key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        assert f"sec-websocket-accept: {proof}".lower() in self.head, self.head

    def _read(self):
        data = self.socket.recv(65536)
        if not data:
            raise Closed(None)
        self.buffer += data

    def send(self, payload, opcode=TEXT, final=True, masked=True, reserved=0):
        payload = payload.encode() if isinstance(payload, str) else payload
        head = bytes([(0x80 if final else 0) | reserved | opcode])
        mask = 0x80 if masked else 0
        if len(payload) < 126:
            head += bytes([mask | len(payload)])
        elif len(payload) < 65536:
            head += bytes([mask | 126]) + struct.pack(">H", len(payload))
        else:
            head += bytes([mask | 127]) + struct.pack(">Q", len(payload))
        if masked:
            key = os.urandom(4)
            payload = bytes(byte ^ key[index % 4] for index, byte in enumerate(payload))
            head += key
        self.socket.sendall(head + payload)

    def _take(self, count):
        while len(self.buffer) < count:
            self._read()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def receive(self, timeout=None):
        """The next text; pings are answered. None: nothing came in time."""
        self.socket.settimeout(self.timeout if timeout is None else timeout)
        kept = self.buffer
        try:
            while True:
                kept = self.buffer
                first, second = self._take(2)
                assert not second & 0x80, "a server masks nothing"
                length = second & 0x7F
                if length == 126:
                    length = struct.unpack(">H", self._take(2))[0]
                elif length == 127:
                    length = struct.unpack(">Q", self._take(8))[0]
                payload = self._take(length)
                opcode = first & 0x0F
                if opcode == PING:
                    self.pings += 1
                    self.send(payload, PONG)
                elif opcode == CLOSE:
                    raise Closed(struct.unpack(">H", payload[:2])[0] if payload else None)
                elif opcode == PONG:
                    return ("pong", payload)
                else:
                    assert first & 0x80, "the server does not divide messages"
                    return payload.decode()
        except (socket.timeout, TimeoutError):
            # A frame that has come in part is read again from its start.
            self.buffer = kept + self.buffer if not kept.endswith(self.buffer) else kept
            return None
        except ConnectionResetError:
            raise Closed(None) from None

    def close(self):
        self.socket.close()


class Keys:
    """What a subscription encrypts to."""

    def __init__(self, private=None, auth=None):
        self.private = private or ec.generate_private_key(ec.SECP256R1())
        self.auth = auth or os.urandom(16)
        self.public = self.private.public_key().public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint)

    def shared(self, sender):
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        return self.private.exchange(ec.ECDH(), public)


def _extract(salt, key):
    return hmac.new(salt, key, hashlib.sha256).digest()


def _expand(key, info, count):
    return hmac.new(key, info + b"\1", hashlib.sha256).digest()[:count]


def decrypt(keys, data, headers):
    """The text of a notification (RFC 8291, and the draft's aesgcm)."""
    if headers["encoding"] == "aes128gcm":
        salt, (size,), count = data[:16], struct.unpack(">I", data[16:20]), data[20]
        sender, text = data[21:21 + count], data[21 + count:]
        assert len(text) <= size
        secret = _expand(_extract(keys.auth, keys.shared(sender)),
                         b"WebPush: info\0" + keys.public + sender, 32)
        root = _extract(salt, secret)
        plain = AESGCM(_expand(root, b"Content-Encoding: aes128gcm\0", 16)).decrypt(
            _expand(root, b"Content-Encoding: nonce\0", 12), text, None)
        return plain.rstrip(b"\0")[:-1]
    assert headers["encoding"] == "aesgcm", headers
    salt = unb64(_parameter(headers["encryption"], "salt"))
    sender = unb64(_parameter(headers["crypto_key"], "dh"))
    secret = _expand(_extract(keys.auth, keys.shared(sender)), b"Content-Encoding: auth\0", 32)
    root = _extract(salt, secret)
    context = (b"P-256\0" + struct.pack(">H", len(keys.public)) + keys.public
               + struct.pack(">H", len(sender)) + sender)
    plain = AESGCM(_expand(root, b"Content-Encoding: aesgcm\0" + context, 16)).decrypt(
        _expand(root, b"Content-Encoding: nonce\0" + context, 12), data, None)
    return plain[2 + struct.unpack(">H", plain[:2])[0]:]


def _parameter(header, name):
    for part in header.replace(",", ";").split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value.strip('"')
    raise KeyError(name)


class Subscription:
    def __init__(self, channel, endpoint, keys):
        self.channel, self.endpoint, self.keys = channel, endpoint, keys

    def info(self):
        """As a page hands it to its server."""
        return {"endpoint": self.endpoint,
                "keys": {"p256dh": b64(self.keys.public), "auth": b64(self.keys.auth)}}


class Agent:
    """A user agent. Dialects: firefox, kde, sunup."""

    def __init__(self, url, dialect="firefox", uaid=None, timeout=15):
        self.url, self.dialect, self.uaid, self.timeout = url, dialect, uaid, timeout
        self.subscriptions, self.waiting = {}, []
        self.socket = None

    def connect(self):
        self.socket = WebSocket(
            self.url, "push-notification" if self.dialect == "firefox" else None, self.timeout)
        if self.dialect == "firefox":
            assert "sec-websocket-protocol: push-notification" in self.socket.head
            hello = {"messageType": "hello", "use_webpush": True, "broadcasts": {}}
            # Firefox names its ID only if it has subscriptions.
            if self.uaid and self.subscriptions:
                hello["uaid"] = self.uaid
        elif self.dialect == "kde":
            hello = {"messageType": "hello", "uaid": self.uaid or "", "use_webpush": True,
                     "channelIDs": []}
        else:
            hello = {"messageType": "hello", "uaid": self.uaid, "broadcasts": None,
                     "use_webpush": True}
        self.say(hello)
        answer = self.answer("hello")
        assert answer["status"] == 200 and answer["use_webpush"] is True, answer
        assert answer["broadcasts"] == {}, answer
        self.former, self.uaid = self.uaid, answer["uaid"]
        return self

    def say(self, message):
        self.socket.send(json.dumps(message))

    def hear(self, timeout=None):
        text = self.socket.receive(timeout)
        return None if text is None else json.loads(text)

    def answer(self, kind):
        while True:
            message = self.hear()
            assert message is not None, f"no answer to {kind}"
            if message.get("messageType") == kind:
                return message
            if message.get("messageType") == "notification":
                self.waiting.append(message)

    def register(self, key=None, channel=None):
        """A new subscription; the answer itself if it is refused."""
        channel = channel or str(uuid.uuid4())
        request = {"messageType": "register", "channelID": channel}
        if key is not None:
            # Firefox pads what it sends.
            text = b64(key)
            request["key"] = text + "=" * (-len(text) % 4) if self.dialect == "firefox" else text
        self.say(request)
        answer = self.answer("register")
        assert answer["channelID"] == channel, answer
        if answer["status"] != 200:
            assert "pushEndpoint" not in answer, answer
            return answer
        known = self.subscriptions.get(channel)
        subscription = Subscription(
            channel, answer["pushEndpoint"], known.keys if known else Keys())
        self.subscriptions[channel] = subscription
        return subscription

    def unregister(self, subscription, code=200):
        self.say({"messageType": "unregister", "channelID": subscription.channel, "code": code})
        answer = self.answer("unregister")
        assert answer["status"] == 200 and answer["channelID"] == subscription.channel, answer
        self.subscriptions.pop(subscription.channel, None)

    def notification(self, timeout=None):
        """The next notification, not acknowledged. None: nothing came in time."""
        if self.waiting:
            return self.waiting.pop(0)
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            message = self.hear(max(0.01, end - time.monotonic()))
            if message is None:
                return None
            if message.get("messageType") == "notification":
                return message

    def read(self, notification):
        """The notification's text; None without a body."""
        if "data" not in notification:
            assert "headers" not in notification, notification
            return None
        keys = self.subscriptions[notification["channelID"]].keys
        return decrypt(keys, unb64(notification["data"]), notification["headers"])

    def acknowledge(self, notification, code=100):
        update = {"channelID": notification["channelID"], "version": notification["version"]}
        if self.dialect == "firefox" or code != 100:
            update["code"] = code
        self.say({"messageType": "ack", "updates": [update]})

    def take(self, timeout=None):
        """The next notification's text, acknowledged."""
        notification = self.notification(timeout)
        if notification is None:
            return False
        text = self.read(notification)
        self.acknowledge(notification)
        return text

    def sync(self):
        """Returns when the broker has heard everything that was said before."""
        self.say({})
        while True:
            message = self.hear()
            assert message is not None, "no answer to a ping"
            if message == {}:
                return
            if message.get("messageType") == "notification":
                self.waiting.append(message)

    def close(self):
        self.socket.close()
