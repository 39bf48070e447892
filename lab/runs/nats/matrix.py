"""Real daemons behind every kind of NAT, pair by pair: whether each pair that must be direct is direct, how soon, and what the other pairs reach.

    python3 -m lab.runs.nats.matrix [--all] [--pairs A:B[:PLACE] …] [--runs N] [--json] [--document docs/paths.md]

Writes target/lab/nat-matrix.json, and next to it the picture as SVG and, with matplotlib, PNG. With --document and without --pairs it also writes its line of
the table of that page (lab/runs/paths_table.py). Exit status 1 if a pair that must be direct was not, or if a pair had no path.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from ...hosts.nats.kinds import VERDICTS
from ...hosts.programs import ROOT
from .. import command, paths_table
from . import picture, trial

OUT = ROOT / "target" / "lab"
VENV = ROOT / "target" / "venv"
# The essential half: every two kinds that differ for hole punching, and one pair for each other property.
_ESSENTIAL = ("open", "full-cone", "address-restricted", "port-restricted", "symmetric", "predictable", "carrier", "firewall")
_BESIDE = {
    ("port-restricted", "carrier-no-hairpin", "apart"), ("port-restricted", "hairpin", "apart"), ("port-restricted", "timeout-30", "apart"),
    ("open", "udp-blocked", "apart"), ("port-restricted", "udp-blocked", "apart"), ("udp-blocked", "udp-blocked", "apart"),
    ("open", "tcp-443", "apart"), ("port-restricted", "tcp-443", "apart"), ("open", "one-way", "apart"), ("port-restricted", "one-way", "apart"),
    ("port-restricted", "port-restricted", "same-lan"), ("symmetric", "symmetric", "same-lan"), ("udp-blocked", "udp-blocked", "same-lan"),
    ("hairpin", "hairpin", "isolated"), ("port-restricted", "port-restricted", "isolated"),
    ("carrier", "carrier", "same-carrier"), ("carrier-no-hairpin", "carrier-no-hairpin", "same-carrier"),
}  # fmt: skip


def main():
    args = _arguments()
    return command.run("nat-matrix", ["nft"], lambda: tell([_measured(pair, args.runs, args.json) for pair in _chosen(args)], args))


def tell(rows, args):
    """Writes and prints the results; returns the exit status."""
    written = write({"schema": 1, "runs": args.runs, "pairs": rows})
    if args.document and not args.pairs:
        paths_table.fill(ROOT / args.document, paths_table.LAB, None, {"pairs": summary(rows)})
    if args.json:
        print(json.dumps({"schema": 1, "runs": args.runs, "pairs": rows}, indent=1))
    else:
        print("written: " + ", ".join(str(path.relative_to(ROOT)) for path in written))
    return judge(rows)


def summary(rows):
    """Returns the pairs that must be direct and were, the same for runs, and whether these are all."""
    must = [row for row in rows if row["possible"]]
    pairs = sum(row["path"] == "direct" for row in must)
    runs, direct = (sum(row[name] for row in must) for name in ("runs", "direct_runs"))
    return [f"{pairs} of {len(must)} pairs", f"{direct} of {runs} runs", "yes" if direct == runs else "no"]


def judge(rows):
    """Returns 0 if every pair that must be direct was, and every pair had a path; prints the exceptions."""
    late = [row for row in rows if row["possible"] and row["path"] != "direct"]
    stuck = [row for row in rows if row["path"] == "none"]
    for rows_of, what in ((late, "must be direct and was not"), (stuck, "had no path at all")):
        for row in rows_of:
            print(f"nat-matrix: {row['a']} – {row['b']} ({row['place']}) {what}: {row['why']}", file=sys.stderr)
    return 1 if late or stuck else 0


def row_of(pair, outcomes):
    """Returns a row of the file from the runs of one pair: medians, and the worst path of all runs."""
    order = ("direct", "relay", "none")
    path = max((outcome.path for outcome in outcomes), key=order.index)
    row = {"a": pair["a"], "b": pair["b"], "place": pair["place"], "possible": pair["reach"] == "direct", "reach": pair["reach"], "path": path}
    for name in ("first_packet_ms", "direct_ms"):
        values = [value for outcome in outcomes if (value := getattr(outcome, name)) is not None]
        row[name] = round(statistics.median(values), 1) if values else None
        row[name.replace("_ms", "_max_ms")] = max(values, default=None)
    row["direct_runs"] = sum(outcome.path == "direct" for outcome in outcomes)
    row["runs"] = len(outcomes)
    row["lost"] = sum(outcome.lost for outcome in outcomes)
    row["sent"] = sum(outcome.sent for outcome in outcomes)
    row["cold"] = all(outcome.cold for outcome in outcomes)
    verdicts = next((outcome for outcome in outcomes if outcome.path == path), outcomes[0])
    row["why"] = verdicts.problem or verdicts.why or pair["why"]
    return row


def write(result, folder=OUT):
    """Writes the file and its pictures; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "nat-matrix.json"
    file.write_text(json.dumps(result, indent=1) + "\n")
    drawing = cells(result["pairs"]), "Two real nodes behind two NATs: what carried, and after how many ms it was direct", words()
    vector, pixels = folder / "nat-matrix.svg", folder / "nat-matrix.png"
    vector.write_text(picture.svg(*drawing))
    data = picture.png(*drawing)
    if data:
        pixels.write_bytes(data)
        return [file, vector, pixels]
    return [file, vector, pixels] if _drawn_elsewhere(file) else [file, vector]


