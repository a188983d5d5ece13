# SPDX-License-Identifier: Apache-2.0
#
# The servers under measurement: how each is started on loopback with logging off and its limits
# raised, so that it does nothing but the fanout, and how it is known to be ready. The same commands
# stand in the README. Each start has an empty folder of its own.

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

SERVER_CORE = "0"
GENERATOR_CORE = "1"
# The cipher that Martlet prefers, for the peers too.
PEERS_CIPHER = "TLS_AES_128_GCM_SHA256"


class Unavailable(Exception):
    """The server is not installed; the report says so instead of failing."""


class Server:
    """A running server in a temporary folder."""

    name = ""
    # What the load generator calls the protocol.
    protocol = ""
    package = ""
    executable = ""

    def __init__(self, binaries, all_cores=False, data=None, loops=None, load=None):
        """With `data` the server works on that folder, which outlives it; `load` is the load generator
        where it is not one of the binaries."""
        self.binaries = pathlib.Path(binaries)
        self.load = pathlib.Path(load) if load else self.binaries / "bench-load"
        self.port = free_port()
        self.all_cores = all_cores
        self.data = data
        self.loops = loops
        self.process = None

    @classmethod
    def path(cls):
        found = shutil.which(cls.executable, path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")
        if not found:
            raise Unavailable(f"{cls.executable} is not installed (package {cls.package})")
        return found

    def command(self):
        raise NotImplementedError

    def options(self):
        """Further options of the load generator."""
        return []

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="martlet-bench-", dir=scratch()))
        if self.data is None:
            self.data = self.folder / "data"
        try:
            command = [str(part) for part in self.command()]
        except Unavailable:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        if not self.all_cores:
            command = ["taskset", "-c", SERVER_CORE] + command
        self.log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.wait()
        return self

    def wait(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            if self.is_ready():
                return
            time.sleep(0.005)
        text = (self.folder / "log").read_text(errors="replace")[-2000:]
        self.__exit__()
        raise RuntimeError(f"{self.name} did not start: {text}")

    def is_ready(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 0.2).close()
            return True
        except OSError:
            return False

    def is_ready_by_log(self):
        return b"ready" in (self.folder / "log").read_bytes()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port(first=7300):
    """Below the ports that the kernel gives to connections."""
    for port in range(first, 8300):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))
                return port
            except OSError:
                continue
    raise RuntimeError("no free port from 7300 to 8299")


def scratch():
    """A folder on a real disk, where fsync costs what it costs."""
    folder = os.environ.get("MARTLET_BENCH_TMP", "/var/tmp")
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    return folder


class Martlet(Server):
    name = "Martlet"
    protocol = "martlet"

    def command(self):
        loops = self.loops or (0 if self.all_cores else 1)
        return [self.binaries / "bench-broker", self.data, self.port, loops]

    is_ready = Server.is_ready_by_log

    def options(self):
        return ["--admin-key", str(pathlib.Path(self.data) / "admin.key")]


class MartletTLS(Martlet):
    """The same over TLS 1.3; the generator is OpenSSL's client."""

    name = "Martlet TLS"

    def command(self):
        return super().command() + ["tls"]

    def options(self):
        return super().options() + ["--tls"]


class MartletEpoll(Martlet):
    """The same broker where io_uring is denied."""

    name = "Martlet on epoll"

    def command(self):
        return super().command() + ["epoll"]


class MartletDurable(Martlet):
    name = "Martlet durable"
    protocol = "martlet-durable"


class MartletGateway(MartletDurable):
    """`martlet gateway`: the broker, and HTTP on a second port. Without the limits of devices, as
    bench-broker is."""

    name = "Martlet gateway"

    def command(self):
        return [
            self.binaries / "martlet", "gateway", "--data", self.data, "--port", self.port,
            "--http", "127.0.0.1:0", "--loops", 0 if self.all_cores else 1,
            "--limit", "device-messages-per-minute=0", "--limit", "device-messages-per-hour=0",
            "--limit", "stored-per-instance-max=0"]

    def is_ready(self):
        return b"SDKs at" in (self.folder / "log").read_bytes()

    def http(self):
        """Its address for SDKs, as it said it."""
        text = (self.folder / "log").read_text()
        return text.split("SDKs at ", 1)[1].split(",", 1)[0]


