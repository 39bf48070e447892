"""ICMP echo with the arrival time of the kernel, so that a late wake-up of this program is not measured. Plain Python, needs no other file.

    echo.py ADDRESS COUNT INTERVAL      one JSON line: {"sent", "ms": [...]}
"""

import json
import os
import select
import socket
import struct
import sys
import time

# socket(7); Python has no name for it. The timestamp is a struct timespec of CLOCK_REALTIME.
SO_TIMESTAMPNS = 35
REQUEST, REPLY = 8, 0
# Wait for the last answers: this multiple of the longest round trip so far, within these bounds in seconds.
PATIENCE, PATIENCE_LEAST_S, PATIENCE_MOST_S = 10, 0.5, 2.0


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def request(identity, number):
    """Returns an echo request of 64 bytes."""
    body = struct.pack("!HH", identity, number) + bytes(56)
    return struct.pack("!BBH", REQUEST, 0, checksum(struct.pack("!BBH", REQUEST, 0, 0) + body)) + body


def arrival(pinger, identity):
    """Returns (number, nanoseconds) of the next packet, or None if it is not an answer to this program."""
    data, extra, _, _ = pinger.recvmsg(2048, 128)
    data = data[(data[0] & 15) * 4 :]
    kind, _, _, owner, number = struct.unpack_from("!BBHHH", data)
    if kind != REPLY or owner != identity:
        return None
    for level, what, stamp in extra:
        if (level, what) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, nanoseconds = struct.unpack("qq", stamp[:16])
            return number, seconds * 1_000_000_000 + nanoseconds
    return number, time.time_ns()


def patience_s(longest_ms):
    """Returns how long to wait for missing answers; the maximum if no answer has arrived."""
    if longest_ms is None:
        return PATIENCE_MOST_S
    return min(PATIENCE_MOST_S, max(PATIENCE_LEAST_S, PATIENCE * longest_ms / 1e3))


def main():
    address, count, interval = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    identity, sent, took = os.getpid() & 0xFFFF, [], {}
    pinger = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    pinger.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    start, end = time.monotonic(), None
    while len(took) < count:
        due = start + len(sent) * interval if len(sent) < count else end
        wait = due - time.monotonic()
        if wait <= 0:
            if end is not None:
                break
            packet = request(identity, len(sent))
            sent.append(time.time_ns())
            pinger.sendto(packet, (address, 0))
            if len(sent) == count:
                end = time.monotonic() + patience_s(max(took.values(), default=None))
            continue
        if select.select([pinger], [], [], wait)[0]:
            seen = arrival(pinger, identity)
            if seen:
                took.setdefault(seen[0], (seen[1] - sent[seen[0]]) / 1e6)
    print(json.dumps({"sent": len(sent), "ms": [round(took[number], 4) for number in sorted(took)]}))


if __name__ == "__main__":
    main()
