#!/usr/bin/env python3
"""Lists every fault of docs/spec/faults.md with the tests that cover it, or as open.

    tools/faults.py [--json] [--open] [--night] [ROOT]   prints the list; --open only faults without tests, --night only faults without a test by day
    tools/faults.py --check [ROOT]                       exit status 1 if a test names a fault that is not in the list

The name of a test says which fault it covers: `fn fault_k1_…` in Rust, `def test_fault_k1_…` in Python. One test may cover several: `fault_a1_a2_…`. A test
runs only at night if lab/tests/night.toml lists it, or if it is ignored in Rust with a reason that begins with "night:". This program does not run the
tests; `make test` and `make test-night` do. Its own tests: test_faults.py.
"""

import argparse
import json
import re
import sys
import tomllib
from pathlib import Path

SCHEMA = 1
NIGHT = "lab/tests/night.toml"
FOLDERS = ("core", "sys", "engine", "apps", "proof", "lab")
LISTED = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \| (.+?) \|$", re.M)
NAMED = re.compile(r"\b(?:fn|def) ((?:test_)?fault_((?:[a-z]\d+_)+)\w*)")
# An ignored test in Rust: nothing but attributes stands between the reason and the name.
IGNORED = re.compile(r"#\[ignore = \"night: ([^\"]+)\"\]\s*(?:#\[[^\]]*\]\s*)*fn (\w+)")


def listed(root):
    """id -> (what happens, what must follow), in the order of the document."""
    return {name: (fault, answer) for name, fault, answer in LISTED.findall((root / "docs/spec/faults.md").read_text())}


def reasons_of_the_night(root):
    """Returns a function from (file, name of a test) to the reason why all of the test runs only at night, or None."""
    path = root / NIGHT
    entries = tomllib.loads(path.read_text()).get("night", []) if path.exists() else []

    def reason(file, text, test):
        if file.endswith(".rs"):
            return next((why for why, name in IGNORED.findall(text) if name == test), None)
        name = f"{Path(file).name}::{test}"
        for entry in entries:
            kept = any(one == name or one.startswith(f"{name}[") for one in entry.get("by_day", ()))
            if not kept and ({Path(file).name, name} & {*entry["tests"]}):
                return entry["reason"]
        return None

    return reason


def tests(root):
    """(id, file, test, reason to run it only at night or None) of each name that carries an id."""
    reason = reasons_of_the_night(root)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".rs", ".py") and path.is_file():
                text, file = path.read_text(), path.relative_to(root).as_posix()
                for name, ids in NAMED.findall(text):
                    for fault in ids.strip("_").split("_"):
                        yield fault.upper(), file, name, reason(file, text, name)


def collect(root):
    """(faults with their tests, tests that name an unknown fault)."""
    faults = {name: {"fault": fault, "answer": answer, "tests": []} for name, (fault, answer) in listed(root).items()}
    unknown = []
    for fault, path, test, night in tests(root):
        if fault in faults:
            faults[fault]["tests"].append({"file": path, "test": test, **({"night": night} if night else {})})
        else:
            unknown.append((fault, path, test))
    return faults, unknown


def is_only_at_night(entry):
    return bool(entry["tests"]) and all("night" in test for test in entry["tests"])


def summary(faults):
    done = sum(1 for entry in faults.values() if entry["tests"])
    count = len({(test["file"], test["test"]) for entry in faults.values() for test in entry["tests"]})
    night = sum(1 for entry in faults.values() if is_only_at_night(entry))
    return {"faults": len(faults), "tested": done, "open": len(faults) - done, "only_at_night": night, "tests": count}


def print_list(faults, is_wanted):
    for name, entry in faults.items():
        if not is_wanted(entry):
            continue
        print(f"{name:<4}{'' if entry['tests'] else 'open: '}{entry['fault']} -> {entry['answer']}")
        for test in entry["tests"]:
            print(f"      {test['file']}: {test['test']}{' (at night: ' + test['night'] + ')' if 'night' in test else ''}")
    per_group = {}
    for name, entry in faults.items():
        tested, of = per_group.get(name[0], (0, 0))
        per_group[name[0]] = (tested + bool(entry["tests"]), of + 1)
    print("\n" + "  ".join(f"{group} {tested}/{of}" for group, (tested, of) in per_group.items()))


def is_wanted(args):
    """Returns the function that tells whether an entry belongs to the list."""
    if args.night:
        return is_only_at_night
    return (lambda entry: not entry["tests"]) if args.open else (lambda _: True)


def main():
    parser = argparse.ArgumentParser(description="Faults and their tests.")
    parser.add_argument("--json", action="store_true", help="the list as JSON with a schema version")
    parser.add_argument("--open", action="store_true", help="only faults without tests")
    parser.add_argument("--night", action="store_true", help="only faults whose tests all run only at night")
    parser.add_argument("--check", action="store_true", help="print only errors and the summary")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    args = parser.parse_args()
    faults, unknown = collect(args.root)
    count = summary(faults)
    for fault, path, test in unknown:
        print(f"{path}: {test} covers fault {fault}, which docs/spec/faults.md does not list", file=sys.stderr)
    if args.json:
        print(json.dumps({"schema": SCHEMA, **count, "list": faults}, indent=1))
    else:
        if not args.check:
            print_list(faults, is_wanted(args))
        told = f"{count['tested']} with tests ({count['only_at_night']} only at night), {count['open']} open"
        print(f"faults: {count['faults']}, {told}; {count['tests']} tests")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
