"""`taut wg` beside other implementations, the quick part: without waiting for a rekey. `make interop` waits, and writes docs/interop.md.

All pairs of a test run at once, because most of the time is waiting. Each implementation has its own verdict, or is skipped by name.
"""

import shutil

import pytest

from lab.nodes.wireguard import VERSIONS, lacking
from lab.runs import interop, soak_interop

pytestmark = pytest.mark.skipif(not shutil.which("wg"), reason="needs the program wg: apt-get install wireguard-tools")

_rows = {}


def rows(kind, run):
    """Returns the rows of `kind` from `run`, which covers all installed implementations and runs once, for the first test that needs it."""
    if lack := lacking(kind):
        pytest.skip(lack)
    if run.__name__ not in _rows:
        _rows[run.__name__] = run([one for one in VERSIONS if not lacking(one)])
    return [row for row in _rows[run.__name__] if kind in (row["initiator"], row["responder"])]


@pytest.mark.parametrize("kind", VERSIONS)
def test_fault_l7_talks_both_ways_in_both_roles(lab, kind):
    def talk(kinds):
        return interop.run(lab, list(interop.cases(kinds)), seconds=5)

    found = rows(kind, talk)
    print(interop.table(found))
    assert [row["verdict"] for row in found] == ["ok"] * 4


@pytest.mark.parametrize("kind", VERSIONS)
def test_fault_l7_is_never_deaf_in_one_direction(lab, kind):
    """The quick form of `make soak-interop`: `taut wg` rekeys every three seconds where it initiates."""

    def fetch(kinds):
        return soak_interop.run(lab, list(soak_interop.cases(kinds, rekey_after=3)), seconds=20, gap=0.3)

    found = rows(kind, fetch)
    print(soak_interop.table(found))
    assert [row["verdict"] for row in found] == ["ok"] * 4
    assert all(row["rekeys"] >= 3 for row in found if row["initiator"] == "taut")
