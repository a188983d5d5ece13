# SPDX-License-Identifier: Apache-2.0
"""What application servers and user agents do at the Web Push door, against a real `martlet`.

    push_scenarios.py MARTLET [SCENARIO…]

Each scenario has a broker, and says what it shows. The application server is pywebpush from PyPI, unmodified; what it
would not do itself is asked with http.client. The user agent is `push_agent`.
"""

import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
import uuid

import py_vapid
import pywebpush
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ports import free_port
from push_agent import (
    BINARY, CONTINUATION, TEXT, Agent, Closed, Keys, WebSocket, b64, unb64)

MARTLET = None


class Server:
    """A broker with a door, as a process, on a folder of its own."""

    def __init__(self, limits=(), origins=(), options=()):
        self.folder = tempfile.mkdtemp(prefix="martlet-push-")
        self.limits, self.more_origins, self.process = limits, origins, None
        self.options = options
        self.data = os.path.join(self.folder, "data")
        self.run("project", "create", "web-push")
        self.key = self.run("registration-key", "create", "--project", "web-push", "--name", "browsers",
                            "--json")["key"]
        # A free port is chosen once, because endpoints name it.
        self.port = free_port()
        self.origin = f"http://127.0.0.1:{self.port}"
        self.url = f"ws://127.0.0.1:{self.port}/wpush/connect/{self.key}"
        self.prepare()
        self.start()

    def prepare(self):
        """What is done before the first start."""

    def more_options(self):
        """Further options of the broker."""
        return list(self.options)

    def run(self, *arguments, fails=False):
        done = subprocess.run([MARTLET, *arguments, "--data", self.data], capture_output=True,
                              text=True, timeout=60)
        assert (done.returncode != 0) == fails, done.stderr
        return json.loads(done.stdout) if "--json" in arguments else done.stdout + done.stderr

    def start(self):
        command = [MARTLET, "gateway", "--data", self.data, "--port", "0", "--http",
                   f"127.0.0.1:{self.port}", "--loops", "1", "--json",
                   "--web-push-origin", self.origin]
        for origin in self.more_origins:
            command += ["--web-push-origin", origin]
        for limit in self.limits:
            command += ["--limit", limit]
        command += self.more_options()
        self.errors = open(os.path.join(self.folder, "log"), "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors)
        line = self.process.stdout.readline()
        assert line, "the broker did not start: " + self.log()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0

    def end(self):
        if self.process.poll() is None:
            self.stop()
        report = subprocess.run([MARTLET, "check", "--data", self.data], capture_output=True, text=True)
        assert report.returncode == 0, report.stdout + report.stderr
        shutil.rmtree(self.folder)

    def agent(self, dialect="firefox", uaid=None):
        return Agent(self.url, dialect, uaid)

    def metrics(self):
        return self.ask("GET", "/metrics")[2].decode()

    def ask(self, method, url, headers=None, body=None):
        """(status, headers with names in lower case, body)"""
        parts = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, parts.path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return (answer.status, {name.lower(): value for name, value in answer.getheaders()},
                    answer.read())
        finally:
            connection.close()

    def push(self, endpoint, body=b"", ttl=60, **headers):
        """A raw push. A body is opaque to the door, so any bytes do."""
        named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
        if ttl is not None:
            named.setdefault("TTL", str(ttl))
        if body and "Content-Encoding" not in named:
            named["Content-Encoding"] = "aes128gcm"
        if named.get("Content-Encoding") == "":
            del named["Content-Encoding"]
        return self.ask("POST", endpoint, named, body)

    def log(self):
        return pathlib.Path(self.folder, "log").read_text()

    def report(self, location):
        number = struct.unpack(">Q", unb64(location.rsplit("/", 1)[1])[:8])[0]
        return self.run("report", str(number), "--project", "web-push", "--json")


def refused(answer, status, number):
    body = json.loads(answer[2])
    assert answer[0] == status == body["code"], answer
    assert body["errno"] == number, answer
    assert {"error", "message", "more_info"} <= set(body), answer
    assert answer[1]["access-control-allow-origin"] == "*", answer
    return answer


class ApplicationServer:
    """A key pair, and pywebpush with it."""

    def __init__(self):
        self.vapid = py_vapid.Vapid02()
        self.vapid.generate_keys()
        self.public = self.vapid.public_key.public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint)

    def send(self, subscription, text, ttl=60, coding="aes128gcm", **more):
        key = self.vapid
        if coding == "aesgcm":
            key = py_vapid.Vapid01(private_key=self.vapid.private_key)
        return pywebpush.webpush(
            subscription.info(), text, vapid_private_key=key,
            vapid_claims={"sub": "mailto:ops@example.org"}, ttl=ttl, content_encoding=coding,
            timeout=30, **more)

    def token(self, claims, alg="ES256", signature=None, header=None):
        """A token made by hand."""
        header = header or {"typ": "JWT", "alg": alg}
        signed = b64(json.dumps(header).encode()) + "." + b64(json.dumps(claims).encode())
        if signature is None:
            der = self.vapid.private_key.sign(signed.encode(), ec.ECDSA(hashes.SHA256()))
            signature = b"".join(part.to_bytes(32, "big") for part in decode_dss_signature(der))
        return signed + "." + b64(signature)

    def claims(self, server, **other):
        return {"aud": server.origin, "exp": int(time.time()) + 3600,
                "sub": "mailto:ops@example.org", **other}


