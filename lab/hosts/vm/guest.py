"""The side of the virtual machine: its job, and messages to the program that started it."""

import contextlib
import json
from pathlib import Path

from .machine import MARK

JOB = Path("/run/vm/job.json")
PORT = Path("/dev/ttyS1")
# The program that the kernel runs to load a module, and one in its place that refuses some.
LOADER = Path("/proc/sys/kernel/modprobe")
_REFUSING = Path("/run/vm/modprobe-refusing")


def job():
    """Returns what the starter of this machine asked for."""
    return json.loads(JOB.read_text(encoding="utf-8"))


def send(kind, **content):
    """Sends a message."""
    with PORT.open("w", encoding="utf-8") as port:
        port.write(f"{MARK}{json.dumps({'kind': kind, **content})}\n")


@contextlib.contextmanager
def without_module(name):
    """Has the kernel load no module on request whose name contains `name`."""
    before = LOADER.read_text().strip()
    _REFUSING.write_text(f'#!/bin/sh\ncase "$*" in *{name}*) exit 1 ;; esac\nexec {before} "$@"\n')
    _REFUSING.chmod(0o755)
    LOADER.write_text(str(_REFUSING))
    try:
        yield
    finally:
        LOADER.write_text(before)
