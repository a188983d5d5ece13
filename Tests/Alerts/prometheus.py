# SPDX-License-Identifier: Apache-2.0
"""A Prometheus of a test's own, of the Debian package prometheus: its rules, its targets, and its alerts."""

import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "Python"))
from ports import free_port  # noqa: E402

START_SECONDS_MAX = 20


def shortened(rules):
    """Rules for a test: what happens within minutes must happen within seconds. Thresholds stay as they are.

    A range of five minutes becomes one of ten seconds, and an alert waits two seconds for its condition to last."""
    rules, ranges = re.subn(r"\[5m\]", "[10s]", rules)
    rules, waits = re.subn(r"(?m)^( +for:) \d+[ms]$", r"\1 2s", rules)
    rules = rules.replace("offset 30s", "offset 5s")
    if not ranges or not waits:
        raise SystemExit("The rules have no ranges of five minutes, or no waits of minutes: change shortened().")
    return rules


class Prometheus:
    """A running server that asks the targets every second."""

    def __init__(self, folder, rules, targets):
        """targets: ports on this machine by the name of their instance."""
        folder.mkdir()
        (folder / "rules.yml").write_text(rules)
        lines = ["global: {scrape_interval: 1s, evaluation_interval: 1s}", "rule_files: [rules.yml]",
                 "scrape_configs:", "  - job_name: martlet", "    static_configs:"]
        for name, port in targets.items():
            lines.append(f"      - {{targets: ['127.0.0.1:{port}'], labels: {{instance: {name}}}}}")
        (folder / "prometheus.yml").write_text("\n".join(lines) + "\n")
        self.port = free_port()
        self.log = open(folder / "prometheus.log", "w")
        self.process = subprocess.Popen(
            ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
             f"--web.listen-address=127.0.0.1:{self.port}"], cwd=folder,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"Prometheus does not start: see {folder}/prometheus.log")
            time.sleep(0.2)

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return answer.read()

    def is_ready(self):
        try:
            self.get("/-/ready")
            return True
        except OSError:
            return False

    def firing(self):
        """The pairs of alert and instance that fire now."""
        alerts = json.loads(self.get("/api/v1/alerts"))["data"]["alerts"]
        # An alert of a whole cluster has no instance.
        return {(alert["labels"]["alertname"], alert["labels"].get("instance", ""))
                for alert in alerts if alert["state"] == "firing"}

    def value(self, query):
        """The first value of a query; None: there is none."""
        path = "/api/v1/query?query=" + urllib.request.quote(query)
        found = json.loads(self.get(path))["data"]["result"]
        return float(found[0]["value"][1]) if found else None

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
