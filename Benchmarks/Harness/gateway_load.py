# SPDX-License-Identifier: Apache-2.0
#
# A gateway with devices that are connected, and sends to them: over HTTP by wrk, or over Martlet's own
# protocol by the load generator. What every device got is checked at the end. Rests on servers.py.

import json
import pathlib
import resource
import shutil
import subprocess
import time
import urllib.request

from servers import GENERATOR_CORE, MartletGateway, Unavailable
from tools import lines

PROJECT, TOPIC, DEVICES, PAYLOAD = "bench", "bench", 100, 128
HERE = pathlib.Path(__file__).resolve().parent
SETTLE_SECONDS = 30


def wrk():
    found = shutil.which("wrk")
    if not found:
        raise Unavailable("wrk is not installed (package wrk)")
    return found


def cpu_seconds(process):
    """The kernel's clock of all its threads, ended ones included: see clock_getcpuclockid(3)."""
    return time.clock_gettime((~process << 3) | 2)


class Gateway:
    """A running gateway, DEVICES that read and acknowledge, and a count of what they must get."""

    def __init__(self, binaries):
        self.binaries, self.runs, self.expected = pathlib.Path(binaries), 0, 0

    def __enter__(self):
        self.wrk = wrk()
        self.server = MartletGateway(self.binaries).__enter__()
        self.pid = self.server.process.pid
        try:
            self.prepare()
        except BaseException:
            self.__exit__()
            raise
        return self

    def prepare(self):
        folder = self.server.folder
        self.saved = folder / "devices"
        self.devices = subprocess.Popen(
            self.load("martlet-durable", "--save", self.saved, "--idle", "--from-others"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if not self.devices.stdout.readline():
            raise RuntimeError(f"no devices: {self.devices.stderr.read().decode()[-500:]}")
        made = subprocess.run(
            [self.binaries / "martlet", "key", "create", "--project", PROJECT, "--data",
             self.server.data], capture_output=True, text=True, check=True)
        (folder / "key").write_text(made.stdout)
        tokens = [line.split()[0] for line in self.saved.read_text().splitlines()]
        (folder / "token").write_text("".join(f'"token":"{token}"\n' for token in tokens))
        (folder / "topic").write_text(f'"topic":"{TOPIC}"\n')

    def __exit__(self, *_):
        if hasattr(self, "devices") and self.devices.poll() is None:
            self.devices.kill()
            self.devices.wait()
        self.server.__exit__()

    def load(self, protocol, *options):
        command = [
            "taskset", "-c", GENERATOR_CORE, self.binaries / "bench-load", "--protocol", protocol,
            "--port", self.server.port, "--subscribers", DEVICES, "--payload", PAYLOAD, "--server",
            self.pid, *self.server.options(), *options]
        return [str(part) for part in command]

    def metrics(self):
        with urllib.request.urlopen(self.server.http() + "/metrics", timeout=10) as answer:
            found = {}
            for line in answer.read().decode().splitlines():
                if not line.startswith("#"):
                    name, value = line.rsplit(" ", 1)
                    found[name] = float(value)
            return found

    # One measurement.

    def http(self, target, connections, seconds):
        """wrk's figures; its sends are all that were answered within the seconds."""
        self.runs += 1
        return lines(
            [self.wrk, "-t", 1, "-c", connections, "-d", f"{seconds}s", "-s", HERE / "gateway.lua",
             self.server.http(), "--", f"/v1/projects/{PROJECT}/messages:send",
             self.server.folder / "key", self.server.folder / target, self.runs, PAYLOAD],
            core=GENERATOR_CORE)[0]

    def binary(self, target, outstanding, count):
        """Over one connection of the binary protocol."""
        protocol = "martlet-direct" if target == "token" else "martlet-durable"
        found = lines(
            self.load(protocol, "--load", self.saved, "--offline", count, "--outstanding",
                      outstanding), core=None)[0]
        found["requests"], found["seconds"] = count, count / found["messagesPerSecond"]
        found["errors"] = 0  # It ends at the first one.
        return found

    def measure(self, send, target, *options):
        """Figures of one load, with the broker's CPU time until everything is delivered."""
        recipients = DEVICES if target == "topic" else 1
        before, server, own = self.metrics(), cpu_seconds(self.pid), self.generators()
        figures = send(target, *options)
        # The generator asks an empty topic which form of SEND the broker reads.
        accepted = self.settle(before, recipients, probes=int(send == self.binary))
        server, own = cpu_seconds(self.pid) - server, self.generators() - own
        self.expected += accepted * recipients
        if figures["errors"]:
            raise RuntimeError(f"{figures['errors']} of {figures['requests']} sends failed")
        # What wrk had begun when its time was over is accepted and not counted by it.
        if not 0 <= accepted - figures["requests"] <= options[0]:
            raise RuntimeError(f"{accepted} accepted, {figures['requests']} were answered")
        return {
            "sendsPerSecond": figures["requests"] / figures["seconds"], "accepted": accepted,
            "acceptedMilliseconds": figures["acceptedMilliseconds"],
            "acceptedP99Milliseconds": figures["acceptedP99Milliseconds"],
            "serverMicroseconds": server / accepted * 1e6,
            "serverLoad": server / figures["seconds"], "generatorLoad": own / figures["seconds"]}

    def generators(self):
        """CPU time of the devices and of the programs that have sent, which have ended."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cpu_seconds(self.devices.pid) + ended.ru_utime + ended.ru_stime

    def settle(self, before, recipients, probes):
        """Waits until all that was accepted is delivered; returns how many sends that were."""
        end = time.monotonic() + SETTLE_SECONDS
        while True:
            now = self.metrics()
            accepted, delivered = (
                int(now[name] - before[name])
                for name in ("martlet_messages_accepted_total", "martlet_deliveries_total"))
            accepted -= probes
            # This question itself is in progress.
            if now["martlet_http_requests_in_progress"] <= 1 and \
                    delivered >= accepted * recipients:
                return accepted
            if time.monotonic() > end:
                raise RuntimeError(f"{delivered} of {accepted * recipients} were delivered")
            if self.devices.poll() is not None:
                raise RuntimeError(self.devices.stderr.read().decode()[-500:])
            time.sleep(0.02)

    def check(self):
        """Ends the devices: together they have taken what was accepted, each message once."""
        out, errors = self.devices.communicate(timeout=30)
        if self.devices.returncode != 0:
            raise RuntimeError(errors.decode()[-500:])
        delivered = json.loads(out.splitlines()[-1])["delivered"]
        if delivered != self.expected:
            raise RuntimeError(f"devices got {delivered} messages, {self.expected} were accepted")
        return delivered
