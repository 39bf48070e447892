"""Random faults: cables, routes, tables and addresses of NATs, relays and the coordinator go away and come back during long transfers.

    python3 -m lab.runs.flap [--minutes N] [--seed N] [--json]

Four nodes behind four kinds of NAT, two relays, a TCP transfer between every two nodes. The seed determines all faults, their times and durations: `plan`
returns them before anything runs. At the end all faults are reverted: every pair that can be direct must be direct within a minute, and every transfer
must arrive with the right SHA-256. Writes target/lab/flap.json; exit status 1 after a failure.
"""

import argparse
import json
import random
import sys
import time
from dataclasses import dataclass

from ..hosts.nats.kinds import KINDS as NATS
from ..hosts.nats.kinds import VERDICTS
from ..hosts.net import Lab
from ..hosts.programs import ROOT
from ..hosts.wait import LabError, wait_until
from ..nodes.local_api import LocalApi
from ..nodes.world import World
from ..traffic.flow import Transfer
from . import command

OUT = ROOT / "target" / "lab"
MINUTES = 10.0
# One pair of these needs port prediction; the others can be direct.
KINDS = ("port-restricted", "full-cone", "symmetric", "firewall")
RELAYS = 2
# Rate of each transfer in bytes per second: low enough that six transfers leave two cores to the daemons.
RATE = 200_000
# Bounds of the pause between two faults and of the duration of a fault, in seconds. TCP backs off while nothing passes, so the longest outage
# determines when a transfer continues.
PAUSE_S = (2.0, 8.0)
LASTS_S = (1.0, 15.0)
# Longest time in seconds until every pair has its expected path after the last fault.
CALM_S = 60.0
HOLES = ("in", "out", "both")


@dataclass
class Fault:
    """A fault from `at` until `until`, in seconds from the start; `until` is None for a momentary fault."""

    at: float
    whose: str
    what: str
    until: float = None


def plan(seed, seconds):
    """Returns all faults in order. The faults of one thing never overlap."""
    dice = random.Random(seed)
    things = [f"node{number}" for number in range(1, len(KINDS) + 1)] + [f"server{number}" for number in range(1, RELAYS + 2)]
    planned, busy, now = [], {}, 0.0
    while now < seconds:
        whose, lasts = dice.choice(things), dice.uniform(*LASTS_S)
        what = dice.choice(possible(whose))
        if busy.get(whose, 0.0) <= now:
            until = min(now + lasts, seconds) if what.startswith(("gone", "cable", "hole")) else None
            busy[whose] = until or now
            planned.append(Fault(round(now, 2), whose, what, until and round(until, 2)))
        now += dice.uniform(*PAUSE_S)
    return planned


def possible(whose):
    """Returns the possible faults of a thing."""
    if whose.startswith("server"):
        return ["gone"]
    kind = NATS[KINDS[int(whose.removeprefix("node")) - 1]]
    moves = ["other ports", "other address"] if kind.translates else []
    return ["cable", *(f"hole {direction}" for direction in HOLES), "forgets", *moves]


class FaultInjector:
    """Applies planned faults to a world."""

    def __init__(self, world):
        self.world = world
        self.events = []
        self._start = time.monotonic()

    def apply(self, faults):
        """Starts and ends each fault at its time."""
        steps = [(fault.at, False, fault) for fault in faults] + [(fault.until, True, fault) for fault in faults if fault.until is not None]
        for at, over, fault in sorted(steps, key=lambda step: step[:2]):
            time.sleep(max(0.0, self._start + at - time.monotonic()))
            self._tell(f"{fault.whose}: {fault.what}{' is over' if over else ''}")
            (self._revert if over else self._break)(fault)

    def _break(self, fault):
        match fault.what.split():
            case ["gone"]:
                self._server(fault.whose).kill()
            case ["cable"]:
                self._nat(fault.whose).cut()
            case ["hole", direction]:
                self._nat(fault.whose).black_hole(direction)
            case ["forgets"]:
                self._nat(fault.whose).forget()
            case ["other", "ports"]:
                self._nat(fault.whose).rebind()
            case ["other", "address"]:
                self._nat(fault.whose).change_address()

    def _revert(self, fault):
        if fault.what != "gone":
            self._nat(fault.whose).restore()
        elif fault.whose == "server1":
            self.world.coordinator.start("--no-relay")
        else:
            self._server(fault.whose).start()

    def _server(self, name):
        """server1 is the coordinator, the others are relays."""
        return next((relay for relay in self.world.relays if relay.host.name == name), self.world.coordinator)

    def _nat(self, name):
        return next(node for node in self.world.nodes if node.name == name).host.nat

    def _tell(self, what):
        self.events.append([round(time.monotonic() - self._start, 1), what])
        print(f"flap: {self.events[-1][0]:6.1f} s  {what}", file=sys.stderr, flush=True)


