#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A broker with all its doors open, and clients at each of them at the same time.

    doors.py SECONDS COMMAND…

COMMAND is the program with what stands before it (`valgrind … martlet`). Devices and senders come over plain text and TLS,
user agents and application servers over Web Push, an app server over XMPP, scrapes, refused requests and operators over HTTP
and as commands. Nothing is measured: what is looked for is what a sanitizer says of the broker. It must end with 0 on
SIGTERM, and `check` must find its folder right.
"""

import http.client
import json
import multiprocessing
import os
import pathlib
import queue
import random
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests/Python"), str(ROOT / "Benchmarks/Harness")]

import martlet  # noqa: E402
import xmpp_strangers  # noqa: E402
from ports import free_port  # noqa: E402
from push_agent import Agent  # noqa: E402
from servers import certificate  # noqa: E402

PROJECT = "doors"
TOPICS = [f"topic-{number}" for number in range(20)]
# Longest wait for one answer; under valgrind a broker is fifty times slower.
PATIENCE = 120


class Broker:
    def __init__(self, command):
        self.command = command
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="martlet-doors-"))
        self.data = str(self.folder / "data")
        self.run("project", "create", PROJECT)
        self.server_key = self.run("key", "create", "--project", PROJECT)["key"]
        self.registration_key = self.run(
            "registration-key", "create", "--project", PROJECT, "--name", "doors")["key"]
        project = next(one for one in self.run("project", "list") if one["project"] == PROJECT)
        self.sender = str(project["senderID"])
        self.plain, self.secure, self.http, self.xmpp = (free_port() for _ in range(4))
        chain, key = map(str, certificate(self.folder))
        self.process = subprocess.Popen(
            [*command, "serve", "--data", self.data, "--loops", "2",
             "--listen", f"127.0.0.1:{self.plain},plain", "--listen", f"127.0.0.1:{self.secure},tls",
             "--tls-certificate", chain, "--tls-key", key,
             "--http", f"127.0.0.1:{self.http}", "--web-push-project", PROJECT,
             "--web-push-origin", f"http://127.0.0.1:{self.http}",
             "--xmpp", f"127.0.0.1:{self.xmpp}", "--xmpp-certificate", chain, "--xmpp-key", key,
             "--metrics", "127.0.0.1:0", "--limit", "registrations-per-second=0",
             "--limit", "registrations-per-second-per-address=0",
             "--limit", "sender-connections-per-minute=0"],
            stdout=open(self.folder / "log", "wb"), stderr=subprocess.STDOUT)
        end = time.monotonic() + PATIENCE
        while b"listens on" not in (self.folder / "log").read_bytes():
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit("the broker did not start: " + self.log())
            time.sleep(0.1)

    def log(self):
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def run(self, *words, json_wanted=True):
        done = subprocess.run(
            [*self.command, *words, "--data", self.data] + ["--json"] * json_wanted,
            capture_output=True, text=True, timeout=10 * PATIENCE)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
        return json.loads(done.stdout) if json_wanted else done.stdout

    def ask(self, method, path, body=None, headers=None, chunked=False):
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers or {}, encode_chunked=chunked)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()


def device(broker, port, chosen):
    """Registers, subscribes, receives, and leaves in one of several ways."""
    one = martlet.Device("127.0.0.1", port, PROJECT, timeout=PATIENCE,
                         registration_key=broker.registration_key)
    for visit in range(chosen.randrange(1, 6)):
        if visit:
            one = martlet.Device("127.0.0.1", port, PROJECT, token=one.token,
                                 device_key=one.device_key, timeout=PATIENCE)
        one.subscribe(*chosen.sample(TOPICS, 5))
        one.send_upstream(f"m{visit}", {"n": str(visit)})
        sender = martlet.Sender("127.0.0.1", port, PROJECT, broker.server_key, timeout=PATIENCE)
        for number in range(4):
            content = martlet.message(data={"n": "x" * chosen.choice([1, 100, 3000])})
            sender.send_message("token", one.token, content, receipts=number == 0)
            sender.send_message("topic", chosen.choice(TOPICS), content)
            first, second = chosen.sample(TOPICS, 2)
            sender.send_message("condition", f"'{first}' in topics && '{second}' in topics", content)
        # The four that were sent to this token have come, perhaps among others.
        for _ in range(4):
            delivered, _ = one.next_message()
            one.acknowledge(delivered["stream ID"])
        one.set_state(chosen.choice(["active", "background", "doze"]))
        sender.close()
        one.unsubscribe(*chosen.sample(TOPICS, 2))
        if chosen.random() < 0.2:
            one.rotate()
        if chosen.random() < 0.1:
            one.unregister()
            return one.close()
        one.close()


def plain_devices(broker, chosen):
    device(broker, broker.plain, chosen)


def secure_devices(broker, chosen):
    martlet.tls_context = ssl.create_default_context()
    martlet.tls_context.check_hostname, martlet.tls_context.verify_mode = False, ssl.CERT_NONE
    device(broker, broker.secure, chosen)


def crowd(broker, chosen):
    """Enough subscribers for a set that is kept as runs, most of which then leave it."""
    members = [martlet.Device("127.0.0.1", broker.plain, PROJECT, timeout=PATIENCE,
                              registration_key=broker.registration_key) for _ in range(100)]
    for member in members:
        member.subscribe("crowd")
    for member in chosen.sample(members, 60):
        member.unsubscribe("crowd")
    for member in members:
        member.close()


def browsers(broker, chosen):
    agent = Agent(f"ws://127.0.0.1:{broker.http}/wpush/connect/{broker.registration_key}",
                  timeout=PATIENCE).connect()
    subscription = agent.register()
    path = "/" + subscription.endpoint.split("/", 3)[3]
    for _ in range(10):
        status = broker.ask("POST", path, os.urandom(chosen.choice([30, 3000])),
                            {"TTL": "60", "Content-Encoding": "aes128gcm"})
        assert status == 201, status
        agent.acknowledge(agent.notification(PATIENCE))
    agent.unregister(subscription)
    agent.close()


def app_servers(broker, _):
    server = xmpp_strangers.AppServer(broker.xmpp, broker.sender, broker.server_key)
    assert xmpp_strangers.asyncio.run(server.sign_in())


def requests(broker, chosen):
    for path in ["/metrics", "/healthz", "/console/", "/nothing"]:
        assert broker.ask("GET", path) in (200, 404), path
    assert broker.ask("POST", "/token", "x" * 1000) in (400, 401)
    pieces = (b"x" * 4096 for _ in range(chosen.choice([3, 600])))
    try:
        assert broker.ask("POST", "/token", pieces, {"Transfer-Encoding": "chunked"}, True) in (
            400, 401, 413)
    except BrokenPipeError:
        pass


def operators(broker, chosen):
    broker.run("audience", "'topic-1' in topics || 'topic-2' in topics", "--project", PROJECT)
    broker.run("topics", "--project", PROJECT)
    broker.run("quotas", "--project", PROJECT)
    target = broker.folder / f"backup-{chosen.randrange(1 << 60)}"
    broker.run("backup", str(target), json_wanted=False)
    shutil.rmtree(target, ignore_errors=True)
    broker.process.send_signal(signal.SIGHUP)


def work(client, seed, broker, end, faults):
    """Does `client` again and again, each time with other choices."""
    chosen = random.Random(seed)
    rounds = 0
    try:
        while time.monotonic() < end:
            client(broker, chosen)
            rounds += 1
        print(f"{client.__name__}: {rounds} rounds", flush=True)
    except Exception:
        faults.put(f"{client.__name__}: {traceback.format_exc()}")


def main():
    seconds, command = float(sys.argv[1]), sys.argv[2:]
    broker = Broker(command)
    clients = [plain_devices] * 3 + [secure_devices] * 2 + [
        crowd, browsers, app_servers, requests, operators]
    faults = multiprocessing.Queue()
    end = time.monotonic() + seconds
    workers = [multiprocessing.Process(target=work, args=(client, seed, broker, end, faults))
               for seed, client in enumerate(clients)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = []
    try:
        while True:
            found.append(faults.get(timeout=0.5))
    except queue.Empty:
        pass
    broker.process.terminate()
    code = broker.process.wait(PATIENCE)
    if code != 0:
        found.append(f"the broker ended with {code}: {broker.log()}")
    else:
        try:
            broker.run("check")
        except RuntimeError as error:
            found.append(str(error))
    for fault in found:
        print(fault)
    if found:
        sys.exit(f"{len(found)} faults; the folder is {broker.folder}")
    shutil.rmtree(broker.folder)


if __name__ == "__main__":
    main()
