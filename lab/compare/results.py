"""The file of results: what stands in it, whether one is whole, how it is kept. docs/bench.md tells each key in words."""

import json
import os

from ..hosts.wait import LabError

SCHEMA = 1
# Key -> what it holds, by type.
TOP = {
    "schema": int, "made": str, "scenario": str, "quick": bool, "seed": int, "rounds": int, "sittings": int, "machine": dict, "congestion_control": str,
    "offloads": dict, "profiles": dict, "systems": dict, "works": dict, "chosen": list, "left_out": list, "runs": list,
}  # fmt: skip
ROW = {
    "round": int, "profile": str, "placement": str, "system": str, "tuned": bool, "mtu": (int, type(None)), "work": str, "ok": bool, "tried": bool,
    "error": (str, type(None)), "attempts": int, "figures": dict, "cpu": dict, "memory_kib": dict, "link": list, "disturbed": bool,
    "payload": (int, type(None)), "started_s": (int, float, type(None)),
}  # fmt: skip
SYSTEM = {"title": str, "version": (str, type(None)), "lacking": (str, type(None)), "variant": bool}
WORK = {"title": str, "main": str, "better": str, "unit": str, "hosts": int, "lacking": (str, type(None))}
PROFILE = {
    "title": str, "about": str, "link": dict, "mtu": int, "path_mtu": (int, type(None)), "icmp_dropped": bool, "emulated": bool,
    "loss": (int, float, type(None)), "round_trip_ms": (int, float),
}  # fmt: skip
LEFT_OUT = {
    "round": int, "profile": str, "placement": str, "system": str, "tuned": bool, "mtu": (int, type(None)), "hosts": int, "works": list, "optional": bool,
}  # fmt: skip
# How a name ends -> unit. What ends otherwise is a count.
UNITS = {"_mbps": "Mbit/s", "_ms": "ms", "_us": "µs", "_percent": "%", "_s": "s", "_kib": "KiB", "_mb": "MB", "_bytes": "bytes", "_s_per_gb": "s/GB"}
# What has to be equal for a run to go on.
SAME = ("schema", "scenario", "quick", "seed", "rounds", "machine", "congestion_control", "profiles", "systems", "works")


def unit(key):
    """Of a figure, by its name."""
    if key in {ending.lstrip("_") for ending in UNITS}:
        key = f"_{key}"
    return next((what for ending, what in sorted(UNITS.items(), key=lambda pair: -len(pair[0])) if key.endswith(ending)), "")


def key_of(row):
    """What a row is of; no two rows are of the same."""
    return (row["round"], row["profile"], row["placement"], row["system"], row["tuned"], row["mtu"], row["work"])


def problems(told):
    """Sentences, one per thing that is not as the schema says."""
    if not isinstance(told, dict):
        return ["it is no object"]
    if told.get("schema") != SCHEMA:
        return [f"its schema is {told.get('schema')}, and this lab reads {SCHEMA}"]
    found = _wrong("it", told, TOP)
    if found:
        return found
    for kind, keys in (("systems", SYSTEM), ("works", WORK), ("profiles", PROFILE)):
        found += [line for name, one in told[kind].items() for line in _wrong(f"{kind}.{name}", one, keys)]
    found += [line for number, one in enumerate(told["left_out"]) for line in _wrong(f"left_out {number}", one, LEFT_OUT)]
    for number, row in enumerate(told["runs"]):
        found += _wrong(f"run {number}", row, ROW) or _strangers(number, row, told)
    keys = [key_of(row) for row in told["runs"]] if not found else []
    return found + (["two runs are of the same"] if len(keys) != len(set(keys)) else [])


def _wrong(what, one, keys):
    if not isinstance(one, dict):
        return [f"{what} is no object"]
    lacks = [f"{what} has no {key}" for key in keys if key not in one]
    return lacks + [f"{key} of {what} is a {type(one[key]).__name__}" for key, kind in keys.items() if key in one and not isinstance(one[key], kind)]


def _strangers(number, row, told):
    """A row may speak of known things only, and a good one has its main figure."""
    found = [f"run {number} has a {kind} that is not told: {row[kind]}" for kind in ("profile", "system", "work") if row[kind] not in told[f"{kind}s"]]
    if not found and row["ok"] and told["works"][row["work"]]["main"] not in row["figures"]:
        found.append(f"run {number} succeeded and has no {told['works'][row['work']]['main']}")
    return found


def load(path):
    """What a file holds; a `LabError` says what is wrong with it."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LabError(f"{path} cannot be read ({error.strerror}): `make bench` makes one") from None
    except ValueError as error:
        raise LabError(f"{path} holds no JSON ({error}): it was not written by this lab, or cut off") from None
    found = problems(told)
    if found:
        raise LabError(f"{path} is no file of results: {'; '.join(found[:3])}")
    return told


def save(path, told):
    """Writes the file in one step: whoever interrupts finds the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
