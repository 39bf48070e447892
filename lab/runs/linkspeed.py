"""How many packets linkbox takes, both ways at once and on one core (`make bench-link`).

    python3 -m lab.runs.linkspeed [--profile NAME | --link WORDS] [--bytes N] [--rates PER_SECOND,…] [--seconds S] [--json] [--output FILE] [--document FILE]

Two ends of a link in a namespace, linkbox between them in another; `pour` (proof/linkbox/examples) sends raw frames into both ends, evenly and more
of them each time, until linkbox misses some. linkbox has the first core to itself, its kernel work for what it
sends included; the sender has the second one, with the kernel's work for what linkbox receives. Prints a table; --document puts it into a page.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from ..compare.tunnel import page
from ..hosts import needs, profiles
from ..hosts.cable import Emulator
from ..hosts.namespace import Namespace
from ..hosts.net import Lab
from ..hosts.programs import ROOT, binary
from ..hosts.wait import LabError
from ..measure import machine

SCHEMA = 1
OUT = ROOT / "target" / "bench"
BEGIN, END = "<!-- made by make bench-link: begin -->", "<!-- made by make bench-link: end -->"
# Packets per second and direction. linkbox is to carry 150,000 of them.
RATES = (10_000, 25_000, 50_000, 75_000, 100_000, 125_000, 150_000, 175_000, 200_000, 250_000, 300_000)
# Of the longest Ethernet frame: bytes have to be copied, too.
BYTES = 1514
ETHERNET = 14
EMULATOR_CORE, SENDER_CORE = 0, 1
ENDS = ("left", "right")
# Nobody answers by itself.
_SETTINGS = ("net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
# The sender kept up, and what should have come out did: both to a hundredth.
_WHOLE = 0.99
_SPARE_S = 30


@dataclass
class Row:
    """One rate; counts of both directions together, rates of one of them on average."""

    asked_pps: int
    # By the sender, and out of linkbox.
    offered_pps: float
    passed_pps: float
    # As share of what it received, and as asked for.
    lost: float
    # Not seen by linkbox, as it says itself; not taken by the other end; neither counted nor seen by anybody.
    missed: int
    refused: int
    vanished: int
    lateness_p50_us: float
    lateness_p99_us: float
    lateness_max_us: float
    # Share of its core, and frames that it took and sent each time it woke.
    load: float
    frames_per_turn: float
    doubts: list

    @property
    def offered(self):
        """Whether the sender managed."""
        return self.offered_pps >= _WHOLE * self.asked_pps

    @property
    def carried(self):
        """Whether linkbox did: all that it was sent, sooner or later."""
        return self.offered and not (self.missed or self.refused or self.vanished)

    @property
    def late(self):
        """Whether more of it left late than linkbox itself lets pass."""
        return any("late" in doubt for doubt in self.doubts)


def lay_out(lab, mtu):
    """(ends, wire): namespaces of the two ends, and of what lies between them."""
    ends, wire = Namespace(lab, "ends", _SETTINGS), Namespace(lab, "wire", _SETTINGS)
    for end in ENDS:
        wire.ip(f"link add {end}.w mtu {mtu} type veth peer name {end} mtu {mtu} netns {ends.namespace}", f"link set {end}.w up")
        ends.ip(f"link set {end} up")
    wire.prefix, ends.prefix = (["taskset", "-c", str(core)] for core in (EMULATOR_CORE, SENDER_CORE))
    return ends, wire


def strike(ends, wire, words, rate, length, seconds):
    """So many frames of so many bytes a second into each end; a row."""
    emulator = Emulator(wire, *(f"{end}.w" for end in ENDS), "--first", "--both", words, "--seed", 1, name=f"linkbox-{rate}")
    try:
        emulator.report()
        done = ends.run(binary("examples/pour"), rate, length, seconds, *ENDS, timeout=seconds + _SPARE_S)
        return row(rate, json.loads(done.stdout), emulator.report())
    finally:
        emulator.process.stop()


def row(rate, poured, report):
    """What sender and emulator say, as a row."""
    ways = [report["to_right"], report["to_left"]]
    sent = [poured["interfaces"][end]["sent"] for end in ENDS]

    def total(key):
        return sum(way["counts"][key] for way in ways)

    def latest(key):
        return round(max(way["lateness_us"][key] for way in ways), 1)

    per_second = 1 / poured["seconds"] / len(ways)
    return Row(
        asked_pps=rate,
        offered_pps=round(sum(sent) * per_second, 1),
        passed_pps=round(total("sent") * per_second, 1),
        lost=round(total("lost") / max(1, total("received")), 5),
        missed=total("missed"),
        refused=total("refused") + sum(one["refused"] for one in poured["interfaces"].values()),
        vanished=max(0, sum(sent) - total("received") - total("missed") - total("oversize") - total("unfinished")),
        lateness_p50_us=latest("p50"),
        lateness_p99_us=latest("p99"),
        lateness_max_us=latest("max"),
        load=round(report["load"]["mean"] * report["seconds"] / poured["seconds"], 3),
        frames_per_turn=round((total("received") + total("sent")) / max(1, report["load"]["turns"]), 1),
        doubts=report["doubts"],
    )


def climb(lab, words, rates, length, seconds, say=lambda row: None):
    """Rows, with more and more frames up to the first that was too much for linkbox or for the sender."""
    ends, wire = lay_out(lab, length - ETHERNET)
    rows = []
    for rate in rates:
        rows.append(strike(ends, wire, words, rate, length, seconds))
        say(rows[-1])
        if not rows[-1].carried:
            break
    return rows


def ceiling(rows):
    """The most that was carried, per second and direction."""
    return max((round(row.offered_pps) for row in rows if row.carried), default=0)


def table(rows):
    head = ["asked, packets/s each way", "sent in", "came out", "lost by draw, %", "missed", "late, µs: p50", "p99", "load of its core, %", "frames per turn", ""]
    cells = [
        [
            f"{row.asked_pps:,}",
            f"{row.offered_pps:,.0f}",
            f"{row.passed_pps:,.0f}",
            f"{100 * row.lost:.2f}",
            f"{row.missed + row.vanished + row.refused:,}",
            f"{row.lateness_p50_us:,.0f}",
            f"{row.lateness_p99_us:,.0f}",
            f"{100 * row.load:.0f}",
            f"{row.frames_per_turn:.1f}",
            verdict(row),
        ]
        for row in rows
    ]
    return page.table(head, cells)


def verdict(row):
    """In a word or two."""
    if not row.offered:
        return "the sender was too slow"
    if not row.carried:
        return "too much"
    return "carried, some late" if row.late else "carried"


def text(told):
    """The part of the page."""
    facts, rows = told["machine"], [Row(**one) for one in told["rows"]]
    return (
        f"**{told['ceiling_pps']:,} packets a second each way, both ways at once**, of {told['bytes']} bytes with their Ethernet headers, over `{told['link']}`; "
        f"{told['seconds']:g} s each, on {facts['cores']} cores of {facts['cpu']}, Linux {facts['kernel']}.\n\n{table(rows)}"
    )


def arguments():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.linkspeed", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--profile", default="low", help="the link of this name (low)")
    parser.add_argument("--link", help="another one, in linkbox's words")
    parser.add_argument("--bytes", type=int, default=BYTES, help=f"of a frame with its Ethernet header ({BYTES})")
    parser.add_argument("--rates", help="packets a second and direction, rising, with commas between them")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each rate (5)")
    parser.add_argument("--json", action="store_true", help="the figures on standard output, all else on standard error")
    parser.add_argument("--output", type=Path, default=OUT / "linkspeed.json", help="where the figures go")
    parser.add_argument("--document", type=Path, help="a page with a place for the table")
    return parser.parse_args()


def main():
    args = arguments()
    lacks = needs.missing("taskset")
    try:
        words = args.link if args.link is not None else profiles.chosen([args.profile])[0].words("right")
        rates = [int(rate) for rate in args.rates.split(",")] if args.rates else RATES
        facts = machine.facts()
        lacks += ["two cores are needed: one for linkbox, one for the sender"] if facts["cores"] < 2 else []
        if lacks:
            raise LabError("; ".join(lacks))
        with Lab(ROOT / "target" / "lab" / "linkspeed") as lab:
            rows = climb(lab, words, rates, args.bytes, args.seconds, say=lambda row: print(f"linkspeed: {asdict(row)}", file=sys.stderr, flush=True))
    except (LabError, ValueError) as error:
        print(f"linkspeed: {error}", file=sys.stderr)
        return 1
    told = {"schema": SCHEMA, "machine": facts, "link": words, "bytes": args.bytes, "seconds": args.seconds, "ceiling_pps": ceiling(rows), "rows": [asdict(row) for row in rows]}
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told, indent=1) if args.json else f"\n{text(told)}\n")
    if args.document:
        args.document.write_text(page.placed(args.document.read_text(), text(told), BEGIN, END))
    return 0


if __name__ == "__main__":
    sys.exit(main())
