"""Each test belongs to one part of a check: in parallel by day, alone by day, or at night."""

import pytest

from lab.tests import parts

ENTRIES = [
    {"tests": ["test_a.py"], "by_day": ["test_a.py::test_cheap", "test_a.py::test_kinds[one]"], "reason": "many"},
    {"tests": ["test_b.py::test_long"], "reason": "long"},
]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("test_a.py::test_dear", "night"),
        ("test_a.py::test_cheap", "day"),
        ("test_a.py::test_cheaper", "night"),
        ("test_a.py::test_kinds[one]", "day"),
        ("test_a.py::test_kinds[two]", "night"),
        ("test_b.py::test_long[any]", "night"),
        ("test_b.py::test_longer", "day"),
    ],
)
def test_an_entry_means_a_file_a_function_or_one_set_of_arguments(name, part):
    assert parts.part_of(name, False, ENTRIES) == part


def test_a_test_of_the_night_is_not_run_alone_by_day():
    assert parts.part_of("test_b.py::test_long", True, ENTRIES) == "night"
    assert parts.part_of("test_b.py::test_short", True, ENTRIES) == "alone"


def test_a_few_tests_that_failed_beside_others_run_again_alone(tmp_path, monkeypatch):
    names = ["test_a.py::test_one", "test_a.py::test_kinds[two words]"]
    # `make test` sets it for this run, too.
    monkeypatch.delenv(parts.AGAIN, raising=False)
    assert not parts.may_run_again("day", names), "a plain run fails"
    listed = tmp_path / "again"
    monkeypatch.setenv(parts.AGAIN, str(listed))
    assert parts.again("alone") == frozenset()
    listed.write_text("\n".join(names))
    assert parts.again("alone") == set(names) and parts.again("day") == frozenset()
    assert parts.part_of(names[1], False, [], parts.again("alone")) == "alone"
    assert parts.may_run_again("day", names)
    assert not parts.may_run_again("alone", names) and not parts.may_run_again("night", names)
    assert not parts.may_run_again("day", []) and not parts.may_run_again("day", names * parts.MOST_AGAIN)


def test_an_entry_that_matches_no_test_is_found():
    assert parts.unmatched(["test_a.py::test_cheap", "test_b.py::test_long[any]"], ENTRIES) == ["test_a.py::test_kinds[one]"]


def test_every_entry_of_the_night_matches_a_test_and_has_a_reason(request):
    assert all(entry["reason"] for entry in parts.entries())
    if parts.UNMATCHED not in request.config.stash:
        pytest.skip("only a run of the whole lab collects every test")
    assert request.config.stash[parts.UNMATCHED] == []
