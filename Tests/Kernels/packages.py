# SPDX-License-Identifier: Apache-2.0
"""Files of Debian packages that are not installed. Rests on apt and dpkg-deb.

apt works in folders of its own, so the sources and the packages of the running system stay as they are."""

import lzma
import os
import pathlib
import re
import subprocess
import tarfile

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Unavailable(Exception):
    """A package that apt does not get, with what apt said."""


class Mirrors:
    """Where this system gets Debian from: the archive, and the one of security updates.

    apt reads its own sources, so each of their forms counts, and a machine behind a mirror of its own needs no setting."""

    def __init__(self, targets=None):
        """`targets` is what apt says of its sources: a line for each, with address, suite and component."""
        if targets is None:
            targets = subprocess.run(
                ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
                text=True, stdout=subprocess.PIPE, check=True).stdout
        addresses = {}
        for line in targets.splitlines():
            address, suite, component = line.split()
            if component == "main":
                addresses.setdefault(suite, address)
        # Sources of other people have suites too; only Debian's own have security updates beside them.
        for suite, address in addresses.items():
            own = suite.removesuffix("-security")
            if own != suite and own in addresses:
                self.archive, self.security = addresses[own], address
                return
        raise Unavailable("apt's sources name no suite of Debian with its security updates")

    def bookworm(self):
        return (self.archive, "bookworm"), (self.security, "bookworm-security")

    def backports(self):
        return ((self.archive, "bookworm-backports"),)


class Packages:
    """The packages of some suites. Downloads stay in the folder for the next run."""

    def __init__(self, folder, suites):
        self.folder = pathlib.Path(folder).absolute()
        self.names = " and ".join(suite for _, suite in suites)
        for name in ("lists/partial", "archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        sources = self.folder / "sources.list"
        sources.write_text("".join(
            f"deb [signed-by={KEYRING}] {mirror} {suite} main\n" for mirror, suite in suites))
        self.options = []
        for name, value in (
                ("Dir::Etc::sourcelist", sources), ("Dir::Etc::sourceparts", "/dev/null"),
                ("Dir::State::lists", self.folder / "lists"), ("Dir::Cache", self.folder),
                ("Acquire::Languages", "none"), ("APT::Sandbox::User", "root")):
            self.options += ["-o", f"{name}={value}"]
        # A missing suite is a warning to apt, unless told otherwise.
        self.run("apt-get", "update", "-q", "--error-on=any")

    def run(self, command, *arguments):
        done = subprocess.run(
            [command, *self.options, *arguments], cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise Unavailable(f"{command} {' '.join(arguments)} for {self.names}: {done.stdout}")
        return done.stdout

    def dependency(self, package):
        """The package that a metapackage brings."""
        found = re.search(r"Depends: (\S+)", self.run("apt-cache", "depends", package))
        if not found:
            raise Unavailable(f"{self.names} has no package {package}")
        return found.group(1)

    def fetch(self, package):
        """The path of the package's newest version, downloaded if it is not there."""
        version = re.search(r"Candidate: (\S+)", self.run("apt-cache", "policy", package))
        if not version:
            raise Unavailable(f"{self.names} has no package {package}")
        name = f"{package}_{version.group(1).replace(':', '%3a')}_*.deb"
        found = list(self.folder.glob(name))
        if not found:
            self.run("apt-get", "download", "-q", package)
            found = list(self.folder.glob(name))
        return found[0]


def files_of(package, is_wanted):
    """The regular files of a package whose path `is_wanted` accepts: their contents by path, without a leading './'."""
    found = {}
    stream = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE)
    with stream.stdout, tarfile.open(fileobj=stream.stdout, mode="r|") as tar:
        for member in tar:
            path = member.name.removeprefix("./")
            if member.isfile() and is_wanted(path):
                found[path] = tar.extractfile(member).read()
    if stream.wait():
        raise Unavailable(f"dpkg-deb cannot read {package}")
    return found


class Kernel:
    """A kernel of Debian: its image, and the modules for a disk with ext4 in the order of their loading."""

    WANTED = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")

    def __init__(self, package):
        def is_wanted(path):
            return path.startswith("boot/vmlinuz-") or "/kernel/" in path and any(
                f"/{place}/" in path for place in ("virtio", "block", "ext4", "jbd2", "crypto", "fs", "lib"))

        files = files_of(package, is_wanted)
        image = next(path for path in files if path.startswith("boot/"))
        self.release = image.removeprefix("boot/vmlinuz-")
        self.image = files.pop(image)
        self.everything = {}
        for path, content in files.items():
            name, _, suffix = os.path.basename(path).partition(".ko")
            if suffix in ("", ".xz") and path.endswith(".ko" + suffix):
                self.everything[name.replace("-", "_")] = (content, suffix)
        self.modules = {}
        for name in self.WANTED:
            self.add(name)

    def add(self, name):
        # A kernel may have a module's code built in.
        if name in self.modules or name not in self.everything:
            return
        content, suffix = self.everything[name]
        if suffix:
            content = lzma.decompress(content)
        depends = re.search(rb"\0depends=([\w,-]*)\0", content)
        for other in (depends.group(1).decode() if depends else "").split(","):
            self.add(other.replace("-", "_"))
        self.modules[name] = content
