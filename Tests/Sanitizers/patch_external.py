#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets programs that are built for ThreadSanitizer run: patch_external.py PROGRAM…

Swift tells ThreadSanitizer of accesses to values by __tsan_external_read and __tsan_external_write, and those end the process
where a value has no bytes. Both become a return. Accesses to memory are still looked at.
"""

import re
import subprocess
import sys

RETURN = b"\xc3"  # x86-64
FUNCTIONS = ("__tsan_external_read", "__tsan_external_write")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


for program in sys.argv[1:]:
    sections = [tuple(int(number, 16) for number in found)
                for found in re.findall(r"PROGBITS\s+([0-9a-f]+)\s+([0-9a-f]+)\s+([0-9a-f]+)",
                                        output("readelf", "-SW", program))]
    addresses = dict(reversed(line.split()[::2]) for line in output("nm", program).splitlines()
                     if line.endswith(FUNCTIONS))
    with open(program, "r+b") as file:
        # A program has those that it calls.
        for address in (int(address, 16) for address in addresses.values()):
            start, offset, _ = next(section for section in sections
                                    if 0 < section[0] <= address < section[0] + section[2])
            file.seek(offset + address - start)
            file.write(RETURN)
