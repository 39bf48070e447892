"""Figures that only a machine with time for them shows: a rate, a spread of delays, what theory says of one stream.

A test should ask for what holds however late everything runs. Where that is not possible, a figure that is off is measured again if the machine
stood still meanwhile: other programs had the cores, or other machines on the same hardware. A figure that is off on a machine that kept its time
is a fault, and one that is right is right.
"""

import os
import threading
import time

import pytest

from lab.measure.cpu import Reading

TRIES = 3
# A thread that wants to sleep this long wakes later by what somebody else had the core.
_NAP_S = 0.002
# Shorter waits are our own programs' turns: a few of them share a core, and the scheduler gives each a few milliseconds.
_TURN_S = 0.008
# Of the time. A TCP stream loses more than its share of what it is stopped for.
_ALLOWED = 0.01


class Watch:
    """Looks at each core how long nobody of us had it: `still` is the largest share of the time, over all cores; or what the kernel knows to be stolen,
    by the host of a virtual machine, in slices too short to be seen from here.
    """

    def __enter__(self):
        self._before, self._over = Reading([]), threading.Event()
        self._lost = dict.fromkeys(os.sched_getaffinity(0), 0.0)
        self._threads = [threading.Thread(target=self._look, args=(core,)) for core in self._lost]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()
        now = Reading([])
        told = now.since(self._before)
        self.still = max(max(self._lost.values()) / (now.when - self._before.when), told["stolen_s"] / told["capacity_s"])

    def _look(self, core):
        # Of this thread alone: sched_setaffinity(2) takes 0 for the calling one.
        os.sched_setaffinity(0, {core})
        before = time.monotonic()
        while not self._over.is_set():
            time.sleep(_NAP_S)
            before, late = time.monotonic(), time.monotonic() - before - _NAP_S
            self._lost[core] += late if late > _TURN_S else 0.0


def in_calm(measure, watch=Watch):
    """What `measure` returns, once its assertions hold; tried again where the machine stood still, and skipped where it always did."""
    for _ in range(TRIES):
        try:
            with watch() as seen:
                return measure()
        except AssertionError as error:
            if seen.still < _ALLOWED:
                raise
            off = error
    first = str(off).split("\n", 1)[0]
    pytest.skip(f"the machine stood still for {100 * seen.still:.0f} % of the time, so that no figure counts: {first}")
    return None
