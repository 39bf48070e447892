"""UDP by iperf3: what the receiver gets of a fixed rate, and of the full rate of a sender."""

from ...hosts.wait import LabError
from .base import CpuMeter, Work
from .iperf import moved, report, udp_figures

# Payload bytes that fill an inner packet of 1,400 bytes: 20 (IPv4) + 8 (UDP) + 1,372. The same wherever it fits, so that tables are comparable.
DATAGRAM = 1372
HEADERS = 28


class Udp(Work):
    """`rate` is per second, as iperf3 reads it. With None there is no limit, and the figure is the received rate instead of the loss."""

    programs = ("iperf3",)

    def __init__(self, name, title, rate):
        self.name, self.title, self.rate = name, title, rate
        self.main, self.better = ("lost_percent", "less") if rate else ("mbps", "more")

    def seconds(self, quick):
        return 2 if quick else 10

    def figures(self, site, running, quick):
        sender, receiver = site.hosts[:2]
        size, spent = datagram(sender, running.interface), CpuMeter(running)
        output = report(sender, receiver, running.addresses[1], self.seconds(quick), "-u", "-b", self.rate or 0, "-l", size)
        figures = udp_figures(output)
        if not figures["packets_per_s"]:
            raise LabError("no datagram arrived")
        # RFC 3550, section 6.4.1, as the receiver counts it.
        jitter = output["end"]["sum_received"].get("jitter_ms", 0.0)
        return figures | {"jitter_ms": round(jitter, 4), "datagram_bytes": size} | spent.per_gb(moved(output))


def datagram(host, interface):
    """Returns the usual size, or the largest size that the interface sends in one packet."""
    return min(DATAGRAM, int(host.run("cat", f"/sys/class/net/{interface}/mtu").stdout) - HEADERS)
