"""The parts of a check: tests that run in parallel by day, tests that run alone by day, and tests that run at night.

`night.toml` lists the tests that run only at night, each entry with its reason. A test marked `alone` runs when nothing else does. `--part` chooses; a plain
`pytest lab` runs everything.

`make test` compiles beside the lab, so a test may fail there only because its programs got no processor. It names a file in the variable `TAUT_LAB_AGAIN`: the
part `day` writes the names of a few failed tests to it instead of failing, and the part `alone` runs them again. What fails there, too, is a failure; the end of
`make test` names the others. More failures than a few, and every failure without that file, count at once.
"""

import os
import tomllib
from pathlib import Path

import pytest

PARTS = ("all", "day", "alone", "night")
LIST = Path(__file__).with_name("night.toml")
UNMATCHED = pytest.StashKey[list]()
AGAIN = "TAUT_LAB_AGAIN"
# Failed tests that may be run again: a busy machine disturbs one or two, while what is broken fails in many.
MOST_AGAIN = 3


def entries(path=LIST):
    """Returns the entries of the list. `tests` and `by_day` are prefixes of node ids, relative to lab/tests."""
    return tomllib.loads(path.read_text())["night"]


def name_of(node_id):
    """Returns the node id in the form of the list."""
    return node_id.partition("tests/")[2]


def matches(beginning, name):
    """Returns true if the node id `name` is `beginning` or a test in it. `beginning` names a file, a function or one set of arguments."""
    return name == beginning or name.startswith((f"{beginning}::", f"{beginning}["))


def is_at_night(name, entries):
    """Returns true if an entry lists the test and its `by_day` does not."""

    def names(beginnings):
        return any(matches(beginning, name) for beginning in beginnings)

    return any(names(entry["tests"]) and not names(entry.get("by_day", ())) for entry in entries)


def unmatched(names, entries):
    """Returns the prefixes in the list that match no test."""
    wanted = (beginning for entry in entries for beginning in (*entry["tests"], *entry.get("by_day", ())))
    return [beginning for beginning in wanted if not any(matches(beginning, name) for name in names)]


def part_of(name, alone, entries, again=()):
    """Returns the part of the test `name`. Those in `again` failed beside others and run alone."""
    if is_at_night(name, entries):
        return "night"
    return "alone" if alone or name in again else "day"


def again(part):
    """Returns the names of the tests that the part `alone` runs again."""
    path = os.environ.get(AGAIN, "")
    return frozenset(Path(path).read_text().splitlines()) if part == "alone" and path and Path(path).exists() else frozenset()


def may_run_again(part, failed):
    """Returns true if these failed tests of a part are left to the part `alone`."""
    return part == "day" and bool(os.environ.get(AGAIN)) and 0 < len(failed) <= MOST_AGAIN


def pytest_addoption(parser):
    parser.addoption("--part", choices=PARTS, default="all", help="run the tests of the day, those of the day that run alone, or those of the night")


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: measures what other programs disturb; runs when nothing else does")


@pytest.hookimpl(tryfirst=True)  # before pytest reads `-k` and `-m`
def pytest_collection_modifyitems(config, items):
    """Deselects the tests of all parts except that of `--part`. If all tests were collected, it also records the list's entries that match no test."""
    wanted, listed = config.getoption("--part"), entries()
    if {Path(word).name for word in config.args} <= {"lab", "tests"}:
        config.stash[UNMATCHED] = unmatched([name_of(item.nodeid) for item in items], listed)
    if wanted == "all":
        return
    repeated = again(wanted)
    parts = {item: part_of(name_of(item.nodeid), item.get_closest_marker("alone") is not None, listed, repeated) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if parts[item] != wanted])
    items[:] = [item for item in items if parts[item] == wanted]


def _failed(reporter):
    """Returns the names of the failed tests, each once."""
    reports = [report for kind in ("failed", "error") for report in reporter.stats.get(kind, ())]
    return sorted({name_of(report.nodeid) for report in reports})


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session, exitstatus):
    """Leaves a few failed tests of the day to the part `alone`."""
    config = session.config
    # The programs among which the tests are divided know only their own.
    if hasattr(config, "workerinput") or exitstatus != pytest.ExitCode.TESTS_FAILED:
        return
    failed = _failed(config.pluginmanager.get_plugin("terminalreporter"))
    if may_run_again(config.getoption("--part"), failed):
        Path(os.environ[AGAIN]).write_text("".join(f"{name}\n" for name in failed))
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter, config):
    failed = _failed(terminalreporter)
    if may_run_again(config.getoption("--part"), failed):
        terminalreporter.write_line(f"lab: {len(failed)} tests failed beside others, and are run again alone: {' '.join(failed)}", yellow=True)
