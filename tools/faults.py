#!/usr/bin/env python3
"""Lists every fault of docs/spec/faults.md with the tests that answer it, or as open.

    tools/faults.py [--json] [--open] [ROOT]      the list; --open leaves out what has tests
    tools/faults.py --check [ROOT]                exit code 1 when a test names a fault that is not in the list

A test answers a fault by its name: `fn fault_k1_…` in Rust, `def test_fault_k1_…` in Python. One test may answer several:
`fault_a1_a2_…`. Whether the tests pass is for `make test` to say. Its own tests: test_faults.py.
"""

import argparse
import json
import re
import sys
from pathlib import Path

SCHEMA = 1
FOLDERS = ("core", "sys", "engine", "apps", "proof", "lab")
LISTED = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \| (.+?) \|$", re.M)
NAMED = re.compile(r"\b(?:fn|def) ((?:test_)?fault_((?:[a-z]\d+_)+)\w*)")


def listed(root):
    """id -> (what happens, what must follow), in the order of the document."""
    return {name: (fault, answer) for name, fault, answer in LISTED.findall((root / "docs/spec/faults.md").read_text())}


def tests(root):
    """(id, file, test) of each name that carries an id."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".rs", ".py") and path.is_file():
                for name, ids in NAMED.findall(path.read_text()):
                    for fault in ids.strip("_").split("_"):
                        yield fault.upper(), path.relative_to(root).as_posix(), name


def collect(root):
    """(faults with their tests, names that lead nowhere)."""
    faults = {name: {"fault": fault, "answer": answer, "tests": []} for name, (fault, answer) in listed(root).items()}
    unknown = []
    for fault, path, test in tests(root):
        if fault in faults:
            faults[fault]["tests"].append({"file": path, "test": test})
        else:
            unknown.append((fault, path, test))
    return faults, unknown


def summary(faults):
    done = sum(1 for entry in faults.values() if entry["tests"])
    return {"faults": len(faults), "tested": done, "open": len(faults) - done, "tests": len({(t["file"], t["test"]) for e in faults.values() for t in e["tests"]})}


def print_list(faults, only_open):
    for name, entry in faults.items():
        if only_open and entry["tests"]:
            continue
        print(f"{name:<4}{'' if entry['tests'] else 'open: '}{entry['fault']} -> {entry['answer']}")
        for test in entry["tests"]:
            print(f"      {test['file']}: {test['test']}")
    per_group = {}
    for name, entry in faults.items():
        tested, of = per_group.get(name[0], (0, 0))
        per_group[name[0]] = (tested + bool(entry["tests"]), of + 1)
    print("\n" + "  ".join(f"{group} {tested}/{of}" for group, (tested, of) in per_group.items()))


def main():
    parser = argparse.ArgumentParser(description="Faults and their tests.")
    parser.add_argument("--json", action="store_true", help="the list as JSON with a schema version")
    parser.add_argument("--open", action="store_true", help="only what has no test")
    parser.add_argument("--check", action="store_true", help="print only what is wrong")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    args = parser.parse_args()
    faults, unknown = collect(args.root)
    count = summary(faults)
    for fault, path, test in unknown:
        print(f"{path}: {test} answers fault {fault}, which docs/spec/faults.md does not have", file=sys.stderr)
    if args.json:
        print(json.dumps({"schema": SCHEMA, **count, "list": faults}, indent=1))
    else:
        if not args.check:
            print_list(faults, args.open)
        print(f"faults: {count['faults']}, {count['tested']} with tests, {count['open']} open; {count['tests']} tests")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
