"""Common start and end of all commands of the lab: missing requirements are reported first, and the lab is removed at every end."""

import signal
import sys

from ..hosts import needs
from ..hosts.wait import LabError


def run(name, programs, work, hint=""):
    """Runs `work()`, which makes the lab, and returns its exit status; 1 with a message if the machine lacks something or the lab fails, 130 after an interrupt.

    `programs` as in `needs.missing`; `hint` follows the message of a failure.
    """
    lacks = needs.missing(*programs)
    for lack in lacks:
        print(f"{name}: {lack}", file=sys.stderr)
    if lacks:
        return 1
    # As an interrupt, SIGTERM lets the lab remove everything.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return work()
    except LabError as error:
        print(f"{name}: {error}{hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted; everything was removed", file=sys.stderr)
        return 130
