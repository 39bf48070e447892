"""From runs to figures: the median, and the spread over the rounds."""

import statistics
from dataclasses import dataclass

from ...measure.cpu import foreign
from ...measure.quantile import quantile


# The reference for all other systems.
BARE = "bare"


@dataclass(frozen=True)
class Figure:
    """A median with the minimum and maximum of the rounds, and their number."""

    median: float
    least: float
    most: float
    rounds: int


def figure(values):
    """Returns the figure of these values, or None without values."""
    values = [value for value in values if value is not None]
    return Figure(statistics.median(values), min(values), max(values), len(values)) if values else None


def mbps(figures, _):
    return figures["mbps"]


def lost(figures, _):
    return figures["lost_percent"]


def packets(figures, _):
    return figures["packets_per_s"]


def retransmits(figures, _):
    return figures["retransmits"]


def lost_before(figures, _):
    """Returns the percentage of datagrams that the kernel of the sender dropped, because the tunnel did not read them in time."""
    return _share(figures, figures["kernel"].get("left.interface_tx_dropped", 0))


def lost_inside(figures, _):
    """Returns the percentage that the sockets of the receiving end of the tunnel dropped."""
    return _share(figures, figures["kernel"].get("right.tunnel_socket_drops", 0))


def lost_after(figures, _):
    """Returns the percentage that passed the tunnel and was dropped at the socket of iperf3."""
    kernel = figures["kernel"]
    return _share(figures, kernel.get("right.Udp.RcvbufErrors", 0) - kernel.get("right.tunnel_socket_drops", 0))


def _counts(figures):
    return "error" not in figures and not figures.get("disturbed")


def _resent(run):
    """Returns the figures of its TCP tests."""
    return [figures for figures in run["tests"].values() if _counts(figures) and "retransmits" in figures]


def _share(figures, count):
    return 100 * count / max(1, figures["packets"])


def out_of_order(figures, _):
    """Returns TCP segments that arrived out of order, at both ends."""
    return sum(value for name, value in figures["kernel"].items() if name.endswith("TCPOFOQueue"))


def needless(figures):
    """Returns needless retransmissions: the receiver reported that it had the segments (D-SACK, RFC 2883). The timer of the sender was too short."""
    reported = sum(value for name, value in figures["kernel"].items() if name.endswith("TCPDSACKRecv"))
    # The kernel counts from the start of the run, iperf3 from the end of the omitted part.
    return min(reported, figures["retransmits"])


def machine_cpu(figures, _):
    """Returns seconds of all cores per GB, including measuring programs."""
    return figures["cpu"]["machine_s"] / (figures["bytes"] / 1e9)


def tunnel_cpu(figures, _):
    """Returns seconds of the programs of the tunnel at both ends per GB."""
    return sum(figures["cpu"]["tunnel_s"]) / (figures["bytes"] / 1e9)


def middle_ms(figures, _):
    return quantile(figures["ms"], 0.5)


def p99_ms(figures, _):
    return quantile(figures["ms"], 0.99)


def idle_mb(_, run):
    """Returns memory of the end that uses more, in units of 1,000,000 bytes."""
    return max(run["memory_kib"]["idle"]) * 1024 / 1e6


def peak_mb(_, run):
    return max(run["memory_kib"]["peak"]) * 1024 / 1e6


class Results:
    """The results in tunnel.json by system, mode and MTU."""

    def __init__(self, runs):
        self.runs = runs

    def each(self, system, mode, mtu, test, pick):
        """Returns (round, `pick(figures, run)`) of every round with a successful undisturbed test."""
        found = []
        for run in self.runs:
            if (run["system"], run["mode"], run["mtu"]) == (system, mode, mtu):
                figures = run["tests"].get(test, {"error": "not run"})
                if _counts(figures):
                    found.append((run["round"], pick(figures, run)))
        return found

    def figure(self, system, mode, mtu, test, pick):
        return figure([value for _, value in self.each(system, mode, mtu, test, pick)])

    def errors(self, system):
        """Returns errors as (mode, mtu, test, first line), without duplicates."""
        seen = {}
        for run in self.runs:
            if run["system"] == system:
                if run["error"]:
                    seen.setdefault((run["mode"], run["mtu"], "start"), run["error"])
                for test, figures in run["tests"].items():
                    if "error" in figures:
                        seen.setdefault((run["mode"], run["mtu"], test), figures["error"])
        return [(*where, what.splitlines()[0]) for where, what in seen.items()]

    def added_us(self, system, mode, mtu):
        """Returns the microseconds that an idle echo takes longer than over the bare link of the same round."""
        bare = dict(self.each(BARE, mode, mtu, "idle", middle_ms))
        own = self.each(system, mode, mtu, "idle", middle_ms)
        return figure([(value - bare[number]) * 1000 for number, value in own if number in bare])

    def foreign(self):
        """Returns the percentage of all cores used by programs other than the tunnel and the measuring programs, of the runs that count."""
        return figure([100 * foreign(one["cpu"]) for run in self.runs for one in run["tests"].values() if _counts(one) and "cpu" in one])

    def disturbed(self):
        """Returns the number of tests that were disturbed in every attempt, and the number of all tests."""
        every = [figures for run in self.runs for figures in run["tests"].values()]
        return sum(figures.get("disturbed", False) for figures in every), len(every)

    def all_retransmits(self, system, mode):
        """Returns the retransmissions of all TCP tests of a round."""
        rounds = {}
        for run in self._of(system, mode):
            rounds.setdefault(run["round"], []).extend(f["retransmits"] for f in _resent(run))
        return figure([sum(counts) for counts in rounds.values() if counts])

    def needless_of_all(self, system, mode):
        """Returns the needless retransmissions of all TCP tests of all rounds, and the number of retransmissions."""
        every = [figures for run in self._of(system, mode) for figures in _resent(run)]
        return sum(needless(figures) for figures in every), sum(figures["retransmits"] for figures in every)

    def _of(self, system, mode):
        return [run for run in self.runs if (run["system"], run["mode"]) == (system, mode)]
