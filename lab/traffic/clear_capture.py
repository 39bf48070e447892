"""Counts the packets that a host sends in the clear (a plain program that runs in the namespace of a switch).

    clear_capture.py PORT MAC [ADDRESS...]

Reads what comes in by the port from the host with this MAC address. Not in the clear are sealed packets to the given addresses (coordinator, relays, peers) without the marker of the lab, and
what a network needs: ARP, neighbour discovery, multicast membership, DHCP, port mappings. Runs until standard input closes, then prints one JSON line: the number of frames, of sealed ones, of those in the clear,
and the first of these. A line on standard input is answered by `clear N`.
"""

import ipaddress
import json
import os
import select
import socket
import sys

MARKER = b"taut-lab-plaintext"
ETH_P_ALL = 0x0003
ARP, IPV4, IPV6 = 0x0806, 0x0800, 0x86DD
IGMP, TCP, UDP, ICMPV6 = 2, 6, 17, 58
# Of the daemon to the router: PCP and NAT-PMP, and the search of UPnP.
PORT_MAPPING = {5351, 1900}
NEIGHBOURS = {130, 131, 132, 143, 133, 135, 136}
SHOWN = 20


def judge(frame, sealed):
    """Returns "needed", "sealed", or a text about a packet in the clear."""
    kind, packet = int.from_bytes(frame[12:14], "big"), frame[14:]
    if kind == ARP:
        return "needed"
    if kind == IPV4:
        protocol, to, body = packet[9], packet[16:20], packet[(packet[0] & 15) * 4 :]
    elif kind == IPV6:
        protocol, to, body = packet[6], packet[24:40], packet[40:]
        if protocol == 0:
            # A hop-by-hop header is in front of multicast listener reports.
            protocol, body = body[0], body[(body[1] + 1) * 8 :]
    else:
        return f"ethertype {kind:#06x}"
    ports = (int.from_bytes(body[0:2], "big"), int.from_bytes(body[2:4], "big")) if protocol in (TCP, UDP) else ()
    if protocol == IGMP or (protocol == ICMPV6 and body[0] in NEIGHBOURS) or ports in ((68, 67), (546, 547)):
        return "needed"
    if protocol == UDP and ports[1] in PORT_MAPPING and MARKER not in frame:
        return "needed"
    address = str(ipaddress.ip_address(to))
    if address in sealed and protocol in (TCP, UDP) and MARKER not in frame:
        return "sealed"
    return f"protocol {protocol} to {address} {ports or body[:1].hex()}"


def main():
    port, mac, sealed = sys.argv[1], bytes.fromhex(sys.argv[2].replace(":", "")), set(sys.argv[3:])
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    # A full queue would hide frames; root may exceed the system limit.
    tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
    tap.bind((port, 0))
    tap.setblocking(False)
    print("ready", flush=True)
    frames, sealed_frames, clear, shown = 0, 0, 0, []
    while True:
        readable, _, _ = select.select([tap, sys.stdin], [], [])
        while tap in readable:
            try:
                frame = tap.recv(1 << 17)
            except BlockingIOError:
                break
            except OSError:
                # The cable was pulled for a moment.
                break
            if frame[6:12] != mac:
                continue
            frames += 1
            verdict = judge(frame, sealed)
            sealed_frames += verdict == "sealed"
            if verdict not in ("needed", "sealed"):
                clear += 1
                shown += [verdict] if len(shown) < SHOWN else []
        if sys.stdin in readable:
            read = os.read(0, 4096)
            if not read:
                break
            for _ in range(read.count(b"\n")):
                print("clear", clear, flush=True)
    print(json.dumps({"frames": frames, "sealed": sealed_frames, "clear": clear, "shown": shown}), flush=True)


if __name__ == "__main__":
    main()