# MARK: Scenarios


def dialects(server):
    """GW-12 GW-13 pywebpush sends in both codings, and each dialect reads: with a body of 3993 bytes, and without one"""
    sender = ApplicationServer()
    for dialect in ("firefox", "kde", "sunup"):
        agent = server.agent(dialect).connect()
        for key in (sender.public, None):
            subscription = agent.register(key)
            assert len(subscription.endpoint) <= 1000
            for coding in ("aes128gcm", "aesgcm"):
                answer = sender.send(subscription, f"high water {coding}", coding=coding)
                assert answer.status_code == 201 and answer.content == b"", answer
                assert answer.headers["ttl"] == "60"
                assert answer.headers["location"].startswith(server.origin + "/wpush/m/")
                assert agent.take() == f"high water {coding}".encode()
            sender.send(subscription, "x" * 3993)
            assert agent.take() == b"x" * 3993
            try:
                sender.send(subscription, "x" * 3994)
                assert False, "3994 bytes were taken"
            except pywebpush.WebPushException as error:
                assert error.response.status_code == 413 and error.response.json()["errno"] == 104
            sender.send(subscription, None)
            assert agent.take() is None
        agent.close()


def rfc8291(server):
    """GW-12 the example of RFC 8291, section 5, comes byte for byte, and is read"""
    private = ec.derive_private_key(
        int.from_bytes(unb64("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"), "big"), ec.SECP256R1())
    keys = Keys(private, unb64("BTBZMqHH6r4Tts7J_aSIgg"))
    assert b64(keys.public) == ("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRp"
                                "kNtoIAiw4")
    body = unb64("DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWA"
                 "mS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_"
                 "Qulcy4a-fN")
    agent = server.agent().connect()
    subscription = agent.register()
    subscription.keys = keys
    assert server.push(subscription.endpoint, body)[0] == 201
    notification = agent.notification()
    assert unb64(notification["data"]) == body
    assert agent.read(notification) == b"When I grow up, I want to be a watermelon"


def heads(server):
    """GW-12 each header of a request has the answer that libraries know, on the head"""
    agent = server.agent().connect()
    endpoint = agent.register().endpoint
    refused(server.push(endpoint, ttl=None), 400, 111)
    refused(server.push(endpoint, ttl="soon"), 400, 111)
    refused(server.push(endpoint, ttl="1.5"), 400, 111)
    refused(server.push(endpoint, ttl=-1), 400, 114)
    for ttl, told in ((0, 0), (60, 60), (2_419_200, 2_419_200), (99_999_999, 2_419_200),
                      (10 ** 30, 2_419_200)):
        answer = server.push(endpoint, ttl=ttl)
        assert answer[0] == 201 and answer[1]["ttl"] == str(told) and answer[2] == b"", answer
        assert agent.take() is None
    for topic in ("", "a" * 33, "a b", "ä", "a+b", "a/b"):
        refused(server.push(endpoint, Topic=topic.encode().decode("latin-1")), 400, 113)
    for topic in ("a", "A-_9" * 8):
        assert server.push(endpoint, Topic=topic)[0] == 201
        assert agent.take() is None
    refused(server.push(endpoint, b"x", Content_Encoding=""), 400, 110)
    refused(server.push(endpoint, b"x", Content_Encoding="gzip"), 400, 110)
    refused(server.push(endpoint, b"x", Content_Encoding="aesgcm"), 400, 110)
    for urgency in ("very-low", "low", "normal", "high", "soon"):
        assert server.push(endpoint, Urgency=urgency, Prefer="respond-async")[0] == 201
        assert agent.take() is None
    assert server.push(endpoint, b"x" * 4096)[0] == 201
    assert unb64(agent.notification()["data"]) == b"x" * 4096
    refused(server.push(endpoint, b"x" * 4097), 413, 104)
    # The head alone: the body that it announces does not come.
    for announced, status in (("4097", b"413"), ("99999999", b"413")):
        with socket.create_connection(("127.0.0.1", server.port), timeout=15) as raw:
            path = urllib.parse.urlsplit(endpoint).path
            raw.sendall((f"POST {path} HTTP/1.1\r\nHost: a\r\nTTL: 1\r\nContent-Encoding: aes128gcm\r\n"
                         f"Expect: 100-continue\r\nContent-Length: {announced}\r\n\r\n").encode())
            assert raw.recv(4096).split(b" ")[1] == status
    # A body without a length is counted as it comes.
    with socket.create_connection(("127.0.0.1", server.port), timeout=15) as raw:
        raw.sendall((f"POST {urllib.parse.urlsplit(endpoint).path} HTTP/1.1\r\nHost: a\r\nTTL: 1\r\n"
                     "Content-Encoding: aes128gcm\r\nTransfer-Encoding: chunked\r\n\r\n").encode())
        raw.sendall(b"2000\r\n" + b"x" * 8192 + b"\r\n0\r\n\r\n")
        assert raw.recv(4096).split(b" ")[1] == b"413"


