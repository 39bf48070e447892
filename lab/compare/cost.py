"""The cost of a work: CPU time by user, and memory of the programs of the system.

Besides the tunnel the lab itself runs programs: the emulator of the link, coordinators, servers. They are counted separately from the tunnel and from
other programs of the machine. A program that ends during the work counts as a measuring program, like all children of this process.
"""

import contextlib
import os

from ..hosts.wait import LabError
from ..measure.cpu import DISTURBED, Reading, foreign, process_s
from ..measure.cpu import calm as machine_calm

_GONE = (FileNotFoundError, ProcessLookupError)


class CounterReading:
    """A reading of all counters. `own`: the processes of the system per host; `others`: those of the lab."""

    def __init__(self, own, others=()):
        self.reading = Reading([])
        self.own = [_times(processes) for processes in own]
        self.others = _times(others)

    def since(self, before):
        """Returns the seconds between two readings, with the names of `lab.measure.cpu`, and `lab_s`."""
        spent = self.reading.since(before.reading)
        spent["tunnel_s"] = [_spent(now, then) for now, then in zip(self.own, before.own)]
        spent["lab_s"] = _spent(self.others, before.others)
        return spent


def _times(processes):
    found = {}
    for process in processes:
        with contextlib.suppress(*_GONE):
            found[process.pid] = process_s(process.pid)
    return found


def _spent(now, then):
    return round(sum(used - then.get(pid, 0.0) for pid, used in now.items()), 3)


def others_share(cpu):
    """Returns the share of the time of all cores that programs outside the lab used."""
    return max(0.0, foreign(cpu) - cpu.get("lab_s", 0.0) / cpu["capacity_s"])


def disturbed(cpu):
    """Returns true if other programs used too much of the machine for a valid figure."""
    return bool(cpu) and others_share(cpu) > DISTURBED


def calm(own, others, patience_s):
    """Waits until only the lab uses the machine; returns True if that happened."""
    return machine_calm(patience_s, lambda: CounterReading(own, others), others_share)


def memory(own, key):
    """Returns KiB of the programs of each host: `VmRSS` now, `VmHWM` at its peak. An ended program counts 0."""
    return [sum(_kib(process, key) for process in processes) for processes in own]


def _kib(process, key):
    try:
        return process.rss_kib(key)
    except (LabError, *_GONE):
        return 0


def lab_processes(lab, running):
    """Returns the running programs of the lab that do not belong to the system."""
    own = {process.pid for processes in running.processes for process in processes}
    every = (process for node in lab.nodes.values() for process in node.processes)
    return [process for process in every if process.alive and process.pid not in own and process.pid != os.getpid()]
