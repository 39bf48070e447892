"""A stand-in for the side of a service manager that reads messages: the socket that NOTIFY_SOCKET names (man 3 sd_notify)."""

import contextlib
import os
import select
import socket
import time

from ..hosts.wait import PATIENCE_S, LabError


class NotifySocket:
    """Reads the messages of programs at `path`."""

    def __init__(self, path):
        self.path = path
        self.messages = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(path))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def environment(self, watchdog_s=None):
        """Returns the variables of a program whose messages it reads."""
        watchdog = {"WATCHDOG_USEC": str(int(watchdog_s * 1_000_000))} if watchdog_s else {}
        return {"NOTIFY_SOCKET": str(self.path), **watchdog}

    def read(self):
        """Returns the lines of all messages so far."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.messages.extend(self._socket.recv(65536).decode().splitlines())
        return self.messages

    def wait_for(self, line, timeout=PATIENCE_S):
        """Waits for a line that begins with `line`, and returns it. Earlier lines are forgotten."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            for place, found in enumerate(self.read()):
                if found.startswith(line):
                    del self.messages[: place + 1]
                    return found
            select.select([self._socket], [], [], 0.1)
        raise LabError(f"no message {line!r} came; there were {self.messages}")
