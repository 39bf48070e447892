"""System calls of a running program, counted by the kernel: all reads and writes, and with `perf` each call by name."""

import functools
import os
import shutil
import signal
import subprocess

from ..hosts.wait import LabError

NAMES = ("sendmmsg", "recvmmsg", "sendmsg", "recvmsg", "sendto", "recvfrom", "read", "readv", "write", "writev", "epoll_wait", "epoll_pwait",
         "epoll_pwait2", "futex")  # fmt: skip
_EVENTS = ("raw_syscalls:sys_enter", *(f"syscalls:sys_enter_{name}" for name in NAMES))


@functools.cache
def lacking():
    """Returns why calls cannot be counted by name on this machine, or None."""
    if not shutil.which("perf"):
        return "the program perf is missing (Debian package linux-perf)"
    tried = subprocess.run(["perf", "stat", "-e", ",".join(_EVENTS), "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"perf counts no system calls here: {tried.stderr.strip()[:200]}"


def reads_and_writes(process):
    """Returns the calls of read and write and their vectored forms since the start. A TUN device is used through them (proc(5), `syscr` and `syscw`)."""
    with open(f"/proc/{process.pid}/io", encoding="ascii") as file:
        fields = dict(line.split(": ") for line in file)
    return int(fields["syscr"]), int(fields["syscw"])


class Count:
    """Counts the calls of a process and all its threads from now on, by name; "all" is their sum."""

    def __init__(self, process):
        command = ["perf", "stat", "-x", ",", "-p", str(process.pid), "-e", ",".join(_EVENTS)]
        self._perf = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)

    def finish(self):
        """Stops counting and returns {name: calls}."""
        os.kill(self._perf.pid, signal.SIGINT)
        text = self._perf.communicate(timeout=20)[1]
        rows = [line.split(",") for line in text.splitlines() if "sys_enter" in line]
        if len(rows) != len(_EVENTS):
            raise LabError(f"perf printed no counts:\n{text}")
        return {row[2].rpartition("sys_enter")[2].removeprefix("_") or "all": int(row[0]) for row in rows}
