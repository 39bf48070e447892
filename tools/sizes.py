#!/usr/bin/env python3
"""Builds the static node for x86-64 with its symbols, and prints where its bytes go. Needs root, as tools/packages.py does.

    tools/sizes.py [--commit COMMIT] [--fill] [--keep FILE]     --fill writes the table into docs/footprint.md, --keep leaves the program with its symbols in FILE

Exit status 1 if it grew by more than 2 % since the last line of that page's history. `make packages` checks every program that it builds in the same way.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from shipping import programs, root, sizes, targets  # noqa: E402

BEGIN, END = (f"<!-- made by make sizes: {mark} -->" for mark in ("begin", "end"))


def filled(text, table):
    """Returns the page with another table."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--fill", action="store_true", help="write the table into docs/footprint.md")
    parser.add_argument("--keep", type=Path, help="leave the program with its symbols in this file")
    options = parser.parse_args()
    commit, target = programs.commit(options.commit), targets.TARGETS[0]
    root.prepare()
    programs.take_source(commit)
    programs.vendor()
    programs.cargo(target, programs.date_of(commit), targets.NODE, with_symbols=True)
    file = programs.binary(target, targets.NODE)
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / "taut"
        subprocess.run(["strip", "--strip-all", "-o", stripped, file], check=True)
        size = stripped.stat().st_size
    table = sizes.table(sizes.parts(sizes.symbols(file), size))
    if options.keep:
        options.keep.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, options.keep)
    # The next build of packages must not take this one.
    file.unlink()
    print(f"{size:,} bytes without symbols\n\n{table}")
    text = sizes.PAGE.read_text(encoding="utf-8")
    if options.fill:
        sizes.PAGE.write_text(filled(text, table), encoding="utf-8")
    sizes.check(text, targets.NODE.name, target.name, size)


if __name__ == "__main__":
    sys.exit(main())
