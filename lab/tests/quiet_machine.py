"""Figures that only an idle machine shows: a rate, a spread of delays, the theoretical throughput of one stream.

A test should assert conditions that hold on a machine of any speed. Where that is not possible, a wrong figure is measured again if the machine stood still during
the measurement: other programs had the cores, or other virtual machines had the hardware. A wrong figure on a machine that kept its time is a failure, and a
right figure always passes.
"""

import os
import threading
import time

import pytest

from lab.measure.cpu import Reading

TRIES = 3
# Length of a sleep in seconds. A later wake-up shows how long other programs had the core.
_NAP_S = 0.002
# Delays in seconds below which programs of the test itself are the cause: a few of them share a core, and the scheduler gives each a few
# milliseconds.
_TURN_S = 0.008
# Allowed share of the time. A TCP stream loses more than the share for which it is stopped.
_ALLOWED = 0.01


class Watch:
    """Measures for each core how long other programs had it. `still` is the largest share of the time over all cores, or the share that the kernel reports as
    stolen by the host of a virtual machine, in slices too short to be seen here.
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
        elapsed = now.since(self._before)
        self.still = max(max(self._lost.values()) / (now.when - self._before.when), elapsed["stolen_s"] / elapsed["capacity_s"])

    def _look(self, core):
        # Applies to this thread only: sched_setaffinity(2) uses 0 for the calling thread.
        os.sched_setaffinity(0, {core})
        before = time.monotonic()
        while not self._over.is_set():
            time.sleep(_NAP_S)
            before, late = time.monotonic(), time.monotonic() - before - _NAP_S
            self._lost[core] += late if late > _TURN_S else 0.0


def in_calm(measure, watch=Watch):
    """Returns the result of `measure` if its assertions hold. Repeats the measurement if they fail while the machine stood still. Skips the test if every attempt
    was disturbed in this way."""
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
