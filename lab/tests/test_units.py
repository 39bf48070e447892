"""The shipped systemd units (dist/systemd): systemd understands them, and they start programs with existing options."""

import json
import re
import shutil

import pytest

from lab.hosts.namespace import call
from lab.hosts.programs import ROOT, binary

UNITS = sorted((ROOT / "dist" / "systemd").glob("*.service"))
# Limits of `systemd-analyze security` of this host, on a scale from 0 to 10. Older systemds than 257, whose figures are in tools/units, count up to 0.3 more.
EXPOSED = {"taut-coordinator": 1.8, "taut-relay": 1.8, "taut-dns@": 3.2}
OTHERS = 2.8
ROOT_13 = ROOT / "target/debian13"
pytestmark = pytest.mark.programs
host_only = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="the program systemd-analyze is missing: apt-get install systemd")


@host_only
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_understood_by_systemd_and_confines_its_program(unit, tmp_path):
    text = unit.read_text(encoding="utf-8")
    program, verb = re.search(r"^ExecStart=/usr/local/bin/(\S+) (\S+)", text, re.MULTILINE).groups()
    installed = tmp_path / unit.name
    installed.write_text(text.replace(f"/usr/local/bin/{program}", str(binary(program))), encoding="utf-8")
    # It reports unknown settings and continues, so there must be no output.
    assert call("systemd-analyze", "verify", installed).stderr == ""
    exposed = re.search(r"exposure level for \S+: ([0-9.]+)", call("systemd-analyze", "security", "--offline=true", installed, check=False).stdout)
    assert float(exposed[1]) <= EXPOSED.get(unit.stem, OTHERS), exposed[0]
    known = call(binary(program), verb, "--help", check=False).stdout
    used = re.findall(r"--[a-z][a-z-]*", re.search(r"^ExecStart=.*$", text, re.MULTILINE)[0])
    assert all(option in known for option in used), f"{used} of `{program} {verb}`"


@pytest.mark.root
@pytest.mark.skipif(not ROOT_13.exists(), reason="the root target/debian13 is missing: tools/units")
def test_systemd_257_finds_each_unit_as_confined_as_the_page_says():
    done = call(ROOT / "tools/units", "--json", check=False)
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and answer["ok"], answer
    assert len(answer["units"]) == len(UNITS)
    page = (ROOT / "docs/services.md").read_text(encoding="utf-8")
    figures = {one["unit"].removesuffix(".service"): one["exposure"] for one in answer["units"]}
    told = (("node", "taut"), ("coordinator", "taut-coordinator"), ("relay", "taut-relay"), ("the kill switch's unit", "taut-kill-switch"), ("the resolver's helper", "taut-dns@"))
    assert all(f"{name} {figures[unit]}" in page for name, unit in told), figures


def test_a_further_network_has_the_unit_of_the_usual_one():
    usual, further = ((ROOT / "dist/systemd" / name).read_text(encoding="utf-8") for name in ("taut.service", "taut@.service"))
    settings = lambda text: [line for line in text.splitlines() if line and not line.startswith("#")]
    plain = [line.replace("-%i", "").replace(" --network %i", "").replace(" %i", "") for line in settings(further)]
    assert plain == settings(usual)