def vapid(server):
    """GW-12 the application server's token: both forms, every fault, and what old senders leave out"""
    sender, other = ApplicationServer(), ApplicationServer()
    agent = server.agent().connect()
    free, bound = agent.register().endpoint, agent.register(sender.public).endpoint
    assert "/wpush/f/" in free and "/wpush/b/" in bound
    key = b64(sender.public)
    token = sender.token(sender.claims(server))

    def push(endpoint, authorization=None, crypto_key=None):
        headers = {}
        if authorization:
            headers["Authorization"] = authorization
        if crypto_key:
            headers["Crypto_Key"] = crypto_key
        return server.push(endpoint, **headers)

    padded = key + "=" * (-len(key) % 4)
    standard = padded.replace("-", "+").replace("_", "/")
    for authorization, crypto_key in (
            (f"vapid t={token},k={key}", None), (f"vapid k={key}, t={token}", None),
            (f"VAPID t={token}, k={padded}", None), (f"vapid t={token},k={standard}", None),
            (f"WebPush {token}", f"p256ecdsa={key}"), (f"Bearer {token}", f"dh=x;p256ecdsa={key}"),
            (f"webpush {token}", f"p256ecdsa={padded},dh=x")):
        for endpoint in (free, bound):
            answer = push(endpoint, authorization, crypto_key)
            assert answer[0] == 201, (authorization, answer)
    # A list on two lines is one list, whichever part comes first.
    halves = [f"dh={b64(sender.public)}", f"p256ecdsa={key}"]
    for lines in (halves, halves[::-1]):
        with socket.create_connection(("127.0.0.1", server.port), timeout=15) as raw:
            raw.sendall((f"POST {urllib.parse.urlsplit(bound).path} HTTP/1.1\r\nHost: a\r\nTTL: 60\r\n"
                         "Content-Encoding: aesgcm\r\nEncryption: salt=AAAAAAAAAAAAAAAAAAAAAA\r\n"
                         f"Authorization: WebPush {token}\r\n"
                         + "".join(f"Crypto-Key: {line}\r\n" for line in lines)
                         + "Content-Length: 9\r\n\r\n").encode() + b"encrypted")
            assert raw.recv(4096).split(b" ")[1] == b"201", lines
        while "headers" not in (encrypted := agent.notification()):  # The earlier ones have no body.
            pass
        assert encrypted["headers"]["crypto_key"] == halves[0]
    answer = refused(push(bound), 401, 109)
    assert answer[1]["www-authenticate"] == "vapid"
    assert push(free)[0] == 201
    stranger = other.token(other.claims(server))
    refused(push(bound, f"vapid t={stranger},k={b64(other.public)}"), 403, 109)
    now = int(time.time())
    faults = [
        sender.token(sender.claims(server, aud="https://elsewhere.example")),
        sender.token(sender.claims(server, aud=server.origin.replace("http:", "https:"))),
        sender.token(sender.claims(server, exp=now - 1)),
        sender.token(sender.claims(server, exp=now + 86_400 + 600)),
        sender.token(sender.claims(server, exp=str(now + 60))),
        sender.token({"aud": server.origin}),
        sender.token({"exp": now + 60}),
        sender.token(sender.claims(server), alg="HS256"),
        sender.token(sender.claims(server), alg="none", signature=b""),
        sender.token(sender.claims(server), signature=b"\0" * 64),
        sender.token(sender.claims(server), signature=b"\1" * 70),
        other.token(other.claims(server)),
        "a.b.c", "a", token + ".d", token[:-4], "x" * 5000,
    ]
    for fault in faults:
        for endpoint in (free, bound):
            refused(push(endpoint, f"vapid t={fault},k={key}"), 403, 109)
    refused(push(bound, f"vapid t={token}"), 403, 109)
    refused(push(bound, f"vapid k={key}"), 403, 109)
    refused(push(bound, f"Basic {token}"), 403, 109)
    refused(push(bound, "vapid"), 403, 109)
    refused(push(free, f"vapid t={token},k={key[:-8]}"), 403, 109)
    # Ruby's webpush leaves the port out; a slash, a second origin, and a day and five minutes.
    for claims in (sender.claims(server, aud="http://127.0.0.1"),
                   sender.claims(server, aud=server.origin + "/"),
                   sender.claims(server, aud="https://push.example.org"),
                   sender.claims(server, exp=now + 86_400 + 200),
                   sender.claims(server, exp=now + 3600.5)):
        assert push(bound, f"vapid t={sender.token(claims)},k={key}")[0] == 201, claims


