"""TCP by iperf3: one stream, several streams, the reverse direction, both directions, and a ring of all hosts at once."""

import contextlib

from ...hosts.wait import LabError
from .base import CpuMeter, Work
from .iperf import DEAD, Iperf, moved, tcp_figures


class Tcp(Work):
    """`options` are those of iperf3. Counts what the receiver got after the first seconds."""

    main = "mbps"
    programs = ("iperf3",)

    def __init__(self, name, title, *options):
        self.name, self.title, self.options = name, title, options

    def omitted(self, quick):
        """Seconds at the start that are not counted, while TCP finds its rate."""
        return 1 if quick else 2

    def counted(self, quick):
        """Counted seconds after that."""
        return 2 if quick else 10

    def seconds(self, quick):
        return self.omitted(quick) + self.counted(quick)

    def pairs(self, count):
        """Returns the sender and receiver of each stream, by number."""
        return [(0, 1)]

    def figures(self, site, running, quick):
        omitted, spent = self.omitted(quick), CpuMeter(running)
        report = _streams(site.hosts, running, self.pairs(len(site.hosts)), self.counted(quick), "-O", omitted, *self.options)
        figures = together([tcp_figures(one, DEAD) for one in report])
        check_congestion(figures["congestion_control"], site.congestion)
        return figures | spent.per_gb(sum(moved(one) for one in report))


class Ring(Tcp):
    """Each host sends to the next, the last one to the first, all at once."""

    hosts = 3

    def __init__(self):
        super().__init__("tcp-ring", "TCP, three hosts in a ring at once")

    def pairs(self, count):
        return [(n, (n + 1) % count) for n in range(count)]


class Cost(Tcp):
    """CPU time of one stream at full speed."""

    main, better = "machine_cpu_s_per_gb", "less"

    def __init__(self):
        super().__init__("cpu", "processor time of one TCP stream")


def _streams(hosts, running, pairs, seconds, *options):
    """Returns the reports of iperf3 between these pairs, all at once."""
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(Iperf(hosts[one], hosts[other], running.addresses[other], seconds, *options)) for one, other in pairs]
        for run in runs:
            run.begin()
        return [run.report() for run in runs]


def together(each):
    """Merges several simultaneous runs into one; `ways_mbps` stay separate."""
    ways = [mbps for figures in each for mbps in figures["ways_mbps"]]
    return {
        "mbps": round(sum(figures["mbps"] for figures in each), 1),
        "ways_mbps": ways,
        "retransmits": sum(figures["retransmits"] for figures in each),
        "congestion_control": ", ".join(sorted({figures["congestion_control"] for figures in each})),
    }


def check_congestion(used, wanted):
    """Raises `LabError` if streams used another congestion control than the site says: such figures are not comparable. iperf3 does not always report
    it."""
    if used not in (wanted, "unknown"):
        raise LabError(f"TCP ran with {used} instead of {wanted}: see lab/hosts/congestion.py")
