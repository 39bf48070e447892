"""The file of results: its schema, its validation, how it is written. docs/bench.md describes each key."""

import datetime
import json
import os

from ..hosts.wait import LabError

SCHEMA = 1
# Key and the type of its value.
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
# Ending of a name and its unit. Other names are counts.
UNITS = {"_mbps": "Mbit/s", "_ms": "ms", "_us": "µs", "_percent": "%", "_s": "s", "_kib": "KiB", "_mb": "MB", "_bytes": "bytes", "_s_per_gb": "s/GB"}
# Keys that must be equal to resume a run.
SAME = ("schema", "scenario", "quick", "seed", "rounds", "machine", "congestion_control", "profiles", "systems", "works")


def unit(key):
    """Returns the unit of a figure by its name."""
    if key in {ending.lstrip("_") for ending in UNITS}:
        key = f"_{key}"
    return next((what for ending, what in sorted(UNITS.items(), key=lambda pair: -len(pair[0])) if key.endswith(ending)), "")


def key_of(row):
    """Returns the key of a row, which is unique."""
    return (row["round"], row["profile"], row["placement"], row["system"], row["tuned"], row["mtu"], row["work"])


def problems(content):
    """Returns a sentence for each violation of the schema."""
    if not isinstance(content, dict):
        return ["it is no object"]
    if content.get("schema") != SCHEMA:
        return [f"its schema is {content.get('schema')}, and this lab reads {SCHEMA}"]
    found = _wrong("it", content, TOP)
    if found:
        return found
    for kind, keys in (("systems", SYSTEM), ("works", WORK), ("profiles", PROFILE)):
        found += [line for name, one in content[kind].items() for line in _wrong(f"{kind}.{name}", one, keys)]
    found += [line for number, one in enumerate(content["left_out"]) for line in _wrong(f"left_out {number}", one, LEFT_OUT)]
    for number, row in enumerate(content["runs"]):
        found += _wrong(f"run {number}", row, ROW) or _unknown_names(number, row, content)
    keys = [key_of(row) for row in content["runs"]] if not found else []
    return found + (["two runs are of the same"] if len(keys) != len(set(keys)) else [])


def _wrong(what, one, keys):
    if not isinstance(one, dict):
        return [f"{what} is no object"]
    lacks = [f"{what} has no {key}" for key in keys if key not in one]
    return lacks + [f"{key} of {what} is a {type(one[key]).__name__}" for key, kind in keys.items() if key in one and not isinstance(one[key], kind)]


def _unknown_names(number, row, content):
    """A row may only refer to known names, and a successful row has its main figure."""
    found = [f"run {number} has a {kind} that is not listed: {row[kind]}" for kind in ("profile", "system", "work") if row[kind] not in content[f"{kind}s"]]
    if not found and row["ok"] and content["works"][row["work"]]["main"] not in row["figures"]:
        found.append(f"run {number} succeeded and has no {content['works'][row['work']]['main']}")
    return found


def check_resumable(before, now, keys=SAME):
    """Raises `LabError` if two contents of a file differ in a key that must be equal to resume a run."""
    other = [key for key in keys if before[key] != now[key]]
    if other:
        raise LabError(f"what is to be resumed was another run: {', '.join(other)} differ; without --resume a new one begins")


def time_made():
    """Returns the current time as files of results contain it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def load(path):
    """Returns the content of a file; raises a `LabError` that names what is wrong with it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LabError(f"{path} cannot be read ({error.strerror}): `make bench` makes one") from None
    except ValueError as error:
        raise LabError(f"{path} holds no JSON ({error}): it was not written by this lab, or cut off") from None
    found = problems(content)
    if found:
        raise LabError(f"{path} is no file of results: {'; '.join(found[:3])}")
    return content


def save(path, content):
    """Writes the file atomically: an interrupted write leaves the old file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
