"""Runs a program as on a kernel without IPv6, or without nftables: it cannot open their sockets.

    python3 -I lab/hosts/without_sockets.py ipv6|nftables PROGRAM ARGUMENTS...

A seccomp filter answers socket(AF_INET6, …) with EAFNOSUPPORT, as a kernel does that was built or booted without IPv6 (`ipv6.disable=1`), or socket(AF_NETLINK, …, NETLINK_NETFILTER) with EPROTONOSUPPORT, as one without
nf_tables does.
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
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, THIRD_ARGUMENT = 0, 4, 16, 32
NETLINK_NETFILTER = 12
# Arguments of socket(2), and the error that answers them.
KINDS = {
    "ipv6": ({FIRST_ARGUMENT: socket.AF_INET6}, errno.EAFNOSUPPORT),
    "nftables": ({FIRST_ARGUMENT: socket.AF_NETLINK, THIRD_ARGUMENT: NETLINK_NETFILTER}, errno.EPROTONOSUPPORT),
}


def possible():
    """Returns true if this machine supports such a filter."""
    return platform.machine() in MACHINES and Path("/proc/sys/kernel/seccomp").exists()


def program(kind):
    """Returns the filter: consecutive struct sock_filter."""
    architecture, number = MACHINES[platform.machine()]
    arguments, error = KINDS[kind]
    conditions = {ARCHITECTURE: architecture, NUMBER: number, **arguments}
    lines = []
    for place, (offset, value) in enumerate(conditions.items()):
        # Any other value leads to the last line.
        lines += [(LOAD, 0, 0, offset), (JUMP_EQUAL, 0, 2 * (len(conditions) - place) - 1, value)]
    lines += [(RETURN, 0, 0, RET_ERRNO | error), (RETURN, 0, 0, RET_ALLOW)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines), len(lines)


def deny(kind):
    libc = ctypes.CDLL(None, use_errno=True)
    filters, count = program(kind)
    buffer = ctypes.create_string_buffer(filters, len(filters))
    head = struct.pack("@HP", count, ctypes.addressof(buffer))
    for words in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0)):
        if libc.prctl(*words) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    deny(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
