"""DNS questions as a program in a host asks them, in a few lines of Python that share nothing with the code under test.

    python3 -I questions.py SERVER [--port N] [--tcp] [--timeout S] [--repeat N] < QUESTIONS

QUESTIONS is a JSON list of [NAME, TYPE]. Prints a JSON list with one answer per question: {"code", "answers", "authorities", "cut", "authoritative", "ms"}, or null without an answer. With `--tcp` all
questions go out at once on one connection. `--repeat` asks each question N times and prints the times alone, in milliseconds.
"""

import argparse
import ipaddress
import json
import socket
import struct
import sys
import time

TYPES = {"A": 1, "NS": 2, "SOA": 6, "PTR": 12, "MX": 15, "AAAA": 28, "AXFR": 252, "ANY": 255}
CODES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}


def question(number, name, kind):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.rstrip(".").split("."))
    return struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", TYPES[kind], 1)


def name_at(message, at):
    """Returns the name at an offset and the offset behind it."""
    labels, end = [], None
    while length := message[at]:
        if length >= 0xC0:
            end = end or at + 2
            at = (length & 0x3F) << 8 | message[at + 1]
        else:
            labels.append(message[at + 1 : at + 1 + length].decode())
            at += 1 + length
    return ".".join(labels), end or at + 1


def records(message, at, count):
    found = []
    for _ in range(count):
        _, at = name_at(message, at)
        kind, _, _, length = struct.unpack_from("!HHIH", message, at)
        at += 10
        data = message[at : at + length]
        if kind in (TYPES["A"], TYPES["AAAA"]):
            found.append(str(ipaddress.ip_address(data)))
        elif kind in (TYPES["PTR"], TYPES["NS"]):
            found.append(name_at(message, at)[0])
        else:
            found.append(next((name for name, number in TYPES.items() if number == kind), str(kind)))
        at += length
    return found, at


def read(message, ms):
    _, flags, questions, answers, authorities, _ = struct.unpack_from("!6H", message)
    at = 12
    for _ in range(questions):
        at = name_at(message, at)[1] + 4
    answered, at = records(message, at, answers)
    told, _ = records(message, at, authorities)
    code = CODES.get(flags & 15, str(flags & 15))
    return {"code": code, "answers": answered, "authorities": told, "cut": bool(flags & 0x200), "authoritative": bool(flags & 0x400), "ms": ms}


def over_udp(server, asked, timeout, port=53):
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.settimeout(timeout)
        answers = []
        for number, (name, kind) in enumerate(asked):
            begun = time.perf_counter()
            try:
                asking.connect((server, port))
                asking.send(question(number, name, kind))
                message = asking.recv(65_535)
            except OSError:
                answers.append(None)
                continue
            assert message[:2] == number.to_bytes(2, "big"), "an answer to another question"
            answers.append(read(message, 1e3 * (time.perf_counter() - begun)))
        return answers


def over_tcp(server, asked, timeout, port=53):
    begun = time.perf_counter()
    try:
        with socket.create_connection((server, port), timeout) as asking, asking.makefile("rb") as stream:
            for number, (name, kind) in enumerate(asked):
                message = question(number, name, kind)
                asking.sendall(len(message).to_bytes(2, "big") + message)
            answers = []
            for number in range(len(asked)):
                message = stream.read(int.from_bytes(stream.read(2), "big"))
                if not message:
                    raise ConnectionError("closed without an answer")
                assert message[:2] == number.to_bytes(2, "big"), "an answer to another question"
                answers.append(read(message, 1e3 * (time.perf_counter() - begun)))
            asking.shutdown(socket.SHUT_WR)
            assert stream.read() == b"", "bytes behind the last answer"
            return answers
    except OSError:
        return [None] * len(asked)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("--tcp", action="store_true")
    parser.add_argument("--timeout", type=float, default=5)
    parser.add_argument("--port", type=int, default=53)
    parser.add_argument("--repeat", type=int, default=0)
    options = parser.parse_args()
    asked = json.load(sys.stdin)
    ask = over_tcp if options.tcp else over_udp
    if options.repeat:
        answers = [answer for _ in range(options.repeat) for one in asked for answer in ask(options.server, [one], options.timeout, options.port)]
        print(json.dumps([answer and answer["ms"] for answer in answers]))
    else:
        print(json.dumps(ask(options.server, asked, options.timeout, options.port)))


if __name__ == "__main__":
    main()
