"""Results of earlier runs beside those of this one: tables of all kernels and parts need not come from one run of hours."""

import json

from ...hosts.vm import archive
from ...hosts.wait import LabError
from . import SCHEMA

# What must be the same in results that stand in one line.
_SAME = ("release", "version", "accelerator")


def read(files):
    """Returns the results in these files, in their order."""
    found = []
    for file in files:
        try:
            results = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise LabError(f"the results of an earlier run in {file} cannot be read: {error}") from None
        if results.get("schema") != SCHEMA:
            raise LabError(f"{file} is not of schema {SCHEMA}: run its parts again")
        found.append(results)
    return found


def merged(several):
    """Returns the kernels of several results. A part of a later one replaces the same part of an earlier one."""
    found = {}
    for kernel in (kernel for results in several for kernel in results["kernels"]):
        one = found.setdefault(kernel["series"], {**kernel, "parts": {}})
        for name in _SAME:
            if one[name] != kernel[name]:
                raise LabError(f"results of {one['release']} and {kernel['release']} differ in `{name}` ({one[name]}, {kernel[name]}): run the parts of the former again")
        one["parts"].update(kernel["parts"])
        one["ok"] = all(part["ok"] for part in one["parts"].values())
    return [found[series] for series in archive.table() if series in found]
