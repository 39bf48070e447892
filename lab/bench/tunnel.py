"""Taut beside other tunnels: throughput, loss, latency, processor time and memory, interleaved (`make bench-tunnel`).

    python3 -m lab.bench.tunnel [--quick] [--rounds N] [--seed N] [--only NAME,NAME] [--modes free,pinned] [--mtus 1420,8900] [--document FILE]

Two hosts in network namespaces, one system between them at a time. Writes target/bench/tunnel.json (docs/performance.md describes it) and, with
--document, the tables into that file. A system that cannot be had or fails is named there and stops nothing. Exit code 1 when nothing was measured.
"""

import argparse
import dataclasses
import datetime
import json
import signal
import sys
import time
from pathlib import Path

from .. import congestion, needs
from ..net import Lab
from ..systems import ALL
from ..taut import ROOT
from ..wait import LabError
from . import goals, machine, page, plan, site
from .measure import Meter
from .summary import Results

SCHEMA = 1
OUT = ROOT / "target" / "bench"
# A system that did not come up this often is not tried again.
GIVE_UP = 2
# What a system, a program or the kernel may do to us without ending the others' runs.
FAILURES = (LabError, OSError, ValueError, KeyError, IndexError)


class Bench:
    """One run of everything."""

    def __init__(self, systems, effort, modes, seed):
        self.effort, self.modes, self.seed = effort, modes, seed
        self.systems = {system.name: system for system in systems}
        self.lacking = {system.name: system.lacking() for system in systems}
        self.runs, self.told = [], {}
        self.congestion, self.offloads = "unknown", "unknown"

    def run(self, cubic, say):
        able = [name for name, why in self.lacking.items() if not why]
        order = plan.shuffled(able, self.effort, self.modes, self.seed)
        clock = Clock([self.effort.seconds(one) for one in order])
        for number, configuration in enumerate(order):
            say(f"{clock.left(number)} left: round {configuration.round}, {configuration.mode}, {configuration.system}, MTU {configuration.mtu}")
            self.runs.append(self.measure(configuration, cubic, say))
        return self

    def measure(self, configuration, cubic, say):
        """Starts the system, measures, ends it. What fails is in the row."""
        row = dataclasses.asdict(configuration) | {"error": None, "tests": {}, "memory_kib": {"idle": [0, 0], "peak": [0, 0]}}
        before = [run for run in self.runs if run["system"] == configuration.system and run["error"]]
        if len(before) >= GIVE_UP:
            return row | {"error": f"not tried again: {before[0]['error']}"}
        try:
            with Lab(OUT / "logs") as lab:
                self._measure(lab, configuration, cubic, row, say)
                lab.failed = any("error" in figures for figures in row["tests"].values())
        except FAILURES as error:
            row["error"] = _told(error)
            say(f"  failed: {row['error'].splitlines()[0]}")
        return row

    def _measure(self, lab, configuration, cubic, row, say):
        place = site.lay_out(lab, configuration.mtu, configuration.mode == "pinned", cubic)
        self.congestion, self.offloads = place.congestion, machine.offloads(place.hosts[0])
        start = time.monotonic()
        running = self.systems[configuration.system].start(place.hosts, place.helper, configuration.mtu)
        meter = Meter(place.hosts, running, self.effort.lengths)
        row["started_after_s"] = round(time.monotonic() - start, 2)
        row["interface_mtu"] = site.mtu_of(place.hosts[0], running.interface)
        row["udp_buffers"] = machine.socket_buffers(place.hosts[0])
        row["memory_kib"]["idle"] = meter.memory("VmRSS")
        meter.warm_up()
        for test in plan.tests_in_order(configuration, self.seed):
            row["tests"][test] = figures = self._test(meter, test)
            say(f"  {test:<14} {outline(figures)}")
        row["memory_kib"]["peak"] = meter.memory("VmHWM")
        row["facts"] = running.facts()
        running.stop()

    def _test(self, meter, test):
        try:
            return meter.run(test)
        except FAILURES as error:
            return {"error": _told(error)}

    def result(self, quick):
        """What tunnel.json holds."""
        return {
            "schema": SCHEMA,
            "made": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "quick": quick,
            "seed": self.seed,
            "rounds": self.effort.rounds,
            "modes": list(self.modes),
            "lengths": dataclasses.asdict(self.effort.lengths),
            "machine": machine.facts(),
            "congestion_control": self.congestion,
            "offloads": self.offloads,
            "systems": {
                name: {"title": system.title, "version": None if self.lacking[name] else system.version(), "lacking": self.lacking[name]}
                for name, system in self.systems.items()
            },
            "verdicts": goals.judge(Results(self.runs), self.lacking),
            "runs": self.runs,
        }


