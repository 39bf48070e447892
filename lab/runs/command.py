"""What every command of the lab begins and ends with: lacks are told at once, and whatever ends it, the lab is taken down."""

import signal
import sys

from ..hosts import needs
from ..hosts.wait import LabError


def run(name, programs, work, hint=""):
    """The exit code of `work()`, which makes the lab and returns one; 1 with the reason when the machine lacks something or the lab fails, 130 on an interrupt.

    `programs` as for `needs.missing`; `hint` follows the reason of a failure.
    """
    lacks = needs.missing(*programs)
    for lack in lacks:
        print(f"{name}: {lack}", file=sys.stderr)
    if lacks:
        return 1
    # As an interrupt, SIGTERM lets the lab take everything down.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return work()
    except LabError as error:
        print(f"{name}: {error}{hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted; everything is taken down", file=sys.stderr)
        return 130