def answers(server):
    """GW-12 a subscription that ended is 410, one that never was 404, and nothing else is either"""
    sender = ApplicationServer()
    agent = server.agent().connect()
    for key in (None, sender.public):
        subscription = agent.register(key)
        sender.send(subscription, "one")
        assert agent.take() == b"one"
        agent.unregister(subscription)
        # As Firefox says it, a second time too.
        agent.unregister(subscription, code=202)
        try:
            sender.send(subscription, "two")
            assert False, "an ended subscription takes messages"
        except pywebpush.WebPushException as error:
            assert error.response.status_code == 410 and error.response.json()["errno"] == 106
            assert error.response.headers["cache-control"] == "max-age=86400"
    free = agent.register().endpoint
    prefix, tail = free.rsplit("/", 1)
    flipped = ("A" if tail[0] != "A" else "B") + tail[1:]
    for wrong in (prefix + "/" + flipped, prefix + "/", prefix + "/" + tail[:-2], prefix + "/%00",
                  prefix + "/" + "A" * 54):
        answer = server.push(wrong)
        assert answer[0] == 404, answer
    # No free endpoint can be made of a restricted one, nor the other way round.
    bound = agent.register(sender.public).endpoint
    refused(server.push(bound.replace("/b/", "/f/")), 404, 102)
    token = sender.token(sender.claims(server))
    refused(server.push(free.replace("/f/", "/b/"),
                        Authorization=f"vapid t={token},k={b64(sender.public)}"), 403, 109)
    status, headers, body = server.ask("GET", free)
    assert status == 200 and json.loads(body) == {"unifiedpush": {"version": 1}}
    status, headers, body = server.ask("OPTIONS", free, {
        "Origin": "https://a.example", "Access-Control-Request-Method": "POST"})
    assert status == 200 and headers["access-control-allow-origin"] == "*"
    assert headers["access-control-max-age"] == "3600" and "POST" in headers["access-control-allow-methods"]
    for name in ("ttl", "urgency", "topic", "content-encoding", "authorization"):
        assert name in headers["access-control-allow-headers"]
    assert "location" in server.push(free)[1]["access-control-expose-headers"]
    assert agent.take() is None


def withdrawals(server):
    """GW-12 DELETE takes an undelivered message back: 204, then 404; a number alone is no URL of a message"""
    agent = server.agent().connect()
    subscription = agent.register()
    location = server.push(subscription.endpoint, b"x")[1]["location"]
    notification = agent.notification()
    assert server.ask("DELETE", location)[0] == 204
    agent.acknowledge(notification)
    agent.sync()
    agent.close()
    away = server.push(subscription.endpoint, b"y")[1]["location"]
    status, headers, body = server.ask("DELETE", away)
    assert status == 204 and body == b"" and "content-length" not in headers
    refused(server.ask("DELETE", away), 404, 102)
    nothing = server.push(subscription.endpoint, b"z", ttl=0)[1]["location"]
    refused(server.ask("DELETE", nothing), 404, 102)
    tail = away.rsplit("/", 1)[1]
    refused(server.ask("DELETE", away[:-1] + ("A" if tail[-1] != "A" else "B")), 404, 102)
    refused(server.ask("DELETE", server.origin + "/wpush/m/1"), 404, 102)
    agent.connect()
    assert agent.notification(1) is None


