# SPDX-License-Identifier: Apache-2.0
"""Pages that use FCM's web SDK, against a real `martlet`.

    web_clients.py MARTLET SERVICE_PYTHON [SCENARIO…]

A page subscribes at a push service and registers the subscription, as the SDK does. An app server sends by the v1 API. The
push service is the broker's own Web Push door with the user agent of `push_agent`, or `push_service.py`, which
SERVICE_PYTHON runs. What a page gets is read by http_ece and by the user agent's own code.
"""

import base64
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse

import http_ece
import py_vapid

import push_scenarios
from push_agent import Keys, b64, unb64
from push_scenarios import Server

PROJECT = "harbour"
HERE = pathlib.Path(__file__).resolve().parent
SERVICE_PYTHON = None


class Broker(Server):
    """A broker with a Web Push door, and a project whose pages register."""

    def __init__(self, service=None, options=()):
        self.service, self.bridge_options = service, list(options)
        super().__init__(limits=push_scenarios.WITHOUT_QUOTA)

    def prepare(self):
        self.run("project", "create", PROJECT)
        self.page_key = self.run("registration-key", "create", "--project", PROJECT, "--name", "pages",
                                 "--json")["key"]
        self.server_key = self.run("key", "create", "--project", PROJECT, "--json")["key"]
        self.vapid = self.run("webpush", "key", "create", "--project", PROJECT, "--contact",
                              "mailto:ops@example.org", "--json")["key"]

    def more_options(self):
        options = ["--web-clients", *self.bridge_options]
        if self.service:
            options += ["--bridge-ca", self.service.authority, "--bridge-private-addresses"]
        return options

    # As the SDK asks.

    def registrations(self, method, body=None, token="", key=None, project=PROJECT):
        headers = {"Content-Type": "application/json", "Accept": "application/json",
                   "x-goog-api-key": self.page_key if key is None else key,
                   "x-goog-firebase-installations-auth": "FIS some.token.here"}
        if not headers["x-goog-api-key"]:
            del headers["x-goog-api-key"]
        path = f"/v1/projects/{project}/registrations" + (f"/{token}" if token else "")
        answer = self.ask(method, path, headers, json.dumps(body) if body is not None else None)
        assert answer[1]["access-control-allow-origin"] == "*", answer
        return answer[0], json.loads(answer[2])

    # As an app server asks.

    def api(self, method, path, body):
        return self.ask(method, path, {
            "Authorization": f"Bearer {self.server_key}", "Content-Type": "application/json",
            "access_token_auth": "true"}, json.dumps(body))

    def send(self, message, status=200):
        answer = self.api("POST", f"/v1/projects/{PROJECT}/messages:send", {"message": message})
        assert answer[0] == status, answer
        return json.loads(answer[2])

    def outcomes(self, name, **wanted):
        """Waits until the report of a message has the counts."""
        end = time.monotonic() + 20
        while True:
            report = self.run("report", name, "--json")
            if all(report["counts"][key] == count for key, count in wanted.items()):
                return report
            assert time.monotonic() < end, report
            time.sleep(0.05)


class Page:
    """A page with a subscription. Its keys are those that the browser made for it."""

    def __init__(self, broker, endpoint, keys=None):
        self.broker, self.endpoint, self.keys = broker, endpoint, keys or Keys()

    def body(self, **other):
        web = {"endpoint": self.endpoint, "p256dh": b64(self.keys.public), "auth": b64(self.keys.auth),
               "applicationPubKey": self.broker.vapid, **other}
        return {"web": {name: value for name, value in web.items() if value is not None}}

    def register(self):
        status, answer = self.broker.registrations("POST", self.body())
        assert status == 200 and list(answer) == ["token"], answer
        self.token = answer["token"]
        return self

    def read(self, body):
        return json.loads(http_ece.decrypt(
            body, private_key=self.keys.private, auth_secret=self.keys.auth, version="aes128gcm"))


