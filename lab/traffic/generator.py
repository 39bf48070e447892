"""Traffic between hosts: a plain program that `flow` starts inside hosts. Needs no other file.

    generator.py receive ADDR PORT            accepts one TCP connection, answers with the SHA-256 of the received bytes
    generator.py send ADDR PORT [--bytes N] [--rate BYTES_PER_SECOND]
    generator.py echo ADDR PORT               returns UDP datagrams to their senders
    generator.py probe ADDR PORT [--interval SECONDS] [--burst N]
    generator.py ping ADDR [--count N] [--interval SECONDS] [--first]
    generator.py beat ADDR [--interval SECONDS] [--full]

`send`, `echo`, `probe` and `beat` run until standard input closes (`send` also ends after N bytes). Results are one JSON line on standard output.
Listeners print `ready` first.
"""

import argparse
import contextlib
import hashlib
import json
import os
import select
import socket
import struct
import sys
import time

# Start of each block, so that a capture can tell plaintext from ciphertext.
MARKER = b"taut-lab-plaintext"
BLOCK = 65536
# Time for the last datagrams to arrive after the last one was sent, in seconds.
STRAGGLERS_S = 3.0
# Receive buffer in bytes, for datagrams that arrive while this program does not run: a counted loss then happened on the path. Root may exceed the
# system limit.
ROOM = 16 << 20
SO_RCVBUFFORCE = 33
# From linux/in.h and linux/in6.h: level of the option, "discover the path MTU", "MTU of the route"; and its value "never fragment".
PATH_MTU = {socket.AF_INET: (socket.IPPROTO_IP, 10, 14), socket.AF_INET6: (socket.IPPROTO_IPV6, 23, 24)}
NEVER_FRAGMENT = 2
# Bytes of the headers in front of the body of an echo request: IP and ICMP.
HEADERS = {socket.AF_INET: 28, socket.AF_INET6: 48}
ICMP = {socket.AF_INET: (socket.IPPROTO_ICMP, 8, 0), socket.AF_INET6: (socket.IPPROTO_ICMPV6, 128, 129)}


def print_result(**result):
    print(json.dumps(result), flush=True)


def input_closed(wait=0.0, *sockets):
    """Waits for one of `sockets` or the end of standard input; returns (ended, readable sockets)."""
    readable, _, _ = select.select([sys.stdin, *sockets], [], [], max(wait, 0))
    ended = sys.stdin in readable and not os.read(0, 4096)
    return ended, [item for item in readable if item is not sys.stdin]


def opened(address, port, kind):
    """Returns the socket address of `address` and a matching socket."""
    family, kind, protocol, _, where = socket.getaddrinfo(address, port, type=kind)[0]
    return where, socket.socket(family, kind, protocol)


def opened_for_datagrams(address, port):
    """Like `opened` for UDP, with a buffer for datagrams that arrive while the host is busy."""
    where, opened_socket = opened(address, port, socket.SOCK_DGRAM)
    make_room(opened_socket)
    return where, opened_socket


def make_room(opened_socket):
    with contextlib.suppress(OSError):
        opened_socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ROOM)


