"""Captures the frames on a network interface (a plain program that `flow.Listener` starts in the namespace of a switch).

    capture.py INTERFACE

Runs until standard input closes, then prints one JSON line: the number of frames, how many of them contained the plaintext marker of the lab, and the
UDP datagrams by sender, receiver and first payload byte (WireGuard's message type), with the bytes of their frames. One frame may contain many datagrams
that a network card would have split.
"""

import collections
import ipaddress
import json
import os
import select
import socket
import sys

MARKER = b"taut-lab-plaintext"
ETH_P_ALL = 0x0003
ETHERNET = 14
IPV4, IPV6, UDP = 0x0800, 0x86DD, 17


def datagram(frame):
    """Returns (sender, receiver, first payload byte) of a UDP datagram, or None. Expects no VLAN tags and no fragments."""
    kind = int.from_bytes(frame[12:14], "big")
    packet = frame[ETHERNET:]
    if kind == IPV4 and packet[9] == UDP:
        source, target, body = packet[12:16], packet[16:20], packet[(packet[0] & 15) * 4 :]
    elif kind == IPV6 and packet[6] == UDP:
        source, target, body = packet[8:24], packet[24:40], packet[40:]
    else:
        return None
    ports = int.from_bytes(body[0:2], "big"), int.from_bytes(body[2:4], "big")
    names = [f"{ipaddress.ip_address(raw)} {port}" for raw, port in zip((source, target), ports)]
    return (*names, body[8] if len(body) > 8 else None)


def main():
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    # A full queue would hide frames; root may exceed the system limit.
    tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
    tap.bind((sys.argv[1], 0))
    print("ready", flush=True)
    frames, plaintext, seen, size = 0, 0, collections.Counter(), collections.Counter()
    while True:
        readable, _, _ = select.select([tap, sys.stdin], [], [])
        if tap in readable:
            frame = tap.recv(1 << 17)
            frames += 1
            plaintext += MARKER in frame
            if found := datagram(frame):
                seen[found] += 1
                size[found] += len(frame)
        elif not os.read(0, 4096):
            break
    udp = [{"from": a, "to": b, "type": kind, "frames": count, "bytes": size[a, b, kind]} for (a, b, kind), count in seen.items()]
    print(json.dumps({"frames": frames, "plaintext": plaintext, "udp": udp}), flush=True)


if __name__ == "__main__":
    main()
