"""Tells whether two files of results rank the systems alike.

A pair is two systems with the same work on the same link. It is judged if both files contain both systems and their intervals (`Figure.apart`) do not
overlap in either file: its order is kept or reversed. A pair that is apart in only one file says nothing about an order and is counted separately.
"""

import itertools
from dataclasses import dataclass, field

from .summary import Results

# Share of the judged pairs that must keep its order.
ENOUGH = 0.95


@dataclass
class Verdict:
    """`turned` holds (profile, placement, tuned, mtu, work, system, other system): reversed pairs, the system that leads in the first file first."""

    kept: int = 0
    turned: list = field(default_factory=list)
    only_one: int = 0
    overlapping: int = 0

    @property
    def judged(self):
        return self.kept + len(self.turned)

    @property
    def share(self):
        return self.kept / self.judged if self.judged else None

    @property
    def agrees(self):
        return bool(self.judged) and self.share >= ENOUGH

    def code(self):
        """Returns the exit status: 0 agrees, 1 disagrees, 2 nothing could be judged."""
        if not self.judged:
            return 2
        return 0 if self.agrees else 1


def compare(first, second):
    """Returns the verdict over two files of results."""
    verdict, one, two = Verdict(), Results(first), Results(second)
    for profile, placement, tuned, mtu, work in _places(first):
        for pair in itertools.combinations(_systems(one, two, profile, work), 2):
            before, after = ([content.figure(profile, name, work, None, placement, tuned, mtu) for name in pair] for content in (one, two))
            _judge(verdict, (profile, placement, tuned, mtu, work, *pair), before, after, first["works"][work]["better"])
    return verdict


def _places(content):
    return list(dict.fromkeys((row["profile"], row["placement"], row["tuned"], row["mtu"], row["work"]) for row in content["runs"]))


def _systems(one, two, profile, work):
    there = set(two.systems(profile, work))
    return [name for name in one.systems(profile, work) if name in there]


def _judge(verdict, where, before, after, better):
    apart = [_apart(*figures) for figures in (before, after)]
    if None in apart:
        return
    if all(apart):
        first, second = (_ahead(*figures, better) for figures in (before, after))
        if first == second:
            verdict.kept += 1
        else:
            *place, left, right = where
            verdict.turned.append((*place, left, right) if first else (*place, right, left))
    elif any(apart):
        verdict.only_one += 1
    else:
        verdict.overlapping += 1


def _apart(left, right):
    return left.apart(right) if left and right else None


def _ahead(left, right, better):
    return (left.median > right.median) == (better == "more")


def details(verdict):
    """Returns the verdict in sentences."""
    if not verdict.judged:
        return "no pair of systems can be judged: none is apart in both files (each figure needs two rounds at least, in both)"
    lines = [f"{verdict.kept} of {verdict.judged} pairs that do not overlap keep their order ({100 * verdict.share:.1f} %, {100 * ENOUGH:.0f} % are needed)"]
    lines.append(f"not judged: {verdict.only_one} pairs are apart in one file only, {verdict.overlapping} in none")
    lines += [f"turned: {_where(place)}: {left} was ahead of {right}" for *place, left, right in verdict.turned]
    return "\n".join(lines)


def _where(place):
    profile, placement, tuned, mtu, work = place
    return ", ".join([work, profile, placement, *(["tuned"] if tuned else []), *([f"MTU {mtu}"] if mtu else [])])
