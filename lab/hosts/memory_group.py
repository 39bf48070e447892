"""A control group with little memory for the programs of one host."""

import contextlib
import os
from pathlib import Path

from . import leftovers
from .wait import LabError

_ROOT = Path("/sys/fs/cgroup")


def _parent():
    """Returns the group below which this process may make one with a limit, and whether it is of version 2; (None, None) if there is none."""
    if "memory" in _words(_ROOT / "cgroup.subtree_control"):
        return _ROOT, True
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            own = _ROOT / "memory" / path.lstrip("/")
            return (own, False) if own.exists() else (None, None)
    return None, None


def _words(path):
    return path.read_text().split() if path.exists() else []


def missing():
    """Returns why this machine cannot make such a group, or an empty string."""
    return "" if _parent()[0] else "control groups of this machine have no memory controller that a test may use"


class MemoryGroup:
    """A group whose programs have `size` bytes together, without swap. It ends with the `with` block; programs that still run go back to the parent."""

    def __init__(self, size):
        parent, self._second = _parent()
        if not parent:
            raise LabError(missing())
        for old in parent.glob(f"{leftovers.PREFIX}-*"):
            _, pid, start = old.name.split("-")
            if str(leftovers.start_time(int(pid))) != start:
                _remove(old)
        self.path = parent / f"{leftovers.PREFIX}-{leftovers.owner()}"
        self.path.mkdir()
        try:
            self._write("memory.max" if self._second else "memory.limit_in_bytes", size)
            self._write("memory.swap.max" if self._second else "memory.memsw.limit_in_bytes", 0 if self._second else size)
        except OSError:
            self.path.rmdir()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _remove(self.path)

    @property
    def prefix(self):
        """Words before a command that run it inside. `ip netns exec` hides control groups, so the shell enters through the mounts of this process."""
        enter = f"nsenter --mount=/proc/{os.getpid()}/ns/mnt sh -c 'echo $1 > {self.path}/cgroup.procs' sh $$"
        return ["sh", "-c", f'{enter} && exec "$@"', "sh"]

    def killed(self):
        """Returns how many programs the kernel has ended here because memory was short."""
        words = _words(self.path / ("memory.events" if self._second else "memory.oom_control"))
        return int(words[words.index("oom_kill") + 1])

    def peak(self):
        """Returns the most bytes that were in use at once; None if the kernel does not say."""
        path = self.path / ("memory.peak" if self._second else "memory.max_usage_in_bytes")
        return int(path.read_text()) if path.exists() else None

    def _write(self, name, value):
        path = self.path / name
        # A kernel without accounting of swap has no file for it.
        if path.exists():
            path.write_text(str(value))


def _remove(group):
    for pid in _words(group / "cgroup.procs"):
        with contextlib.suppress(OSError):
            (group.parent / "cgroup.procs").write_text(pid)
    with contextlib.suppress(FileNotFoundError):
        group.rmdir()
