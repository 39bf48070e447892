"""`make mtu`: how soon the MTU of a path is found, and what packets wait for meanwhile, measured with real daemons.

    python3 -m lab.runs.mtu [--runs N] [--only NAME,…] [--json] [--document docs/mtu.md]

Prints a table of medians and maxima, or with --json an object with a schema version; writes that object to target/lab/mtu.json, and with --document the table into that page.
A failed measurement is a row that says so.
"""

import argparse
import functools
import json
import sys
import time

from ..hosts.net import Lab
from ..hosts.programs import ROOT
from ..hosts.wait import LabError
from ..measure import machine
from . import command
from .mtu_measurements import MEASURED, SEVERAL
from .path_rows import Row

SCHEMA = 1
OUT = ROOT / "target" / "lab" / "mtu.json"
RUNS = 20
BEGIN, END = "<!-- made by make mtu: begin -->", "<!-- made by make mtu: end -->"
HEAD = ["what", "reach", "median", "worst", "reached"]
# Every row by its name: measurement and limit.
LINES = {
    "r22-1280": ("1 MiB as the first traffic over a path of 1,280 bytes that loses ICMP", "≤ 5 s"),
    "r22-1124": ("the same over a path of 1,124 bytes that loses ICMP", "≤ 5 s"),
    "found": ("MTU known after the direct path was proven", "≤ 1 s"),
    "shrinks": ("shorter MTU known after the path shrank under a TCP stream", "≤ 2 s"),
    "stalled": ("longest time without data of that stream", "≤ 2 s"),
    "jumbo": ("throughput of one stream on a link of 9,000 bytes without settings, compared with `--mtu 8900`", "≥ 97 %"),
    "lost": ("full-size pings lost after the first second, on each of several underlays", "0"),
}


def measure(names, runs):
    """Yields all rows."""
    for name in names:
        print(f"mtu: {name}", file=sys.stderr, flush=True)
        lab = functools.partial(Lab, ROOT / "target" / "lab" / f"mtu-{name}")
        try:
            yield from MEASURED[name](lab, runs)
        except LabError as error:
            yield from (Row(line, None, [], problem=str(error).splitlines()[0]) for line in SEVERAL.get(name, [name]))


def table(rows):
    """Returns the table for people."""
    lines = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    return "\n".join([*lines, *(f"| {' | '.join([*LINES[row.name], *row.cells()])} |" for row in rows)])


def fill(page, made, rows):
    """Puts the table into a page."""
    before, rest = page.read_text().split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{made}\n\n{table(rows)}\n\n{END}{rest.split(END)[1]}")


def made(runs):
    facts = machine.facts()
    where = f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}"
    return f"Made {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())} on {where}; {runs} runs each."


def tell(names, args):
    """Measures, writes the results, and fills the page."""
    rows = list(measure(names, args.runs))
    result = json.dumps({"schema": SCHEMA, "runs": args.runs, "rows": [vars(row) for row in rows]}, indent=1)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(result + "\n")
    print(result if args.json else table(rows))
    if args.document:
        fill(ROOT / args.document, made(args.runs), rows)
    return 0


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.mtu", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", default=",".join(MEASURED), help=f"measurements: {', '.join(MEASURED)}")
    parser.add_argument("--json", action="store_true", help="print an object with a schema version")
    parser.add_argument("--document", help="fill the table of this page")
    args = parser.parse_args()
    names = args.only.split(",")
    if unknown := [name for name in names if name not in MEASURED]:
        parser.error(f"there is no measurement {unknown[0]}")
    return command.run("mtu", ["iperf3", "nft"], lambda: tell(names, args))


if __name__ == "__main__":
    sys.exit(main())
