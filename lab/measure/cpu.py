"""Processor time: of the machine, of the tunnel's programs, of the programs that measure.

The kernel's work for a packet (soft interrupts) is in the machine's time always. A process is charged with what it set off by its own system
calls, and with soft interrupts that came while it ran: kernels with IRQ_TIME_ACCOUNTING keep the latter apart, and `accounting` says so.
"""

import gzip
import os
import resource
import time
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# proc(5), /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
_IDLE, _SOFT, _STEAL = (3, 4), (5, 6), (7,)
# More than this share of what all cores could have done, by others than the tunnel and the measuring programs: the run was disturbed.
DISTURBED = 0.1


class Reading:
    """A look at all counters. Programs that measure are this process's children: their time is there once they have ended."""

    def __init__(self, processes):
        self.when = time.monotonic()
        self.machine = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        self.tunnel = [sum(process_s(process.pid) for process in own) for own in processes]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.children = used.ru_utime + used.ru_stime

    def since(self, before):
        """Seconds between two looks."""

        def ticks(columns):
            return sum(self.machine[n] - before.machine[n] for n in columns) * _TICK_S

        # What was not idle. Busy time itself is sampled by a timer, and programs that wake by one are seen too rarely; idle time is measured.
        capacity = (self.when - before.when) * os.cpu_count()
        return {
            "capacity_s": round(capacity, 3),
            "machine_s": round(max(0.0, capacity - ticks(_IDLE) - ticks(_STEAL)), 3),
            "soft_interrupts_s": round(ticks(_SOFT), 3),
            "stolen_s": round(ticks(_STEAL), 3),
            "tunnel_s": [round(now - then, 3) for now, then in zip(self.tunnel, before.tunnel)],
            "applications_s": round(self.children - before.children, 3),
        }


def foreign(cpu):
    """Share of all cores' time that went to neither the tunnel nor the measuring programs."""
    return max(0.0, cpu["machine_s"] - sum(cpu["tunnel_s"]) - cpu["applications_s"]) / cpu["capacity_s"]


def calm(patience_s, look=lambda: Reading([]), share=foreign, pause_s=0.5):
    """Waits until the machine has nothing else to do; whether it came to that. `share` of two looks says how much of it others use."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        start = look()
        time.sleep(pause_s)
        if share(look().since(start)) < DISTURBED:
            return True
    return False


def process_s(pid):
    """Seconds of user and system time of all threads of a process, the ended ones too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def accounting():
    """Whether soft interrupts are counted apart from the process that they interrupt."""
    try:
        config = gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    except OSError:
        return "unknown (no /proc/config.gz)"
    return "apart from processes" if "CONFIG_IRQ_TIME_ACCOUNTING=y" in config else "with the process that they interrupt"