class Floor(Server):
    name = "kernel floor"
    protocol = "floor"
    is_ready = Server.is_ready_by_log

    def command(self):
        return [self.binaries / "bench-floor", self.port]


class FloorEpoll(Floor):
    name = "epoll floor"

    def command(self):
        return super().command() + ["epoll"]


class Redis(Server):
    name = "Redis"
    protocol = "redis"
    package = "redis-server"
    executable = "redis-server"

    def command(self):
        return [
            self.path(), "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly",
            "no", "--dir", self.folder, "--maxclients", "15000", "--tcp-backlog", "4096",
            "--client-output-buffer-limit", "pubsub 0 0 0", "--loglevel", "warning",
            "--protected-mode", "no"]


def certificate(folder):
    """A certificate for the run with its key, as Martlet's: ECDSA on P-256."""
    files = folder / "certificate.pem", folder / "key.pem"
    if not files[0].exists():
        command = shutil.which("openssl")
        if not command:
            raise Unavailable("openssl is not installed (package openssl)")
        subprocess.run(
            [command, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "30", "-subj", "/CN=localhost", "-out", files[0], "-keyout",
             files[1]], check=True, capture_output=True)
    return files


class RedisTLS(Redis):
    """The same over TLS."""

    name = "Redis TLS"

    def command(self):
        chain, key = certificate(self.folder)
        return super().command() + [
            "--port", 0, "--tls-port", self.port, "--tls-cert-file", chain, "--tls-key-file", key,
            "--tls-ca-cert-file", chain, "--tls-auth-clients", "no", "--tls-ciphersuites",
            PEERS_CIPHER]

    def options(self):
        return ["--tls"]


class Nats(Server):
    name = "NATS"
    protocol = "nats"
    package = "nats-server"
    executable = "nats-server"

    def command(self):
        configuration = self.folder / "nats.conf"
        configuration.write_text(
            f'listen: "127.0.0.1:{self.port}"\nmax_connections: 65536\nmax_pending: 1GB\n'
            'write_deadline: "60s"\nping_interval: "10m"\nlogfile: "/dev/null"\n')
        return [self.path(), "-c", configuration]


class Mosquitto0(Server):
    name = "Mosquitto QoS 0"
    protocol = "mqtt0"
    package = "mosquitto"
    executable = "mosquitto"

    def command(self):
        configuration = self.folder / "mosquitto.conf"
        configuration.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\nlog_dest none\n"
            "set_tcp_nodelay true\npersistence false\nmax_inflight_messages 0\n"
            "max_queued_messages 0\nmax_queued_bytes 0\nuser root\n")
        return [self.path(), "-c", configuration]


class MosquittoTLS(Mosquitto0):
    name = "Mosquitto QoS 0 TLS"

    def command(self):
        command = super().command()
        chain, key = certificate(self.folder)
        with open(self.folder / "mosquitto.conf", "a") as configuration:
            configuration.write(
                f"certfile {chain}\nkeyfile {key}\nciphers_tls1.3 {PEERS_CIPHER}\n")
        return command

    def options(self):
        return ["--tls"]


class Mosquitto1(Mosquitto0):
    name = "Mosquitto QoS 1"
    protocol = "mqtt1"


class JetStream(Nats):
    """One stream in files, one durable consumer for each device."""

    name = "NATS JetStream"
    protocol = "jetstream"

    def command(self):
        command = super().command()
        with open(self.folder / "nats.conf", "a") as configuration:
            configuration.write(
                f'jetstream {{ store_dir: "{self.data}", max_memory_store: 1GB, '
                'max_file_store: 20GB }\n')
        return command


class MosquittoLasting(Mosquitto0):
    """Sessions that last (clean session 0), in memory and saved to a file."""

    name = "Mosquitto sessions"
    protocol = "mqtt-lasting"

    def command(self):
        pathlib.Path(self.data).mkdir(exist_ok=True)
        command = super().command()
        configuration = self.folder / "mosquitto.conf"
        configuration.write_text(configuration.read_text().replace(
            "persistence false\n",
            f"persistence true\npersistence_location {self.data}/\n"))
        return command


SECURE = [Martlet, MartletTLS, Redis, RedisTLS, Mosquitto0, MosquittoTLS]
TRANSPORTS = [Floor, Martlet, FloorEpoll, MartletEpoll]
ALL = [Floor, Martlet, MartletTLS, MartletDurable, Redis, Nats, Mosquitto0, Mosquitto1]
