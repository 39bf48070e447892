"""A stream in both directions through whatever lies between: a server that answers with the digest of what it received and bytes of its own, and a client that checks both.

    python3 streams.py serve PORT               prints "ready"; 127.0.0.1 and ::1
    python3 streams.py send HOST PORT BYTES     prints JSON: whether all arrived in both directions, and the seconds of each
"""

import hashlib
import json
import socket
import sys
import threading
import time

CHUNK = 64 * 1024


def pattern(size):
    """Yields `size` bytes that repeat only after 251 chunks, so that lost or exchanged parts show."""
    at = 0
    while at < size:
        chunk = bytes([at // CHUNK % 251]) * min(CHUNK, size - at)
        yield chunk
        at += len(chunk)


def digest_of(size):
    digest = hashlib.sha256()
    for chunk in pattern(size):
        digest.update(chunk)
    return digest.hexdigest()


def read_all(connection):
    """Returns number and digest of the bytes until the other side ends its direction."""
    digest, count = hashlib.sha256(), 0
    while chunk := connection.recv(CHUNK):
        digest.update(chunk)
        count += len(chunk)
    return count, digest.hexdigest()


def answer(connection):
    # The client ends its direction first; the answer follows on the half that is open.
    count, digest = read_all(connection)
    connection.sendall(digest.encode())
    for chunk in pattern(count):
        connection.sendall(chunk)
    connection.close()


def serve(port):
    servers = [socket.create_server(("127.0.0.1", port)), socket.create_server(("::1", port), family=socket.AF_INET6)]
    print("ready", flush=True)

    def accept(server):
        while True:
            threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, args=(servers[0],), daemon=True).start()
    accept(servers[1])


def send(host, port, size):
    with socket.create_connection((host, port), timeout=60) as connection:
        begun = time.monotonic()
        for chunk in pattern(size):
            connection.sendall(chunk)
        connection.shutdown(socket.SHUT_WR)
        there = b""
        while len(there) < 64 and (more := connection.recv(64 - len(there))):
            there += more
        sent = time.monotonic()
        count, back = read_all(connection)
        ended = time.monotonic()
    whole = there.decode(errors="replace") == digest_of(size) and (count, back) == (size, digest_of(size))
    print(json.dumps({"whole": whole, "sent_s": sent - begun, "back_s": ended - sent, "count": count}))


if __name__ == "__main__":
    serve(int(sys.argv[2])) if sys.argv[1] == "serve" else send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
