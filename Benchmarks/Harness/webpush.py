# SPDX-License-Identifier: Apache-2.0
#
# What the Web Push door costs: from the POST of an application server to the user agent, beside messages:send to devices of
# Martlet's own protocol, and the memory of idle user agents. Rests on gateway_load.py and webpush_agents.py.

import json
import pathlib
import subprocess
import time

import gateway_load
from servers import GENERATOR_CORE, MartletGateway, Unavailable, free_port
from tools import Folder, anonymous, lines, medians, table

TITLE = "Web Push"
AGENTS, PAYLOAD = gateway_load.DEVICES, gateway_load.PAYLOAD
OUTSTANDING = [1, 16, 64]
SECONDS, SECONDS_QUICK = 2, 1
IDLE_AGENTS, IDLE_AGENTS_QUICK = 10_000, 2000
# Of the process, in the sockets' handlers and the links to the broker.
IDLE_BYTES_MAX = 8192
HERE = pathlib.Path(__file__).resolve().parent


class Door(MartletGateway):
    """`martlet gateway` with a Web Push door."""

    name = "Martlet Web Push"

    def command(self):
        self.web = free_port(self.port + 1)
        # A folder that outlives its server has the project.
        self.key = pathlib.Path(self.data).parent / "registration-key"
        if not self.key.exists():
            self.run("project", "create", "web-push")
            made = self.run("registration-key", "create", "--project", "web-push", "--name", "bench", "--json")
            self.key.write_text(json.loads(made)["key"])
        command = super().command()
        command[command.index("127.0.0.1:0")] = f"127.0.0.1:{self.web}"
        return command + [
            "--web-push-origin", f"http://127.0.0.1:{self.web}", "--http-connections", 20_000,
            "--http-connections-per-address", 20_000]

    def run(self, *arguments):
        return subprocess.run(
            [self.binaries / "martlet", *arguments, "--data", self.data], capture_output=True,
            text=True, check=True).stdout

    def agents(self, count, state):
        """A process with user agents that stand."""
        process = subprocess.Popen(
            [str(part) for part in [
                "taskset", "-c", GENERATOR_CORE, "python3", HERE / "webpush_agents.py", "127.0.0.1", self.web,
                "/wpush/connect/" + self.key.read_text(), count, state]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if not process.stdout.readline():
            raise RuntimeError(f"no user agents: {process.stderr.read().decode()[-500:]}")
        return process


def left(process):
    """What the user agents of a process got, once they are told to end."""
    out, errors = process.communicate(timeout=60)
    if process.returncode != 0:
        raise RuntimeError(errors.decode()[-500:])
    return json.loads(out.splitlines()[-1])


def pushes(binaries, outstanding, seconds):
    """Figures of so many connections that post to AGENTS user agents."""
    with Door(binaries) as server:
        state = server.folder / "agents"
        agents = server.agents(AGENTS, state)
        before = gateway_load.cpu_seconds(server.process.pid)
        found = lines(
            [gateway_load.wrk(), "-t", 1, "-c", outstanding, "-d", f"{seconds}s", "-s", HERE / "webpush.lua",
             f"http://127.0.0.1:{server.web}", "--", state, PAYLOAD], core=GENERATOR_CORE)[0]
        time.sleep(1)
        spent = gateway_load.cpu_seconds(server.process.pid) - before
        told = left(agents)
    if found["errors"]:
        raise RuntimeError(f"{found['errors']} of {found['requests']} pushes failed")
    # What wrk had begun when its time was over is delivered and not counted by it.
    if not 0 <= told["delivered"] - found["requests"] <= outstanding:
        raise RuntimeError(f"{told['delivered']} delivered, {found['requests']} were answered")
    return {
        "sendsPerSecond": found["requests"] / found["seconds"],
        "acceptedMilliseconds": found["acceptedMilliseconds"],
        "acceptedP99Milliseconds": found["acceptedP99Milliseconds"],
        "deliveredMilliseconds": told["deliveredMilliseconds"],
        "deliveredP99Milliseconds": told["deliveredP99Milliseconds"],
        "serverMicroseconds": spent / told["delivered"] * 1e6}


def idle(binaries, count):
    """Bytes of user-space memory that an idle user agent with one channel takes. The user agents were registered in an
    earlier process, so that nothing of registering is counted."""
    with Folder() as folder:
        for _ in range(2):
            with Door(binaries, data=f"{folder}/data") as server:
                before = anonymous(server.process.pid)
                agents = server.agents(count, f"{folder}/agents")
                time.sleep(2)
                found = (anonymous(server.process.pid) - before) / count
                left(agents)
    return found


def run(binaries, quick, repeats, progress, report):
    seconds = SECONDS_QUICK if quick else SECONDS
    runs, total, done = {}, repeats * (len(OUTSTANDING) + 1), 0
    try:
        for repeat in range(repeats):
            with gateway_load.Gateway(binaries) as gateway:
                gateway.measure(gateway.http, "token", 16, 1)
                for outstanding in OUTSTANDING:
                    done += 1
                    progress(done, total, f"pushes, {outstanding} at once")
                    for name, figures in [
                            ("messages:send, a device", gateway.measure(
                                gateway.http, "token", outstanding, seconds)),
                            ("POST, a user agent", pushes(binaries, outstanding, seconds))]:
                        report.figures("webpush", f"{name}, {outstanding}", "Martlet", repeat, figures)
                        runs.setdefault((name, outstanding), []).append(figures)
                gateway.check()
            done += 1
            count = IDLE_AGENTS_QUICK if quick else IDLE_AGENTS
            progress(done, total, f"{count:,} idle user agents")
            held = {"idleBytes": idle(binaries, count)}
            report.figures("webpush", "idle user agents", "Martlet", repeat, held)
            runs.setdefault("idle", []).append(held)
    except Unavailable as error:
        report.section(TITLE, f"- not measured: {error}")
        return
    held = medians(runs.pop("idle"))["idleBytes"]
    report.at_most(
        "user-space memory of an idle user agent, bytes", held, IDLE_BYTES_MAX, "{:,.0f}", "webpush")
    found = {key: medians(figures) for key, figures in runs.items()}
    report.section(TITLE, "\n".join(markdown(found, held, count)))


def markdown(found, held, count):
    def milliseconds(figures, name):
        return f"{figures[name]:.2f}" if name in figures else ""

    rows = [[
        f"{name}, {outstanding} at once", f"{figures['sendsPerSecond']:,.0f}",
        milliseconds(figures, "acceptedMilliseconds"), milliseconds(figures, "acceptedP99Milliseconds"),
        milliseconds(figures, "deliveredMilliseconds"), milliseconds(figures, "deliveredP99Milliseconds"),
        f"{figures['serverMicroseconds']:.0f}"] for (name, outstanding), figures in found.items()]
    return [
        f"`martlet gateway` on one core; wrk, and {AGENTS} connected receivers that acknowledge, on the other. "
        f"{PAYLOAD} bytes, default time to live: answered means on disk (fsync). A user agent speaks the WebSocket "
        "protocol of browsers, a device the binary protocol. Delivered is the time from the POST to the user agent's "
        "reading.", "",
        *table(["sends", "per second", "answered: median, ms", "p99, ms", "delivered: median, ms", "p99, ms",
                "CPU µs each"], rows), "",
        f"{count:,} idle user agents with a channel each take {held:,.0f} bytes of user-space memory each, the "
        "connection to the broker included."]
