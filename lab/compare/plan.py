"""What is run, and in which order.

A visit is one system up between hosts that were made for it, on one link, and the work that is done with it. A stage is a round, or the part of
a round for which the systems are chosen by what was seen before it. Within a stage all visits are shuffled by the seed, so that what drifts on
the machine drifts over all systems and links alike.
"""

import random
from dataclasses import dataclass, field
from typing import Callable

BARE, TAUT = "bare", "taut-aes"
# The work that every system does on every link: how far it is, and how much it carries.
PING, STREAM = "ping", "tcp-1"
BASE = (PING, STREAM)
MAIN_PROFILES = ("baseline", "low", "medium", "high")
# Constant delay and loss alone: there theory says what one TCP stream carries.
THEORY_PROFILES = ("low-loss", "medium-loss", "high-loss")
PACKETS, SUPERPACKETS, NETEM = "packets", "superpackets", "netem"
PLACEMENTS = (PACKETS, SUPERPACKETS, NETEM)
# How many of the others go on in a quick run.
OTHERS = 2
# Where a quick run does a further kind of work, by how its name begins, if not on the plain link: where people do it, or where it tells more.
QUICK_PROFILES = {
    "ping": ("low",),
    "quic": ("low",),
    "download": ("low",),
    "video": ("medium",),
}
# Differs from another system by its cipher only.
NOT_IN_QUICK = ("taut-chacha",)
# What is measured while nothing has been loaded yet.
UNLOADED = ("memory", "payload", PING)
# Seconds to make the hosts, to start and to end a system, and around each work: only to tell how long it all takes.
START_S, AROUND_S = 2.0, 0.35


@dataclass(frozen=True)
class Visit:
    """`mtu` is that inside the tunnel, None what the system chooses; `tuned`: the hosts' TCP is set as `rig.TUNED` says."""

    round: int
    profile: str
    placement: str
    system: str
    tuned: bool
    mtu: int | None
    hosts: int
    works: tuple

    def keys(self):
        """One per row of the results."""
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
    """`parts()` is asked for when the stage begins. An optional one is begun only when it fits as a whole into the time that is left."""

    round: int
    parts: Callable = field(compare=False)
    optional: bool = False
    # For whoever looks on.
    what: str = "all"


@dataclass(frozen=True)
class Field:
    """What there is, by name: systems, works and profiles; systems and works that can be had here only."""

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
        """All systems but variants of others."""
        return tuple(name for name, system in self.systems.items() if not system.variant)

    def brief(self):
        """Those that a quick run has time for."""
        return tuple(name for name in self.usual() if name not in NOT_IN_QUICK)


def quick(known, rounds, best):
    """`make bench`: the base for all, then every other work for Taut, the bare link and the best others, then the base again.

    `best()` names those once the first round is there. If there is time: where theory says something, and a third round.
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
    """Where a quick run does this work; on the first link there is if that one is not."""
    wanted = next((names for start, names in QUICK_PROFILES.items() if work.startswith(start)), MAIN_PROFILES[:1])
    return tuple(name for name in wanted if name in known.profiles) or tuple(known.profiles)[:1]


def full(known, rounds, netem):
    """`make bench-full`: every system; the base on every link, every work on the main ones; what placement and tuning change."""
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
    """What somebody asked for by name, in every round."""
    return [Stage(number, lambda: parts) for number in range(1, rounds + 1)]


def visits(stage, known, seed):
    """All visits of a stage, in their order: works that can share one do."""
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
    """Shuffled too; what wants an unloaded system first."""
    early = [work for work in works if work in UNLOADED]
    late = [work for work in works if work not in UNLOADED]
    dice.shuffle(late)
    return tuple(sorted(early, key=UNLOADED.index) + late)


def seconds(visit, known, brief):
    """About how long a visit takes."""
    link = known.profiles[visit.profile]
    return START_S + sum(AROUND_S + known.works[work].takes(brief, link) for work in visit.works)