def absence(server):
    """GW-13 a user agent that was away: TTL 0, TTL 1 and the withdrawn never, of a Topic the later, others once, in order"""
    agent = server.agent().connect()
    subscription, beside = agent.register(), agent.register()
    agent.close()
    endpoint = subscription.endpoint
    wait_until_away(server)
    assert server.push(endpoint, b"never", ttl=0)[0] == 201
    server.push(endpoint, b"short", ttl=1)
    withdrawn = server.push(endpoint, b"withdrawn")[1]["location"]
    assert server.ask("DELETE", withdrawn)[0] == 204
    server.push(endpoint, b"first", Topic="news")
    server.push(beside.endpoint, b"beside", Topic="news")
    server.push(endpoint, b"plain one")
    server.push(endpoint, b"second", Topic="news")
    server.push(endpoint, b"plain two")
    server.push(endpoint)
    time.sleep(1.2)
    agent.connect()
    assert agent.former == agent.uaid, "the user agent kept its ID"
    notifications = [agent.notification() for _ in range(5)]
    assert agent.notification(0.5) is None
    came = [(item["channelID"] == beside.channel, item.get("data") and unb64(item["data"]))
            for item in notifications]
    assert [text for other, text in came if other] == [b"beside"]
    assert [text for other, text in came if not other] == [
        b"plain one", b"second", b"plain two", None], came
    for item in notifications:
        agent.acknowledge(item)
    agent.sync()
    agent.close()
    agent.connect()
    assert agent.notification(0.5) is None


def wait_until_away(server):
    """The broker hears of the end of a connection a moment later."""
    time.sleep(0.3)


def repetition(server):
    """GW-13 a message comes again until its end is told, with whatever code; a nack changes nothing"""
    agent = server.agent().connect()
    subscription = agent.register()
    for index in range(6):
        server.push(subscription.endpoint, bytes([index]) * 9)
    first = [agent.notification() for _ in range(6)]
    assert len({item["version"] for item in first}) == 6
    agent.close()
    agent.connect()
    again = [agent.notification() for _ in range(6)]
    assert [item["version"] for item in again] == [item["version"] for item in first]
    for item, code in zip(again[1:5], (100, 101, 102, 399)):
        agent.acknowledge(item, code)
    agent.say({"messageType": "nack", "version": again[1]["version"], "code": 301})
    # The end of an unknown message, and of none, is nothing.
    agent.acknowledge({"channelID": subscription.channel, "version": "999999"})
    agent.acknowledge({"channelID": subscription.channel, "version": "x"})
    agent.say({"messageType": "ack", "updates": None})
    agent.sync()
    agent.close()
    agent.connect()
    left = [agent.notification() for _ in range(2)]
    assert [item["version"] for item in left] == [first[0]["version"], first[5]["version"]]
    assert agent.notification(0.5) is None
    metrics = server.metrics()
    for ending, count in (("taken", 1), ("undecryptable", 1), ("undelivered", 1), ("other", 1),
                          ("refused", 1)):
        assert f'martlet_web_push_messages_total{{ending="{ending}"}} {count}' in metrics, metrics


def identities(server):
    """GW-13 nothing is written before a register; an unknown ID is answered with a new one; of two connections the older hears 4774"""
    def written():
        return {path.name: (path.stat().st_size, path.stat().st_mtime_ns)
                for path in pathlib.Path(server.data).iterdir()
                # The table of LMDB's readers is memory that the kernel writes back now and then.
                if path.suffix != ".address" and path.name != "lock.mdb"}

    # A broker writes something of its own soon after its start.
    time.sleep(2.5)
    before = written()
    # A million with PUSH_HELLOS=1000000.
    hellos = int(os.environ.get("PUSH_HELLOS", "2000"))
    for _ in range(hellos):
        agent = server.agent().connect()
        agent.close()
    assert written() == before, (before, written())
    uaid = agent.uaid
    unknown = server.agent("kde", "f" * 32).connect()
    assert unknown.uaid not in ("f" * 32, uaid) and len(unknown.uaid) <= 128
    old = server.agent("sunup").connect()
    subscription = old.register()
    new = server.agent("sunup", old.uaid)
    new.subscriptions = old.subscriptions
    new.connect()
    assert new.uaid == old.uaid
    try:
        while old.hear() is not None:
            pass
        assert False, "the older connection stays"
    except Closed as closed:
        assert closed.code == 4774
    server.push(subscription.endpoint, b"x")
    notification = new.notification()
    assert unb64(notification["data"]) == b"x"
    assert new.notification(0.3) is None
    data = pathlib.Path(server.data, "data.mdb").read_bytes()
    assert old.uaid.encode() not in data and bytes.fromhex(old.uaid) not in data


