"""Intercepts everything that passes a cable (a plain program that `flow.Interceptor` starts in the namespace of a switch).

    interceptor.py INTERFACE INTERFACE (drop|alter)

Forwards frames between the two interfaces. Data messages of WireGuard with the length of a control message are dropped, or altered in their last byte,
until a line arrives on standard input; then all pass. Prints `ready`, and when standard input closes one JSON line: the number of unchanged frames and
the number of dropped or altered ones.
"""

import json
import os
import select
import socket
import sys

ETH_P_ALL = 0x0003
ETHERNET = 14
IPV4, IPV6, UDP = 0x0800, 0x86DD, 17
# <linux/if_packet.h>: each frame has a virtio header, which says what remains to be done for checksums and segmentation.
SOL_PACKET, PACKET_VNET_HDR, VNET = 263, 15, 10
PACKET_OUTGOING = 4
# Lengths of sealed control messages: 32 bytes more than the message. Packets of an overlay are longer.
LENGTHS = (48, 64, 80)
DATA = 4


def place(frame):
    """Returns the offset of a control message in a frame, after its virtio header, or None. Expects no VLAN tags and no fragments."""
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
    # A full queue would lose frames; root may exceed the system limit.
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
