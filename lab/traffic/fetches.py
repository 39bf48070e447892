"""Small fetches with pauses between them: a plain program that `soak_interop` starts inside hosts. Needs no other file.

    fetches.py serve ADDR PORT
    fetches.py fetch ADDR PORT [--gap SECONDS] [--bytes N]

After each silence the first packet is a numbered UDP datagram, which the server records and returns: a tunnel that receives nothing in one direction
loses that packet, and it is not retransmitted. Then a TCP connection fetches N bytes. Both run until standard input closes; results are one JSON line on standard
output. The server prints `ready` first.
"""

import argparse
import json
import os
import select
import socket
import struct
import sys
import time

# Limit on one fetch in seconds: only ends a fetch that cannot succeed, and does not measure speed.
HOPELESS_S = 30.0
# Time for the last echoes to arrive, in seconds.
STRAGGLERS_S = 3.0
NUMBER = struct.Struct("!Q")


def print_result(**result):
    print(json.dumps(result), flush=True)


def serve(args):
    family, _, _, _, where = socket.getaddrinfo(args.address, args.port)[0]
    datagrams = socket.socket(family, socket.SOCK_DGRAM)
    datagrams.bind(where)
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(where)
    listener.listen(8)
    print("ready", flush=True)
    heard = []
    while True:
        readable, _, _ = select.select([sys.stdin, datagrams, listener], [], [])
        if datagrams in readable:
            data, sender = datagrams.recvfrom(NUMBER.size)
            heard.append(NUMBER.unpack(data)[0])
            datagrams.sendto(data, sender)
        elif listener in readable:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(HOPELESS_S)
                try:
                    connection.sendall(bytes(NUMBER.unpack(connection.recv(NUMBER.size))[0]))
                except (OSError, struct.error):
                    # The client counts missing echoes.
                    continue
        elif not os.read(0, 4096):
            print_result(heard=heard)
            return


def fetch(args):
    family, _, _, _, where = socket.getaddrinfo(args.address, args.port)[0]
    datagrams = socket.socket(family, socket.SOCK_DGRAM)
    datagrams.connect(where)
    asked, echoed, failed, slowest = 0, [], [], 0.0
    while not select.select([sys.stdin], [], [], args.gap)[0]:
        datagrams.send(NUMBER.pack(asked))
        start = time.monotonic()
        if not fetched(where, args.bytes):
            failed.append(asked)
        slowest = max(slowest, time.monotonic() - start)
        asked += 1
        collect(datagrams, echoed, 0)
    collect(datagrams, echoed, STRAGGLERS_S, asked)
    print_result(asked=asked, echoed=echoed, failed=failed, slowest_ms=round(slowest * 1000))


def fetched(where, size):
    """Makes one fetch; returns True if all bytes arrived."""
    try:
        with socket.create_connection(where[:2], HOPELESS_S) as connection:
            connection.sendall(NUMBER.pack(size))
            left = size
            while left and (data := connection.recv(65536)):
                left -= len(data)
            return left == 0
    except OSError:
        return False


def collect(datagrams, echoed, wait, goal=None):
    """Reads the echoes that have arrived, or waits until there are `goal` of them."""
    end = time.monotonic() + wait
    while goal is None or len(echoed) < goal:
        if not select.select([datagrams], [], [], max(0, end - time.monotonic()))[0]:
            return
        echoed.append(NUMBER.unpack(datagrams.recv(NUMBER.size))[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["serve", "fetch"])
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--gap", type=float, default=3.0)
    parser.add_argument("--bytes", type=int, default=100_000)
    args = parser.parse_args()
    globals()[args.action](args)


if __name__ == "__main__":
    main()
