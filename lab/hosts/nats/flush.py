"""Removes all flows of this network namespace from the kernel: `conntrack -F` in one message, for machines without conntrack-tools.

Netlink as in linux/netfilter/nfnetlink_conntrack.h: a delete request without a tuple deletes all flows.
"""

import socket
import struct
import sys

_NETLINK_NETFILTER = 12
_SUBSYSTEM, _DELETE = 1, 2
_REQUEST, _ACK = 0x1, 0x4
_ERROR = 2
# Header and the four bytes of nfgenmsg: any family, version 0, no resource.
_MESSAGE = struct.pack("=IHHIIBBH", 20, _SUBSYSTEM << 8 | _DELETE, _REQUEST | _ACK, 1, 0, 0, 0, 0)


def main():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER) as kernel:
        kernel.bind((0, 0))
        kernel.settimeout(10)
        kernel.send(_MESSAGE)
        _, kind, _, _, _, code = struct.unpack_from("=IHHIIi", kernel.recv(4096))
    if kind != _ERROR or code != 0:
        sys.exit(f"the kernel did not delete its flows: {code}")


if __name__ == "__main__":
    main()
