"""The largest IPv4 packet with DF set that an address answers, whatever path MTU the kernel knows. Plain Python, needs no other file.

    largest_packet.py ADDRESS LEAST MOST       one JSON line: {"largest": bytes or null, "tried": sizes}

Sizes are those of whole packets, headers included. If a size arrives, all smaller ones are assumed to arrive.
"""

import contextlib
import json
import os
import select
import socket
import struct
import sys
import time

# ip(7): sets DF and ignores the known path MTU. Python has no names for them.
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3
REQUEST, REPLY = 8, 0
# Bytes of the IPv4 header and of the header of an echo request.
HEADERS = 20 + 8
# Requests per size. On a link that loses 5 % of the round trips, all of them are lost once in three million times.
TRIES, APART_S = 5, 0.05
# Wait for the answer to the last request, in seconds.
PATIENCE_S = 1.0


def checksum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


class Asker:
    """Echo requests of a given size to one address."""

    def __init__(self, address):
        self.address, self.identity = address, os.getpid() & 0xFFFF
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)

    def arrives(self, size):
        """Returns true if a packet of `size` bytes is answered. Its sequence number is the size."""
        start, sent = time.monotonic(), 0
        while True:
            now = time.monotonic() - start
            if sent < TRIES and now >= sent * APART_S:
                self._send(size)
                sent += 1
            elif now >= TRIES * APART_S + PATIENCE_S:
                return False
            elif self._answered(size, APART_S):
                return True

    def _send(self, size):
        body = struct.pack("!HH", self.identity, size) + bytes(size - HEADERS)
        head = struct.pack("!BBH", REQUEST, 0, checksum(struct.pack("!BBH", REQUEST, 0, 0) + body))
        # Larger than the interface accepts: it does not arrive.
        with contextlib.suppress(OSError):
            self.socket.sendto(head + body, (self.address, 0))

    def _answered(self, size, wait):
        if not select.select([self.socket], [], [], wait)[0]:
            return False
        data = self.socket.recv(65536)
        data = data[(data[0] & 15) * 4 :]
        kind, _, _, owner, number = struct.unpack_from("!BBHHH", data)
        return (kind, owner, number) == (REPLY, self.identity, size)


def largest(arrives, least, most):
    """Returns the largest size that arrives, by bisection, or None if not even the least arrives."""
    if arrives(most):
        return most
    if not arrives(least):
        return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if arrives(middle) else (least, middle)
    return least


def main():
    asker, tried = Asker(sys.argv[1]), []

    def arrives(size):
        tried.append(size)
        return asker.arrives(size)

    found = largest(arrives, int(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps({"largest": found, "tried": len(tried)}))


if __name__ == "__main__":
    main()
