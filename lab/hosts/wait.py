"""Waiting for a condition, with an explanation if it does not become true."""

import time

# Longest wait for a condition, in seconds: generous, because it only ends waits that cannot succeed, and does not measure speed.
PATIENCE_S = 60.0
POLL_S = 0.1


class LabError(Exception):
    """A failure in the lab. Its message says what was expected and what happened."""


def wait_until(condition, what, timeout=PATIENCE_S, details=lambda: "", pause=POLL_S):
    """Polls `condition()` until it is true and returns its value.

    `what` names the awaited condition for the error message. `details()` is called after `timeout` seconds and returns the state that was seen instead. Polls are `pause` seconds apart.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise LabError(f"waited {timeout:.0f} s in vain for: {what}\n{details()}")
        time.sleep(pause)
