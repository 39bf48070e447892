#!/usr/bin/env python3
"""Lists and runs ci/matrix.toml: what Taut is checked on.

    tools/matrix.py [--json]                        lists the entries, and what this machine lacks for each
    tools/matrix.py --run NAMES [--json]            runs entries, separated by commas: names, kinds, or all-possible

Entries run one after the other; the output of each goes to target/matrix/NAME.log, and once a minute its last line is shown. The end is a table. Exit status: 0 when
every entry passed, 1 when one failed or could not run although it was named, 130 after an interrupt. Its own tests: test_matrix.py.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MATRIX = ROOT / "ci" / "matrix.toml"
LOGS = ROOT / "target" / "matrix"
KINDS = ("target", "kernel", "distribution", "machine", "feature", "check")
FIELDS = {"name": str, "kind": str, "proves": str, "needs": list, "run": str, "minutes": int}
ALL = "all-possible"
# Version of the form of the JSON.
SCHEMA = 1
# Seconds between two lines of progress.
PROGRESS_S = 60
# Seconds between two looks at a running entry.
LOOK_S = 0.2
# Seconds that an entry has to end after an interrupt, before it is killed.
GRACE_S = 30
# Characters of a line of progress.
WIDTH = 120


class Wrong(SystemExit):
    """A mistake in the matrix or in the words of the user."""

    def __init__(self, what):
        super().__init__(f"matrix: {what}")


def read(path=MATRIX):
    """Returns the entries of a matrix."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("entry", [])
    seen = set()
    for entry in entries:
        named = entry.get("name", "an entry without a name")
        if set(entry) != set(FIELDS) or any(not isinstance(entry[field], kind) for field, kind in FIELDS.items()):
            raise Wrong(f"{named}: an entry has the fields {', '.join(FIELDS)}")
        if entry["kind"] not in KINDS:
            raise Wrong(f"{named}: there is no kind {entry['kind']}; there are {', '.join(KINDS)}")
        if named in seen or named in KINDS or named == ALL:
            raise Wrong(f"{named}: this name is taken")
        seen.add(named)
        for need in entry["needs"]:
            lacking(need)
        if not entry["run"] and not any(need.startswith("person ") for need in entry["needs"]):
            raise Wrong(f"{named}: it has no command, and needs no person")
    return entries


def lacking(need):
    """Returns what this machine lacks for a need, or None."""
    kind, _, what = need.partition(" ")
    if kind == "root" and not what:
        return None if os.geteuid() == 0 else "root"
    if not what:
        raise Wrong(f"there is no need {need!r}")
    if kind == "program":
        return None if shutil.which(what) else f"the program {what}"
    if kind == "file":
        return None if (ROOT / what).exists() else f"the file {what}"
    if kind == "memory":
        have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
        return None if have >= int(what) else f"{what} GB of memory"
    if kind == "person":
        return f"a person: {what}"
    raise Wrong(f"there is no need {need!r}")


def lacks(entry):
    """Returns what this machine lacks for an entry."""
    return [found for found in map(lacking, entry["needs"]) if found]


def choose(entries, words):
    """Returns the entries that words name, in the order of the matrix. What a name or kind chooses is chosen even if it cannot run."""
    known = {entry["name"] for entry in entries} | set(KINDS) | {ALL}
    unknown = [word for word in words if word not in known]
    if unknown:
        raise Wrong(f"there is no entry {', '.join(unknown)}; `make ci-matrix` lists them")
    return [entry for entry in entries if entry["name"] in words or entry["kind"] in words or ALL in words and not lacks(entry)]


def last_line(path):
    """Returns the last line that an entry wrote."""
    lines = path.read_bytes()[-4096:].decode(errors="replace").split("\n")
    return next((line.strip()[:WIDTH] for line in reversed(lines) if line.strip()), "")


def run(entry, say, stop):
    """Runs an entry, until `stop` is set; returns its result."""
    lack = lacks(entry)
    result = {"name": entry["name"], "kind": entry["kind"], "result": "not possible", "seconds": 0, "why": ", ".join(lack), "log": None}
    if lack:
        return result
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / f"{entry['name']}.log"
    say(f"==> {entry['name']}: {entry['run']} (about {entry['minutes']} min)")
    start, shown = time.monotonic(), time.monotonic()
    with path.open("wb") as log:
        process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", entry["run"]], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        while process.poll() is None:
            if stop.wait(LOOK_S):
                end(process)
                return result | {"result": "interrupted", "seconds": round(time.monotonic() - start, 1), "log": str(path.relative_to(ROOT))}
            if time.monotonic() - shown >= PROGRESS_S:
                shown = time.monotonic()
                say(f"    {entry['name']}, {(shown - start) / 60:.0f} min: {last_line(path)}")
    passed = process.returncode == 0
    why = "" if passed else f"exit status {process.returncode}: {last_line(path)}"
    say(f"    {entry['name']}: {'passed' if passed else 'FAILED'}")
    return result | {"result": "passed" if passed else "failed", "seconds": round(time.monotonic() - start, 1), "why": why, "log": str(path.relative_to(ROOT))}


def end(process):
    """Ends an entry with everything that it started."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def table(rows):
    """Returns lines with columns of equal width; the last column is as long as its text."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return "\n".join("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip() for row in rows)


def listing(entries):
    """Returns the list for people."""
    rows = [("NAME", "KIND", "MINUTES", "HERE", "PROVES THAT")]
    rows += [(entry["name"], entry["kind"], str(entry["minutes"]), "no" if lacks(entry) else "yes", entry["proves"]) for entry in entries]
    missing = [f"{entry['name']} needs {', '.join(lacks(entry))}" for entry in entries if lacks(entry)]
    possible = sum(not lacks(entry) for entry in entries)
    missing.append("`tools/setup test` makes target/venv, `make build-programs` target/ci, and `make packages TARGETS=x86-64` target/packages")
    return "\n".join([table(rows), "", *missing, "", f"{possible} of {len(entries)} entries can run here: `make ci-matrix RUN=NAME` or RUN={ALL}"])


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", metavar="NAMES", type=lambda text: [word for word in text.replace(",", " ").split() if word])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--matrix", type=Path, default=MATRIX)
    options = parser.parse_args(words)
    entries = read(options.matrix)
    if options.run is None:
        found = [entry | {"possible": not lacks(entry), "lacks": lacks(entry)} for entry in entries]
        print(json.dumps({"schema": SCHEMA, "entries": found}, indent=1) if options.json else listing(entries))
        return 0
    say = (lambda text: print(text, file=sys.stderr, flush=True)) if options.json else (lambda text: print(text, flush=True))
    # Not KeyboardInterrupt: between the start of an entry and the next line it would leave the entry behind.
    stop, results = threading.Event(), []
    former = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    for entry in choose(entries, options.run):
        if not stop.is_set():
            results.append(run(entry, say, stop))
    for number, handler in former.items():
        signal.signal(number, handler)
    ok = bool(results) and all(result["result"] == "passed" for result in results)
    if options.json:
        print(json.dumps({"schema": SCHEMA, "ok": ok, "results": results}, indent=1))
    else:
        rows = [("NAME", "RESULT", "SECONDS", "WHY"), *((result["name"], result["result"], str(result["seconds"]), result["why"]) for result in results)]
        print(f"\n{table(rows)}")
    return 130 if stop.is_set() else 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