class PushService:
    """`push_service.py` as a process, and its requests by name."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            [SERVICE_PYTHON, "-B", HERE / "push_service.py", folder], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        told = json.loads(self.process.stdout.readline())
        self.port, self.authority, self.told = told["port"], told["authority"], []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.told.append(json.loads(line))

    def endpoint(self, answers, name):
        return f"https://localhost:{self.port}/push/{answers}/{name}"

    def requests(self, name, count=1):
        """The requests whose path has the name, once there are so many."""
        end = time.monotonic() + 20
        while True:
            found = [item for item in self.told if f"/{name}" in item["path"]]
            if len(found) >= count:
                return found
            assert time.monotonic() < end, (name, found)
            time.sleep(0.02)

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)


def page_of(page, request):
    return page.read(base64.b64decode(request["body"]))


def with_service(scenario):
    def run(_):
        folder = push_scenarios.tempfile.mkdtemp(prefix="martlet-pages-")
        service = PushService(folder)
        broker = None
        try:
            broker = Broker(service)
            scenario(broker, service)
            broker.end()
        finally:
            if broker and broker.process.poll() is None:
                broker.process.kill()
            service.close()
            shutil.rmtree(folder)
    run.__name__, run.__doc__ = scenario.__name__, scenario.__doc__
    return run


# MARK: Scenarios


def door(_):
    """GW-11 a page whose browser uses the broker's own door gets what the v1 API sent, in the SDK's form, and reports are right"""
    broker = Broker()
    agent = broker.agent().connect()
    subscription = agent.register(unb64(broker.vapid))
    page = Page(broker, subscription.endpoint, subscription.keys).register()
    assert page.register().token == page.token, "an equal subscription has an equal token"
    sender_id = [item for item in broker.run("project", "list", "--json")
                 if PROJECT in json.dumps(item)][0]
    sent = broker.send({
        "token": page.token, "data": {"berth": "7", "tide": "high"},
        "webpush": {
            "headers": {"TTL": "300", "Urgency": "high"}, "data": {"tide": "low"},
            "notification": {
                "title": "Tide", "body": "at 14:05", "icon": "/icon.png", "requireInteraction": True,
                "actions": [{"action": "go", "title": "Go"}], "vibrate": [200, 100], "tag": "tides"},
            "fcm_options": {"link": "https://example.org/tides", "analytics_label": "tides"}}})
    got = json.loads(agent.take())
    assert str(sender_id["senderID"]) == got.pop("from"), (sender_id, got)
    assert got.pop("fcmMessageId") == sent["name"]
    assert got == {
        "data": {"berth": "7", "tide": "low"},
        "notification": {
            "title": "Tide", "body": "at 14:05", "icon": "/icon.png", "requireInteraction": True,
            "actions": [{"action": "go", "title": "Go"}], "vibrate": [200, 100], "tag": "tides"},
        "fcmOptions": {"link": "https://example.org/tides", "analytics_label": "tides"}}, got
    broker.outcomes(sent["name"], handedOver=1)
    # A topic, by the interface of app servers.
    answer = broker.api("POST", "/iid/v1:batchAdd", {
        "to": "/topics/tides", "registration_tokens": [page.token]})
    assert answer[0] == 200 and json.loads(answer[2]) == {"results": [{}]}, answer
    sent = broker.send({"topic": "tides", "notification": {"title": "All"}})
    got = json.loads(agent.take())
    assert got == {"from": "/topics/tides", "fcmMessageId": sent["name"],
                   "notification": {"title": "All"}}, got
    broker.outcomes(sent["name"], handedOver=1)
    # The user agent is away: the message waits in its own mailbox, handed over.
    agent.close()
    sent = broker.send({"token": page.token, "data": {"n": "1"}})
    broker.outcomes(sent["name"], handedOver=1)
    agent.connect()
    assert json.loads(agent.take())["data"] == {"n": "1"}
    # A content that does not fit in a record is refused, and the report says why.
    sent = broker.send({"token": page.token, "data": {"n": "x" * 3990}})
    report = broker.outcomes(sent["name"], refused=1)
    assert "PayloadTooLarge" in json.dumps(report), report
    # A subscription that its user agent ended ends the registration.
    agent.unregister(subscription)
    broker.send({"token": page.token, "data": {"n": "2"}})
    end = time.monotonic() + 20
    while True:
        answer = broker.api("POST", f"/v1/projects/{PROJECT}/messages:send",
                            {"message": {"token": page.token, "data": {"n": "3"}}})
        if answer[0] != 200:
            break
        assert time.monotonic() < end, "the registration stays"
        time.sleep(0.05)
    assert answer[0] == 404 and b"UNREGISTERED" in answer[2], answer
    broker.end()


def registrations(_):
    """GW-11 REG-7 a page presents a registration key and a subscription of the project's key; anything else is refused with a reason"""
    broker = Broker()
    page = Page(broker, "https://push.example.org/a")
    other = push_scenarios.ApplicationServer()
    for key in ("", "wrong.key", "a.b.c"):
        status, answer = broker.registrations("POST", page.body(), key=key)
        assert status == 403, (key, status, answer)
    # An unknown project answers as a known one does.
    for key in ("", "wrong.key"):
        told = [broker.registrations("POST", page.body(), key=key, project=p) for p in ("nobody", PROJECT)]
        assert told[0] == told[1] and told[0][0] == 403, told
    for fault, field in (
            ({"applicationPubKey": None}, "applicationPubKey"),
            ({"applicationPubKey": b64(other.public)}, "applicationPubKey"),
            ({"applicationPubKey": "x"}, "applicationPubKey"), ({"endpoint": None}, "endpoint"),
            ({"endpoint": "http://push.example.org/a"}, "endpoint"),
            ({"endpoint": "https://user@push.example.org/a"}, "endpoint"),
            ({"endpoint": broker.origin + "/wpush/f/abc"}, "endpoint"),
            ({"p256dh": "AAAA"}, "p256dh"), ({"p256dh": b64(b"\4" + b"\1" * 64)}, "auth"),
            ({"auth": "AAAA"}, "auth")):
        status, answer = broker.registrations("POST", page.body(**fault))
        assert status == 400 and field in json.dumps(answer), (fault, answer)
    assert broker.registrations("POST", [])[0] == 400
    # A subscription to this door that another key is bound to.
    agent = broker.agent().connect()
    bound = agent.register(other.public)
    status, answer = broker.registrations("POST", page.body(endpoint=bound.endpoint))
    assert status == 400, answer
    page.register()
    # The same endpoint with other keys is another's.
    status, answer = broker.registrations("POST", Page(broker, page.endpoint).body())
    assert status == 409, answer
    # A page moves to a new subscription, and leaves.
    moved = Page(broker, "https://push.example.org/b")
    assert broker.registrations("PATCH", moved.body(), page.token) == (200, {"token": page.token})
    assert Page(broker, moved.endpoint, moved.keys).register().token == page.token
    taken = Page(broker, "https://push.example.org/c").register()
    assert broker.registrations("PATCH", moved.body(), taken.token)[0] == 409
    # The token of another kind of instance is none of a page's.
    foreign = agent.register()
    token = b64(unb64(foreign.endpoint.rsplit("/", 1)[1])[:24])
    assert broker.registrations("DELETE", token=token)[0] in (404, 400)
    assert broker.registrations("DELETE", token=page.token, key="wrong.key")[0] == 403
    assert broker.registrations("DELETE", token=page.token) == (200, {})
    assert broker.registrations("DELETE", token=page.token)[0] == 404
    preflight = broker.ask("OPTIONS", f"/v1/projects/{PROJECT}/registrations", {
        "Origin": "https://example.org", "Access-Control-Request-Method": "POST"})
    assert preflight[0] == 204 and "x-goog-api-key" in preflight[1]["access-control-allow-headers"]
    broker.end()


