"""Echo requests from one host to another (lab/measure/echo.py), and figures of their round trips."""

import json
import statistics
import sys

from ...hosts.wait import PATIENCE_S, LabError
from ...measure import echo
from ...measure.quantile import quantile

INTERVAL_S = 0.01
_ECHO = (sys.executable, "-I", echo.__file__)


def echoes(host, address, seconds):
    """Sends one request every 10 ms and returns {"sent", "ms": [...]}. Raises `LabError` if none is answered."""
    count = round(seconds / INTERVAL_S)
    report = json.loads(host.run(*_ECHO, address, count, INTERVAL_S, timeout=seconds + PATIENCE_S).stdout)
    if not report["ms"]:
        raise LabError("no echo request was answered")
    return report


def echo_figures(report):
    """Returns the figures. `jitter_ms` is the mean difference between consecutive round trips; a request without an answer after `echo.patience_s` is
    lost."""
    ms = report["ms"]
    steps = [abs(after - before) for before, after in zip(ms, ms[1:])]
    return {
        "average_ms": round(statistics.fmean(ms), 4),
        "p50_ms": quantile(ms, 0.5),
        "p99_ms": quantile(ms, 0.99),
        "max_ms": max(ms),
        "jitter_ms": round(statistics.fmean(steps), 4) if steps else 0.0,
        "lost_percent": round(100 * (report["sent"] - len(ms)) / report["sent"], 3),
        "echoes": report["sent"],
    }
