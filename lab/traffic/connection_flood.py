"""Floods of unauthenticated connections to a server (slow_connections.py), and requests of other clients meanwhile."""

import contextlib
import sys
from pathlib import Path

from ..hosts.wait import PATIENCE_S, LabError, wait_until

_SLOW_CONNECTIONS = (sys.executable, "-I", str(Path(__file__).with_name("slow_connections.py")))
# Time for all connections of a flood to be answered or refused, in seconds.
OPENING_S = 120


class ConnectionFlood:
    """`count` connections from `host`. The constructor waits until each was answered or refused; `opened` is the number of open connections then."""

    def __init__(self, host, kind, address, port, count, path="/relay/v1", claim=False):
        words = (kind, address, port, path, count, *(["--claim"] if claim else []))
        self._process = host.start(*_SLOW_CONNECTIONS, *words, name=f"crowd-{kind}")
        self._process.wait_for_output("ready", timeout=OPENING_S)
        self.opened = int(self._process.output().split()[1])

    def open(self):
        """Returns the number of connections that are open now."""
        line_count = len(self._process.output().splitlines())
        self._process.write("?\n")
        wait_until(lambda: len(self._process.output().splitlines()) > line_count, "the connections to be counted", details=self._process.tail)
        return int(self._process.output().split()[-1])

    def end(self):
        """Closes all connections."""
        self._process.close_input()
        self._process.wait()

    def wait_until_closed(self, most=0):
        """Waits until the server has closed all connections but `most`."""
        wait_until(lambda: self.open() <= most, f"no more than {most} connections of the flood to be open", details=self._process.tail)


def status(host, address, port, path="/healthz", header=""):
    """Returns the HTTP status that `host` gets, or 0 without an answer in time."""
    with contextlib.suppress(LabError):
        return int(host.run(*_SLOW_CONNECTIONS, "ask", address, port, path, header, timeout=PATIENCE_S).stdout)
    return 0