def cells(rows):
    """Returns the content of the picture: for each pair the path, and the milliseconds until it."""
    shown = {}
    for row in rows:
        if row["place"] == "apart":
            after = row["direct_ms"] if row["path"] == "direct" else row["first_packet_ms"]
            shown[row["a"], row["b"]] = (row["path"], "" if after is None else f"{after:.0f}", row["why"])
    return shown


def words():
    return {"direct": "direct (ms from the first packet to the direct path)", "relay": "relay (ms to the first answer)", "none": "no path"}


def _drawn_elsewhere(file):
    """Returns true if the Python of target/venv drew the picture, in case this one has no matplotlib."""
    python = VENV / "bin" / "python"
    if not python.exists() or Path(sys.prefix).resolve() == VENV.resolve():
        return False
    program = "import json, sys; from lab.runs.nats import matrix; sys.exit(len(matrix.write(json.load(open(sys.argv[1])))) != 3)"
    return subprocess.run([python, "-c", program, file], cwd=ROOT, check=False).returncode == 0


def _measured(pair, runs, quiet):
    outcomes = [trial.run(OUT / "nat-matrix-logs", pair["a"], pair["b"], pair["place"], pair["reach"]) for _ in range(runs)]
    row = row_of(pair, outcomes)
    direct = f", direct after {row['direct_ms']:.0f} ms" if row["direct_ms"] is not None else ""
    first = "no answer" if row["first_packet_ms"] is None else f"first answer after {row['first_packet_ms']:.0f} ms"
    where = "" if pair["place"] == "apart" else f" ({pair['place']})"
    warm = "" if row["cold"] else " (they had met before)"
    line = f"{pair['a']} – {pair['b']}{where}: {row['path']}, to be {pair['reach']}; {first}{direct}; {row['lost']} of {row['sent']} lost{warm}"
    print(line, file=sys.stderr if quiet else sys.stdout, flush=True)
    if "TAUT_LAB_KEEP" in os.environ:
        print("\n".join(str(entry) for outcome in outcomes for entry in outcome.log), file=sys.stderr, flush=True)
    return row


def _chosen(args):
    verdicts = json.loads(VERDICTS.read_text())["pairs"]
    if args.pairs:
        return [_named(word, verdicts) for word in args.pairs]
    return [pair for pair in verdicts if args.all or essential(pair)]


def essential(pair):
    """Returns true if the lab tries this pair by default."""
    a, b, place = pair["a"], pair["b"], pair["place"]
    return (a, b, place) in _BESIDE or (place == "apart" and a in _ESSENTIAL and b in _ESSENTIAL)


def _named(word, verdicts):
    a, b, place = [*word.split(":"), "apart"][:3] if word.count(":") else (word, word, "apart")
    for pair in verdicts:
        if pair["place"] == place and (pair["a"], pair["b"]) in ((a, b), (b, a)):
            return pair | {"a": a, "b": b}
    raise SystemExit(f"nat-matrix: there is no pair {word}; docs/nats.md lists the kinds; append a place like this: `A:B:same-lan`")


def _arguments():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.nats.matrix")
    parser.add_argument("--all", action="store_true", help="every pair, not only the essential half")
    parser.add_argument("--pairs", nargs="+", metavar="A:B[:PLACE]", help="only these pairs")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="runs per pair, each from scratch (default 1)")
    parser.add_argument("--json", action="store_true", help="print the content of the file to standard output")
    parser.add_argument("--document", metavar="FILE", help="fill the table of this page")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
