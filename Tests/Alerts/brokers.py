# SPDX-License-Identifier: Apache-2.0
"""Brokers of a test, each on a file system of its own in memory, and each with metrics on an address of their own."""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "Python"))
import martlet  # noqa: E402

PROJECT = "tides"
EIO = 5


class Broker:
    """A running broker. `disk` are lines of Tests/Faults/failing_disk.c, which may change while the broker runs."""

    library = None  # the built failing_disk.c
    program = None

    def __init__(self, name, folder, mebibytes, *options, projects=(PROJECT,)):
        self.name, self.folder = name, folder / name
        self.folder.mkdir()
        # tmpfs takes room in advance and says when it is full, as a disk does.
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs",
                        str(self.folder)], check=True)
        self.data = self.folder / "data"
        self.rules = folder / f"{name}.disk"
        self.rules.write_text("")
        self.keys, self.registration_keys = {}, {}
        for project in projects:
            self.command("project", "create", project)
            self.keys[project] = json.loads(
                self.command("key", "create", "--project", project, "--name", "test", "--json"))["key"]
            self.registration_keys[project] = (
                self.data / f"registration-{project}.key").read_text().strip()
        self.log = open(folder / f"{name}.log", "w")
        self.process = subprocess.Popen(
            [self.program, "serve", "--data", str(self.data), "--port", "0", "--metrics",
             "127.0.0.1:0", "--json", *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=self.log, text=True,
            env={"LD_PRELOAD": str(self.library), "FAILING_DISK": str(self.rules)})
        ready = self.process.stdout.readline()
        if not ready:
            raise SystemExit(f"The broker {name} does not start: see {folder}/{name}.log")
        ready = json.loads(ready)
        self.port = ready["port"]
        self.metrics_port = int(ready["metrics"].split(":")[2].split("/")[0])

    def command(self, *arguments):
        done = subprocess.run([self.program, *arguments, "--data", str(self.data)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode:
            raise SystemExit(f"martlet {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def disk(self, *lines):
        """Each line has an ID that no earlier line of the broker has."""
        new = self.rules.with_suffix(".new")
        new.write_text("".join(line + "\n" for line in lines))
        new.rename(self.rules)

    def device(self, *topics, project=PROJECT):
        device = martlet.Device("127.0.0.1", self.port, project,
                                registration_key=self.registration_keys[project])
        if topics:
            device.subscribe(*(f"/topics/{topic}" for topic in topics))
        return device

    def sender(self, project=PROJECT):
        return martlet.Sender("127.0.0.1", self.port, project, self.keys[project], timeout=60)

    def fill(self, share_used):
        """Takes room of the file system until so much of it is used."""
        status = os.statvfs(self.folder)
        wanted = int(status.f_blocks * share_used) - (status.f_blocks - status.f_bfree)
        with open(self.folder / "filler", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(wanted, 1) * status.f_frsize)

    def make_room(self):
        (self.folder / "filler").unlink(missing_ok=True)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
