"""Unauthenticated connections in large numbers (a plain program that `ConnectionFlood` starts in a host; limited in number and in time).

    slow_connections.py KIND ADDR PORT PATH COUNT [--claim]
    slow_connections.py ask ADDR PORT PATH [NAME: VALUE]

KIND is `tcp` (sends nothing), `tls` (completes the TLS handshake, then sends nothing), `websocket` or `websocket-tls` (a WebSocket at PATH that sends one
byte at long intervals). With `--claim` each request names another client in X-Forwarded-For and Forwarded. All connections are opened at once; a refused
connection is not retried. Prints `ready N` after each was answered or refused, where N is the number of open connections, and then the current number
for each line on standard input. Ends when standard input closes, or after LIMIT_S.

`ask` makes one request and prints the status of the answer.
"""

import asyncio
import contextlib
import functools
import http.client
import resource
import ssl
import sys

# Limit on the duration of a flood, in seconds.
LIMIT_S = 120
# Limit on the wait for an answer to one connection, in seconds. A connection that a listener without free descriptors does not accept counts as
# refused then.
PATIENCE_S = 20
# Interval between two bytes on an open WebSocket, in seconds: causes little work, but is shorter than an idle timeout.
BYTE_S = 3
# Connections that are being opened at the same time: the length of the queue of a listener.
AT_ONCE = 100


class Connection:
    """A connection; `open` is False after the other side closed it."""

    def __init__(self):
        self.open = False

    async def live(self, kind, address, port, path, number, claim, answered):
        try:
            reader, writer = await asyncio.wait_for(begin(kind, address, port, path, number, claim), PATIENCE_S)
        except (OSError, EOFError, asyncio.TimeoutError):
            answered()
            return
        self.open = True
        answered()
        talking = asyncio.create_task(talk(writer)) if kind.startswith("websocket") else None
        with contextlib.suppress(OSError):
            while await reader.read(4096):
                pass
        self.open = False
        if talking:
            talking.cancel()
        writer.close()


async def begin(kind, address, port, path, number, claim):
    """Connects and completes the handshakes."""
    reader, writer = await asyncio.open_connection(address, port, ssl=any_certificate() if kind in ("tls", "websocket-tls") else None)
    if kind.startswith("websocket"):
        invented = f"198.18.{number // 250}.{number % 250}"
        claims = f"X-Forwarded-For: {invented}\r\nForwarded: for={invented}\r\n" if claim else ""
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{claims}\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n")[0]:
            writer.close()
            raise ConnectionRefusedError
    return reader, writer


@functools.cache
def any_certificate():
    """Returns a TLS context that accepts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def talk(writer):
    """Sends one byte at long intervals: a masked binary message (RFC 6455, section 5.2)."""
    while True:
        await asyncio.sleep(BYTE_S)
        writer.write(bytes([0x82, 0x81, 0, 0, 0, 0, 0x81]))


async def crowd(kind, address, port, path, count, claim):
    connections = [Connection() for _ in range(count)]
    tasks = set()
    gate = asyncio.Semaphore(AT_ONCE)
    for number, connection in enumerate(connections):
        await gate.acquire()
        tasks.add(asyncio.create_task(connection.live(kind, address, port, path, number, claim, gate.release)))
    for _ in range(AT_ONCE):
        await gate.acquire()

    def count_open():
        return sum(connection.open for connection in connections)

    print("ready", count_open(), flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    with contextlib.suppress(asyncio.TimeoutError):
        async with asyncio.timeout(LIMIT_S):
            while await lines.readline():
                print("open", count_open(), flush=True)
    for task in tasks:
        task.cancel()


def ask(address, port, path, header):
    """Prints the status of the answer to one request."""
    connection = http.client.HTTPConnection(address, port, timeout=PATIENCE_S)
    name, _, value = header.partition(": ")
    connection.request("GET", path, headers={name: value} if name else {})
    print(connection.getresponse().status)


def main():
    kind, address, port, path, *rest = sys.argv[1:]
    if kind == "ask":
        ask(address, int(port), path, rest[0] if rest else "")
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(crowd(kind, address, int(port), path, int(rest[0]), "--claim" in rest))


if __name__ == "__main__":
    main()
