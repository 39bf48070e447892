"""An estimate of the throughput of several lanes on a machine with more cores: arithmetic from measured costs, not a measurement.

    python3 -m lab.compare.tunnel.model [FILE] [--cores N]

FILE is written by `lab.compare.tunnel.command`, target/bench/tunnel.json by default; it needs `taut-lanes-2`. The table is a part of docs/performance.md.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from ...measure.markdown import table
from . import summary
from .plan import USUAL_MTU

CORES = 8
LANES = (1, 2, 4, 6, 8)
FLOWS = (4, 16, 64)
SYSTEM, TEST = "taut-lanes-2", "tcp-4"
# Modes in order of preference. When pinned, no host works on the core of the other, and nothing waits for a core that is busy with something else.
PREFERRED = ("pinned", "free")


@dataclass(frozen=True)
class Costs:
    """Seconds of one core per GB: of sending lanes, of receiving lanes, and of everything else on one host. `mode` is their origin."""

    sending: float
    receiving: float
    rest: float
    mode: str = ""

    @property
    def lane(self):
        """Cost of the busier end: the other one waits for it."""
        return max(self.sending, self.receiving)


def costs(results):
    """Returns the costs of four streams over two lanes, medians of the rounds; None if not measured."""
    for mode in PREFERRED:
        figures = [results.figure(SYSTEM, mode, USUAL_MTU, TEST, pick) for pick in (_tunnel(0), _tunnel(1), _rest)]
        if all(figures):
            return Costs(*(figure.median for figure in figures), mode)
    return None


def _tunnel(end):
    return lambda figures, _: figures["cpu"]["tunnel_s"][end] / (figures["bytes"] / 1e9)


def _rest(figures, run):
    """Returns the rest per host: half of the machine without the programs of the tunnel."""
    return (summary.machine_cpu(figures, run) - summary.tunnel_cpu(figures, run)) / 2


def busy(lanes, flows):
    """Returns the mean number of `lanes` with at least one flow, if each of `flows` is on any lane with equal chance."""
    return lanes * (1 - (1 - 1 / lanes) ** flows)


def gbit_per_s(cost, lanes, cores=CORES, flows=None):
    """Returns the throughput of one host: limited by its lanes, and by all cores with everything else that the packets need."""
    working = lanes if flows is None else busy(lanes, flows)
    return 8 * min(working / cost.lane, cores / (cost.lane + cost.rest))


def text(results, cores=CORES):
    """Returns the section of the document; None without the measurements that it needs."""
    cost = costs(results)
    if cost is None:
        return None
    head = ["lanes", "any number of flows", *(f"{flows} flows, on average" for flows in FLOWS)]
    rows = [[str(lanes), *(f"{gbit_per_s(cost, lanes, cores, flows):.1f}" for flows in (None, *FLOWS))] for lanes in LANES]
    return f"""### A model of {cores} cores: arithmetic, not a measurement

These figures are calculated, not measured, because the machine has fewer cores. The cost of a GB is measured ({SYSTEM}, {TEST}, {cost.mode}): *s* = {cost.sending:.2f} s of a core in the lanes that
send, *r* = {cost.receiving:.2f} s in those that receive, *e* = {cost.rest:.2f} s per host for everything else (iperf3, the kernel's work outside the tunnel's system calls).
Lanes share no lock, no counter and no packet, so in the model a lane costs the same whatever the number of lanes. With *c* the larger of *s* and *r*:

- one lane with a core of its own carries 8 / *c* = {8 / cost.lane:.1f} Gbit/s in one direction, *n* lanes *n* times as much;
- all {cores} cores together carry {cores} · 8 / (*c* + *e*) = {8 * cores / (cost.lane + cost.rest):.1f} Gbit/s, whatever the number of lanes: the smaller of the two is in the table;
- a flow is on one lane, so *f* flows keep *n* · (1 − (1 − 1/*n*)^*f*) of *n* lanes busy on average, and one flow never gets more than one lane.

Gbit/s of one direction, one host of {cores} such cores at each end:

{table(head, rows)}

The model leaves out memory and caches that cores share, clocks that slow down when all cores are busy, and the network card and its interrupts. Each reduces the throughput."""


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab.compare.tunnel.model", description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=Path("target/bench/tunnel.json"))
    parser.add_argument("--cores", type=int, default=CORES, help=f"of one host (default {CORES})")
    args = parser.parse_args()
    if not args.file.exists():
        raise SystemExit(f"model: there is no {args.file} yet: make bench-tunnel ARGS='--only taut-aes,{SYSTEM}'")
    section = text(summary.Results(json.loads(args.file.read_text(encoding="utf-8"))["runs"]), args.cores)
    if section is None:
        raise SystemExit(f"model: {args.file} has no run of {SYSTEM}: make bench-tunnel ARGS='--only taut-aes,{SYSTEM}'")
    print(section)


if __name__ == "__main__":
    main()
