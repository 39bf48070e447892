"""`taut wg` beside other implementations, the quick part: without waiting for a rekey. `make interop` waits, and writes docs/interop.md."""

import shutil

import pytest

from lab import interop, soak
from lab.wireguard import VERSIONS, lacking

pytestmark = pytest.mark.skipif(not shutil.which("wg"), reason="needs the program wg: apt-get install wireguard-tools")


@pytest.mark.parametrize("kind", VERSIONS)
def test_fault_l7_talks_both_ways_in_both_roles(lab, kind):
    if lack := lacking(kind):
        pytest.skip(lack)
    rows = interop.run(lab, list(interop.cases([kind])), seconds=5)
    print(interop.table(rows))
    assert [row["verdict"] for row in rows] == ["ok"] * 4


@pytest.mark.parametrize("kind", VERSIONS)
def test_fault_l7_is_never_deaf_in_one_direction(lab, kind):
    """The quick form of `make soak-interop`: ours renews every three seconds where it starts the handshakes."""
    if lack := lacking(kind):
        pytest.skip(lack)
    rows = soak.run(lab, list(soak.cases([kind], rekey_after=3)), seconds=20, gap=0.3)
    print(soak.table(rows))
    assert [row["verdict"] for row in rows] == ["ok"] * 4
    assert all(row["rekeys"] >= 3 for row in rows if row["initiator"] == "taut")
