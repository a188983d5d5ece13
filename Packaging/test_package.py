# SPDX-License-Identifier: Apache-2.0
"""OPS-9: the package and the image, used as an operator uses them, without Swift.

    test_package.py BUILD_FOLDER PACKAGE_FOLDER

Makes a Debian system with debootstrap in a temporary folder. In this system: install, start, send, upgrade with data,
remove, purge. Then the image: the demo and the emulator under the profile of system calls. Needs root, debootstrap and
the mirrors of this system's apt. The system has no systemd that runs, so the test starts what the unit starts. All
mounts and processes are in namespaces of their own and end with the test."""

import contextlib
import ctypes
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "Tests" / "Kernels"))
from packages import Mirrors  # noqa: E402

DATA = "/var/lib/martlet"
BYTES_MAX = 35_000_000
SECONDS_TO_DELIVERY_MAX = 60
NOBODY = 65534
CONTAINER_USER = 65532
# Source: linux/filter.h, linux/seccomp.h, linux/prctl.h.
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38


def say(text):
    print(text, flush=True)


def check(condition, claim):
    if not condition:
        raise SystemExit(f"WRONG: {claim}")
    say(f"right: {claim}")


class Root:
    """A folder that is the root of its processes."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def mount(self):
        """Devices are made and not mounted, so that a removal of the folder touches none of the machine's."""
        (self.folder / "dev").mkdir(exist_ok=True)
        for name, minor in (("null", 3), ("zero", 5), ("random", 8), ("urandom", 9)):
            path = self.folder / "dev" / name
            if not path.exists():
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
                path.chmod(0o666)
        (self.folder / "proc").mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "proc", "proc", str(self.folder / "proc")], check=True)

    def start(self, *command, user=0, filter=None, **options):
        def enter():
            os.chroot(self.folder)
            os.chdir("/")
            if user:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            if filter:
                install(filter)

        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                       "DEBIAN_FRONTEND": "noninteractive", "TMPDIR": "/tmp"}
        return subprocess.Popen(
            command, preexec_fn=enter, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def run(self, *command, **options):
        process = self.start(*command, **options)
        out, error = process.communicate()
        if process.returncode:
            raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}\n{out}{error}")
        return out


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def profile_filter(path):
    """The filter of a container runtime's profile, for this machine's architecture."""
    header = glob.glob("/usr/include/*/asm/unistd_64.h") + ["/usr/include/asm-generic/unistd.h"]
    numbers = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)",
                              pathlib.Path(header[0]).read_text()))
    profile = json.loads(pathlib.Path(path).read_text())
    steps = [(LOAD_WORD, 0, 0, 0)]
    for rule in profile["syscalls"]:
        for name in rule["names"]:
            if name in numbers:
                steps += [(JUMP_IF_EQUAL, 0, 1, int(numbers[name])), (RETURN, 0, 0, ALLOW)]
    steps.append((RETURN, 0, 0, ERRNO | profile["defaultErrnoRet"]))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def install(text):
    libc = ctypes.CDLL(None, use_errno=True)
    program = Filter(len(text) // 8, text)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
            PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls")


@contextlib.contextmanager
def serving(root):
    """What the unit starts, in the folder that systemd would make."""
    unit = (root.folder / "usr/lib/systemd/system/martlet.service").read_text()
    command = re.search(r"(?m)^ExecStart=(.*)$", unit).group(1).split()
    folder = root.folder / DATA.lstrip("/")
    folder.mkdir(mode=0o700, exist_ok=True)
    os.chown(folder, NOBODY, NOBODY)
    broker = root.start(*command, user=NOBODY)
    line = broker.stdout.readline()
    if "listens on" not in line:
        raise SystemExit(f"the broker does not start: {line}{broker.stderr.read()}")
    yield broker
    broker.send_signal(signal.SIGTERM)
    check(broker.wait() == 0, "the broker ends in order on SIGTERM")


def listening(root):
    device = root.start(
        "/usr/bin/martlet", "listen", "--data", DATA, "--project", "tides", "--app",
        "com.example.test", "--topic", "storms", "--state", "/root/device.json", "--count", "1",
        "--timeout", "60")
    line = ""
    while "Listening" not in line:
        line = device.stdout.readline()
        if not line:
            raise SystemExit(f"no device: {device.stderr.read()}")
    return device


def send(root, title):
    out = root.run(
        "/usr/bin/martlet", "send", "--data-folder", DATA, "--project", "tides", "--topic",
        "storms", "--title", title)
    check("accepted for 1 instance" in out, f"the message '{title}' is accepted")


def received(device, title):
    # `communicate` would pass over what was read together with the first lines.
    out, error = device.stdout.read(), device.stderr.read()
    check(title in out and device.wait() == 0, f"the device gets '{title}' {error}")


def package(root, first, second):
    root.run("apt-get", "update", "-q")
    for path in (first, second):
        shutil.copy(path, root.folder / "root")
    check(not (root.folder / "usr/bin/swift").exists(), "the system has no Swift")
    began = time.monotonic()
    root.run("apt-get", "install", "-y", "-q", "--no-install-recommends", f"/root/{first.name}")
    installed = time.monotonic() - began
    with serving(root):
        root.run("/usr/bin/martlet", "project", "create", "tides", "--data", DATA)
        device = listening(root)
        send(root, "first")
        received(device, "first")
        seconds = time.monotonic() - began
        say(f"installed after {installed:.1f} s, first delivery after {seconds:.1f} s")
        check(seconds <= SECONDS_TO_DELIVERY_MAX,
              f"the first delivery is at most {SECONDS_TO_DELIVERY_MAX} s after the installation")
        send(root, "kept")
    settings = root.folder / "etc/martlet/martlet.conf"
    settings.write_text(settings.read_text() + "log-level = info\n")
    for name in ("man/man1/martlet.1.gz", "bash-completion/completions/martlet",
                 "zsh/vendor-completions/_martlet", "fish/vendor_completions.d/martlet.fish",
                 "martlet/seccomp.json"):
        check((root.folder / "usr/share" / name).stat().st_size > 1000, f"{name} is installed")
    enabled = root.folder / "etc/systemd/system/multi-user.target.wants/martlet.service"
    check(enabled.is_symlink(), "the service starts with the system")

    before = root.run("dpkg-query", "-W", "-f", "${Version}", "martlet")
    # Without a terminal, as the article Operating says.
    root.run("apt-get", "install", "-y", "-q", "-o", "Dpkg::Options::=--force-confold",
             f"/root/{second.name}")
    check(root.run("dpkg-query", "-W", "-f", "${Version}", "martlet") != before, "upgraded")
    check("log-level = info" in settings.read_text(), "the operator's settings are kept")
    with serving(root):
        received(listening(root), "kept")

    root.run("apt-get", "remove", "-y", "-q", "martlet")
    check(not (root.folder / "usr/bin/martlet").exists(), "the program is removed")
    check(settings.exists() and (root.folder / DATA.lstrip("/") / "data.mdb").exists(),
          "settings and data survive the removal")
    root.run("apt-get", "purge", "-y", "-q", "martlet")
    left = [p for p in ("etc/martlet", DATA.lstrip("/"), "usr/share/martlet")
            if (root.folder / p).exists()]
    check(not left and not enabled.is_symlink(), f"a purge leaves nothing {left}")


def other_settings(path, folder):
    """Changes the settings that the package brings, as a newer version does."""
    subprocess.run(["dpkg-deb", "--raw-extract", path, folder], check=True)
    with open(folder / "etc/martlet/martlet.conf", "a") as settings:
        settings.write("# newer = yes\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", folder, path], check=True,
                   stdout=subprocess.DEVNULL)


