"""From rows to figures: the median over the rounds, its spread, and its certainty."""

import math
import random
import re
import statistics
from dataclasses import dataclass

from .plan import PACKETS

RESAMPLES = 2000
# Share of the resampled medians that an interval contains.
SURE = 0.95
# Student's factor for that share, by the number of values. From six values on, their minimum and maximum contain the median in 31 of 32 cases, and a
# bootstrap has enough to draw from.
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}


@dataclass(frozen=True)
class Figure:
    """A median with the minimum and maximum of `n` rounds. `low` to `high` is its bootstrap interval; `surely` is the interval for judgements; None for one round.

    `doubtful`: other programs disturbed every round.
    """

    median: float
    least: float
    most: float
    n: int
    low: float | None = None
    high: float | None = None
    surely: tuple | None = None
    doubtful: bool = False

    def apart(self, other):
        """Returns true if two figures differ by more than chance; None if one of them has only one round."""
        if None in (self.surely, other.surely):
            return None
        return self.surely[1] < other.surely[0] or other.surely[1] < self.surely[0]


def interval(values, seed):
    """Returns the interval of the median by resampling with replacement, deterministic for values and seed; None for fewer than two values."""
    if len(values) < 2:
        return None
    dice = random.Random(f"{seed} {sorted(values)}")
    medians = sorted(statistics.median(dice.choices(values, k=len(values))) for _ in range(RESAMPLES))
    edge = round(RESAMPLES * (1 - SURE) / 2)
    return medians[edge], medians[RESAMPLES - 1 - edge]


def surely(values, bootstrap):
    """Returns the interval by which two figures are judged: the bootstrap interval; for few values that of Student around their mean, which accounts for small samples.

    On a logarithmic scale if all values are positive: rates and times vary by a share of themselves.
    """
    if bootstrap is None or len(values) not in STUDENT:
        return bootstrap
    factors = min(values) > 0
    scaled = [math.log(value) for value in values] if factors else values
    middle, half = statistics.mean(scaled), STUDENT[len(values)] * statistics.stdev(scaled) / math.sqrt(len(values))
    low, high = (math.exp(end) if factors else end for end in (middle - half, middle + half))
    return min(low, bootstrap[0]), max(high, bootstrap[1])


def figure(values, seed=0, doubtful=False):
    """Returns the figure of these values, or None without values."""
    values = [value for value in values if isinstance(value, (int, float))]
    if not values:
        return None
    bootstrap = interval(values, seed)
    low, high = bootstrap or (None, None)
    return Figure(statistics.median(values), min(values), max(values), len(values), low, high, surely(values, bootstrap), doubtful)


def main_of(works):
    """Returns a function that picks the figure for tables."""
    return lambda row: row["figures"].get(works[row["work"]]["main"])


def cpu_per_gb(row):
    """Returns seconds of all cores per 1,000,000,000 bytes, including measuring programs: from the work if it reports them, else from the row."""
    carried = row["figures"].get("bytes")
    if "machine_cpu_s_per_gb" in row["figures"]:
        return row["figures"]["machine_cpu_s_per_gb"]
    return row["cpu"]["machine_s"] / (carried / 1e9) if carried and row["cpu"] else None


def peak_mb(row):
    """Returns the peak memory of the end that uses more, in units of 1,000,000 bytes."""
    peak = row["memory_kib"].get("peak") or []
    return max(peak) * 1024 / 1e6 if peak and max(peak) else None


def idle_mb(row):
    """Returns the same before the work began."""
    before = row["memory_kib"].get("before") or []
    return max(before) * 1024 / 1e6 if before and max(before) else None


