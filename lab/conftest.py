"""Fixtures: `lab` is an empty lab that is removed after the test; `mesh` builds a Taut network in it.

Logs are in target/lab/TEST/HOST/. They are kept only if the test failed or TAUT_LAB_KEEP is set.
"""

import functools
import os
import re
import signal

import pytest

from .hosts import needs, programs
from .hosts.net import Lab
from .hosts.programs import ROOT
from .hosts.wait import LabError
from .nodes import mesh as meshes
from .nodes.world import World

# The option `--part`: which tests run by day, alone, and at night.
pytest_plugins = ["lab.tests.parts"]

# Longest time a test may take, in seconds: far more than any test needs, so that a hang does not block a run for hours.
LIMIT_S = 600
_lacks = functools.cache(needs.missing)
_failed = pytest.StashKey[bool]()


def pytest_configure():
    # By default SIGTERM ends Python without clean-up. As an interrupt it lets every lab close.
    signal.signal(signal.SIGTERM, _interrupt)


@pytest.hookimpl(tryfirst=True)  # runs before pytest evaluates `-m`
def pytest_collection_modifyitems(items):
    """Marks each test that uses the fixture `lab` with `root`, and skips all tests with that mark if this machine cannot make hosts."""
    for item in items:
        if "lab" in item.fixturenames:
            item.add_marker("root")
    needing = [item for item in items if item.get_closest_marker("root")]
    for item in needing if needing and _lacks() else ():
        item.add_marker(pytest.mark.skip(reason=_lacks()[0]))
    for item in items:
        if item.get_closest_marker("programs") and _unbuilt():
            item.add_marker(pytest.mark.skip(reason=_unbuilt()))


def pytest_terminal_summary(terminalreporter):
    if terminalreporter.stats.get("skipped") and _lacks():
        skipped = [report for report in terminalreporter.stats["skipped"] if _lacks()[0] in str(report.longrepr)]
        terminalreporter.write_line(f"lab: {len(skipped)} tests skipped: {_lacks()[0]}", yellow=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and call.when in ("setup", "call"):
        item.stash[_failed] = True
        open_lab = item.funcargs.get("lab")
        if open_lab:
            report.sections.append((f"last lines of every host; complete logs: {open_lab.logs}", open_lab.tails()))
    return report


@pytest.fixture
def lab(request):
    """Returns an empty lab for one test."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name).strip("-")
    signal.signal(signal.SIGALRM, _too_long)
    with Lab(ROOT / "target" / "lab" / name) as made:
        signal.alarm(LIMIT_S)
        yield made
        signal.alarm(0)
        made.failed = request.node.stash.get(_failed, False) or "TAUT_LAB_KEEP" in os.environ


@pytest.fixture
def mesh(lab):
    """Returns a function that builds a network: `mesh(nodes=3, ipv4=False, routed=True)`, see `lab.nodes.mesh.build`."""
    return functools.partial(meshes.build, lab)


@pytest.fixture
def behind(lab):
    """Returns a function that builds nodes behind NATs with relays: `behind(["open", "symmetric"], relays=2)`, see `lab.nodes.world.World`."""
    return functools.partial(World, lab)


@pytest.fixture
def layout(lab):
    """Returns a function like `mesh` that starts nothing: see `lab.nodes.mesh.lay_out`."""
    return functools.partial(meshes.lay_out, lab)


@functools.cache
def _unbuilt():
    """Returns why the built programs cannot be used, or an empty string."""
    try:
        programs.binary("taut")
    except LabError as error:
        return str(error)
    return ""


def _interrupt(*_):
    raise KeyboardInterrupt("SIGTERM")


def _too_long(*_):
    raise TimeoutError(f"the test is still running after {LIMIT_S} s")