def registrations(server):
    """GW-13 REG-7 REG-10 register: the same channel again, refused keys and channels, and who has no registration key"""
    agent = server.agent("kde").connect()
    one = agent.register()
    assert agent.register(channel=one.channel).endpoint == one.endpoint
    sender = ApplicationServer()
    two = agent.register(sender.public)
    assert agent.register(sender.public, channel=two.channel).endpoint == two.endpoint
    for channel in ("x", one.channel.upper(), one.channel.replace("-", ""), "0" * 36):
        assert agent.register(channel=channel)["status"] == 400
    for key in (b"short", b"\4" * 64, b"\2" * 65):
        assert agent.register(key)["status"] == 400
    agent.say({"messageType": "unregister", "channelID": "nobody"})
    assert agent.answer("unregister")["status"] == 200
    for url in (server.origin.replace("http", "ws") + "/wpush/connect",
                server.origin.replace("http", "ws") + "/wpush/connect/wrong.key"):
        stranger = Agent(url, "firefox").connect()
        assert stranger.register()["status"] == 403
        stranger.close()
    # Both are counted, and the wrong key is logged, without itself.
    assert 'martlet_refusals_total{cause="PERMISSION_DENIED"} 2' in server.metrics()
    time.sleep(0.5)
    refused = [line for line in server.log().splitlines() if "a credential was refused" in line]
    assert len(refused) == 1 and "registration key" in refused[0], refused
    assert "127.0.0.1" in refused[0] and "wrong.key" not in server.log()
    for _ in range(200):
        agent.say({"messageType": "register", "channelID": str(uuid.uuid4())})
    for _ in range(200):
        assert agent.answer("register")["status"] == 200
    assert len({one.endpoint, two.endpoint}) == 2


def mailbox(server):
    """MSG-11 STO-1 of 105 messages to an absent user agent the last 100 come, without a notice; 30 topics are kept, and none waits"""
    agent = server.agent().connect()
    subscription, topics = agent.register(), agent.register()
    agent.close()
    wait_until_away(server)
    locations = [server.push(subscription.endpoint, struct.pack(">I", index))[1]["location"]
                 for index in range(105)]
    for round in range(2):
        for index in range(30):
            server.push(topics.endpoint, struct.pack(">II", round, index), Topic=f"t{index}")
    agent.connect()
    came, kept = [], []
    for _ in range(130):
        item = agent.notification()
        agent.acknowledge(item)
        (came if item["channelID"] == subscription.channel else kept).append(unb64(item["data"]))
    assert agent.notification(0.5) is None
    assert came == [struct.pack(">I", index) for index in range(5, 105)]
    assert kept == [struct.pack(">II", 1, index) for index in range(30)]
    agent.sync()
    time.sleep(0.3)
    # Connected, nothing is held back: no bucket, no four keys.
    for index in range(30):
        server.push(topics.endpoint, struct.pack(">I", index), Topic=f"u{index}")
    for index in range(30):
        assert unb64(agent.notification(5)["data"]) == struct.pack(">I", index)
    dropped, delivered = (server.report(locations[index])["counts"] for index in (0, 50))
    assert dropped["discardedTooMany"] == 1 and dropped["acknowledged"] == 0, dropped
    assert delivered["acknowledged"] == 1 and delivered["discarded"] == 0, delivered


def urgency(server):
    """PRI-2 TTL-4 a user agent that wants urgent messages alone gets the others when it wants them again, and once"""
    agent = server.agent().connect()
    subscription = agent.register()
    agent.say({"messageType": "urgency", "min": "high"})
    assert agent.answer("urgency")["status"] == 200
    agent.sync()
    time.sleep(0.2)
    server.push(subscription.endpoint, b"normal")
    server.push(subscription.endpoint, b"high", Urgency="high")
    urgent = agent.notification()
    assert unb64(urgent["data"]) == b"high"
    agent.acknowledge(urgent)
    assert agent.notification(0.5) is None
    agent.say({"messageType": "urgency", "min": "very-low"})
    assert agent.answer("urgency")["status"] == 200
    held = agent.notification()
    assert unb64(held["data"]) == b"normal"
    agent.acknowledge(held)
    agent.sync()
    time.sleep(0.5)
    agent.close()
    agent.connect()
    assert agent.notification(1) is None