@with_service
def services(broker, service):
    """GW-11 a push service of others gets the encrypted message with the headers of RFC 8030 and a token of the project's key"""
    page = Page(broker, service.endpoint("201", "tides")).register()
    sent = broker.send({"token": page.token, "notification": {"title": "Tide"},
                        "webpush": {"headers": {"TTL": "300", "Urgency": "high"}}})
    told = service.requests("tides")[0]
    assert told["protocol"] == "h2" and told["method"] == "POST"
    headers = told["headers"]
    assert 290 <= int(headers["ttl"]) <= 300 and headers["urgency"] == "high", headers
    assert headers["content-encoding"] == "aes128gcm"
    assert py_vapid.Vapid02.verify(headers["authorization"])
    named = dict(part.split("=", 1) for part in headers["authorization"].split(" ", 1)[1].split(","))
    claims = json.loads(unb64(named["t"].split(".")[1]))
    assert named["k"] == broker.vapid and claims["sub"] == "mailto:ops@example.org"
    assert claims["aud"] == f"https://localhost:{service.port}", claims
    got = page_of(page, told)
    assert got["notification"] == {"title": "Tide"} and got["fcmMessageId"] == sent["name"]
    broker.outcomes(sent["name"], handedOver=1)
    # A collapse key is a topic, as it stands or as a digest.
    for key, topic in (("tides_1", "tides_1"), ("high water", None), ("x" * 33, None)):
        collapsing = Page(broker, service.endpoint("201", f"topic{len(key)}.")).register()
        for text in ("1", "2"):
            broker.send({"token": collapsing.token, "data": {"n": text},
                         "webpush": {"headers": {"Topic": key}}})
        told = service.requests(f"topic{len(key)}.", 2)
        topics = {item["headers"]["topic"] for item in told}
        assert len(topics) == 1 and (topics == {topic} or topic is None), topics
        assert all(len(item) <= 32 and item.replace("_", "").replace("-", "").isalnum() for item in topics)
        got = page_of(collapsing, told[0])
        assert got["collapse_key"] == key, got
    # A service that is busy is asked again when it said, and the message arrives once.
    busy = Page(broker, service.endpoint("429,503,201", "busy?retry-after=1")).register()
    began = time.monotonic()
    sent = broker.send({"token": busy.token, "data": {"n": "1"}})
    assert len(service.requests("busy", 3)) == 3
    assert time.monotonic() - began >= 2, "Retry-After was not followed"
    broker.outcomes(sent["name"], handedOver=1)
    # A message that the service refuses, and a redirect, end in the report.
    for answers, reason in (("413", "PayloadTooLarge"), ("400", "HTTP 400"), ("307", "HTTP 307")):
        refusing = Page(broker, service.endpoint(answers, f"no{answers}")).register()
        sent = broker.send({"token": refusing.token, "data": {"n": "1"}})
        report = broker.outcomes(sent["name"], refused=1)
        assert reason in json.dumps(report), report
        assert len(service.requests(f"no{answers}")) == 1
    # A subscription that is over unregisters the page.
    for status in ("404", "410"):
        over = Page(broker, service.endpoint(status, f"over{status}")).register()
        sent = broker.send({"token": over.token, "data": {"n": "1"}})
        broker.outcomes(sent["name"], unregistered=1)
        broker.send({"token": over.token, "data": {"n": "1"}}, status=404)
    # Now or never.
    sent = broker.send({"token": page.token, "data": {"n": "now"}, "webpush": {"headers": {"TTL": "0"}}})
    assert service.requests("tides", 2)[1]["headers"]["ttl"] == "0"
    # A page that subscribed with the former key: both keys are tried, the newest first.
    former = broker.vapid
    broker.vapid = broker.run("webpush", "key", "create", "--project", PROJECT, "--json")["key"]
    assert {item["key"] for item in broker.run("webpush", "key", "list", "--project", PROJECT, "--json")} \
        == {former, broker.vapid}
    old = Page(broker, service.endpoint("403,201", "old")).register()
    sent = broker.send({"token": old.token, "data": {"n": "1"}})
    keys = [item["headers"]["authorization"].split("k=")[1] for item in service.requests("old", 2)]
    assert set(keys) == {former, broker.vapid}, keys
    broker.outcomes(sent["name"], handedOver=1)


