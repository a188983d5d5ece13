# SPDX-License-Identifier: Apache-2.0
#
# Runs a program under a filter of system calls (seccomp) that refuses some of them, as containers and sandboxes do:
#
#     python3 deny_calls.py EPERM io_uring_setup[,…] PROGRAM ARGUMENT…
#
# Needs no privilege. The numbers of these calls are the same on every architecture.

import ctypes
import errno
import os
import struct
import sys

NUMBERS = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "epoll_pwait2": 441}
# Source: linux/filter.h, linux/seccomp.h, linux/prctl.h.
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install(code, names):
    # The number of the call is the first word of what the filter is given.
    steps = [(LOAD_WORD, 0, 0, 0)]
    for place, name in enumerate(names):
        steps.append((JUMP_IF_EQUAL, len(names) - place, 0, NUMBERS[name]))
    steps += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | code)]
    text = b"".join(struct.pack("HBBI", *step) for step in steps)
    program = Program(len(steps), text)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
            PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        sys.exit(f"deny_calls.py: {os.strerror(ctypes.get_errno())}")


install(getattr(errno, sys.argv[1]), sys.argv[2].split(","))
os.execv(sys.argv[3], sys.argv[3:])
