#!/usr/bin/env python3
"""The parts of the way of a packet, counted in instructions (by valgrind) and timed.

    tools/micro.py PROGRAM              prints instructions and nanoseconds of each part
    tools/micro.py PROGRAM --check      exit code 1 when a part takes more instructions than tools/micro.json says, by more than the tolerance
    tools/micro.py PROGRAM --write      writes tools/micro.json

PROGRAM is the example `micro` of proof/sim. Instructions are those of one round: the difference of two runs, so that preparing is not
counted. They are the same on every run of a program, unlike time; another compiler or another processor (the ciphers choose their code by it)
makes others, hence a tolerance. Time is printed for people and never compared.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

BASELINE = Path(__file__).with_name("micro.json")
TOLERANCE = 0.05
FEW, MANY = 256, 1024
ROUNDS = 4096


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)


def executed(program, part, rounds):
    """Instructions of a whole run."""
    command = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, part, rounds)
    return int(re.search(r"Collected : (\d+)", run(*command).stderr)[1])


def instructions(program, part):
    """Instructions of one round."""
    return (executed(program, part, MANY) - executed(program, part, FEW)) / (MANY - FEW)


def nanoseconds(program, part):
    """The quickest of five runs: what disturbs only ever slows down."""
    return min(float(run(program, part, ROUNDS).stdout) for _ in range(5))


def compare(found, baseline, tolerance=TOLERANCE):
    """What is wrong: parts that take more than they did, and parts that are in one of both only."""
    for part in sorted(found.keys() | baseline.keys()):
        if part not in baseline:
            yield f"{part} has no baseline: run it with --write"
        elif part not in found:
            yield f"{part} has a baseline and is gone: run it with --write"
        elif found[part] > baseline[part] * (1 + tolerance):
            yield f"{part} takes {found[part]:.0f} instructions, and {baseline[part]:.0f} before ({found[part] / baseline[part] - 1:+.1%})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with the baseline")
    parser.add_argument("--write", action="store_true", help="make this the baseline")
    args = parser.parse_args()
    program = args.program.resolve()
    if not shutil.which("valgrind"):
        print("micro: skipped: instructions are counted by valgrind (apt-get install valgrind)", file=sys.stderr)
        return 1 if args.write else 0
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    found = {}
    print(f"{'part':<24}{'instructions':>14}{'baseline':>12}{'ns':>12}")
    for part in run(program).stdout.split():
        found[part] = round(instructions(program, part), 1)
        before = f"{baseline[part]:.0f}" if part in baseline else "-"
        print(f"{part:<24}{found[part]:>14.0f}{before:>12}{nanoseconds(program, part):>12.0f}", flush=True)
    if args.write:
        BASELINE.write_text(json.dumps(found, indent=1) + "\n")
    wrong = list(compare(found, baseline)) if args.check else []
    for line in wrong:
        print(f"micro: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