@with_service
def kills(broker, service):
    """GW-11 killed while messages are on their way, the broker hands each of them over"""
    pages = [Page(broker, service.endpoint("201", f"page{number}.")).register() for number in range(5)]
    wanted, got = {}, {}
    for round_ in range(4):
        for number in range(20):
            page = pages[number % len(pages)]
            text = f"{round_} {number}"
            broker.send({"token": page.token, "data": {"n": text}})
            wanted.setdefault(page.endpoint, set()).add(text)
        broker.kill()
        broker.start()
    end = time.monotonic() + 30
    while got != wanted:
        assert time.monotonic() < end, (wanted, got)
        time.sleep(0.1)
        for number, page in enumerate(pages):
            found = service.requests(f"page{number}.", 0)
            got[page.endpoint] = {
                page.read(base64.b64decode(item["body"]))["data"]["n"] for item in found}
    # All that was handed over is acknowledged: another start sends nothing again.
    time.sleep(1)
    counts = len(service.told)
    broker.stop()
    broker.start()
    time.sleep(1)
    assert len(service.told) == counts, "messages were sent again"


def addresses(_):
    """GW-11 an endpoint on a private address gets nothing, and the report says so"""
    broker = Broker()
    page = Page(broker, "https://127.0.0.1:1/a").register()
    sent = broker.send({"token": page.token, "data": {"n": "1"}})
    report = broker.outcomes(sent["name"], refused=1)
    assert "AddressNotAllowed" in json.dumps(report), report
    broker.end()


SCENARIOS = [door, registrations, services, kills, addresses]


def main():
    global SERVICE_PYTHON
    push_scenarios.MARTLET, SERVICE_PYTHON = sys.argv[1:3]
    wanted = sys.argv[3:]
    for scenario in SCENARIOS:
        if wanted == ["--list"]:
            print(f"{scenario.__name__}\t{scenario.__doc__}")
        elif not wanted or scenario.__name__ in wanted:
            began = time.monotonic()
            scenario(None)
            print(f"{scenario.__name__}: passed in {time.monotonic() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
