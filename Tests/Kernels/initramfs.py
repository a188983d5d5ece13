# SPDX-License-Identifier: Apache-2.0
"""An initramfs: the root of a kernel's first process, as an archive that the boot loader hands to the kernel.

Source: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst. Each member of the archive is a head
of 110 bytes of text, a name and a content, each padded to 4 bytes."""

import os
import pathlib
import re
import stat
import subprocess

FOLDER, PROGRAM, FILE, LINK = (
    stat.S_IFDIR | 0o755, stat.S_IFREG | 0o755, stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777)


class Archive:
    def __init__(self):
        self.members = {}

    def add(self, path, content=b"", mode=FILE):
        """Adds a file, and the folders above."""
        path = path.strip("/")
        for folder in reversed(pathlib.PurePath(path).parents):
            if str(folder) != ".":
                self.members.setdefault(str(folder), (FOLDER, b""))
        self.members[path] = (mode, content)

    def add_folder(self, path):
        self.add(path, mode=FOLDER)

    def add_program(self, source, path=None):
        """Adds a program or a library of this machine, with the libraries that it needs, at their own paths."""
        source = str(source)
        content = pathlib.Path(source).read_bytes()
        self.add(path or source, content, PROGRAM)
        if content[:4] == b"\x7fELF":
            listed = subprocess.run(["ldd", source], text=True, stdout=subprocess.PIPE).stdout
            for library in re.findall(r"(/\S+) \(0x", listed):
                if library.strip("/") not in self.members:
                    self.add(library, pathlib.Path(library).read_bytes(), PROGRAM)

    def write(self, path):
        with open(path, "wb") as file:
            for number, (name, (mode, content)) in enumerate(self.members.items(), 1):
                file.write(self.member(number, name, mode, content))
            file.write(self.member(0, "TRAILER!!!", 0, b""))

    @staticmethod
    def member(number, name, mode, content):
        name = os.fsencode(name) + b"\0"
        head = b"070701" + b"".join(b"%08X" % value for value in (
            number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)) + name
        return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)
