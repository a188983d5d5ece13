# SPDX-License-Identifier: Apache-2.0
"""OPS-10: each alert of a lone broker in Examples/prometheus-alerts.yml fires before a real Prometheus when its cause is there, ends when
the cause has gone, and does not fire for a healthy broker under load.

    alert_test.py PROGRAM WORK_FOLDER

A broker for each cause, each on a file system of its own in memory. Disks that fail or are slow are played by a library
before the broker's writes (Tests/Faults); full disks are full. The rules are those of the file, with shorter times
(prometheus.shortened). Needs the Debian packages prometheus and openssl, and a C compiler. Runs in a mount namespace of
its own, as root or where users may have namespaces."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import loads
from brokers import Broker
from prometheus import Prometheus, shortened

ROOT = pathlib.Path(__file__).parent.parent.parent
RULES = ROOT / "Examples" / "prometheus-alerts.yml"
FAULTS = ROOT / "Tests" / "Faults" / "failing_disk.c"
# The slowest cause takes 16 s on two busy cores.
FIRING_SECONDS_MAX = 90
ENDING_SECONDS_MAX = 90
REACHING_SECONDS_MAX = 30
HEALTHY = "healthy"
# Alerts of clusters (cluster_alert_test.py), and of answers of push services (the tests of metrics).
OF_OTHERS = re.compile("MartletCluster|MartletBridge")


class Cause:
    """What makes alerts fire: a broker, and a function that causes the condition until it is told to stop."""

    def __init__(self, alerts, broker, act, others=()):
        self.alerts, self.broker, self.act = alerts, broker, act
        # Alerts that may fire beside, because one cause has several effects.
        self.others = set(others)
        self.stop = threading.Event()
        self.error = None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            self.act(self.broker, self.stop)
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"

    def end(self):
        self.stop.set()
        self.thread.join()


def causes(folder, certificate):
    def broker(name, *options, mebibytes=160, **more):
        return Broker(name, folder, mebibytes, *options, **more)

    unbounded = ("--limit", "stored-per-instance-max=0", "--limit", "device-messages-per-minute=0",
                 "--limit", "device-messages-per-hour=0")
    yield Cause(["MartletDown"], broker("killed"), loads.kill)
    yield Cause(["MartletStoreRefusing", "MartletUnavailable"], broker("refusing"), loads.refuse)
    yield Cause(["MartletDiskShort"], broker("full", *unbounded), loads.fill_up,
                ["MartletDiskFilling", "MartletUnavailable", "MartletStoreRefusing"])
    yield Cause(["MartletDiskFilling"], broker("filling"), loads.fill_mostly)
    yield Cause(["MartletDiskSlow"], broker("slow"), loads.slow_disk(80_000))
    yield Cause(["MartletCommitsSlow"], broker("slower"), loads.slow_disk(400_000),
                ["MartletDiskSlow", "MartletFirstDeliveriesLate"])
    yield Cause(["MartletCommandsWaiting", "MartletHanging"],
                broker("waiting", *unbounded, projects=loads.WAITING_PROJECTS), loads.wait_for_disk,
                ["MartletDiskSlow", "MartletCommitsSlow"])
    yield Cause(["MartletFanoutsDeferred"],
                broker("deferring", "--deliveries-per-second", "20", "--limit",
                       "fanouts-in-progress=1"), loads.many_fanouts, ["MartletFirstDeliveriesLate"])
    yield Cause(["MartletFirstDeliveriesLate"],
                broker("late", "--deliveries-per-second", "20"), loads.many_fanouts)
    yield Cause(["MartletStrangers"], broker("pressed", "--limit", "handshakes-per-address=4"),
                loads.strangers)
    yield Cause(["MartletTLSFailures"], broker("secure", "--tls-certificate", str(certificate)),
                loads.bad_handshakes)
    yield Cause([], broker(HEALTHY, *unbounded), loads.healthy)


def make_certificate(path):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", str(path), "-out",
         f"{path}.crt"], check=True, stderr=subprocess.DEVNULL)
    with open(path, "a") as file:
        file.write(pathlib.Path(f"{path}.crt").read_text())


def wait(until, seconds):
    """Whether `until` became true in time; asked twice a second."""
    deadline = time.monotonic() + seconds
    while not until():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


class Watch:
    """What fired when."""

    def __init__(self, prometheus, all_causes):
        self.prometheus, self.began = prometheus, time.monotonic()
        self.first, self.now = {}, set()
        self.allowed = {(alert, cause.broker.name) for cause in all_causes
                        for alert in [*cause.alerts, *cause.others]}
        self.wanted = {(alert, cause.broker.name) for cause in all_causes for alert in cause.alerts}

    def look(self):
        self.now = self.prometheus.firing()
        for pair in self.now:
            self.first.setdefault(pair, time.monotonic() - self.began)

    def all_have_fired(self):
        self.look()
        return self.wanted <= set(self.first)

    def none_fires(self):
        self.look()
        # A killed broker stays away.
        return all(alert == "MartletDown" for alert, _ in self.now)

    @property
    def unexpected(self):
        return sorted(set(self.first) - self.allowed)


def build_library(path):
    compiler = shutil.which("clang") or shutil.which("cc")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(path), str(FAULTS), "-ldl"],
                   check=True)


def observe(watch, all_causes, known):
    """Lets all causes begin and end. Returns what is wrong."""
    for cause in all_causes:
        cause.thread.start()
    wait(watch.all_have_fired, FIRING_SECONDS_MAX)
    for cause in all_causes:
        if cause.alerts:
            cause.end()
    ended = wait(watch.none_fires, ENDING_SECONDS_MAX)
    accepted = watch.prometheus.value(
        f'martlet_messages_accepted_total{{instance="{HEALTHY}"}}') or 0
    wrong = []
    for cause in all_causes:
        cause.end()
        if cause.error:
            wrong.append(f"{cause.broker.name}: {cause.error}")
    print(f"{'ALERT':<28}{'BROKER':<12}{'FIRED AFTER':>12}")
    for alert, name in sorted(watch.wanted):
        seconds = watch.first.get((alert, name))
        print(f"{alert:<28}{name:<12}{'never' if seconds is None else f'{seconds:.0f} s':>12}")
        if seconds is None:
            wrong.append(f"{alert} did not fire for the broker '{name}'")
    wrong += [f"{alert} has no cause in this test"
              for alert in sorted(known - {alert for alert, _ in watch.wanted})
              if not OF_OTHERS.match(alert)]
    wrong += [f"{alert} fired for the broker '{name}' without its cause"
              for alert, name in watch.unexpected]
    if not ended:
        wrong.append(f"these went on without their cause: {sorted(watch.now)}")
    if accepted < loads.HEALTHY_MESSAGES_MIN:
        wrong.append(f"the healthy broker took {accepted:.0f} messages: that is no load")
    if not wrong:
        print("Each alert fired by its cause and ended without it; the healthy broker took "
              f"{accepted:.0f} messages, and nothing fired for it.")
    return wrong


def main():
    program, folder = (pathlib.Path(path).absolute() for path in sys.argv[1:3])
    missing = [name for name in ("prometheus", "openssl") if not shutil.which(name)]
    if missing:
        sys.exit(f"The Debian package {' and '.join(missing)} is missing.")
    # Brokers and Prometheus must not outlive the test.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rules = RULES.read_text()
    Broker.program, Broker.library = str(program), folder / "failing_disk.so"
    build_library(Broker.library)
    make_certificate(folder / "certificate.pem")
    all_causes = list(causes(folder, folder / "certificate.pem"))
    prometheus = Prometheus(folder / "prometheus", shortened(rules),
                            {cause.broker.name: cause.broker.metrics_port for cause in all_causes})
    try:
        # Nothing is to fire before there is a cause.
        reached = 'count(up{job="martlet"} == 1)'
        if not wait(lambda: prometheus.value(reached) == len(all_causes), REACHING_SECONDS_MAX):
            sys.exit(f"Prometheus does not reach every broker; the logs are in {folder}")
        wrong = observe(
            Watch(prometheus, all_causes), all_causes, set(re.findall(r"alert: (\w+)", rules)))
    finally:
        prometheus.end()
        for cause in all_causes:
            cause.stop.set()
            cause.broker.end()
    for sentence in wrong:
        print(f"WRONG: {sentence}; the logs are in {folder}")
    sys.exit(1 if wrong else 0)


def enter_namespace():
    """Mounts are seen by nobody else, and end with the test."""
    if os.environ.get("MARTLET_ALERT_NAMESPACE") is None:
        os.environ["MARTLET_ALERT_NAMESPACE"] = "1"
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        os.execvp("unshare", ["unshare", *user, "--mount", sys.executable, *sys.argv])


enter_namespace()
main()
