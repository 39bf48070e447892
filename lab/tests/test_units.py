"""The shipped systemd units (dist/systemd): systemd understands them, and they start programs with existing options."""

import re
import shutil

import pytest

from lab.hosts.namespace import call
from lab.hosts.programs import ROOT, binary

UNITS = sorted((ROOT / "dist" / "systemd").glob("*.service"))
# Limit of `systemd-analyze security`, on a scale from 0 to 10: below 3 is "OK" or better. The unit of tailscaled in Debian is at 9.
EXPOSED = 3.0
pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="the program systemd-analyze is missing: apt-get install systemd"),
]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_understood_by_systemd_and_confines_its_program(unit, tmp_path):
    text = unit.read_text(encoding="utf-8")
    program, verb = re.search(r"^ExecStart=/usr/local/bin/(\S+) (\S+)", text, re.MULTILINE).groups()
    installed = tmp_path / unit.name
    installed.write_text(text.replace(f"/usr/local/bin/{program}", str(binary(program))), encoding="utf-8")
    # It reports unknown settings and continues, so there must be no output.
    assert call("systemd-analyze", "verify", installed).stderr == ""
    exposed = re.search(r"exposure level for \S+: ([0-9.]+)", call("systemd-analyze", "security", "--offline=true", installed, check=False).stdout)
    assert float(exposed[1]) < EXPOSED, exposed[0]
    known = call(binary(program), verb, "--help", check=False).stdout
    used = re.findall(r"--[a-z][a-z-]*", re.search(r"^ExecStart=.*$", text, re.MULTILINE)[0])
    assert all(option in known for option in used), f"{used} of `{program} {verb}`"
