"""`taut wg` beside other implementations, the quick part: without waiting for a rekey. `make interop` waits, and writes docs/interop.md."""

import shutil

import pytest

from lab import interop
from lab.wireguard import VERSIONS, lacking

pytestmark = pytest.mark.skipif(not shutil.which("wg"), reason="needs the program wg: apt-get install wireguard-tools")


@pytest.mark.parametrize("kind", VERSIONS)
def test_fault_l7_talks_both_ways_in_both_roles(lab, kind):
    if lack := lacking(kind):
        pytest.skip(lack)
    rows = interop.run(lab, list(interop.cases([kind])), seconds=5)
    print(interop.table(rows))
    assert [row["verdict"] for row in rows] == ["ok"] * 4
