"""CPU time of the machine, of the programs of a tunnel, and of the programs that measure.

The time of the machine always includes the work of the kernel for packets (soft interrupts). A process is charged for its own system calls, and for
soft interrupts that arrive while it runs. Kernels with IRQ_TIME_ACCOUNTING count the latter separately; `accounting` says which.
"""

import gzip
import os
import resource
import time
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# proc(5), /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
_IDLE, _SOFT, _STEAL = (3, 4), (5, 6), (7,)
# Share of the capacity of all cores, used by neither the tunnel nor the measuring programs, above which a run counts as disturbed.
DISTURBED = 0.1


class Reading:
    """A reading of all counters. The measuring programs are children of this process: their time is included after they have ended."""

    def __init__(self, processes):
        self.when = time.monotonic()
        self.machine = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        self.tunnel = [sum(process_s(process.pid) for process in own) for own in processes]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.children = used.ru_utime + used.ru_stime

    def since(self, before):
        """Returns the seconds between two readings."""

        def ticks(columns):
            return sum(self.machine[n] - before.machine[n] for n in columns) * _TICK_S

        # Capacity minus idle time. The kernel samples busy time with a timer and misses programs that a timer wakes; it measures idle time.
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
    """Returns the share of the time of all cores that neither the tunnel nor the measuring programs used."""
    return max(0.0, cpu["machine_s"] - sum(cpu["tunnel_s"]) - cpu["applications_s"]) / cpu["capacity_s"]


def calm(patience_s, look=lambda: Reading([]), share=foreign, pause_s=0.5):
    """Waits until the machine is idle; returns True if it became idle. `share` of two readings returns the part that other programs use."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        start = look()
        time.sleep(pause_s)
        if share(look().since(start)) < DISTURBED:
            return True
    return False


def process_s(pid):
    """Returns the user and system time of all threads of a process in seconds, including ended threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def accounting():
    """Says whether soft interrupts are counted separately from the process that they interrupt."""
    try:
        config = gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    except OSError:
        return "unknown (no /proc/config.gz)"
    return "apart from processes" if "CONFIG_IRQ_TIME_ACCOUNTING=y" in config else "with the process that they interrupt"
