# SPDX-License-Identifier: Apache-2.0
"""OPS-7, OPS-10: the alerts for clusters in Examples/prometheus-alerts.yml fire before a real Prometheus when their cause is
there, end when the cause has gone, and do not fire for a healthy cluster under load.

    cluster_alert_test.py PROGRAM WORK_FOLDER

Three nodes on two servers of PostgreSQL. Two active nodes cannot be caused, so the tests of metrics alone fire that alert.
Needs PostgreSQL 15, the Debian package prometheus, and a C compiler."""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "Cluster"))
sys.path.insert(0, str(HERE.parent / "Python"))
import martlet  # noqa: E402
from prometheus import Prometheus, shortened  # noqa: E402
from servers import Cluster, Failed, run  # noqa: E402

ROOT = HERE.parent.parent
RULES = ROOT / "Examples" / "prometheus-alerts.yml"
FAULTS = ROOT / "Tests" / "Faults" / "failing_disk.c"
PROJECT = "tides"
SECONDS_MAX = 90
# A follower applies in one write what has come during the write before. The shortened rule compares with rows of five
# seconds ago.
SLOW_MICROSECONDS = 6_000_000
# Alerts of several causes at once, and of the slow disk that keeps a node behind.
BESIDE = {"MartletUnavailable", "MartletDiskSlow", "MartletCommitsSlow", "MartletFirstDeliveriesLate"}


class Load(threading.Thread):
    """Sends to nobody through a node, whatever the answer is."""

    def __init__(self, port, key):
        super().__init__(daemon=True)
        self.port, self.key, self.accepted = port, key, 0

    def run(self):
        sender = None
        while True:
            try:
                sender = sender or martlet.Sender("127.0.0.1", self.port, PROJECT, self.key)
                sender.send_message("topic", "nobody", martlet.message(data={"n": "x" * 2000}))
                self.accepted += 1
                time.sleep(0.01)
            except (OSError, martlet.MartletError):
                sender = None
                time.sleep(0.2)


