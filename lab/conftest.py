"""Fixtures: `lab` is an empty lab that is gone after the test, `mesh` builds a Taut network in it.

Logs are in target/lab/TEST/HOST/; they stay only when the test failed (or TAUT_LAB_KEEP is set).
"""

import functools
import os
import re
import signal

import pytest

from .hosts import needs
from .hosts.net import Lab
from .hosts.programs import ROOT
from .nodes import mesh as meshes
from .nodes.world import World

# No test takes nearly as long; a hang must not hold a run for hours.
LIMIT_S = 600
_lacks = functools.cache(needs.missing)
_failed = pytest.StashKey[bool]()


def pytest_configure():
    # SIGTERM ends Python without clean-up by default; as an interrupt it lets every lab close.
    signal.signal(signal.SIGTERM, _interrupt)


def pytest_collection_modifyitems(items):
    if not _lacks():
        return
    for item in items:
        item.add_marker(pytest.mark.skip(reason=_lacks()[0]))


def pytest_terminal_summary(terminalreporter):
    if _lacks():
        count = len(terminalreporter.stats.get("skipped", []))
        terminalreporter.write_line(f"lab: {count} tests skipped: {_lacks()[0]}", yellow=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and call.when in ("setup", "call"):
        item.stash[_failed] = True
        open_lab = item.funcargs.get("lab")
        if open_lab:
            report.sections.append((f"the hosts' last lines; all of it is in {open_lab.logs}", open_lab.tails()))
    return report


@pytest.fixture
def lab(request):
    """A lab for one test."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name).strip("-")
    signal.signal(signal.SIGALRM, _too_long)
    with Lab(ROOT / "target" / "lab" / name) as made:
        signal.alarm(LIMIT_S)
        yield made
        signal.alarm(0)
        made.failed = request.node.stash.get(_failed, False) or "TAUT_LAB_KEEP" in os.environ


@pytest.fixture
def mesh(lab):
    """Call it to get a network: `mesh(nodes=3, ipv4=False, routed=True)`, see `lab.nodes.mesh.build`."""
    return functools.partial(meshes.build, lab)


@pytest.fixture
def behind(lab):
    """Call it with kinds of NAT to get nodes behind them, served by relays: `behind(["open", "symmetric"], relays=2)`, see `lab.nodes.world.World`."""
    return functools.partial(World, lab)


@pytest.fixture
def layout(lab):
    """Like `mesh`, but nothing is started: see `lab.nodes.mesh.lay_out`."""
    return functools.partial(meshes.lay_out, lab)


def _interrupt(*_):
    raise KeyboardInterrupt("SIGTERM")


def _too_long(*_):
    raise TimeoutError(f"the test is still running after {LIMIT_S} s")
