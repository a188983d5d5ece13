# SPDX-License-Identifier: Apache-2.0
"""OPS-8: the program on Debian 12's own kernel and on the newest kernel of its backports.

    kernel_test.py BUILD_FOLDER WORK_FOLDER [--kernels bookworm,backports] [--accelerator kvm|tcg] [--only PATTERN]

On each kernel, in an emulator: the demo, the tests of the transports and of deliveries, over io_uring, over epoll, and
where io_uring is denied: by the kernel's setting io_uring_disabled, or by a filter of system calls on kernels before
6.6, which lack the setting. A table says what passed; the logs stay in WORK_FOLDER. Needs QEMU, e2fsprogs and the
mirrors of this system's apt; no privilege."""

import argparse
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time

from initramfs import PROGRAM, Archive
from machine import Machine, accelerator
from packages import Kernel, Mirrors, Packages, Unavailable, files_of

HERE = pathlib.Path(__file__).parent
DENY = HERE.parent / "Python" / "deny_calls.py"
# Two at a time: beside all others a test without acceleration would not end in its time limit.
TESTS = ["martlet-tests", "--testing-library", "swift-testing",
         "--experimental-maximum-parallelization-width", "2"]
# Over sockets; the tests of the module MartletDelivery need no kernel's help, but its clock and memory.
OVER_SOCKETS = r"^MartletTests\.(DeliveryTests|MailboxTests|FanoutTests|SharedConnectionTests)/"
DISK_BYTES = 4 << 30
BOOT_SECONDS_MAX = 300
# Without acceleration a test takes about ten times as long.
STEP_SECONDS_MAX = 1200
DENIED = "denied"
# What a kernel says of its own faults.
KERNEL_FAULT = re.compile(r"\b(BUG|Oops|WARNING|panic)\b|Call Trace")


@dataclasses.dataclass
class Step:
    transport: str
    what: str
    command: list
    # Each must be in what the command prints.
    proofs: tuple = ()
    is_refused: bool = False
    variables: dict = dataclasses.field(default_factory=dict)

    def line(self, denial):
        command = shlex.join(["env", *(f"{k}={v}" for k, v in self.variables.items()),
                              *(denial if self.transport == DENIED else []), *self.command])
        return f"step {STEP_SECONDS_MAX} {command}"

    def verdict(self, code, text):
        """None: passed."""
        if self.is_refused != (code != 0):
            return f"exit code {code}"
        for proof in self.proofs:
            if not re.search(proof, text):
                return f"does not say '{proof}'"
        return None


def tests(transport, what, pattern, chosen=None):
    # A filter that no test matches would pass.
    variables = {"MARTLET_TRANSPORT": chosen} if chosen else {}
    return Step(transport, what, [f"/martlet/{TESTS[0]}", *TESTS[1:], "--filter", pattern],
                (r"Test run with [1-9]\d* tests?.* passed",), variables=variables)


def steps(pattern):
    """Those whose words have the pattern."""
    return [step for step in all_steps() if re.search(pattern, f"{step.transport} {step.what}")]


def all_steps():
    demo = ["/martlet/martlet-core", "demo", "--exit"]
    for transport in ("io_uring", "epoll"):
        yield Step(transport, "demo of 5,000 devices", demo + ["--transport", transport],
                   (rf" over {transport} ", "Right: everybody got what they should"))
        yield tests(transport, "tests of the transport", r"^MartletTransportTests\.", transport)
        yield tests(transport, "tests of delivery over sockets", OVER_SOCKETS, transport)
    yield tests("-", "tests of delivery", r"^MartletDeliveryTests\.")
    yield Step(DENIED, "demo of 5,000 devices", demo,
               (" over epoll ", "Right: everybody got what they should"))
    yield Step(DENIED, "io_uring is required",
               ["/martlet/martlet-core", "serve", "--data", "/tmp/required", "--port", "0",
                "--require-io-uring"], ("The kernel denies io_uring",), is_refused=True)
    yield tests(DENIED, "tests of delivery over sockets", OVER_SOCKETS)


INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin HOME=/root TMPDIR=/tmp
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
exec </dev/null >/dev/ttyS1 2>&1
step() {
    seconds=$1
    shift
    echo "@@begin"
    # Without a terminal programs show no progress bars.
    timeout -s KILL $seconds "$@" >/run/step.log 2>&1
    code=$?
    cat /run/step.log
    echo
    echo "@@end $code"
}
"""

GREET = INIT + 'echo "@@kernel"\npoweroff -f\n'


def init(kernel, all_steps, denial_setting, denial):
    lines = [f"insmod /modules/{name}.ko" for name in kernel.modules]
    lines += ["mount -t ext4 /dev/vda /tmp", "chmod 1777 /tmp", "ip link set lo up",
              # The demo has both ends of 5,000 connections.
              "ulimit -n 65536", 'echo "@@kernel $(uname -r)"']
    is_denied = False
    for step in all_steps:
        if step.transport == DENIED and not is_denied:
            is_denied = True
            lines += denial_setting
        lines.append(step.line(denial))
    return INIT + "\n".join(lines) + "\npoweroff -f\n"


def root(busybox):
    archive = Archive()
    for folder in ("dev", "proc", "sys", "tmp", "run", "root", "etc"):
        archive.add_folder(folder)
    archive.add("bin/busybox", busybox, PROGRAM)
    archive.add("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    archive.add("etc/hosts", b"127.0.0.1 localhost\n::1 localhost\n")
    return archive


def add_python(archive):
    """This machine's Python, for deny_calls.py."""
    archive.add_program(os.path.realpath(sys.executable), "/usr/bin/python3")
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    for path in library.rglob("*"):
        parts = path.relative_to(library).parts
        if path.is_file() and parts[0] not in (
                "test", "idlelib", "lib2to3", "tkinter", "ensurepip", "dist-packages",
                "site-packages") and not parts[0].startswith("config-"):
            archive.add_program(path) if path.suffix == ".so" else archive.add(
                str(path), path.read_bytes())


def stripped(source, folder):
    """A copy without symbols, which are most of a program's bytes."""
    copy = folder / source.name
    if not shutil.which("strip") or subprocess.run(
            ["strip", "-o", str(copy), str(source)]).returncode:
        shutil.copy(source, copy)
    return copy


class Report:
    WIDTHS = (24, 9, 32, 9, 8)

    def __init__(self):
        self.failures = 0
        self.row("KERNEL", "TRANSPORT", "WHAT", "RESULT", "SECONDS")

    def row(self, *cells):
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(cells, self.WIDTHS)).rstrip(),
              flush=True)

    def passed(self, kernel, step, seconds):
        self.row(kernel, step.transport, step.what, "passed", f"{seconds:.0f}")

    def failed(self, kernel, step, seconds, why):
        self.failures += 1
        self.row(kernel, step.transport, step.what, "FAILED", f"{seconds:.0f}")
        print(f"    {why}", flush=True)


def run(kernel, machine, chosen_steps, report, log_path):
    """Follows a machine through its steps."""
    with open(log_path, "w") as log:
        def next_line(seconds):
            line = machine.line(time.monotonic() + seconds)
            if line is not None:
                print(line, file=log, flush=True)
            return line

        line = next_line(BOOT_SECONDS_MAX)
        while line is not None and not line.startswith("@@kernel"):
            line = next_line(BOOT_SECONDS_MAX)
        for step in chosen_steps:
            while line is not None and line != "@@begin":
                line = next_line(BOOT_SECONDS_MAX)
            began, text = time.monotonic(), []
            while line is not None and not line.startswith("@@end "):
                line = next_line(STEP_SECONDS_MAX + BOOT_SECONDS_MAX)
                text.append(line or "")
            seconds = time.monotonic() - began
            if line is None:
                report.failed(kernel, step, seconds, "the machine ended or hangs")
                return
            why = step.verdict(int(line.split()[1]), "\n".join(text))
            if why:
                report.failed(kernel, step, seconds, f"{why}: see {log_path}")
            else:
                report.passed(kernel, step, seconds)


