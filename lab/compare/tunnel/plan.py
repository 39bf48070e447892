"""The plan: the configurations that are run, and their order.

A configuration is one system, pinned or free, at one MTU: it is started, warmed up, measured, ended. Each round has every configuration once, shuffled, so
that drift of the machine affects all of them alike.
"""

import random
from dataclasses import dataclass

from .measure import TESTS, Lengths
from .site import LINKS

USUAL_MTU = min(LINKS)
MODES = ("free", "pinned")
# Seconds around every run of a program, and to start and end a configuration: for estimates only.
AROUND_S, START_S = 0.3, 3.0


@dataclass(frozen=True)
class Configuration:
    round: int
    mode: str
    system: str
    mtu: int

    @property
    def tests(self):
        """Returns all tests at the usual MTU; one stream at other MTUs."""
        return tuple(TESTS) if self.mtu == USUAL_MTU else ("tcp-1",)


@dataclass(frozen=True)
class Effort:
    """Durations and number of rounds."""

    rounds: int
    lengths: Lengths
    mtus: tuple
    # True if larger MTUs and variants are only measured free in the first round, and pinned only in the first round.
    sparing: bool = False

    def wants(self, configuration, variant, every_mtu=False):
        larger = configuration.mtu != USUAL_MTU
        if larger and variant and (self.sparing or not every_mtu):
            return False
        first, free = configuration.round == 1, configuration.mode == "free"
        if not self.sparing:
            return True
        return first and free if larger or variant else first or free

    def seconds(self, configuration):
        """Returns the approximate duration."""
        lengths, total = self.lengths, START_S + 2 * (1 + AROUND_S)
        for test in configuration.tests:
            total += AROUND_S + {"idle": lengths.idle, "loaded": lengths.loaded + 2}.get(
                test, lengths.omitted + lengths.tcp if test.startswith("tcp") else lengths.udp
            )
        return total


FULL = Effort(rounds=5, lengths=Lengths(tcp=3, udp=2, idle=2, loaded=4), mtus=tuple(LINKS))
# Ten minutes for seven systems and four variants; only the full run has the largest MTU.
QUICK = Effort(rounds=2, lengths=Lengths(tcp=1, udp=1, idle=1, loaded=1, omitted=0), mtus=tuple(mtu for mtu in LINKS if mtu != max(LINKS)), sparing=True)


def shuffled(systems, effort, modes, seed, variants=(), every_mtu=()):
    """Returns all configurations, round by round; `variants` of systems at the usual MTU only, except those in `every_mtu`."""
    dice, order = random.Random(seed), []
    for number in range(1, effort.rounds + 1):
        one = [Configuration(number, mode, system, mtu) for mode in modes for system in systems for mtu in effort.mtus]
        dice.shuffle(one)
        order += [each for each in one if effort.wants(each, each.system in variants, each.system in every_mtu)]
    return order


def tests_in_order(configuration, seed):
    """Returns the tests of a configuration, shuffled; the idle test comes first, before any load."""
    rest = [test for test in configuration.tests if test != "idle"]
    random.Random(f"{seed} {configuration}").shuffle(rest)
    return [test for test in configuration.tests if test == "idle"] + rest