class Results:
    """The results of a file by system, link and work."""

    def __init__(self, content):
        self.content, self.works, self.seed = content, content["works"], content["seed"]
        self._cells, self._known = {}, {}
        for row in content["runs"]:
            self._cells.setdefault((row["profile"], row["placement"], row["system"], row["tuned"], row["mtu"], row["work"]), []).append(row)

    def rows(self, profile, system, work, placement=PACKETS, tuned=False, mtu=None):
        return self._cells.get((profile, placement, system, tuned, mtu, work), [])

    def figure(self, profile, system, work, pick=None, placement=PACKETS, tuned=False, mtu=None):
        """Returns the figure of the successful undisturbed rounds; of the disturbed rounds, marked as doubtful, if there are no others."""
        key = (profile, system, work, pick, placement, tuned, mtu)
        if key not in self._known:
            self._known[key] = self._figure(key)
        return self._known[key]

    def _figure(self, key):
        profile, system, work, pick, *where = key
        good = [row for row in self.rows(profile, system, work, *where) if row["ok"]]
        calm = [row for row in good if not row["disturbed"]]
        pick = pick or main_of(self.works)
        return figure([pick(row) for row in calm or good], f"{self.seed} {profile} {system} {work}", not calm)

    def success(self, system):
        """Returns (succeeded, tried) of all rows of a system."""
        tried = [row for row in self.content["runs"] if row["system"] == system and row["tried"]]
        return sum(row["ok"] for row in tried), len(tried)

    def errors(self):
        """Returns errors as (system, profile, work, first line, count), without duplicates."""
        seen = {}
        for row in self.content["runs"]:
            if not row["ok"]:
                where = (row["system"], row["profile"], row["work"], (row["error"] or "no reason given").splitlines()[0])
                seen[where] = seen.get(where, 0) + 1
        return [(*where, times) for where, times in seen.items()]

    def disturbed(self):
        """Returns the number of disturbed rows and the number of all rows."""
        return sum(row["disturbed"] for row in self.content["runs"]), len(self.content["runs"])

    def stolen(self):
        """Returns the percentage of all cores that other virtual machines on the same hardware took during the runs, or None if none was taken."""
        shares = [100 * row["cpu"].get("stolen_s", 0) / row["cpu"]["capacity_s"] for row in self.content["runs"] if row["cpu"]]
        return figure(shares) if any(shares) else None

    def doubts(self):
        """Returns the doubts of the emulators about their own runs, without numbers: (words, links, runs), the most frequent first."""
        seen = {}
        for number, row in enumerate(self.content["runs"]):
            for doubt in (doubt for report in row["link"] for doubt in report.get("doubts", [])):
                links, runs = seen.setdefault(re.sub(r"\d[\d.,]*", "…", doubt), ({}, set()))
                links[row["profile"]] = None
                runs.add(number)
        return sorted(((words, list(links), len(runs)) for words, (links, runs) in seen.items()), key=lambda one: -one[2])

    # --- available results ---

    def profiles(self, work=None, placement=PACKETS):
        """Returns profiles with a row, in the order of the file."""
        there = {profile for profile, where, _, _, _, of in self._cells if where == placement and work in (None, of)}
        return [name for name in self.content["profiles"] if name in there]

    def systems(self, profile=None, work=None):
        there = {system for where, _, system, _, _, of in self._cells if profile in (None, where) and work in (None, of)}
        return [name for name in self.content["systems"] if name in there]

    def all_works(self, profile=None):
        there = {work for where, _, _, _, _, work in self._cells if profile in (None, where)}
        return [name for name in self.works if name in there]

    def series(self):
        """Returns (placement, tuned, mtu) of all series."""
        return sorted({(placement, tuned, mtu) for _, placement, _, tuned, mtu, _ in self._cells}, key=str)

    def rounds_of(self, figures):
        """Returns `2` or `2 to 3`: the number of rounds of these figures."""
        counts = sorted({one.n for one in figures if one})
        if not counts:
            return "0"
        return str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"

    def main_series(self):
        """Returns the usual series: per wire packet, untuned, default MTU; or the first one."""
        there = self.series()
        usual = (PACKETS, False, None)
        return usual if usual in there or not there else there[0]
