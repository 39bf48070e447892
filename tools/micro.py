#!/usr/bin/env python3
"""Counts the instructions of each step of a packet's path with valgrind, and times them.

    tools/micro.py PROGRAM              prints instructions and nanoseconds of each step
    tools/micro.py PROGRAM --check      exit status 1 if a step takes more instructions than tools/micro.json says, beyond the tolerance
    tools/micro.py PROGRAM --write      writes tools/micro.json

PROGRAM is the example `micro` of proof/sim. The instructions of one round are the difference of two runs, so that preparation is not counted. They
are the same in every run of a program, unlike its time. Another compiler or another processor, by which the ciphers choose their code, changes them,
hence the tolerance. Times are printed for people and never compared.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BASELINE = Path(__file__).with_name("micro.json")
TOLERANCE = 0.05
FEW, MANY = 256, 1024
ROUNDS = 4096


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)


def executed(program, part, rounds):
    """Returns the instructions of a whole run."""
    # A file of its own: valgrind replaces the one that it is given, which for root may be a device.
    with tempfile.TemporaryDirectory() as folder:
        command = ("valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind", program, part, rounds)
        return int(re.search(r"Collected : (\d+)", run(*command).stderr)[1])


def instructions(program, part):
    """Returns the instructions of one round."""
    return (executed(program, part, MANY) - executed(program, part, FEW)) / (MANY - FEW)


def nanoseconds(program, part):
    """Returns the time of the fastest of five runs: disturbances only ever make a run slower."""
    return min(float(run(program, part, ROUNDS).stdout) for _ in range(5))


def compare(found, baseline, tolerance=TOLERANCE):
    """Yields a sentence for each step that takes more than its baseline, or that only one of both has."""
    for part in sorted(found.keys() | baseline.keys()):
        if part not in baseline:
            yield f"{part} has no baseline: run it with --write"
        elif part not in found:
            yield f"{part} has a baseline and no longer exists: run it with --write"
        elif found[part] > baseline[part] * (1 + tolerance):
            yield f"{part} takes {found[part]:.0f} instructions; its baseline is {baseline[part]:.0f} ({found[part] / baseline[part] - 1:+.1%})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with the baseline")
    parser.add_argument("--write", action="store_true", help="store the result as the baseline")
    args = parser.parse_args()
    program = args.program.resolve()
    if not shutil.which("valgrind"):
        print("micro: skipped: valgrind, which counts instructions, is missing (apt-get install valgrind)", file=sys.stderr)
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
