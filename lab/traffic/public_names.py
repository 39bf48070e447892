"""A name server for the lab's Internet (a plain program): it answers every question of type A with one address, and prints the names that it was asked for.

    public_names.py ADDRESS ANSWER

`coord.example` has ADDRESS itself. The answer of a name below `signed.example` carries a signature record, whose bytes a resolver on the way must not change. `truncated.example` is complete over TCP only.
Runs until standard input closes.
"""

import ipaddress
import os
import select
import socket
import struct
import sys

A, RRSIG = 1, 46
SIGNATURE = bytes(range(200))


def name_at(message, at=12):
    """Returns (the name at this place, the place behind it)."""
    labels = []
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode("latin-1"))
        at += 1 + message[at]
    return ".".join(labels), at + 1


def record(kind, data):
    return struct.pack("!HHHIH", 0xC00C, kind, 1, 60, len(data)) + data


def reply(message, own, answer, over_tcp):
    name, end = name_at(message)
    answer = own if name.lower() == "coord.example" else answer
    kind = struct.unpack("!H", message[end : end + 2])[0]
    question = message[12 : end + 4]
    if name.lower() == "truncated.example" and not over_tcp:
        return name, message[:2] + b"\x83\x80" + struct.pack("!4H", 1, 0, 0, 0) + question
    records = [record(A, answer)] if kind == A else []
    if name.lower().endswith("signed.example") and records:
        records.append(record(RRSIG, SIGNATURE))
    return name, message[:2] + b"\x81\xa0" + struct.pack("!4H", 1, len(records), 0, 0) + question + b"".join(records)


def main():
    address = sys.argv[1]
    answers = [ipaddress.ip_address(text).packed for text in sys.argv[1:3]]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    datagrams, listener = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for one in (datagrams, listener):
        one.bind((address, int(sys.argv[3]) if len(sys.argv) > 3 else 53))
    listener.listen()
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([datagrams, listener, sys.stdin], [], [])
        if datagrams in readable:
            message, client = datagrams.recvfrom(4096)
            name, answered = reply(message, *answers, over_tcp=False)
            print("udp", name, flush=True)
            datagrams.sendto(answered, client)
        elif listener in readable:
            with listener.accept()[0] as client:
                client.settimeout(2)
                message = client.recv(4096)[2:]
                name, answered = reply(message, *answers, over_tcp=True)
                print("tcp", name, flush=True)
                client.sendall(struct.pack("!H", len(answered)) + answered)
        elif not os.read(0, 4096):
            break


if __name__ == "__main__":
    main()
