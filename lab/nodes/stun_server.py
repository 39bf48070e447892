"""A STUN server in plain Python, for tests of `taut netcheck` without a relay: Binding on two ports of one address (RFC 8489, RFC 5780).

    stun_server.py ADDR PORT OTHER_PORT    answers until standard input closes; prints `ready` first

It reports the source of the request (XOR-MAPPED-ADDRESS) and its other port (OTHER-ADDRESS), and answers from the other port on CHANGE-REQUEST.
"""

import ipaddress
import os
import select
import socket
import struct
import sys

_COOKIE = 0x2112A442
_CHANGE_REQUEST, _CHANGE_PORT = 0x0003, 2
_XOR_MAPPED, _OTHER = 0x0020, 0x802C


def attribute(kind, value):
    return struct.pack("!HH", kind, len(value)) + value


def address(ip, port, key=b""):
    """Returns the value of an address attribute; with a key (cookie and transaction) it is XOR-ed."""
    packed = ipaddress.ip_address(ip).packed
    if key:
        packed = bytes(one ^ other for one, other in zip(packed, key, strict=False))
        port ^= _COOKIE >> 16
    return struct.pack("!xBH", 1 if len(packed) == 4 else 2, port) + packed


def wants_other_port(request):
    at = 20
    while at + 4 <= len(request):
        kind, length = struct.unpack_from("!HH", request, at)
        if kind == _CHANGE_REQUEST and length == 4:
            return bool(struct.unpack_from("!I", request, at + 4)[0] & _CHANGE_PORT)
        at += 4 + (length + 3) // 4 * 4
    return False


def answer(request, source, own, other_port):
    """Returns the answer to a Binding request, or None."""
    if len(request) < 20 or struct.unpack_from("!H", request)[0] != 1 or struct.unpack_from("!I", request, 4)[0] != _COOKIE:
        return None
    body = attribute(_XOR_MAPPED, address(*source[:2], request[4:20])) + attribute(_OTHER, address(own, other_port))
    return struct.pack("!HHI", 0x0101, len(body), _COOKIE) + request[8:20] + body


def main():
    own, *ports = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    family = socket.AF_INET6 if ":" in own else socket.AF_INET
    sockets = [socket.socket(family, socket.SOCK_DGRAM) for _ in ports]
    for one, port in zip(sockets, ports, strict=True):
        one.bind((own, port))
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([sys.stdin, *sockets], [], [])
        if sys.stdin in readable and not os.read(0, 4096):
            return
        for number, one in enumerate(sockets):
            if one in readable:
                request, source = one.recvfrom(2048)
                sender = 1 - number if wants_other_port(request) else number
                reply = answer(request, source, own, ports[1 - number])
                if reply:
                    sockets[sender].sendto(reply, source)


if __name__ == "__main__":
    main()
