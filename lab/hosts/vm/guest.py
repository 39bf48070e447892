"""The side of the virtual machine: its job, and messages to the program that started it."""

import json
from pathlib import Path

from .machine import MARK

JOB = Path("/run/vm/job.json")
PORT = Path("/dev/ttyS1")


def job():
    """Returns what the starter of this machine asked for."""
    return json.loads(JOB.read_text(encoding="utf-8"))


def send(kind, **content):
    """Sends a message."""
    with PORT.open("w", encoding="utf-8") as port:
        port.write(f"{MARK}{json.dumps({'kind': kind, **content})}\n")
