"""Commands that measure rows of a table: their options, their output, and the table in a page.

    python3 -m lab.runs.NAME [--runs N] [--only NAME,…] [--json] [--document PAGE]

They print a table of medians and worst values, or with --json an object with a schema version; they write that object to target/lab/NAME.json, and with --document the
table into that page. A failed measurement is a row that says so.
"""

import argparse
import functools
import json
import sys
import time
from dataclasses import dataclass, field

from ..hosts.net import Lab
from ..hosts.programs import ROOT
from ..hosts.wait import LabError
from ..measure import machine
from . import command
from .path_rows import Row

SCHEMA = 1
HEAD = ["what", "reach", "median", "worst", "reached"]


@dataclass
class Figures:
    """`make NAME`: `lines` are what and limit of every row by its name; `measured` are the measurements, functions of a lab and a number of runs that yield rows;
    `several` are the rows of measurements that have other rows than their own."""

    name: str
    summary: str
    lines: dict
    measured: dict
    programs: list
    several: dict = field(default_factory=dict)
    runs: int = 20

    def measure(self, names, runs):
        """Yields all rows."""
        for name in names:
            print(f"{self.name}: {name}", file=sys.stderr, flush=True)
            lab = functools.partial(Lab, ROOT / "target" / "lab" / f"{self.name}-{name}")
            missing = self.several.get(name, [name])
            try:
                for row in self.measured[name](lab, runs):
                    missing = [line for line in missing if line != row.name]
                    yield row
            except LabError as error:
                problem = str(error).splitlines()[0]
                yield from (Row(line, None, [], problem=problem) for line in missing)

    def table(self, rows):
        """Returns the table for people."""
        lines = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
        return "\n".join([*lines, *(f"| {' | '.join([*self.lines[row.name], *row.cells()])} |" for row in rows)])

    def fill(self, page, made, rows):
        """Puts the table into a page, between its two marks."""
        begin, end = (f"<!-- made by make {self.name}: {mark} -->" for mark in ("begin", "end"))
        before, rest = page.read_text().split(begin)
        page.write_text(f"{before}{begin}\n\n{made}\n\n{self.table(rows)}\n\n{end}{rest.split(end)[1]}")

    def tell(self, names, args):
        """Measures, writes the results, and fills the page."""
        rows = list(self.measure(names, args.runs))
        result = json.dumps({"schema": SCHEMA, "runs": args.runs, "rows": [vars(row) for row in rows]}, indent=1)
        out = ROOT / "target" / "lab" / f"{self.name}.json"
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(result + "\n")
        print(result if args.json else self.table(rows))
        if args.document:
            self.fill(ROOT / args.document, made(args.runs), rows)
        return 0

    def main(self):
        """Reads the command line and does what it says. Returns the exit status."""
        parser = argparse.ArgumentParser(prog=f"python3 -m lab.runs.{self.name}", description=self.summary)
        parser.add_argument("--runs", type=int, default=self.runs)
        parser.add_argument("--only", default=",".join(self.measured), help=f"measurements: {', '.join(self.measured)}")
        parser.add_argument("--json", action="store_true", help="print an object with a schema version")
        parser.add_argument("--document", help="fill the table of this page")
        args = parser.parse_args()
        names = args.only.split(",")
        if unknown := [name for name in names if name not in self.measured]:
            parser.error(f"there is no measurement {unknown[0]}")
        if args.runs < 1:
            parser.error("--runs is at least 1")
        return command.run(self.name, self.programs, lambda: self.tell(names, args))


def made(runs):
    """Returns the sentence above a table: when and where it was made."""
    facts = machine.facts()
    where = f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}"
    return f"Made {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())} on {where}; {runs} runs each."
