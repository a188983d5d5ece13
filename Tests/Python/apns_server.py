# SPDX-License-Identifier: Apache-2.0
"""A server that behaves as Apple documents its push service: HTTP/2 over TLS, with h2 from PyPI.

Source: Apple, "Sending notification requests to APNs", "Handling notification responses from APNs", "Establishing a
token-based connection to APNs". The server judges a request by the documents, then asks `answer` what else to say.
"""

import asyncio
import base64
import collections
import datetime
import ipaddress
import json
import os
import ssl
import threading
import time
import uuid

import h2.config
import h2.connection
import h2.events
import h2.settings
import hyperframe.frame
import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding, NoEncryption, PrivateFormat, PublicFormat)

PAYLOAD_BYTES_MAX = 4096
PUSH_TYPES = {"alert", "background", "controls", "location", "voip", "complication", "fileprovider", "mdm",
              "liveactivity", "pushtotalk", "widgets"}

Answer = collections.namedtuple("Answer", "status reason headers delay", defaults=("", {}, 0))
TAKEN = Answer(200)
# No answer, and then the end of the connection.
DEAD = object()


class Request:
    """What a client said, and when."""

    def __init__(self, headers, connection):
        self.headers = {}
        for name, value in headers:
            assert name not in self.headers, f"{name} came twice"
            self.headers[name] = value
        self.connection, self.body, self.at = connection, b"", time.time()

    @property
    def token(self):
        return self.headers[":path"].rsplit("/", 1)[1]

    @property
    def identifier(self):
        return self.headers.get("apns-id", "")

    @property
    def payload(self):
        return json.loads(self.body)


class Key:
    """A key of Apple's developer account."""

    def __init__(self, key_id="ABC123DEFG", team="DEF123GHIJ"):
        self.private, self.id, self.team = ec.generate_private_key(ec.SECP256R1()), key_id, team

    @property
    def text(self):
        return self.private.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @property
    def public(self):
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def certificates(folder, names=("localhost",)):
    """An authority, and a certificate of it for this machine: the paths of the authority, the certificate and its key."""
    now = datetime.datetime.now(datetime.timezone.utc)

    def make(name, issuer, issuer_key, key, extension):
        builder = (x509.CertificateBuilder()
                   .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
                   .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
                   .public_key(key.public_key()).serial_number(x509.random_serial_number())
                   .not_valid_before(now - datetime.timedelta(days=1))
                   .not_valid_after(now + datetime.timedelta(days=10)))
        return builder.add_extension(extension, critical=False).sign(issuer_key, hashes.SHA256())

    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = make("authority", "authority", authority, authority, x509.BasicConstraints(True, None))
    alternatives = [x509.DNSName(name) for name in names]
    alternatives.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    leaf = make("push", "authority", authority, server, x509.SubjectAlternativeName(alternatives))
    paths = [os.path.join(folder, name) for name in ("authority.pem", "server.pem", "server.key")]
    contents = [root.public_bytes(Encoding.PEM), leaf.public_bytes(Encoding.PEM),
                server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]
    for path, content in zip(paths, contents):
        with open(path, "wb") as file:
            file.write(content)
    return paths


