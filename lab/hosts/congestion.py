"""The TCP congestion control that hosts of the lab may use.

A namespace may only use algorithms on the machine-wide list of allowed ones. `cubic`, which most Linux hosts use, is added to that list while a lab
lives and removed afterwards.
"""

import contextlib
from pathlib import Path

from . import leftovers

_SYSCTL = Path("/proc/sys/net/ipv4")
_AVAILABLE = _SYSCTL / "tcp_available_congestion_control"
_ALLOWED = _SYSCTL / "tcp_allowed_congestion_control"


@contextlib.contextmanager
def allowed(name):
    """Allows `name` in namespaces if the kernel has it; yields True if it may be used."""
    if name not in _AVAILABLE.read_text().split():
        yield False
        return
    there = name in _ALLOWED.read_text().split()
    with contextlib.nullcontext() if there else leftovers.word_in(_ALLOWED, name):
        yield True
