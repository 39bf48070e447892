"""Waiting for a condition, with an explanation if it does not become true."""

import time

# Longest wait for a condition, in seconds: generous, because it ends hopeless waits and never judges speed.
PATIENCE_S = 60.0
POLL_S = 0.1


class LabError(Exception):
    """Something in the lab did not work: what was expected, and what happened."""


def wait_until(condition, what, timeout=PATIENCE_S, details=lambda: "", pause=POLL_S):
    """Polls `condition()` until it is true and returns its value.

    `what` says what is awaited. `details()` is called after `timeout` seconds and says what was seen instead. Polls are `pause` seconds apart.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise LabError(f"waited {timeout:.0f} s in vain for: {what}\n{details()}")
        time.sleep(pause)