def retries(server):
    """GW-8 equal bodies whose answers were lost are one message, and messages without a body are all meant"""
    agent = server.agent().connect()
    subscription = agent.register()
    path = urllib.parse.urlsplit(subscription.endpoint).path
    for body in (b"salted", b""):
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nTTL: 60\r\nContent-Length: {len(body)}\r\n"
        if body:
            head += "Content-Encoding: aes128gcm\r\n"
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", server.port)) as raw:
                raw.sendall(head.encode() + b"\r\n" + body)
                # The connection ends without a look at the answer.
        time.sleep(0.5)
        server.push(subscription.endpoint, body)
    texts = []
    while (item := agent.notification(1)) is not None:
        texts.append(item.get("data"))
        agent.acknowledge(item)
    assert texts.count(None) == 3, texts
    assert 1 <= texts.count(b64(b"salted")) <= 3, texts


def kills(server):
    """GW-12 GW-13 killed between 201 and the acknowledgement, the broker comes back with every message, once on a connection"""
    sender = ApplicationServer()
    agent = server.agent().connect()
    subscription = agent.register(sender.public)
    sent, taken = [], []
    for round in range(5):
        for index in range(4):
            text = f"{round} {index}"
            assert sender.send(subscription, text).status_code == 201
            sent.append(text.encode())
        for _ in range(round % 3):
            taken.append(agent.take())
        server.kill()
        server.start()
        agent.connect()
        assert agent.former == agent.uaid
        seen = []
        while (item := agent.notification(1)) is not None:
            seen.append(agent.read(item))
            agent.acknowledge(item)
        assert len(seen) == len(set(seen)), "twice on one connection"
        assert set(sent) - set(taken) <= set(seen), (sent, taken, seen)
        taken += seen
        agent.sync()
        time.sleep(0.3)
    assert set(taken) == set(sent)
    agent.close()
    agent.connect()
    assert agent.notification(1) is None
    # Both ended: the endpoint and the user agent's ID outlive the process.
    server.stop()
    server.start()
    assert sender.send(subscription, "after all").status_code == 201
    agent.connect()
    assert agent.take() == b"after all"


def hostility(server):
    """GW-13 GW-15 hostile user agents lose their own connection: frames, fragments, sizes, silence, and a reader that does not read"""
    def closed_with(socket, code):
        try:
            while socket.receive(15) is not None:
                pass
            assert False, "the connection stays"
        except Closed as closed:
            assert code is None or closed.code == code, closed.code

    hello = json.dumps({"messageType": "hello", "use_webpush": True})
    for said, code in (
            (lambda one: one.send(hello, masked=False), 1002),
            (lambda one: one.send(hello, reserved=0x40), 1002),
            (lambda one: one.send("nonsense"), 1002),
            (lambda one: one.send("[]"), 1002),
            (lambda one: one.send(b"\xff\xfe"), 1007),
            (lambda one: one.send(b'{"messageType": "\xed\xa0\x80"}'), 1007),
            (lambda one: (one.send(hello[:-1].encode() + b', "a": "\xc3', final=False),
                          one.send(b'"}', CONTINUATION)), 1007),
            (lambda one: (one.send(b"", final=False),
                          [one.send(b"", CONTINUATION, final=False) for _ in range(2000)]), 1008),
            (lambda one: [one.send(b"", 10) for _ in range(2000)], 1008),
            (lambda one: one.send(b"x" * 126, 10), 1002),
            (lambda one: one.send(b"\x03", 8), 1002),
            (lambda one: one.send(struct.pack(">H", 1005), 8), 1002),
            (lambda one: one.send(struct.pack(">H", 999), 8), 1002),
            (lambda one: one.send(struct.pack(">H", 1000) + b"\xff", 8), 1007),
            (lambda one: one.send(struct.pack(">H", 4000) + b"bye", 8), 4000),
            (lambda one: one.send(b"", 8), 1000),
            (lambda one: one.send(b"\0\1", BINARY), 1003),
            (lambda one: one.send("{", CONTINUATION), 1002),
            (lambda one: (one.send("{", final=False), one.send("}")), 1002),
            (lambda one: one.send("x" * 20_000), 1009),
            (lambda one: [one.send("x" * 4000, TEXT if index == 0 else CONTINUATION, final=False)
                          for index in range(6)], 1009),
            (lambda one: one.send("x" * 100_000), 1009),
            (lambda one: one.send(json.dumps({"messageType": "register"})), 1002),
            (lambda one: one.send(b"", 11), 1002)):
        one = WebSocket(server.url)
        try:
            said(one)
        except (BrokenPipeError, ConnectionResetError):
            pass
        closed_with(one, code)
    # A message in pieces, with a ping between them, is a message.
    one = WebSocket(server.url)
    for index, byte in enumerate(hello):
        one.send(byte, TEXT if index == 0 else CONTINUATION, final=index + 1 == len(hello))
        if index == 9:
            one.send(b"still here", 9)
    assert one.receive() == ("pong", b"still here")
    assert json.loads(one.receive())["status"] == 200
    one.send(json.dumps({"messageType": "hello"}))
    one.send("{}")
    assert one.receive() == "{}"
    # Whoever says nothing is let go; another path and a broken request are no WebSocket.
    silent = WebSocket(server.url)
    # Whoever reads no answers is read no more.
    deaf, asked = WebSocket(server.url, timeout=5), 0
    deaf.send(hello)
    try:
        while asked < 64 << 20:
            deaf.socket.sendall(PINGS)
            asked += len(PINGS)
        assert False, "the broker keeps answers without end"
    except (socket.timeout, TimeoutError):
        deaf.close()
    for path in ("/wpush", "/wpush/connect/a/b", "/nothing"):
        try:
            WebSocket(server.origin.replace("http", "ws") + path)
            assert False, path
        except (AssertionError, Exception) as error:
            assert "404" in str(error), error
    # A user agent that does not read holds up neither the broker nor others. Its messages are in its mailbox.
    slow, quick = server.agent().connect(), server.agent("kde").connect()
    silted, clear = slow.register(), quick.register()
    count = 1500
    for index in range(count):
        body = struct.pack(">I", index) * 1000
        assert server.push(silted.endpoint, body)[0] == 201
        if index % 100 == 0:
            server.push(clear.endpoint, b"clear")
            assert unb64(quick.notification()["data"]) == b"clear"
    came = []
    while len(came) < count:
        item = slow.notification(10)
        assert item is not None, f"{len(came)} of {count} came"
        came.append(struct.unpack(">I", unb64(item["data"])[:4])[0])
        slow.acknowledge(item)
    assert came == sorted(set(came)) == list(range(count)), "out of order, or twice"
    closed_with(silent, 1008)


