"""Evaluation of measurements of paths: a line of the table, and figures from answers to ping streams."""

import itertools
import json
import statistics
from dataclasses import dataclass

from ..hosts.wait import LabError
from ..measure.quantile import quantile

# Longest delay until a change by a command has effect, in seconds.
TAKES_EFFECT_S = 0.5
# Duration of an iperf3 run, in seconds.
IPERF_S = 2
# Largest difference of two equal runs around a third one, as a share of the faster one. A larger difference means that the machine was disturbed.
UNEVEN = 0.25
# Units of whole numbers.
_COUNTED = ("packets", "segments", "threads", "lines")


@dataclass
class Row:
    """A line of the table: name, unit and target of a measurement; without a target there is no verdict."""

    name: str
    limit: float
    values: list
    unit: str = "ms"
    note: str = ""
    problem: str = ""
    # False after a loss or reordering that is not allowed.
    whole: bool = True
    # True if the median is judged and not the worst value: a comparison of two runs that other programs of the machine disturb.
    by_median: bool = False
    # The share of the runs that is judged, instead of all of them.
    by_share: float = 0.0
    # What one value is of.
    of: str = "runs"

    def cells(self):
        """Returns median, maximum, and whether the target was reached."""
        if not self.values:
            return [f"not measured: {self.problem or 'nothing was seen'}", "–", "no"]
        median = statistics.median(self.values)
        worst = min(self.values) if self.unit == "%" else max(self.values)
        judged = median if self.by_median else quantile(self.values, self.by_share) if self.by_share else worst
        reached = self.limit is None or (judged >= self.limit if self.unit == "%" else judged <= self.limit)
        verdict = ("yes" if reached and self.whole else "no") if self.limit is not None else "–"
        share = [f"{self.by_share:.0%} within {self._shown(judged)}"] if self.by_share else []
        note = "".join(f"; {part}" for part in [*share, self.note] if part)
        return [self._shown(median), f"{self._shown(worst)} ({len(self.values)} {self.of}){note}", verdict]

    def _shown(self, value):
        return f"{value:.0f} {self.unit}" if self.unit in _COUNTED else f"{value:.1f} {self.unit}"


def both_direct(here, there, two, one):
    """Returns the time when both sides have a direct path."""
    return max(here.wait_for_path(two.name, "direct"), there.wait_for_path(one.name, "direct"))


def recovery(record, moment):
    """Returns milliseconds from a moment to the first answer to a later request: after the first loss, if there is one soon. Requests sent while the command that
    breaks something still runs may be answered and do not count.
    """
    lost = [asked for asked in record["unanswered"] if moment <= asked < moment + TAKES_EFFECT_S]
    since = min(lost, default=moment)
    arrived = [answer for answer, asked in zip(record["answered"], record["asked"], strict=True) if asked >= since]
    if not arrived:
        raise LabError("nothing was answered any more")
    return 1000 * (min(arrived) - moment)


def missing(record, start, end):
    """Counts requests between two moments that were never answered."""
    return sum(start <= moment <= end for moment in record["unanswered"])


def reordered(record, start, end):
    """Counts answers between two moments that came after the answer to a later request."""
    asked = [sent for arrived, sent in zip(record["answered"], record["asked"], strict=True) if start <= arrived <= end]
    return sum(later < earlier for earlier, later in itertools.pairwise(asked))


def probes(api, peer):
    """Returns the probes sent to a peer so far, by path."""
    return {way["endpoint"]: way["sent"] for way in api.ask("why", peer=peer.name)["ways"]}


def iperf(one, two):
    """Returns Mbit/s of one TCP stream over the overlay."""
    server = two.host.start("iperf3", "-s", "-1", "--forceflush", name="iperf3-server")
    server.wait_for_output("Server listening")
    done = one.host.run("iperf3", "-c", two.ipv4, "-t", IPERF_S, "-O", 1, "-J")
    server.wait()
    return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e6


def is_uneven(before, after):
    """Returns true if the machine was much faster or slower before than after."""
    return abs(before - after) > UNEVEN * max(before, after)
