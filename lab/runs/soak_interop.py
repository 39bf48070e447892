"""A long exchange with pauses with other implementations: detects a tunnel that is deaf in one direction (fault L7).

    python3 -m lab.runs.soak_interop [--minutes N] [--gap SECONDS] [--output FILE]

Four pairs per implementation, all at once: either side initiates, either side fetches. Silence between two fetches covers keepalives, rekeys by age and
retired sessions. Exit status 1 after a loss.
"""

import argparse
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

from ..hosts.net import Lab
from ..hosts.programs import ROOT
from ..hosts.wait import LabError
from ..measure import markdown
from ..nodes.wireguard import VERSIONS, lacking, pair
from .interop import longest

MINUTES = 30.0
GAP_S = 3.0
COLUMNS = (
    "initiator", "responder", "fetches from", "outer", "rekeys", "fetches", "failed", "lost there", "lost back", "deaf windows", "longest",
    "slowest fetch", "verdict",
)  # fmt: skip
_PROGRAM = (sys.executable, "-I", str(ROOT / "lab" / "traffic" / "fetches.py"))


class Case:
    """A pair: the initiator of the first handshake (the other side knows no endpoint), and the side that fetches."""

    def __init__(self, initiator, responder, asks, rekey_after=None):
        self.kinds = (initiator, responder)
        self.asks = asks
        # Only `taut wg` has this setting. As responder it would give up sessions that the other side still uses.
        self.env = {"TAUT_TEST_REKEY_AFTER_S": rekey_after} if rekey_after and initiator == "taut" else None
        self.row = dict.fromkeys(COLUMNS, "")
        self.row.update({"initiator": initiator, "responder": responder, "fetches from": self.kinds[asks]})

    def start(self, lab, number, gap):
        """Builds the pair, checks that it is connected, and starts the fetches."""
        family, names = (4, 6)[number % 2], (f"a{number}", f"b{number}")
        self.row["outer"] = f"IPv{family}"
        self.pair = pair(lab, self.kinds, family, psk=family == 4, env=self.env, names=names, passive=True)
        self.pair[0].reaches("10.9.0.2")
        asker, server = (side.host for side in (self.pair[self.asks], self.pair[1 - self.asks]))
        address, port = f"10.9.0.{2 - self.asks}", lab.free_port()
        self.server = server.start(*_PROGRAM, "serve", address, port, name="serve")
        self.server.wait_for_output("ready")
        self.asker = asker.start(*_PROGRAM, "fetch", address, port, "--gap", gap, name="fetch")
        self.seen = set()

    def look(self):
        """Records the time of the last handshake. Asks `taut wg`: boringtun reports an age that differs from query to query."""
        here, there = self.pair if self.kinds[0] == "taut" else self.pair[::-1]
        self.seen.add(here.peer(there.public)["handshake"])

    def finish(self):
        """Ends the fetches and fills the row."""
        try:
            asked, heard = self._end(self.asker), set(self._end(self.server)["heard"])
        except LabError as error:
            self.row["verdict"] = str(error).splitlines()[0]
            return
        echoed = set(asked["echoed"])
        there = [number for number in range(asked["asked"]) if number not in heard]
        back = [number for number in heard if number not in echoed]
        windows = runs(there) + runs(back)
        self.row.update(
            {
                "rekeys": len(self.seen) - 1,
                "fetches": asked["asked"],
                "failed": len(asked["failed"]),
                "lost there": len(there),
                "lost back": len(back),
                "deaf windows": windows,
                "longest": max(longest(there), longest(back)),
                "slowest fetch": f"{asked['slowest_ms']} ms",
                "verdict": "ok" if asked["asked"] and not windows and not asked["failed"] else "deaf",
            }
        )

    def _end(self, process):
        process.close_input()
        if process.wait() != 0:
            raise LabError(f"{process.name} broke\n{process.tail()}")
        return json.loads(process.output().splitlines()[-1])


def runs(numbers):
    """Returns the number of runs of consecutive numbers."""
    return sum(number - 1 not in set(numbers) for number in numbers)


def cases(kinds, rekey_after=None):
    """Yields every implementation in both roles, with fetches from either side."""
    for kind, roles, asks in itertools.product(kinds, (0, 1), (0, 1)):
        yield Case(*(("taut", kind), (kind, "taut"))[roles], asks, rekey_after)


def run(lab, chosen, seconds, gap=GAP_S):
    """Runs all cases at once and returns their rows."""
    for number, case in enumerate(chosen):
        case.start(lab, number, gap)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for case in chosen:
            case.look()
        time.sleep(1)
    for case in chosen:
        case.finish()
    return [case.row for case in chosen]


def table(rows):
    """Returns the rows in Markdown."""
    return markdown.table(COLUMNS, [[row[name] for name in COLUMNS] for row in rows])


def document(rows, minutes, gap):
    """Returns the document for `--output`."""
    kernel = subprocess.run(["uname", "-r"], capture_output=True, text=True, check=True).stdout.strip()
    versions = ", ".join(f"{kind} {version}" for kind, version in VERSIONS.items())
    return f"""# Soak beside other implementations

Made by `make soak-interop MINUTES={minutes:g}`; changes by hand are lost. `taut wg` beside {versions}, in network namespaces of one
machine (Linux {kernel}), all pairs at once for {minutes:g} minutes (fault L7). After every {gap:g} s of silence one side sends a numbered UDP
datagram, which the other side records and returns, and then fetches 100 kB over a new TCP connection. A datagram that is lost in one direction shows a
window in which the tunnel was deaf in that direction.

{table(rows)}
"""


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.soak_interop", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"duration (default {MINUTES:g})")
    parser.add_argument("--gap", type=float, default=GAP_S, help=f"seconds of silence between two fetches (default {GAP_S:g})")
    parser.add_argument("--output", type=Path, help="write the document to this file")
    args = parser.parse_args()
    for lack in filter(None, map(lacking, VERSIONS)):
        print(f"soak: skipped: {lack}", file=sys.stderr)
    with Lab(ROOT / "target" / "lab" / "soak") as lab:
        rows = run(lab, list(cases([kind for kind in VERSIONS if not lacking(kind)])), 60 * args.minutes, args.gap)
        lab.failed = any(row["verdict"] != "ok" for row in rows)
    print(table(rows))
    if args.output:
        args.output.write_text(document(rows, args.minutes, args.gap))
    return 1 if not rows or lab.failed else 0


if __name__ == "__main__":
    sys.exit(main())
