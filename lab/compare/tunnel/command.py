"""Taut beside other tunnels: throughput, loss, latency, CPU time and memory, interleaved (`make bench-tunnel`).

    python3 -m lab.compare.tunnel.command [--quick] [--rounds N] [--seed N] [--only NAME,NAME] [--modes free,pinned] [--mtus 1420,8900]
                                [--minutes N] [--resume] [--document FILE]
    python3 -m lab.compare.tunnel.command --tables FILE [--document FILE]

Two hosts in network namespaces, one system between them at a time. Writes target/bench/tunnel.json (docs/performance.md describes it) after every
configuration and, with --document, the tables into that file at the end. --minutes stops earlier; --resume continues with the same other arguments, and
repeats disturbed measurements. --tables makes the tables again from a file. A system that is unavailable or fails is named there and stops nothing. Exit
status 1 if nothing was measured.
"""

import argparse
import dataclasses
import json
import signal
import sys
import time
from pathlib import Path

from ...hosts import congestion, needs
from ...hosts.net import Lab
from ...hosts.programs import ROOT
from ...hosts.wait import LabError
from ...measure import machine
from ...measure.clock import Clock
from ...measure.cpu import DISTURBED, calm, foreign
from ...nodes.systems import ALL
from ...nodes.systems.base import mtu_of
from .. import results, rows
from . import goals, page, plan, site
from .measure import Meter
from .summary import Results

SCHEMA = 1
OUT = ROOT / "target" / "bench"
FILE = OUT / "tunnel.json"
# Keys that must be equal to resume a run.
SAME = ("schema", "seed", "rounds", "modes", "lengths", "machine", "systems")
# Attempts at a test that other programs disturb, and the wait for a calm machine in seconds.
TRIES, CALM_S = 3, 30
# Failed starts after which a system is not tried again.
GIVE_UP = 2
# Errors of a system, a program or the kernel that end one run and not the others.
FAILURES = (LabError, OSError, ValueError, KeyError, IndexError)


