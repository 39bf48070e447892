"""A transport stream at a constant rate; each datagram has a number and a timestamp. Plain Python, needs no other file.

    stream.py send PORT BITS_PER_SECOND SECONDS     to 127.0.0.1; one JSON line: {"sent", "late_ms"}
    stream.py receive PORT                          from 127.0.0.1 until standard input closes: {"arrived": [[number, ms], ...]}

The timestamp is CLOCK_MONOTONIC, since both ends are on one machine. `late_ms` is the largest delay of a send; the network does not cause that part.
"""

import json
import os
import select
import socket
import struct
import sys
import time

# ISO 13818-1: packets of 188 bytes that begin with this byte, here all of one program that is never decoded. Seven fit into a datagram.
SYNC, PROGRAM, PACKET, PACKETS = 0x47, 0x100, 188, 7
_HEAD = struct.Struct("!BHB")
_STAMP = struct.Struct("!QQ")


def datagram(number, when):
    """Returns a datagram; the timestamp follows the header of the first packet."""
    packets = []
    for n in range(PACKETS):
        # Payload only, and a counter that continues from packet to packet.
        head = _HEAD.pack(SYNC, PROGRAM, 0x10 | (number * PACKETS + n) & 15)
        packets.append(head + (_STAMP.pack(number, when) if n == 0 else b"").ljust(PACKET - _HEAD.size, b"\x5a"))
    return b"".join(packets)


def stamp(data):
    """Returns (number, nanoseconds) of a datagram, or None for a foreign one."""
    if len(data) != PACKET * PACKETS or data[0] != SYNC:
        return None
    return _STAMP.unpack_from(data, _HEAD.size)


def send(port, rate, seconds):
    """Sends each datagram when it is due, however late the previous one was."""
    to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    to.connect(("127.0.0.1", port))
    apart = 8 * PACKET * PACKETS / rate
    start, late = time.monotonic(), 0.0
    count = round(seconds / apart)
    for number in range(count):
        wait = start + number * apart - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        late = max(late, -wait)
        to.send(datagram(number, time.monotonic_ns()))
    print(json.dumps({"sent": count, "late_ms": round(late * 1000, 3)}))


def receive(port):
    taker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    taker.bind(("127.0.0.1", port))
    print("ready", flush=True)
    arrived = []
    while True:
        readable, _, _ = select.select([sys.stdin, taker], [], [])
        if taker in readable:
            found, now = stamp(taker.recv(65536)), time.monotonic_ns()
            if found:
                arrived.append([found[0], round((now - found[1]) / 1e6, 3)])
        elif not os.read(0, 4096):
            break
    print(json.dumps({"arrived": arrived}))


def main():
    if sys.argv[1] == "send":
        send(int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
    else:
        receive(int(sys.argv[2]))


if __name__ == "__main__":
    main()
