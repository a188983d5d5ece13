# SPDX-License-Identifier: Apache-2.0
#
# What the bridge to Apple's push service costs: CPU of the broker for each message that it hands over, and its memory
# for each message that waits because the service answers nothing or 503. The service is a stand-in on the other core.
# Rests on servers.py and apns_stand_in.py.

import http.client
import json
import pathlib
import secrets
import subprocess
import time
import urllib.parse

from gateway_load import cpu_seconds
from servers import GENERATOR_CORE, MartletGateway, Unavailable
from tools import anonymous, medians, table

TITLE = "Bridge to Apple's push service"
PROJECT, TOPIC, BUNDLE = "bench", "bench", "com.example.bench"
# Bytes of a message that is handed over, and of a message whose memory is measured.
PAYLOAD, HELD_PAYLOAD = 128, 1024
TIME_TO_LIVE = 3600
HERE = pathlib.Path(__file__).resolve().parent
PYTHON = HERE.parents[1] / ".build" / "python-sdks-apns" / "bin" / "python"
# Imported instances, and messages to each of them in a measurement.
INSTANCES, MESSAGES = 1000, 10
INSTANCES_QUICK, MESSAGES_QUICK = 256, 8
# Instances of a request of batchImport and batchAdd.
IMPORTED_AT_ONCE, ADDED_AT_ONCE = 100, 1000
# Messages that wait: in the door on their way (256), in the door (2048), and in the store too.
HELD_INSTANCES = 256
HELD, HELD_QUICK = [256, 2048, 8192], [256, 2048, 4096]
ANSWERS = {"silent": "answers nothing", "unavailable": "answers 503"}
# Time until what is acknowledged is on disk, and until a growing process is at rest.
SETTLE_SECONDS = 1
BUSY, WAITED = "as they come", "waited in the store"
TAKEN = 'martlet_bridge_answers_total{service="apns",answer="taken"}'


def content(kind, number, size):
    """A message of one kind; each differs from the others."""
    text = f"{number:016x}".ljust(size, "x")
    return {"data": {"k": text}} if kind == "data" else {"notification": {"title": "bench", "body": text}}


