"""Waiting for something to become true, with a story to tell when it does not."""

import time

# Generous on purpose: the limit only ends a hopeless wait, it never judges how fast something is.
PATIENCE_S = 60.0
POLL_S = 0.1


class LabError(Exception):
    """Something in the lab did not work: what was wanted, what happened instead."""


def wait_until(condition, what, timeout=PATIENCE_S, story=lambda: "", pause=POLL_S):
    """Polls `condition()` until it is true and returns its value.

    `what` says in words what is awaited; `story()` is called when time is up and tells what was seen instead; between two
    looks are `pause` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise LabError(f"waited {timeout:.0f} s in vain for: {what}\n{story()}")
        time.sleep(pause)
