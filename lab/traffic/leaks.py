"""Sends to the internet without a pause, as a host's programs do: UDP, TCP, ICMP and DNS questions, over IPv4 and IPv6 (a plain program that runs in a host's namespace).

    leaks.py INTERFACE ADDRESS...

Some sockets are bound to the interface or to its addresses, so that routes do not decide about them. Errors are ignored. Each line on standard input is answered by `done N` after
three more rounds, where N is the number of all rounds so far. Ends when standard input closes.
"""

import os
import select
import socket
import struct
import subprocess
import sys

MARKER = b"taut-lab-plaintext"
# A question for the A record of the marker's name.
QUESTION = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + bytes([len(MARKER)]) + MARKER + b"\x00\x00\x01\x00\x01"
# Pause between two rounds in seconds: 50 rounds per second leave the core to the daemon.
PAUSE_S = 0.02
ROUNDS = 3


def quietly(action, *arguments):
    """Calls something that may fail because nothing may leave."""
    try:
        return action(*arguments)
    except OSError:
        return None


def own_addresses(interface):
    """Returns the addresses of the interface now."""
    text = subprocess.run(["ip", "-o", "address", "show", "dev", interface, "scope", "global"], capture_output=True, text=True, check=False).stdout
    return [line.split()[3].partition("/")[0] for line in text.splitlines()]


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    return ~(total + (total >> 16)) & 0xFFFF


def udp(family, to, port, payload, interface=None, own=None):
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.setblocking(False)
        bind(one, interface)
        if own:
            one.bind((own, 0))
        one.sendto(payload, (to, port))


def bind(one, interface):
    if interface:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())


def tcp(family, to, interface=None):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.setblocking(False)
        bind(one, interface)
        one.connect_ex((to, 443))


def echo(family, to, interface=None):
    six = family == socket.AF_INET6
    with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMPV6 if six else socket.IPPROTO_ICMP) as one:
        one.setblocking(False)
        bind(one, interface)
        head = struct.pack("!BBHHH", 128 if six else 8, 0, 0, 7, 7)
        # The kernel fills in the checksum of ICMPv6.
        sum_ = 0 if six else checksum(head + MARKER)
        one.sendto(head[:2] + struct.pack("!H", sum_) + head[4:] + MARKER, (to, 0))


def round_of(interface, targets, owns):
    for to in targets:
        family = socket.AF_INET6 if ":" in to else socket.AF_INET
        quietly(udp, family, to, 443, MARKER)
        quietly(udp, family, to, 53, QUESTION)
        quietly(udp, family, to, 443, MARKER, interface)
        for own in owns:
            if (":" in own) == (":" in to):
                quietly(udp, family, to, 443, MARKER, None, own)
        for device in (None, interface):
            quietly(tcp, family, to, device)
            quietly(echo, family, to, device)


def main():
    interface, targets = sys.argv[1], sys.argv[2:]
    print("ready", flush=True)
    rounds, due, owns = 0, [], []
    while True:
        if rounds % 25 == 0:
            owns = own_addresses(interface)
        round_of(interface, targets, owns)
        rounds += 1
        while due and rounds >= due[0]:
            due.pop(0)
            print("done", rounds, flush=True)
        if select.select([sys.stdin], [], [], PAUSE_S)[0]:
            read = os.read(0, 4096)
            if not read:
                return
            due += [rounds + ROUNDS] * read.count(b"\n")


if __name__ == "__main__":
    main()
