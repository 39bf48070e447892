"""The plan: the configurations that are run, and their order.

A visit is one system running between new hosts on one link, and the works done with it. A stage is a round, or the part of a round whose systems depend on
earlier results. The seed shuffles all visits of a stage, so that drift of the machine affects all systems and links alike.
"""

import random
from dataclasses import dataclass, field
from typing import Callable

BARE, TAUT = "bare", "taut-aes"
# Works that every system does on every link: latency and throughput.
PING, STREAM = "ping", "tcp-1"
BASE = (PING, STREAM)
MAIN_PROFILES = ("baseline", "low", "medium", "high")
# Links with only constant delay and loss, where theory predicts the throughput of one TCP stream.
THEORY_PROFILES = ("low-loss", "medium-loss", "high-loss")
PACKETS, SUPERPACKETS, NETEM = "packets", "superpackets", "netem"
PLACEMENTS = (PACKETS, SUPERPACKETS, NETEM)
# Number of other systems that continue in a quick run.
OTHERS = 2
# Link for a further kind of work in a quick run, by the beginning of its name, if not the plain link: where it is typical, or more informative.
QUICK_PROFILES = {
    "ping": ("low",),
    "quic": ("low",),
    "download": ("low",),
    "video": ("medium",),
}
# Differs from another system only by its cipher.
NOT_IN_QUICK = ("taut-chacha",)
# Works measured before any load.
UNLOADED = ("memory", "payload", PING)
# Seconds to make the hosts, start and end a system, and around each work: for estimates only.
START_S, AROUND_S = 2.0, 0.35


@dataclass(frozen=True)
class Visit:
    """`mtu` is the MTU inside the tunnel, None for the default of the system; `tuned`: TCP of the hosts is set as `testbed.TUNED` says."""

    round: int
    profile: str
    placement: str
    system: str
    tuned: bool
    mtu: int | None
    hosts: int
    works: tuple

    def keys(self):
        """Returns a key for each row of the results."""
        return [(self.round, self.profile, self.placement, self.system, self.tuned, self.mtu, work) for work in self.works]


@dataclass(frozen=True)
class Part:
    """Every combination of these."""

    systems: tuple
    profiles: tuple
    works: tuple
    placements: tuple = (PACKETS,)
    tuned: tuple = (False,)
    mtus: tuple = (None,)


@dataclass(frozen=True)
class Stage:
    """`parts()` is called when the stage begins. An optional stage is only begun if it fits as a whole into the remaining time."""

    round: int
    parts: Callable = field(compare=False)
    optional: bool = False
    # Description for progress output.
    what: str = "all"


@dataclass(frozen=True)
class Available:
    """Available systems, works and profiles by name."""

    systems: dict
    works: dict
    profiles: dict

    def base(self):
        return tuple(name for name in BASE if name in self.works)

    def further(self):
        return tuple(name for name in self.works if name not in BASE)

    def main(self):
        return tuple(name for name in MAIN_PROFILES if name in self.profiles)

    def emulated(self, names):
        return tuple(name for name in names if self.profiles[name].emulated)

    def usual(self):
        """Returns all systems except variants."""
        return tuple(name for name, system in self.systems.items() if not system.variant)

    def brief(self):
        """Returns the systems of a quick run."""
        return tuple(name for name in self.usual() if name not in NOT_IN_QUICK)


def quick(known, rounds, best):
    """`make bench`: the base works for all, then every other work for Taut, the bare link and the best others, then the base works again.

    `best()` returns the best others after the first round. If time remains: links with a theory, and a third round.
    """
    base = Part(known.brief(), known.main(), known.base())

    def names():
        return tuple(name for name in (BARE, TAUT, *best()) if name in known.systems)

    def chosen():
        parts = [Part(names(), quick_profiles(known, work), (work,)) for work in known.further()]
        return [*parts, Part(names(), known.emulated(known.main())[:1], known.base()[-1:], (SUPERPACKETS,))]

    def theory():
        return [Part(names(), tuple(name for name in THEORY_PROFILES if name in known.profiles), known.base()[-1:])]

    later = [Stage(number, lambda: [base], number > 2, "ping and one stream") for number in range(2, rounds + 1)]
    about = "one stream where theory says something"
    return [Stage(1, lambda: [base]), Stage(1, chosen), *later[:1], Stage(1, theory, True, about), *later[1:]]


def quick_profiles(known, work):
    """Returns the links on which a quick run does this work; the first available link as a fallback."""
    wanted = next((names for start, names in QUICK_PROFILES.items() if work.startswith(start)), MAIN_PROFILES[:1])
    return tuple(name for name in wanted if name in known.profiles) or tuple(known.profiles)[:1]


def full(known, rounds, netem):
    """`make bench-full`: every system; the base works on every link, every work on the main links; the effect of placement and tuning."""
    systems = tuple(known.systems)
    placements = (SUPERPACKETS, NETEM) if netem else (SUPERPACKETS,)
    parts = [
        Part(systems, tuple(known.profiles), known.base()),
        Part(systems, known.main(), known.further()),
        Part(known.usual(), known.emulated(known.main()), known.base(), placements),
        Part(known.usual(), known.main(), known.base(), tuned=(True,)),
    ]
    return [Stage(number, lambda: parts) for number in range(1, rounds + 1)]


def picked(parts, rounds):
    """Returns the parts chosen by name, in every round."""
    return [Stage(number, lambda: parts) for number in range(1, rounds + 1)]


def visits(stage, known, seed):
    """Returns all visits of a stage in order; works that can share a visit do."""
    shared = {}
    for part in stage.parts():
        for place in _places(part):
            for work in part.works:
                about = known.works[work]
                alone = work if getattr(about, "alone", False) else None
                works = shared.setdefault((*place, about.hosts, alone), [])
                works += [work] if work not in works else []
    dice = random.Random(f"{seed} {stage.round}")
    every = [
        Visit(stage.round, profile, placement, system, tuned, mtu, hosts, in_order(works, dice))
        for (profile, placement, system, tuned, mtu, hosts, _), works in shared.items()
    ]
    dice.shuffle(every)
    return every


def _places(part):
    return (
        (profile, placement, system, tuned, mtu)
        for profile in part.profiles
        for placement in part.placements
        for tuned in part.tuned
        for mtu in part.mtus
        for system in part.systems
    )


def in_order(works, dice):
    """Returns the works, shuffled; works that need an unloaded system come first."""
    early = [work for work in works if work in UNLOADED]
    late = [work for work in works if work not in UNLOADED]
    dice.shuffle(late)
    return tuple(sorted(early, key=UNLOADED.index) + late)


def seconds(visit, known, brief):
    """Returns the approximate duration of a visit."""
    link = known.profiles[visit.profile]
    return START_S + sum(AROUND_S + known.works[work].takes(brief, link) for work in visit.works)
