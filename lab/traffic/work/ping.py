"""Round trips: on an idle link, and beside a stream that fills the link."""

import time

from ...measure import echo
from . import estimate
from .base import Work
from .echo import echo_figures, echoes
from .iperf import DEAD, Iperf, tcp_figures

# Time that a stream runs before the echo requests start, in seconds: by then it has filled the queues.
RAMP_S = 2


class Ping(Work):
    name, title = "ping", "ping, idle"
    main, better = "p50_ms", "less"

    def seconds(self, quick):
        return 1 if quick else 10

    def takes(self, quick, link):
        return self.seconds(quick) + _stragglers_s(link)

    def figures(self, site, running, quick):
        return echo_figures(echoes(site.hosts[0], running.addresses[1], self.seconds(quick)))


class PingLoaded(Work):
    """A ping beside one TCP stream in the same direction."""

    name, title = "ping-loaded", "ping beside one TCP stream"
    main, better = "p99_ms", "less"
    programs = ("iperf3",)

    def counted(self, quick):
        return 2 if quick else 10

    def seconds(self, quick):
        return RAMP_S + self.counted(quick)

    def takes(self, quick, link):
        return self.seconds(quick) + _stragglers_s(link)

    def figures(self, site, running, quick):
        sender, receiver = site.hosts[:2]
        address, seconds = running.addresses[1], self.counted(quick)
        with Iperf(sender, receiver, address, seconds, "-O", RAMP_S) as run:
            run.begin()
            time.sleep(RAMP_S)
            report = echoes(sender, address, seconds)
            stream = tcp_figures(run.report(), DEAD)
        return echo_figures(report) | {key: stream[key] for key in ("mbps", "retransmits", "congestion_control")}


def _stragglers_s(link):
    """Returns how long to wait for lost requests, in seconds."""
    return echo.patience_s(estimate.slowest_echo_ms(link)) if estimate.lost_round_trips(link) else 0.0
