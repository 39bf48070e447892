"""Runs a program as on a kernel without IPv6: it cannot open IPv6 sockets.

    python3 -I lab/hosts/without_ipv6.py PROGRAM ARGUMENTS...

A seccomp filter answers socket(AF_INET6, …) with EAFNOSUPPORT, as a kernel does that was built or booted without IPv6 (`ipv6.disable=1`).
"""

import ctypes
import errno
import os
import platform
import socket
import struct
import sys
from pathlib import Path

# linux/prctl.h, linux/seccomp.h, linux/audit.h, linux/filter.h.
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
SECCOMP_MODE_FILTER = 2
RET_ALLOW, RET_ERRNO = 0x7FFF0000, 0x00050000
# Machine, its value for the system call table, and the number of socket(2) in that table.
MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
# struct seccomp_data: number, architecture, instruction pointer, arguments of eight bytes each.
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16


def possible():
    """Returns true if this machine supports such a filter."""
    return platform.machine() in MACHINES and Path("/proc/sys/kernel/seccomp").exists()


def program():
    """Returns the filter: consecutive struct sock_filter."""
    architecture, number = MACHINES[platform.machine()]
    lines = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 0, 5, architecture),
        (LOAD, 0, 0, NUMBER),
        (JUMP_EQUAL, 0, 3, number),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_EQUAL, 0, 1, socket.AF_INET6),
        (RETURN, 0, 0, RET_ERRNO | errno.EAFNOSUPPORT),
        (RETURN, 0, 0, RET_ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines), len(lines)


def deny_ipv6():
    libc = ctypes.CDLL(None, use_errno=True)
    filters, count = program()
    buffer = ctypes.create_string_buffer(filters, len(filters))
    head = struct.pack("@HP", count, ctypes.addressof(buffer))
    for words in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0)):
        if libc.prctl(*words) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    deny_ipv6()
    os.execvp(sys.argv[1], sys.argv[1:])