def stopping(server):
    """NET-5 a broker that stops tells its user agents to go, and starts without an origin only as a gateway"""
    # A link without instances ends, which is no fault.
    gone = server.agent().connect()
    gone.unregister(gone.register())
    time.sleep(3)
    assert "Web Push link" not in server.log(), server.log()
    agent = server.agent().connect()
    agent.register()
    server.stop()
    try:
        agent.hear()
        assert False
    except Closed as closed:
        assert closed.code == 1001
    for arguments, word in (
            (["--web-push-origin", "push.example.org"], "origin"),
            (["--web-push-origin", "https://push.example.org/path"], "origin"),
            (["--web-push-origin", "https://push.example.org", "--web-push-project", "nobody"],
             "project")):
        done = subprocess.run(
            [MARTLET, "gateway", "--data", server.data, "--port", "0", "--http", "127.0.0.1:0",
             *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and word in done.stderr, done.stderr
    plain = subprocess.Popen(
        [MARTLET, "gateway", "--data", server.data, "--port", "0", "--http", f"127.0.0.1:{server.port}",
         "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert plain.stdout.readline()
    assert server.ask("GET", "/wpush/f/x")[0] == 404
    plain.terminate()
    assert plain.wait(30) == 0
    server.start()


SCENARIOS = [dialects, rfc8291, heads, vapid, answers, withdrawals, absence, repetition, identities,
             registrations, mailbox, urgency, retries, kills, hostility, stopping]
# Pings of the protocol of user agents, each a whole masked message.
PINGS = (b"\x81\x82\0\0\0\0{}") * 8000
WITHOUT_QUOTA = ["device-messages-per-minute=0", "device-messages-per-hour=0"]
OPTIONS = {
    "vapid": {"origins": ["https://push.example.org"]},
    # STO-1: a user agent that does not read is away, and would have the last 100 messages alone.
    "stopping": {"options": ["--handshake-seconds", "1"]},
    "hostility": {"limits": WITHOUT_QUOTA + ["stored-per-instance-max=0"]},
}


def main():
    global MARTLET
    MARTLET = sys.argv[1]
    wanted = sys.argv[2:]
    if wanted == ["--list"]:
        for scenario in SCENARIOS:
            print(f"{scenario.__name__}\t{scenario.__doc__}")
        return 0
    for scenario in SCENARIOS:
        if wanted and scenario.__name__ not in wanted:
            continue
        server = Server(**{"limits": WITHOUT_QUOTA, **OPTIONS.get(scenario.__name__, {})})
        began = time.monotonic()
        try:
            scenario(server)
        except BaseException:
            print(pathlib.Path(server.folder, "log").read_text()[-3000:], file=sys.stderr)
            server.process.kill()
            raise
        server.end()
        print(f"{scenario.__name__}: passed in {time.monotonic() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
