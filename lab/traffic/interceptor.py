"""Somebody in the middle of a cable, with everything that passes in their hands (a plain program that `flow.Middle` starts in a switch's namespace).

    middle.py INTERFACE INTERFACE (drop|alter)

Passes frames between the two interfaces. Data messages of WireGuard that have a control message's length are dropped, or
altered in their last byte, until a line comes on standard input; all pass then. Prints `ready`, and when standard input
closes one JSON line: how many frames passed as they were, and how many were held.
"""

import json
import os
import select
import socket
import sys

ETH_P_ALL = 0x0003
ETHERNET = 14
IPV4, IPV6, UDP = 0x0800, 0x86DD, 17
# <linux/if_packet.h>: each frame comes and goes with a virtio header, which says what of checksums and splitting is still to be done.
SOL_PACKET, PACKET_VNET_HDR, VNET = 263, 15, 10
PACKET_OUTGOING = 4
# Sealed: 32 bytes more than the message. No packet of an overlay is as short as that.
LENGTHS = (48, 64, 80)
DATA = 4


def place(frame):
    """Where a control message stands in a frame, behind its virtio header; None if it is something else. No VLAN tags, no fragments."""
    kind = int.from_bytes(frame[VNET + 12 : VNET + 14], "big")
    packet = VNET + ETHERNET
    if kind == IPV4 and frame[packet + 9] == UDP:
        udp = packet + (frame[packet] & 15) * 4
    elif kind == IPV6 and frame[packet + 6] == UDP:
        udp = packet + 40
    else:
        return None
    length = int.from_bytes(frame[udp + 4 : udp + 6], "big") - 8
    start = udp + 8
    return slice(start, start + length) if length in LENGTHS and frame[start] == DATA else None


def opened(interface):
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    tap.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    # A full queue would lose frames; root may pass the system's limit.
    tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
    tap.bind((interface, 0))
    return tap


def main():
    taps = [opened(interface) for interface in sys.argv[1:3]]
    alters, attacks = sys.argv[3] == "alter", True
    passed = held = 0
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([*taps, sys.stdin], [], [])
        for tap in readable:
            if tap is sys.stdin:
                if not os.read(0, 4096):
                    print(json.dumps({"passed": passed, "held": held}), flush=True)
                    return
                attacks = False
                continue
            frame, (_, _, direction, *_) = tap.recvfrom(1 << 17)
            if direction == PACKET_OUTGOING:
                continue
            message = place(frame) if attacks else None
            held += message is not None
            passed += message is None
            if message is not None:
                if not alters:
                    continue
                frame = bytearray(frame)
                frame[message.stop - 1] ^= 1
            taps[1 - taps.index(tap)].send(frame)


if __name__ == "__main__":
    main()
