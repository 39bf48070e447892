"""What a work cost: processor time by who used it, and memory of the system's programs.

Beside a tunnel the lab itself runs programs: the emulator of the link, coordinators, servers. They are told apart from the tunnel, and all of them
from what others did on the machine. A program that ends in between is counted with the programs that measure, as all children of this process are.
"""

import contextlib
import os

from ..hosts.wait import LabError
from ..measure.cpu import DISTURBED, Reading, foreign, process_s
from ..measure.cpu import calm as machine_calm

_GONE = (FileNotFoundError, ProcessLookupError)


class Look:
    """At all counters at one moment. `own`: the system's processes per host; `others`: the lab's."""

    def __init__(self, own, others=()):
        self.reading = Reading([])
        self.own = [_times(processes) for processes in own]
        self.others = _times(others)

    def since(self, before):
        """Seconds between two looks, as `lab.measure.cpu` names them, and `lab_s`."""
        told = self.reading.since(before.reading)
        told["tunnel_s"] = [_spent(now, then) for now, then in zip(self.own, before.own)]
        told["lab_s"] = _spent(self.others, before.others)
        return told


def _times(processes):
    found = {}
    for process in processes:
        with contextlib.suppress(*_GONE):
            found[process.pid] = process_s(process.pid)
    return found


def _spent(now, then):
    return round(sum(used - then.get(pid, 0.0) for pid, used in now.items()), 3)


def others_share(cpu):
    """Share of all cores' time that went to nobody of the lab."""
    return max(0.0, foreign(cpu) - cpu.get("lab_s", 0.0) / cpu["capacity_s"])


def disturbed(cpu):
    """Whether others used more of the machine than a figure can bear."""
    return bool(cpu) and others_share(cpu) > DISTURBED


def calm(own, others, patience_s):
    """Waits until the machine has nothing to do but the lab; whether it came to that."""
    return machine_calm(patience_s, lambda: Look(own, others), others_share)


def memory(own, key):
    """KiB of each host's programs: `VmRSS` now, `VmHWM` at its highest. What has ended has none."""
    return [sum(_kib(process, key) for process in processes) for processes in own]


def _kib(process, key):
    try:
        return process.rss_kib(key)
    except (LabError, *_GONE):
        return 0


def lab_processes(lab, running):
    """The lab's living programs that are not the system's."""
    own = {process.pid for processes in running.processes for process in processes}
    every = (process for node in lab.nodes.values() for process in node.processes)
    return [process for process in every if process.alive and process.pid not in own and process.pid != os.getpid()]
