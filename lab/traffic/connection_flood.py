"""Strangers before a server: crowds of connections (crowd.py), and what others get meanwhile."""

import contextlib
import sys
from pathlib import Path

from ..hosts.wait import PATIENCE_S, LabError, wait_until

_CROWD = (sys.executable, "-I", str(Path(__file__).with_name("slow_connections.py")))
# Long enough for all connections of a crowd to be answered or refused.
OPENING_S = 120


class Crowd:
    """`count` connections from `host`; waits until each was answered or refused. `opened` is how many were open then."""

    def __init__(self, host, kind, address, port, count, path="/relay/v1", claim=False):
        words = (kind, address, port, path, count, *(["--claim"] if claim else []))
        self._process = host.start(*_CROWD, *words, name=f"crowd-{kind}")
        self._process.wait_for_output("ready", timeout=OPENING_S)
        self.opened = int(self._process.output().split()[1])

    def open(self):
        """How many are open now."""
        said = len(self._process.output().splitlines())
        self._process.write("?\n")
        wait_until(lambda: len(self._process.output().splitlines()) > said, "the crowd to be counted", details=self._process.tail)
        return int(self._process.output().split()[-1])

    def end(self):
        """All connections are closed."""
        self._process.close_input()
        self._process.wait()

    def is_gone(self, most=0):
        """Waits until the server has closed all connections but `most`."""
        wait_until(lambda: self.open() <= most, f"no more than {most} of the crowd to be left", details=self._process.tail)


def status(host, address, port, path="/healthz", header=""):
    """The status of an answer that `host` gets; 0 when it gets none in time."""
    with contextlib.suppress(LabError):
        return int(host.run(*_CROWD, "ask", address, port, path, header, timeout=PATIENCE_S).stdout)
    return 0
