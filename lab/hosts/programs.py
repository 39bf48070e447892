"""Paths of the programs that the project builds."""

import os
from pathlib import Path

from .wait import LabError

ROOT = Path(__file__).resolve().parents[2]


def binary(name, release=None):
    """Returns the path of a built program: of an earlier release (lab/nodes/releases.py), else from TAUT_BIN_DIR, else of the release build or of the
    build of `make test`."""
    given = ROOT / "target" / "releases" / release if release else os.environ.get("TAUT_BIN_DIR")
    places = [Path(given)] if given else [ROOT / "target" / "release", ROOT / "target" / "ci"]
    for place in places:
        if (place / name).is_file():
            return (place / name).resolve()
    looked = " or ".join(str(place) for place in places)
    raise LabError(f"there is no program {name} in {looked}: build it first (`make test` and `make demo` do)")