def receive(args):
    where, listener = opened(args.address, args.port, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(where)
    listener.listen(1)
    print("ready", flush=True)
    connection, _ = listener.accept()
    digest, total, shown = hashlib.sha256(), 0, 0.0
    while data := connection.recv(BLOCK):
        digest.update(data)
        total += len(data)
        if time.monotonic() - shown > 0.2:
            shown = time.monotonic()
            print_result(bytes=total)
    connection.sendall(digest.digest())
    print_result(bytes=total, sha256=digest.hexdigest())


def send(args):
    where, connection = opened(args.address, args.port, socket.SOCK_STREAM)
    connection.connect(where)
    digest, total, filler = hashlib.sha256(), 0, os.urandom(BLOCK)
    start = time.monotonic()
    while args.bytes is None or total < args.bytes:
        ahead = total / args.rate - (time.monotonic() - start) if args.rate else 0
        if input_closed(ahead)[0]:
            break
        # Numbered, so that blocks in a wrong order change the digest.
        block = (MARKER + struct.pack("!Q", total) + filler)[:BLOCK]
        block = block if args.bytes is None else block[: args.bytes - total]
        connection.sendall(block)
        digest.update(block)
        total += len(block)
    connection.shutdown(socket.SHUT_WR)
    answer = b""
    while data := connection.recv(64):
        answer += data
    seconds = time.monotonic() - start
    print_result(bytes=total, seconds=seconds, sha256=digest.hexdigest(), equal=answer == digest.digest())
    return 0 if answer == digest.digest() else 1


def echo(args):
    where, server = opened_for_datagrams(args.address, args.port)
    server.bind(where)
    print("ready", flush=True)
    ended = False
    while not ended:
        ended, readable = input_closed(60, server)
        if readable:
            # A host whose network is down loses the answer; the prober counts it as lost.
            with contextlib.suppress(OSError):
                data, sender = server.recvfrom(BLOCK)
                server.sendto(data, sender)


def probe(args):
    where, client = opened_for_datagrams(args.address, args.port)
    client.connect(where)
    sent, seen, doubled, late, latest, ended = 0, set(), 0, [], -1, False
    start = last = due = time.monotonic()
    while not (ended and (len(seen) == sent or time.monotonic() - last > STRAGGLERS_S)):
        if not ended and (now := time.monotonic()) >= due:
            # A late wake-up skips the missed sends: sending all of them at once would be a different kind of traffic.
            due = max(due + args.interval, now)
            for _ in range(args.burst):
                # No listener, or no network at the moment: counts as sent and lost.
                with contextlib.suppress(OSError):
                    client.send(MARKER + struct.pack("!Q", sent))
                sent += 1
            last = time.monotonic()
        if ended:
            readable, _, _ = select.select([client], [], [], 0.1)
        else:
            ended, readable = input_closed(due - time.monotonic(), client)
        if readable:
            try:
                number = struct.unpack("!Q", client.recv(BLOCK)[len(MARKER) :])[0]
            except OSError:
                continue
            doubled += number in seen
            if number < latest:
                late.append((number, latest))
            latest = max(latest, number)
            seen.add(number)
    lost = sorted(set(range(sent)) - seen)
    print_result(
        sent=sent,
        received=len(seen),
        doubled=doubled,
        reordered=len(late),
        late=late[:20],
        lost=lost[:20],
        seconds=last - start,
    )


def ping(args):
    """Sends ICMP echo requests; the kernel of the other host answers. With --first it ends at the first reply."""
    pinger = Pinger(args.address)
    start = time.monotonic()
    while len(pinger.sent_at) < args.count and not (args.first and pinger.took):
        pinger.send()
        while (left := start + len(pinger.sent_at) * args.interval - time.monotonic()) > 0:
            pinger.collect(left)
            if args.first and pinger.took:
                break
    end = time.monotonic() + STRAGGLERS_S
    while len(pinger.took) < len(pinger.sent_at) and not (args.first and pinger.took):
        if (left := end - time.monotonic()) <= 0:
            break
        pinger.collect(left)
    first = min((pinger.sent_at[number] + took - start for number, took in pinger.took.items()), default=None)
    print_result(
        sent=len(pinger.sent_at),
        received=len(pinger.took),
        began=start,
        first_ms=None if first is None else first * 1000,
        ms=[pinger.took[number] * 1000 for number in sorted(pinger.took)],
    )
    return 0 if pinger.took else 1


def beat(args):
    """Sends ICMP echo requests at even intervals until standard input closes; prints the times of answers and of their requests (CLOCK_MONOTONIC)."""
    pinger, start, ended = Pinger(args.address, args.full), time.monotonic(), False
    due = start
    while not ended:
        pinger.send()
        # A late wake-up sends what it missed, because a moment without a request would hide an outage. Requests of full size would be a burst that overflows queues.
        due = max(due + args.interval, time.monotonic() if args.full else 0)
        while not ended and (left := due - time.monotonic()) > 0:
            ended, readable = input_closed(left, pinger.socket)
            if readable:
                pinger.collect(0)
    end = time.monotonic()
    pairs = sorted((round(pinger.sent_at[number] + took, 3), round(pinger.sent_at[number], 3)) for number, took in pinger.took.items())
    answered, asked = [arrived for arrived, _ in pairs], [sent for _, sent in pairs]
    unanswered = [round(sent, 3) for number, sent in enumerate(pinger.sent_at) if number not in pinger.took]
    lengths = {"shortest": pinger.shortest, "longest": pinger.longest}
    print_result(sent=len(pinger.sent_at), answered=answered, asked=asked, unanswered=unanswered, began=start, ended=end, **lengths)


class Pinger:
    """Echo requests to one address: when each was sent, and how long its first reply took. With `full` each is as long as the route carries at that moment, and has
    Don't Fragment; else 84 bytes (IPv6: 104)."""

    def __init__(self, address, full=False):
        self.family, _, _, _, self.where = socket.getaddrinfo(address, None, type=socket.SOCK_DGRAM)[0]
        protocol, self.request, self.reply = ICMP[self.family]
        self.socket = socket.socket(self.family, socket.SOCK_RAW, protocol)
        make_room(self.socket)
        self.identity = os.getpid() & 0xFFFF
        self.sent_at, self.took = [], {}
        self.full, self.shortest, self.longest = full, None, None
        if full:
            level, discover, _ = PATH_MTU[self.family]
            self.socket.setsockopt(level, discover, NEVER_FRAGMENT)

    def length(self):
        """Returns the length of the next request with its IP header. A socket asks for the route only when it connects."""
        if not self.full:
            return HEADERS[self.family] + 56
        level, _, mtu = PATH_MTU[self.family]
        with contextlib.suppress(OSError):
            self.socket.connect(self.where)
            return self.socket.getsockopt(level, mtu) & ~1
        return HEADERS[self.family] + 56

    def send(self):
        """Sends the next request. The checksum is for IPv4; the kernel fills it in for ICMPv6."""
        length = self.length()
        self.shortest, self.longest = min(length, self.shortest or length), max(length, self.longest or length)
        body = struct.pack("!HH", self.identity, len(self.sent_at) & 0xFFFF) + bytes(length - HEADERS[self.family])
        total = (self.request << 8) + sum(struct.unpack(f"!{len(body) // 2}H", body))
        total = (total & 0xFFFF) + (total >> 16)
        total += total >> 16
        self.sent_at.append(time.monotonic())
        # No route to the address: counts as sent and lost, like any packet without an answer.
        with contextlib.suppress(OSError):
            self.socket.sendto(struct.pack("!BBH", self.request, 0, ~total & 0xFFFF) + body, self.where)

    def collect(self, wait):
        """Reads one packet within `wait` seconds and records the round trip if it is a reply to this program."""
        if not select.select([self.socket], [], [], wait)[0]:
            return
        data = self.socket.recv(BLOCK)
        arrived = time.monotonic()
        if self.family == socket.AF_INET:
            # A raw IPv4 socket also delivers the IP header; its length in 32-bit words is in the low 4 bits.
            data = data[(data[0] & 15) * 4 :]
        if data[:1] != bytes([self.reply]):
            return
        owner, number = struct.unpack_from("!HH", data, 4)
        # The latest request with this number: numbers repeat after 65,536 requests.
        last = len(self.sent_at) - 1
        number = last - ((last - number) & 0xFFFF)
        if owner == self.identity and number >= 0:
            self.took.setdefault(number, arrived - self.sent_at[number])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["receive", "send", "echo", "probe", "ping", "beat"])
    parser.add_argument("address")
    parser.add_argument("port", type=int, nargs="?")
    parser.add_argument("--bytes", type=int)
    parser.add_argument("--burst", type=int, default=1)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--interval", type=float, default=0.05)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--full", action="store_true")
    args = parser.parse_args()
    sys.exit(globals()[args.action](args))


if __name__ == "__main__":
    main()
