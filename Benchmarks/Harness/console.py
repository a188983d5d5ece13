# SPDX-License-Identifier: Apache-2.0
#
# What open consoles cost at full load: the CPU of all threads but the broker's own (loops, committer, inquiry) while devices
# get as many messages as one loop can give, with 0, 1 and 20 viewers that follow the busy project. Rests on servers.py.

import contextlib
import http.client
import json
import pathlib
import socket
import subprocess
import threading
import time
import urllib.parse

from servers import MartletGateway
from tools import generator, medians, table

TITLE = "Open consoles at full load"
VIEWERS = [0, 1, 20]
STREAMS_PER_SESSION = 8
SUBSCRIBERS, OUTSTANDING, PAYLOAD = 1000, 256, 128
# A sample is taken once a second.
SECONDS, SECONDS_QUICK = 6, 3
# A share of a loop, in percent.
GOAL = 1
BROKER_THREADS = ("martlet-loop", "martlet-committ", "martlet-inquiry")


class Gateway(MartletGateway):
    """For live messages, whose rate is the greatest."""

    name = "Martlet with a console"
    protocol = "martlet"

    def link(self):
        done = subprocess.run(
            [self.binaries / "martlet", "console", "link", "--data", str(self.data), "--json"],
            capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["url"].split("#link=")[1]

    def session(self):
        """The cookie of a session of an administrator."""
        client = self.client()
        client.request(
            "POST", "/console/api/v1/session", json.dumps({"link": self.link()}),
            {"origin": self.http(), "content-type": "application/json"})
        answer = client.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"no session: {answer.status}")
        return answer.getheader("set-cookie").split(";")[0]

    def client(self):
        return http.client.HTTPConnection(urllib.parse.urlsplit(self.http()).netloc, timeout=60)


class Viewer(threading.Thread):
    """Reads a stream of events, and counts its bytes."""

    def __init__(self, server, cookie):
        super().__init__(daemon=True)
        self.bytes = 0
        self.client = server.client()
        self.client.request("GET", "/console/api/v1/events?project=bench", headers={"cookie": cookie})
        self.answer = self.client.getresponse()
        if self.answer.status != 200:
            raise RuntimeError(f"no stream: {self.answer.status}")

    def run(self):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
            while received := self.answer.read1(65536):
                self.bytes += len(received)

    def close(self):
        with contextlib.suppress(OSError, AttributeError):
            self.client.sock.shutdown(socket.SHUT_RDWR)


def other_seconds(process):
    """CPU of the threads that are not the broker's own. A thread that ended is not seen: Swift's pool keeps its threads."""
    total = 0
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(OSError):
            if not (task / "comm").read_text().startswith(BROKER_THREADS):
                total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def measure(binaries, viewer_count, seconds):
    with Gateway(binaries) as server:
        # The project must be there before a viewer follows it.
        generator(server, "martlet", 10, "--seconds", 0.1, "--warmup", 0, "--topic", "first")
        viewers, cookie = [], ""
        for number in range(viewer_count):
            if number % STREAMS_PER_SESSION == 0:
                cookie = server.session()
            viewers.append(Viewer(server, cookie))
            viewers[-1].start()
        time.sleep(1)
        began, before = time.monotonic(), other_seconds(server.process.pid)
        found = generator(
            server, "martlet", SUBSCRIBERS, "--outstanding", OUTSTANDING, "--payload", PAYLOAD,
            "--seconds", seconds)
        spent, lasted = other_seconds(server.process.pid) - before, time.monotonic() - began
        for viewer in viewers:
            viewer.close()
        for viewer in viewers:
            viewer.join()
            if viewer.bytes == 0:
                raise RuntimeError("a viewer saw nothing")
        return {
            "percent": 100 * spent / lasted, "deliveriesPerSecond": found["deliveriesPerSecond"],
            "serverNanoseconds": found["serverNanoseconds"],
            "bytesPerSecond": sum(viewer.bytes for viewer in viewers) / lasted}


def run(binaries, quick, repeats, progress, report):
    runs, total, done = {}, repeats * len(VIEWERS), 0
    for repeat in range(repeats):
        for count in VIEWERS:
            done += 1
            progress(done, total, f"{count} viewers")
            figures = measure(binaries, count, SECONDS_QUICK if quick else SECONDS)
            report.figures("console", f"{count} viewers", "Martlet", repeat, figures)
            runs.setdefault(count, []).append(figures)
    found = {count: medians(figures) for count, figures in runs.items()}
    idle = found[0]["percent"]
    for count in VIEWERS[1:]:
        percent = found[count]["percent"]
        report.at_most(
            f"{count} viewers", max(0, percent - idle), GOAL, "{:.2f} % of a loop", "console",
            f"{percent:.2f} % with viewers, {idle:.2f} % without.", wanted=f"< {GOAL} % of a loop")
    rows = [[
        f"{count}", f"{figures['percent']:.2f} %", f"{figures['deliveriesPerSecond']:,.0f}",
        f"{figures['serverNanoseconds']:.0f}", f"{figures['bytesPerSecond']:,.0f}"]
        for count, figures in found.items()]
    report.section(TITLE, "\n".join([
        f"`martlet gateway` with one loop on one core, {SUBSCRIBERS} devices, {PAYLOAD} bytes, {OUTSTANDING} messages "
        "outstanding, time to live 0. Each viewer has a stream of events of the busy project. CPU is that of all threads "
        "but the loop, the committer and the inquiry, as a share of a core, that is of a loop; a core gives the loop what "
        "they leave. Without viewers these threads serve the gateway's timers and the history of the overview; what viewers "
        "cost is the difference.", "",
        *table(["viewers", "CPU of consoles", "deliveries a second", "CPU ns a delivery, whole process",
                "bytes a second to viewers"], rows)]))