class _Connection(asyncio.Protocol):
    def __init__(self, server):
        self.server, self.requests, self.ended, self.leaving = server, {}, False, False
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=False, header_encoding="utf-8"))

    def connection_made(self, transport):
        self.transport = transport
        protocol = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        assert protocol == "h2", protocol
        self.number = self.server.connected(self)
        # h2 would tell a changed setting only later.
        self.http.local_settings = h2.settings.Settings(client=False, initial_values={
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self.server.streams})
        self.http.initiate_connection()
        self.flush()

    def connection_lost(self, error):
        self.ended = True
        self.server.open.discard(self)

    def flush(self):
        if not self.ended:
            self.transport.write(self.http.data_to_send())

    def data_received(self, data):
        if self.ended:
            return
        for event in self.http.receive_data(data):
            if self.ended:
                return
            if isinstance(event, h2.events.RequestReceived):
                self.requests[event.stream_id] = Request(event.headers, self.number)
                at_once = len(self.requests)
                self.server.most_streams = max(self.server.most_streams, at_once)
            elif isinstance(event, h2.events.DataReceived):
                self.requests[event.stream_id].body += event.data
                self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended_request(event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                self.requests.pop(event.stream_id, None)
        self.flush()

    def ended_request(self, stream):
        request = self.requests[stream]
        answer = self.server.judge(request)
        if answer is DEAD:
            self.server.deaths.append(time.time())
            self.ended = True
            self.transport.abort()
        elif answer.delay:
            asyncio.get_running_loop().call_later(answer.delay, self.say, stream, request, answer)
        else:
            self.say(stream, request, answer)

    def say(self, stream, request, answer):
        if self.ended or self.requests.pop(stream, None) is None:
            return
        headers = [(":status", str(answer.status)), ("apns-id", request.identifier or str(uuid.uuid4()))]
        headers += list(answer.headers.items())
        body = b"" if answer.status == 200 else json.dumps({"reason": answer.reason}).encode()
        self.http.send_headers(stream, headers, end_stream=not body)
        if body:
            self.http.send_data(stream, body, end_stream=True)
        # What a client was told is noted before the client can hear it.
        self.server.told(request, answer)
        self.flush()
        if self.server.goaway_after and self.server.count_streams(self) >= self.server.goaway_after:
            self.goaway()

    def goaway(self):
        """The streams up to now are still answered. h2 itself would end them."""
        if self.leaving or self.ended:
            return
        self.leaving = True
        frame = hyperframe.frame.GoAwayFrame(0, last_stream_id=self.http.highest_inbound_stream_id)
        self.transport.write(frame.serialize())
        asyncio.get_running_loop().call_later(0.5, self.transport.close)


class Server:
    """Apple's push service on this machine."""

    def __init__(self, folder, streams=1000):
        self.streams, self.goaway_after = streams, 0
        self.keys, self.requests, self.answers = {}, [], []
        # By answer, when it was said; and when connections died.
        self.said, self.deaths = [], []
        self.answer = lambda request: TAKEN
        self.open, self.connections, self.most_streams = set(), 0, 0
        self.per_connection = collections.Counter()
        self.authority, certificate, key = certificates(folder)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.context.set_alpn_protocols(["h2"])
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.port = 0
        self.listen()

    def listen(self):
        async def begin():
            self.listener = await self.loop.create_server(
                lambda: _Connection(self), "127.0.0.1", self.port, ssl=self.context)
            self.port = self.listener.sockets[0].getsockname()[1]
        asyncio.run_coroutine_threadsafe(begin(), self.loop).result()
        self.url = f"https://localhost:{self.port}"

    def vanish(self):
        """Nobody listens any more, and all connections end."""
        async def end():
            self.listener.close()
            for connection in list(self.open):
                connection.transport.abort()
        asyncio.run_coroutine_threadsafe(end(), self.loop).result()

    def trust(self, key):
        self.keys[key.id] = key

    def connected(self, connection):
        self.connections += 1
        self.open.add(connection)
        return self.connections

    def count_streams(self, connection):
        self.per_connection[connection.number] += 1
        return self.per_connection[connection.number]

    def told(self, request, answer):
        self.said.append(time.time())
        self.answers.append((request, answer))

    def judge(self, request):
        self.requests.append(request)
        reason = self.fault(request)
        return reason if reason else self.answer(request)

    def fault(self, request):
        """What Apple documents of a request that is wrong by itself."""
        headers = request.headers
        if headers[":method"] != "POST":
            return Answer(405, "MethodNotAllowed")
        path = headers[":path"].split("/")
        if path[:3] != ["", "3", "device"] or len(path) != 4:
            return Answer(404, "BadPath")
        faulty = self.authorization(headers.get("authorization"))
        if faulty:
            return Answer(403, faulty)
        if not path[3] or set(path[3]) - set("0123456789abcdefABCDEF"):
            return Answer(400, "BadDeviceToken")
        if "apns-id" in headers and str(uuid.UUID(headers["apns-id"])) != headers["apns-id"].lower():
            return Answer(400, "BadMessageId")
        if "apns-topic" not in headers:
            return Answer(400, "MissingTopic")
        if not headers.get("apns-expiration", "0").isdigit():
            return Answer(400, "BadExpirationDate")
        if headers.get("apns-priority", "10") not in ("1", "5", "10"):
            return Answer(400, "BadPriority")
        if headers.get("apns-push-type", "alert") not in PUSH_TYPES:
            return Answer(400, "InvalidPushType")
        if headers.get("apns-push-type") == "background" and headers.get("apns-priority") == "10":
            return Answer(400, "BadPriority")
        if len(headers.get("apns-collapse-id", "").encode()) > 64:
            return Answer(400, "BadCollapseId")
        if not request.body:
            return Answer(400, "PayloadEmpty")
        if len(request.body) > PAYLOAD_BYTES_MAX:
            return Answer(413, "PayloadTooLarge")
        assert isinstance(request.payload, dict), request.body
        return None

    def authorization(self, text):
        if not text or not text.startswith("bearer "):
            return "MissingProviderToken"
        token = text.removeprefix("bearer ")
        try:
            key = self.keys[jwt.get_unverified_header(token)["kid"]]
            claims = jwt.decode(token, key.public, algorithms=["ES256"])
        except (KeyError, jwt.InvalidTokenError):
            return "InvalidProviderToken"
        if claims["iss"] != key.team:
            return "InvalidProviderToken"
        return "ExpiredProviderToken" if time.time() - claims["iat"] > 3600 else None

    def until(self, condition, seconds=60):
        """Waits until the server has seen something."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"{len(self.requests)} requests, {len(self.answers)} answers"
            time.sleep(0.01)


def claims(request):
    """Header and claims of the provider token."""
    token = request.headers["authorization"].removeprefix("bearer ")
    parts = [json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2]]
    return parts[0], parts[1]
