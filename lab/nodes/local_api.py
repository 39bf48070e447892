"""What a node knows, asked over its local API without a program in between: quick enough to see a path change."""

import json
import socket
import time

from ..hosts.wait import PATIENCE_S, LabError


class Sight:
    """One connection to a node's daemon, asked as often as one likes; a context manager."""

    def __init__(self, node):
        self.node = node
        self._stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._stream.connect(str(node.socket))
        self._lines = self._stream.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._lines.close()
        self._stream.close()

    def ask(self, command, **words):
        """The daemon's answer to one request."""
        self._stream.sendall(json.dumps({"command": command, **words}).encode() + b"\n")
        return json.loads(self._lines.readline())

    def peer(self, name):
        """What is known of a peer now."""
        return next(peer for peer in self.ask("status")["peers"] if peer["name"] == name)

    def path(self, name):
        """By which kind of path packets go to a peer now: direct, relayed or none."""
        return self.peer(name)["path"]["kind"]

    def when(self, name, kind, timeout=PATIENCE_S, pause=0.002):
        """Waits until the path to a peer is of this kind; the moment, by time.monotonic()."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.path(name) == kind:
                return time.monotonic()
            time.sleep(pause)
        told = self.ask("why", peer=name)
        raise LabError(f"{self.node.name} has no {kind} path to {name} after {timeout:.0f} s\n{json.dumps(told, indent=1)}")
