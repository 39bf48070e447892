"""Published set-ups by name: the same hosts, programs and durations, so that figures are comparable with the published ones.

    python3 -m lab scenario                       lists them
    python3 -m lab scenario p2p-three-containers
"""

import os
from dataclasses import dataclass, field

from ..hosts.needs import missing
from . import plan
from .tunnel.measure import Lengths, Meter

# Durations of the authors.
SECONDS, OMITTED_S = 10, 2
# Durations for a quick look.
QUICK_SECONDS, QUICK_OMITTED_S = 2, 1
USUAL_MTU, LARGEST_MTU = 1420, 8900


class Streams:
    """iperf3 between two hosts of a site, inside the tunnel or beside it on the link itself."""

    main, better, alone = "mbps", "more", False

    def __init__(self, name, title, streams=1, way="forward", ends=(0, 1), inside=True, hosts=2):
        self.name, self.title, self.streams, self.way, self.ends, self.inside, self.hosts = name, title, streams, way, ends, inside, hosts

    def lacking(self):
        # Root, TUN and namespaces are checked before the start; this checks for iperf3.
        return next((lack for lack in missing("iperf3") if "iperf3" in lack), None)

    def lengths(self, quick):
        """Returns (counted seconds, seconds at the start that are not counted)."""
        return (QUICK_SECONDS, QUICK_OMITTED_S) if quick else (SECONDS, OMITTED_S)

    def takes(self, quick, link):
        return sum(self.lengths(quick))

    def run(self, site, running, quick):
        tcp, omitted = self.lengths(quick)
        meter = Meter([site.hosts[end] for end in self.ends], running, Lengths(tcp=tcp, udp=1, idle=1, loaded=1, omitted=omitted))
        target = self.ends[1]
        meter.address = running.addresses[target] if self.inside else site.hosts[target].ipv4
        report = meter.tcp("-P", self.streams, *{"forward": (), "reverse": ("-R",), "both": ("--bidir",)}[self.way])
        return {key: report[key] for key in ("mbps", "ways_mbps", "retransmits", "congestion_control", "bytes")}


@dataclass(frozen=True)
class Scenario:
    """`systems()` returns additional systems, `names(known)` the systems that it runs; `works` is None for all works."""

    name: str
    about: str
    profiles: tuple = ("baseline",)
    works: tuple | None = None
    rounds: int = 5
    tuned: tuple = (False,)
    mtus: tuple = (None,)
    systems: callable = field(default=tuple)
    names: callable = field(default=lambda known: known.usual())

    def seconds(self, known, quick):
        """Returns the approximate duration of one round."""
        stage = plan.Stage(1, lambda: self.parts(known))
        return sum(plan.seconds(visit, known, quick) for visit in plan.visits(stage, known, 1))

    def parts(self, known):
        names = tuple(name for name in self.names(known) if name in known.systems)
        works = tuple(work.name for work in self.works) if self.works is not None else tuple(known.works)
        profiles = tuple(name for name in self.profiles if name in known.profiles)
        return [plan.Part(names, profiles, tuple(name for name in works if name in known.works), tuned=self.tuned, mtus=self.mtus)]


def _ways(streams):
    """Returns works for this number of streams: forward, reverse and both ways."""
    titles = {"forward": "one way", "reverse": "reverse", "both": "both ways"}
    count = "one stream" if streams == 1 else f"{streams} streams"
    return tuple(Streams(f"tcp-{streams}-{way}", f"TCP, {count}, {title}", streams, way) for way, title in titles.items())


def _tuning(streams):
    """Returns works forward and reverse, inside and beside the tunnel."""
    count = "one stream" if streams == 1 else f"{streams} streams"
    return tuple(
        Streams(f"tcp-{streams}-{way}-{'inside' if inside else 'outside'}", f"TCP, {count}, {way}, {'in the tunnel' if inside else 'beside the tunnel'}", streams, way, inside=inside)
        for inside in (True, False)
        for way in ("forward", "reverse")
    )


def lane_counts():
    """Returns 1, 2, 4, … up to the number of cores, at least two values."""
    counts, most = [1], max(2, os.cpu_count() or 1)
    while counts[-1] * 2 <= most:
        counts.append(counts[-1] * 2)
    return counts


def _lanes():
    """Returns Taut with each number of lanes, without those that `lab.nodes.systems` already has."""
    from ..nodes.systems import AES, FIELD, Network

    there = {system.name for system in FIELD}
    names = {count: f"taut-lanes-{count}" for count in lane_counts() if count > 1}
    return tuple(Network(name, f"Taut, AES-256-GCM, {count} lanes", AES, "--lanes", str(count), variant=True) for count, name in names.items() if name not in there)


ALL = (
    Scenario(
        "p2p-three-containers",
        "three nodes of one network, iperf3 for 10 s from the first to the second and to the third",
        works=tuple(Streams(f"tcp-1-to-{end + 1}", f"TCP from 1 to {end + 1}", ends=(0, end), hosts=3) for end in (1, 2)),
    ),
    Scenario(
        "multicore-ecmp",
        "one against several parallel lanes, 1, 2, 4, … up to the cores of this machine, with 1, 4 and 16 streams",
        works=tuple(Streams(f"tcp-{count}-forward", f"TCP, {count} {'stream' if count == 1 else 'streams'}", count) for count in (1, 4, 16)),
        systems=_lanes,
        names=lambda known: (plan.BARE, plan.TAUT, *(f"taut-lanes-{count}" for count in lane_counts())),
    ),
    Scenario(
        "jumbo-threads",
        f"an MTU inside of {USUAL_MTU:,} and of {LARGEST_MTU:,} on a link of 9,000 bytes, 1 and 8 streams, each way and both",
        profiles=("jumbo",),
        works=(*_ways(1), *_ways(8)),
        mtus=(USUAL_MTU, LARGEST_MTU),
    ),
    Scenario("tuning-single", "one stream, forward and reverse, in the tunnel and beside it, usual hosts and tuned ones", works=_tuning(1), tuned=(False, True)),
    Scenario("tuning-many", "ten streams, forward and reverse, in the tunnel and beside it, usual hosts and tuned ones", works=_tuning(10), tuned=(False, True)),
    Scenario("mesh-ten", "every system on the four main links with every kind of work", profiles=plan.MAIN_PROFILES, rounds=3),
)