class StandIn:
    """The stand-in for Apple's push service, as a process."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            [str(part) for part in [
                "taskset", "-c", GENERATOR_CORE, PYTHON, "-B", HERE / "apns_stand_in.py", folder]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.found = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"no push service: {self.process.stderr.read()[-500:]}")
        return json.loads(line)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.kill()
        self.process.communicate()


class Bridge(MartletGateway):
    """`martlet serve` with a bridge, and a project with imported instances that are subscribed to a topic."""

    name = "Martlet with a bridge"

    def command(self):
        if not PYTHON.exists():
            raise Unavailable("the environment of the stand-in for Apple's push service is not there: make python-sdks")
        self.apple = StandIn(self.folder)
        try:
            found = self.apple.found
            self.run("project", "create", PROJECT)
            self.key = json.loads(self.run("key", "create", "--project", PROJECT, "--json"))["key"]
        except BaseException:
            self.apple.close()
            raise
        command = super().command()
        command[1] = "serve"
        return command + [
            "--apns", "--apns-url", found["url"], "--apns-sandbox-url", found["url"], "--bridge-ca", found["authority"],
            "--bridge-private-addresses"]

    def __exit__(self, *arguments):
        # What is on its way ends with its connection.
        self.apple.close()
        super().__exit__(*arguments)

    def run(self, *arguments, text=None):
        return subprocess.run(
            [self.binaries / "martlet", *arguments, "--data", self.data], capture_output=True, text=True, check=True,
            input=text).stdout

    def add_key(self):
        found = self.apple.found
        self.run("apns", "key", "add", found["keyID"], "--team", found["team"], "--project", PROJECT, text=found["key"])

    def post(self, path, body):
        """The answer to a request, on a connection that lasts."""
        if not hasattr(self, "client"):
            self.client = http.client.HTTPConnection(urllib.parse.urlsplit(self.http()).netloc, timeout=60)
        self.client.request("POST", path, json.dumps(body), {
            "Authorization": "key=" + self.key, "Content-Type": "application/json"})
        answer = self.client.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {text[:200]}")
        return json.loads(text)

    def metric(self, name):
        self.client.request("GET", "/metrics")
        text = self.client.getresponse().read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

    def fill(self, count):
        """Imports instances and subscribes them."""
        self.tokens = []
        while len(self.tokens) < count:
            some = min(IMPORTED_AT_ONCE, count - len(self.tokens))
            results = self.post("/iid/v1:batchImport", {
                "application": BUNDLE, "sandbox": False,
                "apns_tokens": [secrets.token_hex(32) for _ in range(some)]})["results"]
            self.tokens += [result["registration_token"] for result in results]
        for first in range(0, count, ADDED_AT_ONCE):
            self.post("/iid/v1:batchAdd", {
                "to": f"/topics/{TOPIC}", "registration_tokens": self.tokens[first:first + ADDED_AT_ONCE]})
        self.sent = self.expected = 0
        self.payload = PAYLOAD

    def send(self, kind, target, recipients):
        self.sent += 1
        answer = self.post("/fcm/send", {
            "to": target, "time_to_live": TIME_TO_LIVE, **content(kind, self.sent, self.payload)})
        if answer.get("failure") or answer.get("error"):
            raise RuntimeError(f"a send failed: {answer}")
        self.expected += recipients

    def send_to_topic(self, kind, times):
        for _ in range(times):
            self.send(kind, f"/topics/{TOPIC}", len(self.tokens))

    def send_to_each(self, kind, times):
        for _ in range(times):
            for token in self.tokens:
                self.send(kind, token, 1)

    def taken(self):
        """Waits until all messages are handed over; returns the time of the last one."""
        found = self.apple.ask(f"wait {self.expected}")
        if found["taken"] != self.expected:
            raise RuntimeError(
                f"{found['taken']} of {self.expected} messages were handed over, in {found['came']} requests")
        return found["takenAt"]

    def measure(self, work):
        """Figures of some work that ends in messages handed over."""
        messages, server, stand_in = self.expected, self.spent(), cpu_seconds(self.apple.process.pid)
        began = time.monotonic()
        work()
        lasted = self.taken() - began
        stand_in, busy = cpu_seconds(self.apple.process.pid) - stand_in, self.spent() - server
        time.sleep(SETTLE_SECONDS)
        server, messages = self.spent() - server, self.expected - messages
        return {"perSecond": messages / lasted, "serverMicroseconds": server / messages * 1e6,
                "standInLoad": stand_in / lasted, "serverLoad": busy / lasted}

    def stored(self, work):
        """CPU microseconds of a message for an instance that is accepted and stored."""
        messages, before = self.expected, self.spent()
        work()
        time.sleep(SETTLE_SECONDS)
        return (self.spent() - before) / (self.expected - messages) * 1e6

    def spent(self):
        return cpu_seconds(self.process.pid)

    def check(self):
        """The broker has counted what the stand-in has taken."""
        if self.metric(TAKEN) != self.expected:
            raise RuntimeError(f"the broker counts {self.metric(TAKEN):.0f} messages taken of {self.expected}")


def hand_overs(binaries, instances, messages):
    """Figures by name."""
    found, each = {}, max(1, messages // 4)
    with Bridge(binaries) as server:
        server.fill(instances)
        # Without a key the messages wait, and nothing but acceptance and the store is at work.
        to_topic = server.stored(lambda: server.send_to_topic("data", messages))
        to_each = server.stored(lambda: server.send_to_each("data", each))
        waited, server.expected = server.expected, 0

        def waiting():
            server.add_key()
            server.expected = waited

        found[f"data, {WAITED}"] = {**server.measure(waiting), "storedMicroseconds": 0}
        for kind in ["data", "notification"]:
            found[f"{kind} to a topic, {BUSY}"] = {
                **server.measure(lambda: server.send_to_topic(kind, messages)), "storedMicroseconds": to_topic}
        found[f"notification to a token each, {BUSY}"] = {
            **server.measure(lambda: server.send_to_each("notification", each)), "storedMicroseconds": to_each}
        server.check()
    return found


def held(binaries, answer, counts):
    """Bytes of user-space memory by the number of messages that wait while the service gives an answer."""
    with Bridge(binaries) as server:
        server.fill(HELD_INSTANCES)
        server.add_key()
        # The connection and the provider token are there before, and free memory of many messages is not.
        for token in server.tokens[:16]:
            server.send("notification", token, 1)
            server.taken()
        server.apple.ask(answer)
        taken = server.expected
        if answer == "unavailable":
            # The project rests from now on. Else chance says how many requests are begun before the first answer;
            # what they leave free, later messages would take.
            server.send("notification", server.tokens[0], 1)
        time.sleep(SETTLE_SECONDS)
        server.payload = HELD_PAYLOAD
        before, waiting, found = anonymous(server.process.pid), server.expected, {}
        for count in counts:
            missing = count - (server.expected - waiting)
            server.send_to_topic("notification", missing // HELD_INSTANCES)
            time.sleep(2 * SETTLE_SECONDS)
            found[count] = anonymous(server.process.pid) - before
        seen = server.apple.ask("count")
        if seen["taken"] != taken or seen["came"] == taken:
            raise RuntimeError(f"{seen['came'] - taken} requests came, and {seen['taken'] - taken} were taken")
    return found


def run(binaries, quick, repeats, progress, report):
    instances, messages = (INSTANCES_QUICK, MESSAGES_QUICK) if quick else (INSTANCES, MESSAGES)
    counts = HELD_QUICK if quick else HELD
    runs, memory, total, done = {}, {}, repeats * (1 + len(ANSWERS)), 0
    try:
        for repeat in range(repeats):
            done += 1
            progress(done, total, "hand-overs")
            for name, figures in hand_overs(binaries, instances, messages).items():
                report.figures("apns", name, "Martlet", repeat, figures)
                runs.setdefault(name, []).append(figures)
            for answer, text in ANSWERS.items():
                done += 1
                progress(done, total, f"the service {text}")
                found = held(binaries, answer, counts)
                report.figures(
                    "apns", f"the service {text}", "Martlet", repeat,
                    {f"{count} wait, bytes": size for count, size in found.items()})
                memory.setdefault(answer, []).append(found)
    except Unavailable as error:
        report.section(TITLE, f"- not measured: {error}")
        return
    report.section(TITLE, "\n".join(markdown(
        {name: medians(figures) for name, figures in runs.items()},
        {answer: medians(found) for answer, found in memory.items()}, instances)))


def markdown(found, memory, instances):
    counts = list(next(iter(memory.values())))
    steps = list(zip([0, *counts], counts))
    return [
        f"`martlet serve --apns` with one loop on one core, {instances:,} imported instances of one project, {PAYLOAD} "
        f"bytes, a time to live of {TIME_TO_LIVE} s. The push service is a stand-in in Python (HTTP/2 over TLS) on the "
        "other core, which judges every request. The stand-in or the sender may bound the rate, so **the figure that "
        "counts is the broker's CPU for each hand-over**: all threads, with acceptance, both commits (stored, handed "
        "over) and TLS. The load of both says how far each was busy. To a token each is a request over HTTP for each "
        "message, one request at a time. Messages that waited were stored before the project had a key; their figure "
        "begins with the key, and has the attachment of the instances in place of the acceptance. The part of "
        "acceptance and storing is that of such messages while the project has no key.", "",
        *table(
            ["hand-overs", "per second", "CPU µs each", "of these accepted and stored", "load of the broker",
             "load of the stand-in"],
            [[name, f"{figures['perSecond']:,.0f}", f"{figures['serverMicroseconds']:.0f}",
              f"{figures['storedMicroseconds']:.0f}", f"{figures['serverLoad']:.0%}",
              f"{figures['standInLoad']:.0%}"] for name, figures in found.items()]), "",
        "Memory of the broker (`RssAnon`) while messages wait for the service, less that before them: notifications "
        f"of {HELD_PAYLOAD} bytes to {HELD_INSTANCES} attached instances, after a few that were taken. Of a project 256 "
        "messages are on their way and 2048 are in the door; more wait in the store, which is no memory of the process. "
        "After an answer 503 the project rests: its messages are in the door, and none is on its way.", "",
        *table(
            ["the service", *(f"{count:,} wait, KiB" for count in counts),
             *(f"bytes each, {before + 1:,} to {count:,}" for before, count in steps)],
            [[ANSWERS[answer], *(f"{sizes[count] / 1024:,.0f}" for count in counts),
              *(f"{(sizes[count] - sizes.get(before, 0)) / (count - before):,.0f}" for before, count in steps)]
             for answer, sizes in memory.items()])]
