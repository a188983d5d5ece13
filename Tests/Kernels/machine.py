# SPDX-License-Identifier: Apache-2.0
"""A machine of two cores in QEMU, whose second serial line is read. Rests on qemu-system-x86.

/dev/kvm makes the machine fast where the kernel of this machine runs any guest; some machines in clouds have a
/dev/kvm that runs only guests of their own. So a kernel is started once with it, and if the kernel does not say a word
QEMU's own translation (TCG) is used."""

import os
import pathlib
import select
import subprocess
import time

PROCESSORS = {"kvm": "host", "tcg": "max"}
MEMORY = "3072"
GREETING_SECONDS_MAX = 20


class Machine:
    """A running machine. The kernel's own messages go to a file."""

    def __init__(self, accelerator, image, initramfs, kernel_log, disk=None):
        command = [
            "qemu-system-x86_64", "-accel", accelerator, "-cpu", PROCESSORS[accelerator], "-smp",
            "2", "-m", MEMORY, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-serial", f"file:{kernel_log}", "-serial", "stdio", "-kernel", str(image), "-initrd",
            str(initramfs), "-append", "console=ttyS0 quiet panic=-1"]
        if disk:
            # The machine lives as long as its disk, so nothing on the disk must outlive this machine.
            command += ["-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.rest = b""

    def line(self, deadline):
        """The next line; None: the machine has ended, or the deadline (of time.monotonic) is over."""
        while b"\n" not in self.rest:
            seconds = deadline - time.monotonic()
            if seconds <= 0 or not select.select([self.process.stdout], [], [], seconds)[0]:
                return None
            read = os.read(self.process.stdout.fileno(), 65_536)
            if not read:
                return None
            self.rest += read
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode(errors="replace").rstrip("\r")

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def accelerator(image, initramfs, folder):
    """The accelerator that starts a kernel, and why it is not KVM. The initramfs greets with a line."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg", "there is no /dev/kvm to use"
    machine = Machine("kvm", image, initramfs, pathlib.Path(folder) / "kvm-trial.kernel.log")
    began = time.monotonic()
    line = machine.line(began + GREETING_SECONDS_MAX)
    machine.end()
    if line and line.startswith("@@"):
        return "kvm", None
    return "tcg", f"/dev/kvm does not run this kernel ({line or 'no word in 20 s'})"