class Clock:
    """How long it will still take: the plan, corrected by how long it really took so far."""

    def __init__(self, planned):
        self.planned, self.start = planned, time.monotonic()

    def left(self, done):
        """In minutes, as text, when `done` parts are over."""
        behind = sum(self.planned[:done])
        pace = (time.monotonic() - self.start) / behind if behind else 1.0
        return f"{pace * sum(self.planned[done:]) / 60:.1f} min"


def outline(figures):
    """A test in a few words."""
    if "error" in figures:
        return f"failed: {figures['error'].splitlines()[0]}"
    words = [f"{figures['mbps']:.0f} Mbit/s"] if "mbps" in figures else []
    words += [f"{figures['lost_percent']:.2f} % lost"] if "lost_percent" in figures else []
    words += [f"{figures['retransmits']} retransmits"] if "retransmits" in figures else []
    words += [f"{sorted(figures['ms'])[len(figures['ms']) // 2]:.3f} ms"] if "ms" in figures else []
    return ", ".join(words)


def _told(error):
    return f"{type(error).__name__}: {error}" if not isinstance(error, LabError) else str(error)


def arguments():
    parser = argparse.ArgumentParser(prog="python3 -m lab.bench.tunnel", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="about ten minutes, for a look")
    parser.add_argument("--rounds", type=int, help="how often each configuration is run")
    parser.add_argument("--seed", type=int, default=1, help="order of the configurations (default 1)")
    parser.add_argument("--only", help="systems, by name, separated by commas")
    parser.add_argument("--modes", default=",".join(plan.MODES), help="free, pinned or both (default)")
    parser.add_argument("--mtus", help="of " + ", ".join(map(str, site.LINKS)))
    parser.add_argument("--document", type=Path, help="put the tables into this file")
    return parser.parse_args()


def effort(args):
    chosen = plan.QUICK if args.quick else plan.FULL
    if args.rounds:
        chosen = dataclasses.replace(chosen, rounds=args.rounds)
    if args.mtus:
        chosen = dataclasses.replace(chosen, mtus=tuple(int(mtu) for mtu in args.mtus.split(",")))
    return chosen


def say(text):
    print(f"bench: {text}", flush=True)


def main():
    args = arguments()
    lacks = needs.missing("iperf3", "wg", "taskset", "ss")
    for lack in lacks:
        print(f"bench: {lack}", file=sys.stderr)
    if lacks:
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = [system for system in ALL if not args.only or system.name in args.only.split(",")]
    bench = Bench(chosen, effort(args), args.modes.split(","), args.seed)
    for name, why in bench.lacking.items():
        if why:
            say(f"left out: {name}: {why}")
    with congestion.allowed("cubic") as cubic:
        bench.run(cubic, say)
    told = bench.result(args.quick)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "tunnel.json").write_text(json.dumps(told, indent=1) + "\n")
    tables = page.text(told)
    print(f"\n{tables}\n\nwritten: {(OUT / 'tunnel.json').relative_to(ROOT)}", flush=True)
    if args.document:
        args.document.write_text(page.placed(args.document.read_text(), tables))
    return 0 if any("error" not in figures for run in bench.runs for figures in run["tests"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
