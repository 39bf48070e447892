"""Which TCP congestion control runs in the lab.

A namespace may only use what the machine's list of allowed ones names, so `cubic`, which most Linux hosts use, is put
on that list while the lab lives and taken off again.
"""

import contextlib
from pathlib import Path

from . import leftovers

_SYSCTL = Path("/proc/sys/net/ipv4")
_AVAILABLE = _SYSCTL / "tcp_available_congestion_control"
_ALLOWED = _SYSCTL / "tcp_allowed_congestion_control"


@contextlib.contextmanager
def allowed(name):
    """Allows `name` for namespaces where the kernel has it; yields whether it may be used."""
    if name not in _AVAILABLE.read_text().split():
        yield False
        return
    there = name in _ALLOWED.read_text().split()
    with contextlib.nullcontext() if there else leftovers.word_in(_ALLOWED, name):
        yield True