def test(name, packages, programs, busybox, options, folder, report):
    chosen_steps, chosen = steps(options.only), options.accelerator
    kernel = Kernel(packages.fetch(packages.dependency("linux-image-amd64")))
    image = folder / f"vmlinuz-{kernel.release}"
    image.write_bytes(kernel.image)
    greeting = root(busybox)
    greeting.add("init", GREET.encode(), PROGRAM)
    greeting.write(folder / "greeting.cpio")
    kind, reason = (chosen, None) if chosen else accelerator(image, folder / "greeting.cpio", folder)
    print(f"Linux {kernel.release} of {packages.names}, in QEMU with {kind}"
          + (f": {reason}" if reason else ""), flush=True)

    # Linux 6.6 brought the setting.
    has_setting = tuple(map(int, kernel.release.split(".")[:2])) >= (6, 6)
    setting = ["echo 2 >/proc/sys/kernel/io_uring_disabled"] if has_setting else []
    filter = [] if has_setting else ["python3", "/martlet/deny_calls.py", "EPERM", "io_uring_setup"]
    print("io_uring is denied by " + ("kernel.io_uring_disabled=2" if has_setting
          else "a filter of system calls, because this kernel lacks kernel.io_uring_disabled"))
    archive = root(busybox)
    for module, content in kernel.modules.items():
        archive.add(f"modules/{module}.ko", content)
    for path, program in programs.items():
        archive.add_program(program, path)
    archive.add("martlet/deny_calls.py", DENY.read_bytes())
    if not has_setting:
        add_python(archive)
    archive.add("init", init(kernel, chosen_steps, setting, filter).encode(), PROGRAM)
    archive.write(folder / "initramfs.cpio")
    disk = folder / "disk.img"
    with open(disk, "wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", str(disk)], check=True)
    kernel_log = folder / f"{name}.kernel.log"
    machine = Machine(kind, image, folder / "initramfs.cpio", kernel_log, disk)
    try:
        run(kernel.release, machine, chosen_steps, report, folder / f"{name}.log")
    finally:
        machine.end()
        disk.unlink()
    faults = [line for line in kernel_log.read_text(errors="replace").splitlines()
              if KERNEL_FAULT.search(line)]
    if faults:
        report.failures += 1
        print(f"    the kernel says: {faults[0]}: see {kernel_log}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--kernels", default="bookworm,backports")
    parser.add_argument("--accelerator", choices=["kvm", "tcg"])
    parser.add_argument("--only", default="", help="steps whose transport and words match")
    options = parser.parse_args()
    folder = options.work.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    # A machine must not outlive its test.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    # mke2fs and others are not on every user's path.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    began = time.monotonic()
    report = Report()
    try:
        mirrors = Mirrors()
        suites = {"bookworm": mirrors.bookworm(), "backports": mirrors.backports()}
        own = Packages(folder / "bookworm", suites["bookworm"])
        busybox = files_of(own.fetch("busybox-static"), lambda path: path.endswith("bin/busybox"))
        programs = {
            "/martlet/martlet-core": stripped(options.build / "martlet-core", folder),
            "/martlet/martlet-tests": stripped(next(options.build.glob("*.xctest")), folder)}
        for name in options.kernels.split(","):
            packages = own if name == "bookworm" else Packages(folder / name, suites[name])
            test(name, packages, programs, next(iter(busybox.values())), options, folder, report)
    except Unavailable as error:
        sys.exit(f"No kernel to test: {error}")
    print(f"{report.failures} failed, after {time.monotonic() - began:.0f} s; the logs are in {folder}")
    sys.exit(1 if report.failures else 0)


main()
