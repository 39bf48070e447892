"""`make paths`: how soon a path is available, and what happens when it fails, measured with real daemons behind the NATs of the lab.

    python3 -m lab.runs.paths [--runs N] [--only NAME,…] [--document docs/paths.md]

Each measurement lays out its own small internet (lab/hosts/nats), makes at least 20 runs, and reports their median and maximum. Writes
target/lab/paths.json, and with --document its half of the table of that page (lab/runs/paths_table.py). Failures are reported in the table.
"""

import argparse
import json
import sys
import time

from ..hosts.net import Lab
from ..hosts.programs import ROOT
from ..hosts.wait import LabError
from ..measure import machine
from . import command, paths_table
from .path_measurements import MEASURED, SEVERAL
from .path_rows import Row

OUT = ROOT / "target" / "lab" / "paths.json"
RUNS = 20


def measure(names, runs):
    """Yields all rows; a failed measurement is a row that says so."""
    for name in names:
        print(f"paths: {name}", flush=True)
        try:
            with Lab(ROOT / "target" / "lab" / f"paths-{name}") as lab:
                rows = list(MEASURED[name](lab, runs))
        except LabError as error:
            rows = [Row(line, None, [], problem=str(error).splitlines()[0]) for line in SEVERAL.get(name, [name])]
        for row in rows:
            print(f"paths: {row.name}: {', '.join(row.cells())}", flush=True)
            yield row


def made(runs):
    """Describes how this half of the table was made."""
    facts = machine.facts()
    where = f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}"
    return f"made {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())} on {where}; {runs} runs or more each."


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.paths", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", default=",".join(MEASURED), help=f"measurements: {', '.join(MEASURED)}")
    parser.add_argument("--document", help="fill the table of this page")
    args = parser.parse_args()
    names = args.only.split(",")
    if unknown := [name for name in names if name not in MEASURED]:
        parser.error(f"there is no measurement {unknown[0]}")
    return command.run("paths", ["iperf3", "nft"], lambda: tell(names, args))


def tell(names, args):
    """Measures, writes the results, and fills the page."""
    rows = list(measure(names, args.runs))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"schema": 1, "runs": args.runs, "rows": [vars(row) for row in rows]}, indent=1) + "\n")
    if args.document:
        paths_table.fill(ROOT / args.document, paths_table.LAB, made(args.runs), {row.name: row.cells() for row in rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
