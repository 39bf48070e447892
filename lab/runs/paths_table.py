"""The table of docs/paths.md, which several commands fill: `make paths` and `make nat-matrix` in the lab, `make paths-sim` in the simulator.

    python3 -m lab.runs.paths_table FILE --document docs/paths.md

puts the figures of the simulator, as the example `paths` of proof/sim writes them, into the table; lab/runs/paths.py calls `fill` for its own. Each half has its
own columns and a line that says how it was made; the other half is read from the page and stays as it is.
"""

import argparse
import json
import sys
import time
from pathlib import Path

BEGIN, END = "<!-- made by make paths: begin -->", "<!-- made by make paths: end -->"

HEAD = ["what", "reach", "go for", "lab: median", "lab: worst", "reached", "simulator: p99", "reached"]
LAB, SIM = slice(3, 6), slice(6, 8)
# Beginning of the line that says how a half was made.
MADE = {LAB.start: "In the lab:", SIM.start: "In the simulator:"}

# Every line of the table by its name in both halves: measurement, limit, goal.
LINES = {
    "cold": ("cold peer, first inner packet answered", "≤ 2 relay round trips + 50 ms", "+ 10 ms"),
    "direct": ("direct path where possible (cone NATs both sides), from the first packet on", "≤ 1 s", "≤ 300 ms"),
    "pairs": ("NAT pairs that end direct, of those where it is possible", "all", "all"),
    "dies": ("direct path dies under traffic → flows on the relay", "≤ 1 s", "≤ 300 ms"),
    "back": ("relay → direct after it becomes possible", "≤ 5 s, 0 lost, 0 reordered", "≤ 1 s"),
    "moves": ("address change → first packet", "≤ 300 ms + 1 round trip", "≤ 50 ms + 1"),
    "relay-dies": ("relay killed → on the next one", "≤ 2 s", "≤ 500 ms"),
    "reboots": ("both hosts rebooted, coordinator away, one relay alive", "≤ 5 s", "≤ 1 s"),
    "throughput": ("relayed TCP throughput against direct, same machine", "≥ 40 %", "≥ 60 %"),
    "control": ("control traffic while nothing changes, probes of a path in 10 s", "≤ 1", "fewer"),
    "latency-direct": ("direct latency added over raw, on a link of 10 ms", "shown", "–"),
    "latency-relayed": ("relayed latency added over the raw ways to the relay, on links of 10 ms", "shown", "–"),
}

# Parts that the figure of the simulator leaves out, so that runs over different distances are comparable.
SIM_NOTES = {"cold": "beyond 2 relay round trips", "moves": "beyond 1 round trip"}


def fill(page, half, made, cells):
    """Puts cells (by the name of their line) into one half of the table of a page, and how they were made unless that is None."""
    whole = page.read_text()
    before, rest = whole.split(BEGIN)
    old, after = rest.split(END)
    lines, rows = parse(old)
    if made is not None:
        lines[half.start] = f"{MADE[half.start]} {made}"
    for name, new in cells.items():
        rows.setdefault(name, ["–"] * len(HEAD))[half] = new
    page.write_text(f"{before}{BEGIN}\n\n{render(lines, rows)}\n\n{END}{after}")


def parse(text):
    """Returns the lines that say how the halves were made, and the cells of the table by name. Leaves out lines that no command fills any more."""
    names = {what: name for name, (what, _, _) in LINES.items()}
    made, rows = {}, {}
    for line in text.splitlines():
        made |= {half: line for half, start in MADE.items() if line.startswith(start)}
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == len(HEAD) and cells[0] in names:
            rows[names[cells[0]]] = cells
    return made, rows


def render(made, rows):
    """Returns the text between the markers."""
    lines = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    lines += [f"| {' | '.join([*LINES[name], *rows[name][LAB.start :]])} |" for name in LINES if name in rows]
    return "\n\n".join([*(made[half] for half in MADE if half in made), "\n".join(lines)])


def simulated(figures, runs):
    """Returns the cells of the simulator. Each run of `direct` draws two kinds of NAT that must allow a direct path."""
    cells = {figure["name"]: [formatted(figure), "yes" if figure["reached"] else "no"] for figure in figures}
    late = [len(figure["never"]) for figure in figures if figure["name"] == "direct"]
    return cells | {"pairs": [f"{runs - never} of {runs} runs", "no" if never else "yes"] for never in late}


def formatted(figure):
    if figure["p99"] is None:
        return f"never with {len(figure['never'])} seeds"
    note = f" {SIM_NOTES[figure['name']]}" if figure["name"] in SIM_NOTES else ""
    text = f"{figure['p99']:.{2 if figure['unit'] != 'ms' else 0}f} {figure['unit']}{note}"
    if figure["never"]:
        text += f"; never with {len(figure['never'])} seeds"
    return text + (f"; {figure['lost']} lost, {figure['overtaken']} reordered" if figure["name"] == "back" else "")


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.paths_table", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="output of the simulator")
    parser.add_argument("--document", type=Path, required=True, help="the page")
    args = parser.parse_args()
    measured = json.loads(args.file.read_text())
    made = (
        f"made {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}, {measured['runs']} seeded runs each; hosts 1 to 31 ms from the middle of the internet, relays 1 to "
        "24 ms, any two kinds of NAT that must allow it. The last column says whether all runs ended, and 99 of 100 within the limit in column \"reach\"."
    )
    fill(args.document, SIM, made, simulated(measured["figures"], measured["runs"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
