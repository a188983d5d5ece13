# SPDX-License-Identifier: Apache-2.0
"""What a `martlet` with a bridge to Apple's push service does, against a server that behaves as Apple documents.

    apns_scenarios.py MARTLET [SCENARIO…]

Each scenario has a broker and a server, and says what it shows. aioapns from PyPI, unmodified, sends the same messages for
comparison.
"""

import asyncio
import http.client
import json
import os
import pathlib
import random
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import aioapns
import aioapns.connection

import apns_server
import martlet
from apns_server import DEAD, TAKEN, Answer

MARTLET = None
BUNDLE = "com.example.tides"


class Broker:
    """A broker with a gateway and a bridge, as a process, on a folder of its own, and the server it speaks to."""

    def __init__(self, streams=1000, arguments=None, limits=()):
        self.folder = tempfile.mkdtemp(prefix="martlet-apns-")
        self.apple = apns_server.Server(self.folder, streams)
        self.data, self.process = os.path.join(self.folder, "data"), None
        self.limits = limits
        self.arguments = arguments or ["--bridge-private-addresses", "--bridge-ca", self.apple.authority]
        self.run("project", "create", "harbour", "--json")
        self.server_key = self.run("key", "create", "--project", "harbour", "--name", "sender", "--json")["key"]
        self.registration_key = self.run(
            "registration-key", "create", "--project", "harbour", "--name", "app", "--json")["key"]
        self.key = apns_server.Key()
        self.apple.trust(self.key)
        self.start()

    def run(self, *arguments, fails=False, text=None):
        folder = "--data-folder" if arguments[0] == "send" else "--data"
        done = subprocess.run([MARTLET, *arguments, folder, self.data], capture_output=True, text=True, timeout=60,
                              input=text)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return json.loads(done.stdout or done.stderr) if "--json" in arguments else done.stdout + done.stderr

    def start(self):
        command = [MARTLET, "gateway", "--data", self.data, "--port", "0", "--http", "127.0.0.1:0", "--loops", "2",
                   "--json", "--apns", "--apns-url", self.apple.url, "--apns-sandbox-url", self.apple.url,
                   *self.arguments]
        for limit in self.limits:
            command += ["--limit", limit]
        self.errors = open(os.path.join(self.folder, "log"), "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors)
        line = self.process.stdout.readline()
        assert line, "the broker did not start: " + self.log()
        ready = json.loads(line)
        self.port, self.http = ready["port"], int(ready["http"].rsplit(":", 1)[1])

    def log(self):
        return pathlib.Path(self.folder, "log").read_text()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0, self.log()

    def end(self):
        if self.process.poll() is None:
            self.stop()
        report = subprocess.run([MARTLET, "check", "--data", self.data], capture_output=True, text=True)
        assert report.returncode == 0, report.stdout + report.stderr
        shutil.rmtree(self.folder)

    def add_key(self, key=None):
        key = key or self.key
        return self.run("apns", "key", "add", key.id, "--team", key.team, "--project", "harbour", "--json",
                        text=key.text)

    def ask(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=60)
        try:
            connection.request("POST", path, json.dumps(body), {
                "Authorization": "Bearer " + self.server_key, "Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith(b"{") else text
        finally:
            connection.close()

    def connections(self, wanted):
        """Waits until the metrics count so many connections of the project's devices."""
        end = time.monotonic() + 30
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=60)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
            found = [line for line in text.split("\n") if line.startswith("martlet_project_connections{")]
            if [float(line.rsplit(" ", 1)[1]) for line in found] == [wanted]:
                return
            assert time.monotonic() < end, (found, wanted)
            time.sleep(0.1)

    def imported(self, tokens, sandbox=False):
        status, answer = self.ask("/iid/v1:batchImport", {
            "application": BUNDLE, "sandbox": sandbox, "apns_tokens": tokens})
        assert status == 200, answer
        assert [one["apns_token"] for one in answer["results"]] == tokens, answer
        return [one.get("registration_token") for one in answer["results"]]

    def device(self, apns_token=None, **known):
        device = martlet.Device("127.0.0.1", self.port, "harbour", app=BUNDLE, platform=2,
                                registration_key=None if known else self.registration_key, **known)
        if apns_token:
            device.request("APNS_TOKEN", token=bytes.fromhex(apns_token), sandbox=0, bundle="")
        return device

    def sender(self):
        return martlet.Sender("127.0.0.1", self.port, "harbour", self.server_key, timeout=60)

    def send(self, file, **target):
        path = os.path.join(self.folder, "message.json")
        with open(path, "w") as out:
            json.dump({**file, **target}, out)
        return self.run("send", "--project", "harbour", "--file", path, "--json")["messageID"]

    def report(self, message):
        return self.run("report", str(message), "--project", "harbour", "--json")

    def counts(self, message, **wanted):
        """Waits until the report of a message has the wanted counts."""
        end = time.monotonic() + 60
        while True:
            report = self.report(message)
            if all(report["counts"][name] == value for name, value in wanted.items()):
                return report
            assert time.monotonic() < end, report
            time.sleep(0.05)


def apns_token():
    return secrets.token_hex(32)


# MARK: Scenarios


def headers(broker):
    """GW-11 MSG-5 aioapns and the bridge say the same of a message, header by header and key by key"""
    broker.add_key()
    token = apns_token()
    registered = broker.imported([token])[0]
    expiration = int(time.time()) + 3600
    cases = [
        ({"aps": {"alert": {"title": "High tide", "body": "at 14:05"}}}, "alert", "5", None),
        ({"aps": {"alert": {"title": "High tide"}, "badge": 3, "sound": "horn.caf", "category": "c",
                  "thread-id": "t", "mutable-content": 1}, "berth": "7"}, "alert", "10", "storm"),
        ({"aps": {"content-available": 1}, "berth": "7"}, "background", "5", None),
        ({"aps": {"alert": {"body": "Ebbe 🌊"}}, "gusts": {"knots": [47, 52]}}, "alert", "10", "k" * 64),
    ]
    for number, (payload, kind, priority, collapse) in enumerate(cases):
        head = {"apns-priority": priority, "apns-expiration": str(expiration)}
        if collapse:
            head["apns-collapse-id"] = collapse
        broker.send({"apns": {"headers": head, "payload": payload}}, token=registered)
        broker.apple.until(lambda: len(broker.apple.answers) == 2 * number + 1)

        async def compare():
            aioapns.connection.APNsProductionClientProtocol.APNS_SERVER = "localhost"
            aioapns.connection.APNsProductionClientProtocol.APNS_PORT = broker.apple.port
            context = ssl.create_default_context(cafile=broker.apple.authority)
            context.set_alpn_protocols(["h2"])
            client = aioapns.APNs(key=broker.key.text, key_id=broker.key.id, team_id=broker.key.team, topic=BUNDLE,
                                  ssl_context=context)
            answer = await client.send_notification(aioapns.NotificationRequest(
                device_token=token, message=payload, time_to_live=expiration - int(time.time()),
                priority=int(priority), collapse_key=collapse, push_type=aioapns.PushType(kind)))
            assert answer.is_successful, answer.description
            client.pool.close()
        asyncio.run(compare())
        broker.apple.until(lambda: len(broker.apple.answers) == 2 * number + 2)
        ours, theirs = [request for request, _ in broker.apple.answers[-2:]]
        same = {name for name in theirs.headers if name not in (
            "host", "apns-id", "authorization", "apns-expiration")}
        for name in same:
            assert ours.headers[name] == theirs.headers[name], (name, ours.headers, theirs.headers)
        assert ours.headers[":authority"].startswith("localhost")
        mine = {name for name in ours.headers if name.startswith("apns-")}
        assert mine == {name for name in theirs.headers if name.startswith("apns-")}, (mine, theirs.headers)
        assert abs(int(ours.headers["apns-expiration"]) - int(theirs.headers["apns-expiration"])) <= 2
        (our_head, our_claims), (their_head, their_claims) = [apns_server.claims(one) for one in (ours, theirs)]
        assert our_head == {name: value for name, value in their_head.items() if name in our_head}
        assert set(our_claims) == set(their_claims) == {"iss", "iat"}
        assert our_claims["iss"] == their_claims["iss"]
        assert abs(our_claims["iat"] - their_claims["iat"]) < 60
        mine = ours.payload
        assert mine.pop("gcm.message_id").startswith("projects/harbour/messages/")
        assert mine == theirs.payload, (mine, theirs.payload)
    # One connection and one provider token were enough.
    ours = [request for request, _ in broker.apple.answers[::2]]
    assert len({request.connection for request in ours}) == 1
    assert len({request.headers["authorization"] for request in ours}) == 1


def imports(broker):
    """GW-11 E6 an import gives registration tokens, the same ones again, and says which tokens are none"""
    tokens = [apns_token() for _ in range(100)]
    first = broker.imported(tokens)
    assert len(set(first)) == 100 and None not in first
    assert broker.imported(tokens) == first
    assert broker.imported(tokens[:1], sandbox=True)[0] not in first
    for wrong in ("", "abc", "xyz", "ab" * 200):
        status, answer = broker.ask("/iid/v1:batchImport", {
            "application": BUNDLE, "sandbox": False, "apns_tokens": [wrong, tokens[0]]})
        assert status == 200 and answer["results"][0]["status"] != "OK", answer
        assert "registration_token" not in answer["results"][0]
        assert answer["results"][1]["registration_token"] == first[0]
    for body in ({}, {"application": BUNDLE}, {"application": BUNDLE, "apns_tokens": []},
                 {"application": "a b", "apns_tokens": tokens[:1]},
                 {"application": BUNDLE, "apns_tokens": tokens + [apns_token()]}):
        assert broker.ask("/iid/v1:batchImport", body)[0] == 400, body
    # Without a key nothing is sent, and everything waits.
    message = broker.send({"notification": {"title": "early"}}, token=first[0])
    assert broker.report(message)["counts"]["pending"] == 1
    assert broker.run("apns", "key", "list", "--project", "harbour", "--json") == []
    broker.add_key()
    listed = broker.run("apns", "key", "list", "--project", "harbour", "--json")
    assert [(key["keyID"], key["owner"]) for key in listed] == [(broker.key.id, broker.key.team)]
    broker.counts(message, handedOver=1, pending=0)
    # The secret of the key is sealed in the data folder.
    secret = broker.key.text.split("\n")[1].encode()
    for path in pathlib.Path(broker.data).rglob("*"):
        assert not path.is_file() or secret not in path.read_bytes(), path
    broker.run("apns", "key", "remove", broker.key.id, "--project", "harbour")
    later = broker.send({"notification": {"title": "late"}}, token=first[1])
    time.sleep(0.5)
    assert broker.report(later)["counts"]["pending"] == 1
    for arguments in (("SHORT", broker.key.team, broker.key.text), (broker.key.id, "team", broker.key.text),
                      (broker.key.id, broker.key.team, "no key")):
        refused = subprocess.run(
            [MARTLET, "apns", "key", "add", arguments[0], "--team", arguments[1], "--project", "harbour", "--data",
             broker.data], input=arguments[2], capture_output=True, text=True)
        assert refused.returncode == 1, refused


def answers(broker):
    """GW-11 REG-3 REP-1 each answer of Apple has its outcome"""
    broker.add_key()

    def one(answer):
        token = apns_token()
        registered = broker.imported([token])[0]
        left = [answer] if isinstance(answer, (Answer, object)) and not isinstance(answer, list) else list(answer)
        broker.apple.answer = lambda request: left.pop(0) if left and request.token == token else TAKEN
        return token, registered, broker.send({"notification": {"title": "t"}}, token=registered)

    _, _, message = one(TAKEN)
    broker.counts(message, handedOver=1, sent=1, pending=0)
    for gone in (Answer(410, "Unregistered"), Answer(410, "ExpiredToken"), Answer(400, "BadDeviceToken")):
        token, registered, message = one(gone)
        broker.counts(message, unregistered=1, pending=0)
        path = os.path.join(broker.folder, "message.json")
        refused = broker.run("send", "--project", "harbour", "--file", path, "--json", fails=True)
        assert "UNREGISTERED" in json.dumps(refused), refused
        # The same device comes back under another registration token.
        assert broker.imported([token])[0] not in (registered, None)
    for status, reason in ((413, "PayloadTooLarge"), (400, "DeviceTokenNotForTopic"), (400, "TopicDisallowed"),
                           (404, "BadPath"), (405, "MethodNotAllowed")):
        _, _, message = one(Answer(status, reason))
        report = broker.counts(message, refused=1, pending=0)
        assert report["refusals"] == [{"service": "apns", "reason": reason, "count": 1}], report
    # What is tried again comes under the same ID.
    for answer in (Answer(500, "InternalServerError"), Answer(503, "ServiceUnavailable"), Answer(503, "Shutdown"),
                   Answer(429, "TooManyRequests"), Answer(429, "TooManyProviderTokenUpdates"), DEAD):
        token, _, message = one(answer)
        broker.counts(message, handedOver=1, pending=0)
        tried = [request for request in broker.apple.requests if request.token == token]
        assert len(tried) == 2 and len({request.identifier for request in tried}) == 1, tried
    # Retry-After is followed.
    token, _, message = one(Answer(503, "ServiceUnavailable", {"retry-after": "2"}))
    broker.counts(message, handedOver=1, pending=0)
    first, second = [request.at for request in broker.apple.requests if request.token == token]
    assert second - first >= 1.9, second - first
    # Apple's own bound, before a request.
    token, _, _ = one(TAKEN)
    before = len(broker.apple.requests)
    registered = broker.imported([token])[0]
    message = broker.send({"data": {"k": '"' * 3000}}, token=registered)
    report = broker.counts(message, refused=1)
    assert report["refusals"][0]["reason"] == "PayloadTooLarge", report
    assert [request.token for request in broker.apple.requests[before:]].count(token) <= 1


def keys(broker):
    """GW-11 a key that Apple refuses is THIRD_PARTY_AUTH_ERROR for senders, and an alert; another key ends it"""
    wrong = apns_server.Key("WRONG12345")
    broker.add_key(wrong)
    token, other = broker.imported([apns_token(), apns_token()])
    message = broker.send({"notification": {"title": "t"}}, token=token)
    broker.apple.until(lambda: broker.apple.answers)
    assert broker.apple.answers[0][1] == Answer(403, "InvalidProviderToken")
    end = time.monotonic() + 30
    path = os.path.join(broker.folder, "message.json")
    while True:
        done = subprocess.run([MARTLET, "send", "--project", "harbour", "--data-folder", broker.data, "--file", path,
                               "--json"],
                              capture_output=True, text=True)
        if done.returncode:
            break
        assert time.monotonic() < end
        time.sleep(0.05)
    assert "THIRD_PARTY_AUTH_ERROR" in done.stderr and "InvalidProviderToken" in done.stderr, done.stderr
    status, answer = broker.ask("/fcm/send", {"to": other, "notification": {"title": "t"}})
    assert status == 200 and answer["results"][0]["error"] == "InvalidApnsCredential", answer
    assert "refuses the keys of the project" in broker.log()
    broker.add_key()
    broker.counts(message, handedOver=1, pending=0)
    late = broker.send({"notification": {"title": "t"}}, token=other)
    broker.counts(late, handedOver=1, pending=0)
    # The refused key stays in the list, and the newest is tried first.
    newest = broker.apple.answers[-1][0]
    assert apns_server.claims(newest)[0]["kid"] == broker.key.id


def live(broker):
    """GW-11 NET-4 a device's own connection comes first; Apple gets what comes while the device is away"""
    broker.add_key()
    token = apns_token()
    device = broker.device(token)
    for number in range(3):
        message = broker.send({"notification": {"title": f"here {number}"}}, token=device.token)
        deliver, content = device.next_message()
        assert content["title"] == f"here {number}"
        device.acknowledge(deliver["stream ID"])
        broker.counts(message, acknowledged=1, handedOver=0, pending=0)
        assert not broker.apple.requests
        broker.connections(1)
        device.close()
        message = broker.send({"notification": {"title": f"away {number}"}}, token=device.token)
        report = broker.counts(message, handedOver=1, pending=0)
        assert report["counts"]["acknowledged"] == 0
        request = broker.apple.answers[-1][0]
        assert request.token == token and request.payload["aps"]["alert"]["title"] == f"away {number}"
        # The session of the bridge is no connection.
        broker.connections(0)
        broker.apple.requests.clear()
        device = broker.device(token=device.token, device_key=device.device_key)
        device.ping()
        assert not device.delivered, "a message that was handed over came again"
    # The end of the address leaves the device, which has another way.
    device.close()
    broker.apple.answer = lambda request: Answer(410, "Unregistered")
    message = broker.send({"notification": {"title": "gone"}}, token=device.token)
    broker.apple.until(lambda: broker.apple.answers[-1][1].status == 410)
    device = broker.device(token=device.token, device_key=device.device_key)
    deliver, content = device.next_message()
    assert content["title"] == "gone"
    device.acknowledge(deliver["stream ID"])
    broker.counts(message, acknowledged=1, pending=0)
    device.close()


def silent(broker):
    """GW-11 NET-11 Apple gets a message to which a device says nothing; a device that is slow and lives keeps it"""
    broker.add_key()
    token = apns_token()
    device = broker.device(token)
    slow = broker.device(apns_token())
    # The broker tells a message from the last sign of life by the second.
    time.sleep(2)
    message = broker.send({"notification": {"title": "lost"}}, token=device.token)
    late = broker.send({"notification": {"title": "late"}}, token=slow.token)
    ended = threading.Event()

    def read():
        slow.timeout = 0.2
        while not ended.is_set():
            try:
                slow.keep(*slow.receive())
            except TimeoutError:
                pass

    # Reading answers PINGs. The message is not acknowledged.
    reader = threading.Thread(target=read)
    reader.start()
    report = broker.counts(message, handedOver=1, pending=0)
    assert report["counts"]["acknowledged"] == 0
    assert [request.token for request, _ in broker.apple.answers] == [token]
    broker.counts(late, handedOver=0, pending=1)
    broker.connections(1)
    # A device that was only frozen comes back, and is not given again what Apple has.
    device.close()
    device = broker.device(token=device.token, device_key=device.device_key)
    device.ping()
    assert not device.delivered
    ended.set()
    reader.join()
    assert len(slow.delivered) == 1


def kinds(broker):
    """GW-11 TTL-2 COL-1 MSG-7 time to live 0, priorities, silent pushes, topics, and a message of several to one device"""
    broker.add_key()
    tokens = [apns_token() for _ in range(5)]
    registered = broker.imported(tokens)
    sender = broker.sender()
    sender.request("CHANGE_TOPIC", operation=1, topic="tides",
                   tokens=[{"token": token} for token in registered])
    time.sleep(0.3)
    accepted = sender.send_message("topic", "tides", martlet.message(title="now"), time_to_live=0)
    assert accepted["recipients"] == 5
    broker.apple.until(lambda: len(broker.apple.answers) == 5)
    assert {request.headers["apns-expiration"] for request, _ in broker.apple.answers} == {"0"}
    assert {request.token for request, _ in broker.apple.answers} == set(tokens)
    broker.apple.answers.clear()
    number = sender.send_message("topic", "tides", martlet.message(data={"a": "1"}), priority=2)["message number"]
    broker.counts(number, handedOver=5, pending=0)
    for request, _ in broker.apple.answers:
        assert request.headers["apns-push-type"] == "background" and request.headers["apns-priority"] == "5"
        assert request.payload["a"] == "1" and request.payload["aps"] == {}
        assert int(request.headers["apns-expiration"]) > time.time() + 27 * 86400
    assert len({request.identifier for request, _ in broker.apple.answers}) == 5
    # The same message to the same device has one ID, whatever happens; other messages have others.
    seen = {request.identifier for request in broker.apple.requests}
    assert len(seen) == 10
    long_key = "ä" * 40
    broker.send({"apns": {"headers": {"apns-collapse-id": long_key}, "payload": {"aps": {"alert": "x"}}}},
                token=registered[0])
    broker.apple.until(lambda: len(broker.apple.answers) == 6)
    assert len(broker.apple.answers[-1][0].headers["apns-collapse-id"]) == 43


def sending(broker):
    """GW-17 push types, Live Activities, priority, ID and expiration go to Apple as the sender gave them"""
    broker.add_key()
    token, activity = apns_token(), apns_token()
    registered = broker.imported([token])[0]
    path = "/v1/projects/harbour/messages:send"
    live = {"aps": {"timestamp": 1764245012, "event": "update", "content-state": {"tide": 3}}}
    expiration, identifier = str(int(time.time()) + 29 * 86400), "11111111-2222-3333-4444-555555555555"
    for apns, wanted in (
            ({"payload": live, "live_activity_token": activity},
             {":path": "/3/device/" + activity, "apns-push-type": "liveactivity",
              "apns-topic": BUNDLE + ".push-type.liveactivity", "apns-priority": "10"}),
            ({"payload": live, "live_activity_token": activity,
              "headers": {"apns-push-type": "liveactivity", "apns-priority": "5"}},
             {":path": "/3/device/" + activity, "apns-priority": "5"}),
            ({"payload": {"aps": {"alert": "x"}}, "headers": {"apns-push-type": "voip"}},
             {":path": "/3/device/" + token, "apns-push-type": "voip", "apns-topic": BUNDLE + ".voip",
              "apns-priority": "10"}),
            ({"payload": {"aps": {"alert": "x"}},
              "headers": {"apns-priority": "1", "apns-id": identifier, "apns-expiration": expiration}},
             {"apns-priority": "1", "apns-id": identifier, "apns-expiration": expiration}),
            ({"payload": {"aps": {"badge": 5.0}}},
             {"apns-priority": "10", "apns-push-type": "alert", "apns-topic": BUNDLE})):
        before = len(broker.apple.answers)
        status, answer = broker.ask(path, {"message": {"token": registered, "apns": apns}})
        assert status == 200, answer
        broker.apple.until(lambda: len(broker.apple.answers) == before + 1)
        request = broker.apple.answers[-1][0]
        assert {name: request.headers.get(name) for name in wanted} == wanted, request.headers
    assert broker.apple.answers[-1][0].payload["aps"] == {"badge": 5}
    # A collapse key of the older interface.
    status, answer = broker.ask("/fcm/send", {"to": registered, "collapse_key": "tide", "data": {"a": "1"}})
    assert status == 200 and answer["success"] == 1, answer
    broker.apple.until(lambda: len(broker.apple.answers) == before + 2)
    assert broker.apple.answers[-1][0].headers["apns-collapse-id"] == "tide"
    # The end of an activity is not the end of the device.
    broker.apple.answer = lambda request: Answer(410, "Unregistered") if request.token == activity else TAKEN
    status, answer = broker.ask(path, {"message": {
        "token": registered, "apns": {"payload": live, "live_activity_token": activity}}})
    assert status == 200, answer
    broker.counts(answer["name"].rsplit("/", 1)[1], refused=1, pending=0)
    status, answer = broker.ask(path, {"message": {"token": registered, "notification": {"title": "t"}}})
    assert status == 200, answer
    broker.counts(answer["name"].rsplit("/", 1)[1], handedOver=1, pending=0)
    # What no header can have is refused at each door.
    for body in ({"apns": {"headers": {"apns-collapse-id": "a\r\nb"}}},
                 {"apns": {"headers": {"apns-collapse-id": " a"}}}, {"apns": {"headers": {"apns-topic": "a\0"}}}):
        status, answer = broker.ask(path, {"message": {"token": registered, "data": {"a": "1"}, **body}})
        assert status == 400 and next(iter(body["apns"]["headers"])) in json.dumps(answer), answer
    status, answer = broker.ask("/fcm/send", {"to": registered, "collapse_key": "a\nb", "data": {"a": "1"}})
    assert answer.get("results", [{}])[0].get("error") == "InvalidParameters" or status == 400, answer


def poison(broker):
    """GW-17 a message that Apple's server never answers, or always fails, holds up no other message of its project"""
    broker.add_key()
    tokens = [apns_token() for _ in range(2500)]
    registered = [one for start in range(0, 2500, 100) for one in broker.imported(tokens[start:start + 100])]
    sender = broker.sender()
    for start in range(0, 2500, 1000):
        sender.request("CHANGE_TOPIC", operation=1, topic="tides",
                       tokens=[{"token": token} for token in registered[start:start + 1000]])
    time.sleep(0.5)
    for index, failure in enumerate((Answer(500, "InternalServerError"), DEAD)):
        name = f"poison {index}"
        broker.apple.answer = lambda request: failure if request.payload.get("a") == name else TAKEN
        bad = sender.send_message("topic", "tides", martlet.message(data={"a": name}))["message number"]
        broker.apple.until(lambda: [one for one in broker.apple.requests if one.payload.get("a") == name])
        time.sleep(1)
        for number in range(3):
            began = time.monotonic()
            message = sender.send_message("token", registered[number], martlet.message(data={"b": "1"}))
            broker.counts(message["message number"], handedOver=1, pending=0)
            assert time.monotonic() - began < 20, time.monotonic() - began
        good = sender.send_message("topic", "tides", martlet.message(data={"c": "1"}))["message number"]
        broker.counts(good, handedOver=2500, pending=0)
        assert broker.report(bad)["counts"]["pending"] == 2500
    # When the server takes it, it goes on.
    broker.apple.answer = lambda request: TAKEN
    broker.counts(bad, handedOver=2500, pending=0)


def streams(broker):
    """GW-11 the server's limit of streams holds, and GOAWAY costs no message"""
    broker.apple.streams, broker.apple.goaway_after = 8, 40
    broker.add_key()
    tokens = [apns_token() for _ in range(100)]
    registered = broker.imported(tokens)
    sender = broker.sender()
    sender.request("CHANGE_TOPIC", operation=1, topic="tides", tokens=[{"token": token} for token in registered])
    broker.apple.answer = lambda request: TAKEN._replace(delay=0.005)
    numbers = [sender.send_message("topic", "tides", martlet.message(data={"n": str(number)}))["message number"]
               for number in range(5)]
    for number in numbers:
        broker.counts(number, handedOver=100, pending=0)
    assert broker.apple.most_streams <= 8, broker.apple.most_streams
    assert broker.apple.connections >= 5
    taken = {}
    for request, answer in broker.apple.answers:
        taken.setdefault(request.identifier, []).append(answer)
    assert len(taken) == 500


def trust(broker):
    """GW-11 a server that no authority vouches for, and a private address, get no message"""
    token = broker.imported([apns_token()])[0]
    broker.add_key()
    message = broker.send({"notification": {"title": "t"}}, token=token)
    end = time.monotonic() + 30
    while "takes no messages now" not in broker.log():
        assert time.monotonic() < end, broker.log()
        time.sleep(0.05)
    assert not broker.apple.requests and broker.report(message)["counts"]["pending"] == 1
    assert broker.apple.connections == 0, "a byte was sent to a private address"
    assert "private address" in broker.log()
    broker.stop()
    broker.arguments = ["--bridge-private-addresses"]
    broker.start()
    end = time.monotonic() + 30
    while "CERTIFICATE_VERIFY_FAILED" not in broker.log():
        assert time.monotonic() < end, broker.log()
        time.sleep(0.05)
    assert not broker.apple.requests and broker.report(message)["counts"]["pending"] == 1
    broker.stop()
    broker.arguments += ["--bridge-ca", broker.apple.authority]
    broker.start()
    broker.counts(message, handedOver=1, pending=0)


def outages(broker):
    """GW-11 a service that is away gets its messages when it is there again; what waits is bounded"""
    tokens = [apns_token() for _ in range(100)]
    registered = broker.imported(tokens)
    broker.add_key()
    sender = broker.sender()
    sender.request("CHANGE_TOPIC", operation=1, topic="tides", tokens=[{"token": token} for token in registered])
    broker.apple.vanish()
    numbers = [sender.send_message("topic", "tides", martlet.message(data={"k": str(number)}))
               ["message number"] for number in range(30)]
    time.sleep(3)
    assert all(broker.report(number)["counts"]["handedOver"] == 0 for number in numbers[:2])
    broker.apple.listen()
    for number in numbers:
        report = broker.report(number)["counts"]
        end = time.monotonic() + 120
        while report["pending"]:
            assert time.monotonic() < end, report
            time.sleep(0.1)
            report = broker.report(number)["counts"]
        assert report["handedOver"] + report["collapsed"] + report["expired"] == 100, report


def kills(broker, count=None):
    """GW-11 REP-1 random answers and kill -9: each message has one outcome, and no answered message was lost"""
    count = count or int(os.environ.get("APNS_MESSAGES", "2000"))
    chance, lock = random.Random(23), threading.Lock()
    tokens = [apns_token() for _ in range(100)]
    registered = broker.imported(tokens)
    broker.add_key()
    final = {}

    def answer(request):
        with lock:
            choice = chance.random()
        if choice < 0.70:
            return TAKEN._replace(delay=chance.random() * 0.005)
        if choice < 0.80:
            return Answer(500, "InternalServerError")
        if choice < 0.85:
            return Answer(429, "TooManyRequests", {"retry-after": "1"})
        if choice < 0.852:
            return DEAD
        if choice < 0.854:
            return Answer(503, "ServiceUnavailable", {"retry-after": "1"})
        return Answer(400, "TopicDisallowed")

    broker.apple.answer = answer
    numbers, killed, losses = [], 0, []
    sender = broker.sender()
    sender.request("CHANGE_TOPIC", operation=1, topic="tides", tokens=[{"token": token} for token in registered])
    while len(numbers) * 100 < count:
        try:
            # A key of idempotency makes a send that the kill interrupts one send.
            numbers.append(sender.send_message(
                "topic", "tides", martlet.message(data={"n": str(len(numbers))}),
                idempotency_key=f"message {len(numbers)}")["message number"])
            if len(numbers) % 5 == 0 and killed < 4:
                time.sleep(chance.random() * 0.5)
                broker.kill()
                losses.append(time.time())
                killed += 1
                broker.start()
                sender = broker.sender()
        except (ConnectionError, OSError):
            sender = broker.sender()
    for number in numbers:
        end = time.monotonic() + 300
        while True:
            counts = broker.report(number)["counts"]
            if counts["pending"] == 0:
                break
            assert time.monotonic() < end, counts
            time.sleep(0.1)
        assert counts["targeted"] == 100, counts
        assert counts["handedOver"] + counts["refused"] == 100, counts
    finals = {}
    for (request, said), at in zip(broker.apple.answers, broker.apple.said):
        if said.status in (200, 400):
            finals.setdefault(request.identifier, []).append((said.status, at, request))
    assert len(finals) == 100 * len(numbers), (len(finals), len(numbers))
    total = [broker.report(number)["counts"] for number in numbers]
    taken, refused = sum(one["handedOver"] for one in total), sum(one["refused"] for one in total)
    # A message is asked for again after an answer only if a kill or the end of a connection took the answer: the answer was
    # said at about that time, and the message comes on another connection. The server notices an end some time later.
    losses += broker.apple.deaths
    repeated = 0
    for said in finals.values():
        for (_, at, first), (_, _, again) in zip(said, said[1:]):
            repeated += 1
            assert first.connection != again.connection
            assert any(abs(loss - at) < 2 and loss < again.at for loss in losses), (at, again.at, losses)
    sure_taken = sum(1 for said in finals.values() if {status for status, _, _ in said} == {200})
    sure_refused = sum(1 for said in finals.values() if {status for status, _, _ in said} == {400})
    mixed = len(finals) - sure_taken - sure_refused
    assert sure_taken <= taken <= sure_taken + mixed, (sure_taken, taken, mixed)
    assert sure_refused <= refused <= sure_refused + mixed, (sure_refused, refused, mixed)
    print(f"{len(finals)} messages, {killed} kills, {repeated} asked again after an answer")


SCENARIOS = [headers, imports, answers, keys, live, silent, kinds, sending, poison, streams, trust, outages, kills]
WITHOUT_QUOTA = ("device-messages-per-minute=0", "device-messages-per-hour=0")


def main():
    global MARTLET
    if sys.argv[1:] == ["--list"] or sys.argv[2:] == ["--list"]:
        for scenario in SCENARIOS:
            print(f"{scenario.__name__}\t{scenario.__doc__}")
        return 0
    MARTLET = sys.argv[1]
    wanted = sys.argv[2:] or [scenario.__name__ for scenario in SCENARIOS]
    for scenario in SCENARIOS:
        if scenario.__name__ not in wanted:
            continue
        broker = Broker(arguments=["--no-bridge-private-addresses"] if scenario is trust else None,
                        limits=WITHOUT_QUOTA)
        try:
            scenario(broker)
            broker.end()
        except BaseException:
            print(broker.log(), file=sys.stderr)
            broker.process.kill()
            raise
        print(f"{scenario.__name__}: {scenario.__doc__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
