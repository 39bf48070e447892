"""Memory of the programs of a system: before a load, and at the peak after one."""

from .base import Work
from .iperf import DEAD, report, tcp_figures


class Memory(Work):
    """Memory (RSS) of the end that uses more, in units of 1,000,000 bytes. The peak is since the start of the programs (VmHWM).

    Idle memory is measured when the work begins, so it must be the first work after a start. The bare link has no programs and uses 0.
    """

    name, title = "memory", "memory of the system's programs"
    main, better = "peak_mb", "less"
    programs = ("iperf3",)

    def seconds(self, quick):
        return 2 if quick else 10

    def figures(self, site, running, quick):
        idle = running.memory_kib("VmRSS")
        output = report(*site.hosts[:2], running.addresses[1], self.seconds(quick), "--bidir")
        peak = running.memory_kib("VmHWM")
        return {
            "idle_mb": _mb(max(idle)),
            "peak_mb": _mb(max(peak)),
            "idle_kib": idle,
            "peak_kib": peak,
            "mbps": tcp_figures(output, DEAD)["mbps"],
        }


def _mb(kib):
    return round(kib * 1024 / 1e6, 2)
