"""A row of the results: its key, its description during the run, the repetition of a disturbed work, and the time limit for hanging work."""

import contextlib
import math
import signal
import threading
import time

from ..hosts.wait import LabError
from . import plan
from .results import unit


def row_of(visit, work):
    """Returns a row without results."""
    place = {"round": visit.round, "profile": visit.profile, "placement": visit.placement, "system": visit.system, "tuned": visit.tuned, "mtu": visit.mtu}
    empty = {"ok": False, "tried": True, "error": None, "attempts": 0, "figures": {}, "cpu": {}, "memory_kib": {}, "link": [], "disturbed": False}
    return place | {"work": work} | empty | {"payload": None, "started_s": None}


def details(visit):
    """Returns a visit in a few words."""
    words = [f"round {visit.round}", visit.profile, visit.system]
    words += [visit.placement] if visit.placement != plan.PACKETS else []
    words += ["tuned"] if visit.tuned else []
    words += [f"MTU {visit.mtu}"] if visit.mtu else []
    return ", ".join(words)


def outline(row, work):
    """Returns a row in a few words."""
    if not row["ok"]:
        return f"failed: {row['error'].splitlines()[0]}"
    value = row["figures"][work.main]
    words = [f"{value:,.2f} {unit(work.main)}".strip() if isinstance(value, (int, float)) else str(value)]
    words += ["disturbed"] if row["disturbed"] else []
    words += ["the link has doubts"] if any(report.get("doubts") for report in row["link"]) else []
    return ", ".join(words)


def error_text(error):
    """Returns an error as text; errors of other kinds than `LabError` get the name of their type."""
    text = str(error) if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
    return text.strip() or type(error).__name__


def attempts(measure, tries, calm):
    """Calls `measure(attempt)`, which returns (result, disturbed), until a result is undisturbed; returns the last result.

    Stops after `tries` attempts, or if `calm()`, which waits for an idle machine, returns False.
    """
    for attempt in range(1, tries + 1):
        result, disturbed = measure(attempt)
        if not disturbed or attempt == tries or not calm():
            break
    return result


@contextlib.contextmanager
def limit(seconds, what, details=lambda: ""):
    """Raises a `LabError` in work that takes longer than `seconds`; `details()` returns the state for its message. An alarm of the caller continues afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_):
        raise LabError(f"no end after {seconds:.0f} s: {what}\n{details()}".rstrip())

    outer, start = signal.signal(signal.SIGALRM, end), time.monotonic()
    left = signal.alarm(math.ceil(seconds))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, outer)
        if left:
            signal.alarm(max(1, left - round(time.monotonic() - start)))