def symbols(path, program, folder):
    """A debugger finds the symbols of the program by its number, and the functions of the program are there."""
    subprocess.run(["dpkg-deb", "--extract", path, folder], check=True)
    number = re.search(r"Build ID: (\w+)", subprocess.run(
        ["readelf", "-n", program], check=True, capture_output=True, text=True).stdout).group(1)
    file = folder / f"usr/lib/debug/.build-id/{number[:2]}/{number[2:]}.debug"
    check(file.exists(), "the symbols are those of the program")
    names = subprocess.run(["nm", file], check=True, capture_output=True, text=True).stdout
    check("MartletEngine" in names and "MartletCommand" in names, "they name the functions")


def image(root, path):
    with tarfile.open(path) as tar:
        def read(digest):
            return tar.extractfile("blobs/" + digest.replace(":", "/"))

        manifest = json.load(read(json.load(tar.extractfile("index.json"))["manifests"][0]["digest"]))
        config = json.load(read(manifest["config"]["digest"]))["config"]
        with tarfile.open(fileobj=read(manifest["layers"][0]["digest"]), mode="r:gz") as layer:
            layer.extractall(root.folder, numeric_owner=True)
    root.mount()
    filter = profile_filter(root.folder / "usr/share/martlet/seccomp.json")
    user = int(config["User"].split(":")[0])
    check(user == CONTAINER_USER, "the image's user is not root")
    for transport in ("io_uring", "epoll"):
        process = root.start(
            *config["Entrypoint"], "serve", "--data", f"/tmp/{transport}", "--port", "0",
            "--transport", transport, "--json", user=user, filter=filter)
        line = process.stdout.readline()
        check(f'"transport":"{transport}"' in line,
              f"the image serves on {transport} under the profile {line or process.stderr.read()}")
        status = pathlib.Path(f"/proc/{process.pid}/status")
        if status.exists():
            check("Seccomp:\t2" in status.read_text(), "the filter is in force")
        process.send_signal(signal.SIGTERM)
        check(process.wait() == 0, "and ends in order")
    out = root.run(*config["Entrypoint"], "demo", "--devices", "200", "--exit", user=user,
                   filter=filter)
    check("everybody got what they should" in out, "the demo is right under the profile")
    emulator = root.start(
        *config["Entrypoint"], "emulator", "--http", "0.0.0.0:0", "--host", "0.0.0.0", "--port",
        "0", "--url", "http://127.0.0.1:8080", user=user, filter=filter)
    lines = [emulator.stdout.readline() for _ in range(4)]
    check(lines[2] == "export FCM_BASE_URL='http://127.0.0.1:8080'\n",
          "the emulator serves in the image")
    emulator.send_signal(signal.SIGINT)
    check(emulator.wait() == 0, "and ends in order")
    left = [p.name for p in (root.folder / "tmp").iterdir() if "emulator" in p.name]
    check(not left, "and leaves nothing")


