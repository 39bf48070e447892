"""State of a network namespace that `ip` does not show, one fact per line: for comparison before and after a test.

    ip netns exec NAMESPACE python3 -I lab/hosts/namespace_state.py [--sockets]

Prints settings (all of /proc/sys/net) and packet filters (everything behind `nft list ruleset`, as the kernel reports it, and the tables of the
older iptables); with --sockets also the open sockets, which belong to running programs.
"""

import contextlib
import socket
import struct
import sys
from pathlib import Path

# linux/netlink.h, linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h
_NETFILTER = 12
_DUMP_REQUEST = 0x301
_ERROR, _DONE = 2, 3
_NF_TABLES = 10 << 8
_HEADER = struct.Struct("=IHHII")
_ASKS = {"table": 1, "chain": 4, "rule": 7, "set": 10, "object": 19, "flowtable": 23}
# Counters that change constantly; they are not settings.
_MOVING = {"nf_conntrack_count"}
# Lists of the whole machine, which every namespace shows: other tests that run at the same time extend them (see congestion.py).
_MACHINE_WIDE = {"tcp_allowed_congestion_control", "tcp_available_congestion_control"}
_OLD_TABLES = ("ip_tables_names", "ip6_tables_names", "arp_tables_names")
_SOCKETS = ("udp", "udp6", "udplite", "raw", "raw6", "packet", "unix")


def settings(root=Path("/proc/sys/net")):
    for path in sorted(root.rglob("*")):
        # Some settings can only be written, and some only be read after they were written.
        with contextlib.suppress(OSError):
            if path.is_file() and path.name not in _MOVING | _MACHINE_WIDE:
                yield f"setting {path.relative_to(root)} = {path.read_text().strip()}"


def filters():
    for what, ask in _ASKS.items():
        yield from (f"netfilter {what} {body.hex()}" for body in _dump(_NF_TABLES | ask))
    for name in _OLD_TABLES:
        with contextlib.suppress(OSError):
            yield from (f"{name} {line}" for line in Path("/proc/net", name).read_text().splitlines())


def sockets():
    """Lists listening, bound and connected sockets. TCP is left out, because the kernel keeps a closed connection for a minute."""
    for name in _SOCKETS:
        with contextlib.suppress(FileNotFoundError):
            yield from (f"socket {name} {line}" for line in Path("/proc/net", name).read_text().splitlines()[1:])


def _dump(ask):
    """Yields the bodies of the answers; nothing if the kernel has no such tables."""
    try:
        kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER)
    except OSError:
        return
    with kernel:
        kernel.settimeout(10)
        # An empty `nfgenmsg`: any family.
        kernel.send(_HEADER.pack(_HEADER.size + 4, ask, _DUMP_REQUEST, 1, 0) + bytes(4))
        while True:
            data = kernel.recv(1 << 16)
            while data:
                length, kind, *_ = _HEADER.unpack_from(data)
                if kind in (_ERROR, _DONE):
                    return
                # Leaves out the `nfgenmsg` of the answer, which counts changes: a change that was reverted must not show.
                yield data[_HEADER.size + 4 : length]
                data = data[(length + 3) & ~3 :]


if __name__ == "__main__":
    print(*settings(), *filters(), *(sockets() if "--sockets" in sys.argv else ()), sep="\n")