def pairs(nodes):
    """Returns every two nodes with the path that their kinds of NAT allow."""
    reach_of = {}
    for pair in json.loads(VERDICTS.read_text())["pairs"]:
        if pair["place"] == "apart":
            reach_of[pair["a"], pair["b"]] = reach_of[pair["b"], pair["a"]] = pair["reach"]
    for number, one in enumerate(nodes):
        for other in nodes[number + 1 :]:
            yield one, other, reach_of[one.host.nat.kind.name, other.host.nat.kind.name]


def run(minutes, seed):
    """Runs everything; returns the content of target/lab/flap.json."""
    with Lab(OUT / "flap-logs") as lab:
        world = World(lab, KINDS, relays=RELAYS)
        transfers = [(one, other, Transfer(one.host, other.host, other.ipv4, rate=RATE)) for one, other, _ in pairs(world.nodes)]
        injector = FaultInjector(world)
        injector.apply(plan(seed, 60 * minutes))
        rows = [settled(one, other, reach) for one, other, reach in pairs(world.nodes)]
        for row, (_, _, transfer) in zip(rows, transfers, strict=True):
            row.update(finished(transfer))
        lab.failed = not all(good(row) for row in rows)
        return {"schema": 1, "minutes": minutes, "seed": seed, "events": injector.events, "pairs": rows}


def settled(one, other, reach):
    """Waits until the pair has a direct path if its NATs allow one, otherwise any path."""
    row = {"a": one.host.nat.kind.name, "b": other.host.nat.kind.name, "reach": reach}
    wanted = ("direct",) if reach == "direct" else ("direct", "relayed")
    start = time.monotonic()
    with LocalApi(one) as here, LocalApi(other) as there:

        def seen():
            return [here.path(other.name), there.path(one.name)]

        try:
            wait_until(lambda: all(path in wanted for path in seen()), f"{one.name} and {other.name} to be {wanted}", CALM_S)
            row["settled_s"] = round(time.monotonic() - start, 1)
        except LabError:
            row["settled_s"] = None
            row["why"] = [here.ask("why", peer=other.name), there.ask("why", peer=one.name)]
        row["path"] = seen()
    return row


def finished(transfer):
    try:
        done = transfer.finish()
    except LabError as error:
        return {"bytes": None, "equal": False, "problem": str(error).splitlines()[0]}
    return {"bytes": done["bytes"], "equal": done["equal"]}


def good(row):
    return row["settled_s"] is not None and row["equal"]


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.flap")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"duration of the faults (default {MINUTES:.0f})")
    parser.add_argument("--seed", type=int, default=1, help="determines the faults and their times (default 1)")
    parser.add_argument("--json", action="store_true", help="print the result to standard output")
    args = parser.parse_args()
    return command.run("flap", ["nft"], lambda: tell(run(args.minutes, args.seed), args.json))


def tell(result, as_json):
    """Writes and prints the result; returns the exit status."""
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "flap.json").write_text(json.dumps(result, indent=1) + "\n")
    if as_json:
        print(json.dumps(result, indent=1))
    for row in result["pairs"]:
        late = "never" if row["settled_s"] is None else f"after {row['settled_s']:.1f} s"
        whole = "equal" if row["equal"] else "NOT equal"
        print(f"flap: {row['a']} – {row['b']}: {' and '.join(row['path'])}, settled {late}; {row['bytes'] or 0:,} bytes, {whole}", file=sys.stderr)
    return 0 if all(good(row) for row in result["pairs"]) else 1


if __name__ == "__main__":
    sys.exit(main())