def main():
    build, packages = map(pathlib.Path, sys.argv[1:3])
    first = next(packages.glob("martlet_*.deb"))
    container = next(packages.glob("*.oci.tar"))
    for path in (packages / "martlet", first, container):
        check(path.stat().st_size <= BYTES_MAX,
              f"{path.name} has {path.stat().st_size / 1e6:.1f} MB, at most 35")
    with tempfile.TemporaryDirectory(prefix="martlet-package-") as folder:
        upgrade = pathlib.Path(folder) / "upgrade"
        subprocess.run(
            [sys.executable, str(HERE / "build.py"), str(build), str(upgrade), "--suffix",
             "+upgrade"], check=True, stdout=subprocess.DEVNULL)
        other_settings(next(upgrade.glob("martlet_*.deb")), pathlib.Path(folder) / "newer")
        root = Root(pathlib.Path(folder) / "debian")
        say("a clean Debian 12 by debootstrap")
        subprocess.run(
            ["debootstrap", "--variant=minbase", "bookworm", str(root.folder),
             Mirrors().archive], check=True,
            stdout=subprocess.DEVNULL)
        shutil.copy("/etc/resolv.conf", root.folder / "etc/resolv.conf")
        root.mount()
        symbols(next(packages.glob("martlet-dbgsym_*.deb")), packages / "martlet",
                pathlib.Path(folder) / "symbols")
        try:
            package(root, first, next(upgrade.glob("martlet_*.deb")))
            small = Root(pathlib.Path(folder) / "image")
            small.folder.mkdir()
            image(small, container)
        finally:
            for place in ("debian/proc", "image/proc"):
                subprocess.run(["umount", f"{folder}/{place}"], stderr=subprocess.DEVNULL)


if os.environ.get("MARTLET_PACKAGE_NAMESPACE") is None:
    os.environ["MARTLET_PACKAGE_NAMESPACE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                          sys.executable, *sys.argv])
main()