class Bench:
    """One run of everything."""

    def __init__(self, systems, effort, modes, seed, tries=TRIES):
        self.effort, self.modes, self.seed, self.tries = effort, modes, seed, tries
        self.systems = {system.name: system for system in systems}
        self.lacking = {system.name: system.lacking() for system in systems}
        self.runs, self.sittings = [], 1
        self.congestion, self.offloads = "unknown", "unknown"

    def run(self, cubic, print_line, keep=lambda: None, minutes=None):
        """Runs all missing configurations, or those that can begin within `minutes`; calls `keep()` after each. Returns True if all have run."""
        order = self.missing()
        clock = Clock([self.effort.seconds(one) for one in order])
        for number, configuration in enumerate(order):
            if minutes is not None and clock.minutes() > minutes:
                return False
            print_line(f"{clock.left(number)} left: round {configuration.round}, {configuration.mode}, {configuration.system}, MTU {configuration.mtu}")
            self.runs.append(self.measure(configuration, cubic, print_line))
            keep()
        return True

    def missing(self):
        """Returns the configurations without a run, in order."""
        able = [name for name, why in self.lacking.items() if not why]
        done = {(run["round"], run["mode"], run["system"], run["mtu"]) for run in self.runs}
        variants = [name for name in able if self.systems[name].variant]
        every_mtu = [name for name in variants if self.systems[name].every_mtu]
        order = plan.shuffled(able, self.effort, self.modes, self.seed, variants, every_mtu)
        return [one for one in order if (one.round, one.mode, one.system, one.mtu) not in done]

    def resume(self, content):
        """Continues where `content` (that of tunnel.json) ended, and repeats disturbed configurations. Raises `LabError` if that was a different
        run."""
        results.check_resumable(content, self.result(content["quick"]), SAME)
        self.sittings = content["sittings"] + 1
        self.congestion, self.offloads = content["congestion_control"], content["offloads"]
        self.runs = [run for run in content["runs"] if not any(figures.get("disturbed") for figures in run["tests"].values())]

    def measure(self, configuration, cubic, print_line):
        """Starts the system, measures, ends it. Failures are recorded in the row."""
        row = dataclasses.asdict(configuration) | {"error": None, "tests": {}, "memory_kib": {"idle": [0, 0], "peak": [0, 0]}}
        before = [run for run in self.runs if run["system"] == configuration.system and run["error"]]
        if len(before) >= GIVE_UP:
            return row | {"error": f"not tried again: {before[0]['error']}"}
        try:
            with Lab(OUT / "logs") as lab:
                self._measure(lab, configuration, cubic, row, print_line)
                lab.failed = any("error" in figures for figures in row["tests"].values())
        except FAILURES as error:
            row["error"] = rows.error_text(error)
            print_line(f"  failed: {row['error'].splitlines()[0]}")
        return row

    def _measure(self, lab, configuration, cubic, row, print_line):
        place = site.lay_out(lab, configuration.mtu, configuration.mode == "pinned", cubic)
        self.congestion, self.offloads = place.congestion, machine.offloads(place.hosts[0])
        start = time.monotonic()
        running = self.systems[configuration.system].start(place.hosts, place.helper, configuration.mtu)
        meter = Meter(place.hosts, running, self.effort.lengths)
        row["started_after_s"] = round(time.monotonic() - start, 2)
        row["interface_mtu"] = mtu_of(place.hosts[0], running.interface)
        row["udp_buffers"] = machine.socket_buffers(place.hosts[0])
        row["memory_kib"]["idle"] = running.memory_kib("VmRSS")
        meter.warm_up()
        for test in plan.tests_in_order(configuration, self.seed):
            row["tests"][test] = self._test(meter, test, print_line)
        row["memory_kib"]["peak"] = running.memory_kib("VmHWM")
        row["facts"] = running.facts()
        running.stop()

    def _test(self, meter, test, print_line):
        """Makes one test, and repeats it if other programs used the machine meanwhile."""

        def measure(attempt):
            try:
                figures = meter.run(test)
            except FAILURES as error:
                figures = {"error": rows.error_text(error)}
            figures["attempts"] = attempt
            if "cpu" in figures:
                figures["disturbed"] = foreign(figures["cpu"]) > DISTURBED
            print_line(f"  {test:<14} {outline(figures)}")
            return figures, figures.get("disturbed", False)

        return rows.attempts(measure, self.tries, lambda: calm(CALM_S))

    def result(self, quick):
        """Returns the content of tunnel.json."""
        return {
            "schema": SCHEMA,
            "made": results.time_made(),
            "quick": quick,
            "sittings": self.sittings,
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


def outline(figures):
    """Returns a test in a few words."""
    if "error" in figures:
        return f"failed: {figures['error'].splitlines()[0]}"
    words = [f"{figures['mbps']:.0f} Mbit/s"] if "mbps" in figures else []
    words += [f"{figures['lost_percent']:.2f} % lost"] if "lost_percent" in figures else []
    words += [f"{figures['retransmits']} retransmits"] if "retransmits" in figures else []
    words += [f"{sorted(figures['ms'])[len(figures['ms']) // 2]:.3f} ms"] if "ms" in figures else []
    words += [f"disturbed: others took {100 * foreign(figures['cpu']):.0f} % of the machine"] if figures.get("disturbed") else []
    return ", ".join(words)


def arguments():
    parser = argparse.ArgumentParser(prog="python3 -m lab.compare.tunnel.command", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a quick look of eleven minutes")
    parser.add_argument("--rounds", type=int, help="number of rounds")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order of the configurations (default 1)")
    parser.add_argument("--only", help="names of systems, separated by commas")
    parser.add_argument("--modes", default=",".join(plan.MODES), help="free, pinned or both (default)")
    parser.add_argument("--mtus", help="of " + ", ".join(map(str, site.LINKS)))
    parser.add_argument("--minutes", type=float, help="start nothing after this time")
    parser.add_argument("--resume", action="store_true", help="continue target/bench/tunnel.json")
    parser.add_argument("--tables", type=Path, help="measure nothing; make the tables from this file")
    parser.add_argument("--document", type=Path, help="put the tables into this file")
    return parser.parse_args()


def effort(args):
    chosen = plan.QUICK if args.quick else plan.FULL
    if args.rounds:
        chosen = dataclasses.replace(chosen, rounds=args.rounds)
    if args.mtus:
        chosen = dataclasses.replace(chosen, mtus=tuple(int(mtu) for mtu in args.mtus.split(",")))
    return chosen


def print_line(text):
    print(f"bench: {text}", flush=True)


def main():
    args = arguments()
    if args.tables:
        return show(json.loads(args.tables.read_text()), args.document)
    lacks = needs.missing("iperf3", "wg", "taskset", "ss")
    for lack in lacks:
        print(f"bench: {lack}", file=sys.stderr)
    if lacks:
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = [system for system in ALL if (system.name in args.only.split(",") if args.only else not (args.quick and system.only_full))]
    bench = Bench(chosen, effort(args), args.modes.split(","), args.seed)
    for name, why in bench.lacking.items():
        if why:
            print_line(f"left out: {name}: {why}")

    def keep():
        results.save(FILE, bench.result(args.quick))

    try:
        if args.resume and FILE.exists():
            bench.resume(json.loads(FILE.read_text()))
        with congestion.allowed("cubic") as cubic:
            whole = bench.run(cubic, print_line, keep, args.minutes)
    except LabError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted; --resume goes on", file=sys.stderr)
        return 130
    print_line("all is measured" if whole else f"{len(bench.missing())} configurations are left: --resume goes on")
    keep()
    print_line(f"written: {FILE.relative_to(ROOT)}")
    return show(bench.result(args.quick), args.document if whole else None)


def show(content, document):
    """Prints the tables and puts them into the document; exit status 1 if they are empty."""
    tables = page.text(content)
    print(f"\n{tables}\n", flush=True)
    if document:
        document.write_text(page.placed(document.read_text(), tables))
    return 0 if any("error" not in figures for run in content["runs"] for figures in run["tests"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
