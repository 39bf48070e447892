"""The packet rate that linkbox carries, in both directions at once on one core (`make bench-link`).

    python3 -m lab.runs.linkspeed [--profile NAME | --link WORDS] [--bytes N] [--rates PER_SECOND,…] [--seconds S] [--json] [--output FILE] [--document FILE]

Two ends of a link in one namespace, linkbox between them in another. `pour` (proof/linkbox/examples) sends raw frames into both ends at an even rate, and
more each time, until linkbox misses some. linkbox has the first core, including the kernel work for what it sends; the sender has the second core, with
the kernel work for what linkbox receives. Prints a table; --document puts it into a page.
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
from ..measure import markdown
from ..measure import machine

SCHEMA = 1
OUT = ROOT / "target" / "bench"
BEGIN, END = "<!-- made by make bench-link: begin -->", "<!-- made by make bench-link: end -->"
# Packets per second and direction. The target of linkbox is 150,000.
RATES = (10_000, 25_000, 50_000, 75_000, 100_000, 125_000, 150_000, 175_000, 200_000, 250_000, 300_000)
# Size of the longest Ethernet frame in bytes, so that copying counts too.
BYTES = 1514
ETHERNET = 14
EMULATOR_CORE, SENDER_CORE = 0, 1
ENDS = ("left", "right")
# Without IPv6 the kernel sends no packets of its own.
_SETTINGS = ("net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
# Share of the requested rate that the sender must send, and of the expected packets that must come out.
_WHOLE = 0.99
_SPARE_S = 30


@dataclass
class Row:
    """One rate. Counts are sums of both directions, rates are means of the two."""

    asked_pps: int
    # Sent by the sender, and sent by linkbox.
    offered_pps: float
    passed_pps: float
    # Share lost of the received packets, and the configured share.
    lost: float
    # Missed by linkbox according to its own report; refused by the other end; and neither counted nor seen.
    missed: int
    refused: int
    vanished: int
    lateness_p50_us: float
    lateness_p99_us: float
    lateness_max_us: float
    # Share of its core, and frames per wake-up.
    load: float
    frames_per_turn: float
    doubts: list

    @property
    def offered(self):
        """Returns true if the sender reached the rate."""
        return self.offered_pps >= _WHOLE * self.asked_pps

    @property
    def carried(self):
        """Returns true if linkbox carried everything, on time or late."""
        return self.offered and not (self.missed or self.refused or self.vanished)

    @property
    def late(self):
        """Returns true if more packets left late than linkbox itself tolerates."""
        return any("late" in doubt for doubt in self.doubts)


def lay_out(lab, mtu):
    """Makes (ends, wire): the namespace of the two ends, and the namespace between them."""
    ends, wire = Namespace(lab, "ends", _SETTINGS), Namespace(lab, "wire", _SETTINGS)
    for end in ENDS:
        wire.ip(f"link add {end}.w mtu {mtu} type veth peer name {end} mtu {mtu} netns {ends.namespace}", f"link set {end}.w up")
        ends.ip(f"link set {end} up")
    wire.prefix, ends.prefix = (["taskset", "-c", str(core)] for core in (EMULATOR_CORE, SENDER_CORE))
    return ends, wire


def pour_frames(ends, wire, words, rate, length, seconds):
    """Sends `rate` frames of `length` bytes per second into each end; returns a row."""
    emulator = Emulator(wire, *(f"{end}.w" for end in ENDS), "--first", "--both", words, "--seed", 1, name=f"linkbox-{rate}")
    try:
        emulator.report()
        done = ends.run(binary("examples/pour"), rate, length, seconds, *ENDS, timeout=seconds + _SPARE_S)
        return row(rate, json.loads(done.stdout), emulator.report())
    finally:
        emulator.process.stop()


def row(rate, poured, report):
    """Makes a row from the reports of sender and emulator."""
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


def climb(lab, words, rates, length, seconds, print_line=lambda row: None):
    """Returns rows of rising rates, up to the first one that was too much for linkbox or the sender."""
    ends, wire = lay_out(lab, length - ETHERNET)
    rows = []
    for rate in rates:
        rows.append(pour_frames(ends, wire, words, rate, length, seconds))
        print_line(rows[-1])
        if not rows[-1].carried:
            break
    return rows


def ceiling(rows):
    """Returns the highest carried rate, per second and direction."""
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
    return markdown.table(head, cells)


def verdict(row):
    """Returns the verdict in a few words."""
    if not row.offered:
        return "the sender was too slow"
    if not row.carried:
        return "too much"
    return "carried, some late" if row.late else "carried"


def text(result):
    """Returns the part of the page."""
    facts, rows = result["machine"], [Row(**one) for one in result["rows"]]
    return (
        f"**{result['ceiling_pps']:,} packets a second each way, both ways at once**, of {result['bytes']} bytes with their Ethernet headers, over `{result['link']}`; "
        f"{result['seconds']:g} s each, on {facts['cores']} cores of {facts['cpu']}, Linux {facts['kernel']}.\n\n{table(rows)}"
    )


def arguments():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.linkspeed", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--profile", default="low", help="profile of the link (default low)")
    parser.add_argument("--link", help="another link, as arguments of linkbox")
    parser.add_argument("--bytes", type=int, default=BYTES, help=f"size of a frame with its Ethernet header ({BYTES})")
    parser.add_argument("--rates", help="packets per second and direction, rising, separated by commas")
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of each rate (5)")
    parser.add_argument("--json", action="store_true", help="print JSON to standard output, everything else to standard error")
    parser.add_argument("--output", type=Path, default=OUT / "linkspeed.json", help="write JSON to this file")
    parser.add_argument("--document", type=Path, help="put the table into this page")
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
            rows = climb(lab, words, rates, args.bytes, args.seconds, print_line=lambda row: print(f"linkspeed: {asdict(row)}", file=sys.stderr, flush=True))
    except (LabError, ValueError) as error:
        print(f"linkspeed: {error}", file=sys.stderr)
        return 1
    result = {"schema": SCHEMA, "machine": facts, "link": words, "bytes": args.bytes, "seconds": args.seconds, "ceiling_pps": ceiling(rows), "rows": [asdict(row) for row in rows]}
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1) if args.json else f"\n{text(result)}\n")
    if args.document:
        args.document.write_text(page.placed(args.document.read_text(), text(result), BEGIN, END))
    return 0


if __name__ == "__main__":
    sys.exit(main())
