"""Processor time: of the machine, of the tunnel's programs, of the programs that measure.

The kernel's work for a packet (soft interrupts) is in the machine's time always. A process is charged with what it set off by its own system
calls, and with soft interrupts that came while it ran: kernels with IRQ_TIME_ACCOUNTING keep the latter apart, and `accounting` says so.
"""

import gzip
import os
import resource
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# proc(5), /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
_BUSY, _SOFT, _STEAL = (0, 1, 2, 5, 6), (5, 6), (7,)


class Reading:
    """A look at all counters. Programs that measure are this process's children: their time is there once they have ended."""

    def __init__(self, processes):
        self.machine = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        self.tunnel = [sum(_time(process.pid) for process in own) for own in processes]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.children = used.ru_utime + used.ru_stime

    def since(self, before):
        """Seconds between two looks."""
        def ticks(columns):
            return round(sum(self.machine[n] - before.machine[n] for n in columns) * _TICK_S, 3)

        return {
            "machine_s": ticks(_BUSY),
            "soft_interrupts_s": ticks(_SOFT),
            "stolen_s": ticks(_STEAL),
            "tunnel_s": [round(now - then, 3) for now, then in zip(self.tunnel, before.tunnel)],
            "applications_s": round(self.children - before.children, 3),
        }


def _time(pid):
    """User and system time of all threads of a process, the ended ones too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def accounting():
    """Whether soft interrupts are counted apart from the process that they interrupt."""
    try:
        config = gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    except OSError:
        return "unknown (no /proc/config.gz)"
    return "apart from processes" if "CONFIG_IRQ_TIME_ACCOUNTING=y" in config else "with the process that they interrupt"
