"""Which TCP congestion control runs in the lab.

A namespace may only use what the machine's list of allowed ones names, so `cubic`, which most Linux hosts use, is put
on that list while the lab lives and taken off again.
"""

import contextlib
from pathlib import Path

_SYSCTL = Path("/proc/sys/net/ipv4")
_AVAILABLE = _SYSCTL / "tcp_available_congestion_control"
_ALLOWED = _SYSCTL / "tcp_allowed_congestion_control"


@contextlib.contextmanager
def allowed(name):
    """Allows `name` for namespaces where the kernel has it; yields whether it may be used."""
    if name not in _AVAILABLE.read_text().split():
        yield False
        return
    before = _ALLOWED.read_text()
    added = name not in before.split()
    if added:
        _ALLOWED.write_text(f"{before.strip()} {name}")
    try:
        yield True
    finally:
        if added:
            _ALLOWED.write_text(before)
