"""The parts of a check: tests that run in parallel by day, tests that run alone by day, and tests that run at night.

`night.toml` lists the tests that run only at night, each entry with its reason. A test marked `alone` runs when nothing else does. `--part` chooses; a plain
`pytest lab` runs everything.
"""

import tomllib
from pathlib import Path

import pytest

PARTS = ("all", "day", "alone", "night")
LIST = Path(__file__).with_name("night.toml")
UNMATCHED = pytest.StashKey[list]()


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


def part_of(name, alone, entries):
    if is_at_night(name, entries):
        return "night"
    return "alone" if alone else "day"


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
    parts = {item: part_of(name_of(item.nodeid), item.get_closest_marker("alone") is not None, listed) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if parts[item] != wanted])
    items[:] = [item for item in items if parts[item] == wanted]