class Test:
    def __init__(self, program, folder):
        self.folder, self.program = folder, program
        library = folder / "failing_disk.so"
        compiler = shutil.which("clang") or shutil.which("cc")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(FAULTS),
                        "-ldl"], check=True)
        self.cluster = Cluster(folder / "cluster", program, ["a", "b", "c"])
        self.nodes = self.cluster.nodes
        self.disk = folder / "c.disk"
        self.disk.write_text("")
        self.nodes["c"].environment = {"LD_PRELOAD": str(library), "FAILING_DISK": str(self.disk)}
        self.wrong, self.caused = [], set()

    def begin(self):
        for node in self.nodes.values():
            node.start()
        self.cluster.active()
        data = self.nodes["a"].data
        run(self.program, "project", "create", PROJECT, "--data", data)
        key = json.loads(run(self.program, "key", "create", "--project", PROJECT, "--name", "test",
                             "--data", data, "--json"))["key"]
        self.load = Load(self.nodes["a"].port, key)
        self.load.start()
        ports = {name: node.metrics_port for name, node in self.nodes.items()}
        self.prometheus = Prometheus(self.folder / "prometheus", shortened(RULES.read_text()), ports)

    def wait(self, what, until):
        deadline = time.monotonic() + SECONDS_MAX
        while not until():
            if time.monotonic() > deadline:
                self.wrong.append(f"{what}; firing: {sorted(self.prometheus.firing())}")
                return
            time.sleep(0.5)

    def fires(self, *wanted):
        began = time.monotonic()
        seen = set()

        def all_fire():
            now = self.prometheus.firing()
            seen.update(now)
            return set(wanted) <= now

        self.wait(f"{wanted} did not fire", all_fire)
        for alert, name in wanted:
            self.caused.add(alert)
            print(f"{alert:<28}{name:<10}{time.monotonic() - began:>6.0f} s", flush=True)
        return seen

    def ends(self):
        self.wait("an alert goes on without its cause", lambda: not {
            alert for alert, _ in self.prometheus.firing() if alert not in BESIDE})

    def all(self):
        time.sleep(10)
        if self.prometheus.firing():
            self.wrong.append(f"a healthy cluster fires {self.prometheus.firing()}")
        for cause in (self.silence, self.refusing, self.behind, self.unlinked, self.drained,
                      self.stopped):
            cause()
        known = set(re.findall(r"alert: (MartletCluster\w+)", RULES.read_text()))
        for alert in sorted(known - self.caused - {"MartletClusterTwoActive"}):
            self.wrong.append(f"{alert} has no cause in this test")
        if self.load.accepted < 100:
            self.wrong.append(f"{self.load.accepted} messages were accepted: that is no load")

    def silence(self):
        self.cluster.pair.primary.signal(signal.SIGSTOP)
        self.fires(("MartletClusterInactive", ""),
                   *(("MartletClusterSilence", name) for name in self.nodes))
        self.cluster.pair.primary.signal(signal.SIGCONT)
        self.ends()

    def refusing(self):
        """The primary answers and takes no rows, as with a full disk."""
        server = self.cluster.pair.primary
        server.sql("create function refuse() returns trigger language plpgsql as "
                   "$$ begin raise 'no room'; end $$; create trigger refuse before insert on "
                   "martlet_log for each statement execute function refuse()", "martlet")
        self.fires(("MartletClusterLogRefusing", self.cluster.active().name))
        server.sql("drop function refuse cascade", "martlet")
        self.ends()

    def behind(self):
        # Only a follower can be behind.
        if self.cluster.active().name == "c":
            self.nodes["c"].stop()
            self.cluster.active()
            self.nodes["c"].start()
        self.disk.write_text(f"1 journal.0 w 0 -1 {SLOW_MICROSECONDS}\n"
                             f"2 journal.1 w 0 -1 {SLOW_MICROSECONDS}\n")
        self.fires(("MartletClusterBehind", "c"))
        self.disk.write_text("")
        self.ends()

    def unlinked(self):
        """The node has other keys than the others."""
        node = self.nodes["c"]
        node.stop()
        key = node.data / "token.key"
        kept = key.read_bytes()
        key.write_bytes((b"B" if kept[:1] == b"A" else b"A") + kept[1:])
        node.start()
        self.fires(("MartletClusterUnlinked", "c"))
        node.stop()
        key.write_bytes(kept)
        node.start()
        self.ends()

    def drained(self):
        """The only node that takes clients is gone."""
        node = self.nodes["c"]
        address = ("--cluster", self.cluster.pair.address)
        for name in ("a", "b"):
            self.cluster.command("cluster", "drain", name, *address)
        node.stop()
        self.fires(("MartletClusterDrained", ""))
        node.start()
        for name in ("a", "b"):
            self.cluster.command("cluster", "drain", name, "--undo", *address)
        self.ends()

    def stopped(self):
        """The node was away for longer than the log keeps rows."""
        node = self.nodes["c"]
        node.stop()
        applied = self.cluster.verify()["c"][0]
        time.sleep(2)
        self.cluster.pair.primary.sql(f"delete from martlet_log where seq <= {applied}", "martlet")
        node.start()
        self.fires(("MartletClusterStopped", "c"))
        node.stop()
        # The node joins again, at its former addresses.
        backup = self.folder / "backup"
        run(self.program, "backup", "--data", self.nodes["b"].data, backup)
        shutil.rmtree(node.data)
        run(self.program, "cluster", "join", backup, node.data)
        node.start()
        self.ends()

    def end(self):
        self.cluster.end()
        if hasattr(self, "prometheus"):
            self.prometheus.end()


def main():
    program, folder = (pathlib.Path(path).absolute() for path in sys.argv[1:3])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder.chmod(0o711)
    test = Test(program, folder)
    try:
        test.begin()
        test.all()
    except Failed as error:
        test.wrong.append(str(error))
    finally:
        test.end()
    for sentence in test.wrong:
        print(f"WRONG: {sentence}; the logs are in {folder}")
    if not test.wrong:
        print(f"Each alert fired by its cause and ended without it; {test.load.accepted} messages "
              "were accepted meanwhile.")
    sys.exit(1 if test.wrong else 0)


main()
