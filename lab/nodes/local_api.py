"""Requests to the local API of a node without starting a program: fast enough to see a change of path."""

import json
import socket
import time

from ..hosts.wait import PATIENCE_S, LabError


class LocalApi:
    """A connection to the daemon of a node, for any number of requests; a context manager."""

    def __init__(self, node):
        self.node = node
        self._stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._stream.settimeout(PATIENCE_S)
        try:
            self._stream.connect(str(node.socket))
        except OSError:
            self._stream.close()
            raise
        self._lines = self._stream.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._lines.close()
        self._stream.close()

    def ask(self, command, **words):
        """Returns the answer of the daemon to one request."""
        self._stream.sendall(json.dumps({"command": command, **words}).encode() + b"\n")
        return json.loads(self._lines.readline())

    def peer(self, name):
        """Returns the current state of a peer."""
        return next(peer for peer in self.ask("status")["peers"] if peer["name"] == name)

    def path(self, name):
        """Returns the kind of the current path to a peer: direct, relayed or none."""
        return self.peer(name)["path"]["kind"]

    def wait_for_path(self, name, kind, timeout=PATIENCE_S, pause=0.002):
        """Waits until the path to a peer is of this kind; returns the time (time.monotonic())."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.path(name) == kind:
                return time.monotonic()
            time.sleep(pause)
        explanation = self.ask("why", peer=name)
        raise LabError(f"{self.node.name} has no {kind} path to {name} after {timeout:.0f} s\n{json.dumps(explanation, indent=1)}")
