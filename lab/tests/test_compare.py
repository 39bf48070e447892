"""The method of `make bench`: its file, its figures, its ranking. Figures are not judged."""

import json
import os
import random

import pytest

from lab.compare import cost, ranking, results, scenarios, summary
from lab.hosts.programs import ROOT
from lab.hosts.wait import LabError

from .fake_results import any_machine, row, results_file, two  # noqa: F401 (a fixture)


# --- the file ---


def test_a_whole_file_has_no_problems_and_each_missing_key_is_one():
    whole = results_file([row("bare", "tcp-1", 5.0)])
    assert results.problems(whole) == []
    for key in set(results.TOP) - {"schema"}:
        assert results.problems({name: value for name, value in whole.items() if name != key}) == [f"it has no {key}"]
    for key in results.ROW:
        broken = whole | {"runs": [{name: value for name, value in whole["runs"][0].items() if name != key}]}
        assert results.problems(broken) == [f"run 0 has no {key}"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema": 2}, "its schema is 2"),
        ({"quick": "yes"}, "quick of it is a str"),
        ({"systems": {}}, "run 0 has a system that is not listed: bare"),
        ({"runs": [row("bare", "tcp-1", 5.0, figures={})]}, "run 0 succeeded and has no mbps"),
        ({"runs": [row("bare", "tcp-1", 5.0)] * 2}, "two runs are of the same"),
        ({"left_out": [{"round": 1}]}, "left_out 0 has no profile"),
    ],
)
def test_a_file_that_violates_the_schema_is_refused(tmp_path, change, why):
    file = tmp_path / "results.json"
    results.save(file, results_file([row("bare", "tcp-1", 5.0)]) | change)
    with pytest.raises(LabError, match=why):
        results.load(file)


@pytest.mark.parametrize(("text", "why"), [(None, "cannot be read"), ("{", "holds no JSON")])
def test_a_file_that_is_not_a_result_file_is_refused(tmp_path, text, why):
    file = tmp_path / "results.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(LabError, match=why):
        results.load(file)


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "results.json"
    results.save(file, {"old": 1})

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        results.save(file, {"new": 1})
    assert json.loads(file.read_text()) == {"old": 1} and list(tmp_path.iterdir()) == [file]


def test_a_unit_follows_from_a_name():
    names = ("mbps", "p99_ms", "lost_percent", "again_s", "machine_cpu_s_per_gb", "peak_mb", "payload_bytes", "retransmits")
    assert [results.unit(name) for name in names] == ["Mbit/s", "ms", "%", "s", "s/GB", "MB", "bytes", ""]


def test_the_document_describes_every_key():
    text = (ROOT / "docs" / "bench.md").read_text()
    for keys in (results.TOP, results.ROW, results.SYSTEM, results.WORK, results.PROFILE, results.LEFT_OUT):
        assert [key for key in keys if f"`{key}`" not in text] == []
    assert [one.name for one in scenarios.ALL if f"`{one.name}`" not in text] == []


# --- the figures ---


def test_a_figure_is_the_median_with_its_spread_and_interval():
    values = [10.0, 12.0, 11.0, 30.0, 9.0]
    one = summary.figure(values)
    assert (one.median, one.least, one.most, one.n) == (11.0, 9.0, 30.0, 5)
    assert one.least <= one.low <= one.median <= one.high <= one.most
    assert summary.figure(values) == summary.figure(list(reversed(values))), "the same figures give the same interval"
    assert (summary.figure([3.0]).low, summary.figure([None]), summary.figure([])) == (None, None, None)
    assert (summary.figure([1.0, 2.0]).low, summary.figure([1.0, 2.0]).high) == (1.0, 2.0)


def test_an_interval_gets_narrow_by_rounds_and_holds_the_truth():
    dice, held = random.Random(5), 0
    for _ in range(60):
        low, high = summary.interval([dice.gauss(100, 10) for _ in range(15)], 1)
        held += low <= 100 <= high
    assert held >= 50
    few, many = ([dice.gauss(100, 10) for _ in range(count)] for count in (8, 200))
    width = [summary.interval(values, 1) for values in (few, many)]
    assert width[1][1] - width[1][0] < width[0][1] - width[0][0]


def test_few_rounds_have_to_differ_clearly_to_be_apart():
    near = [summary.figure(values).apart(summary.figure([1.04 * value for value in values])) for values in ([10.0, 10.2], [10.0, 10.1, 10.2])]
    assert near == [False, False], "though not one round of the one is in those of the other"
    assert summary.figure([10.0, 10.2]).apart(summary.figure([20.0, 20.4]))
    many = [10.0, 10.1, 10.2, 10.0, 10.1, 10.2]
    assert summary.figure(many).apart(summary.figure([1.04 * value for value in many]))
    assert summary.figure([10.0]).apart(summary.figure([20.0, 20.4])) is None
    assert summary.figure([0.0, 0.1]).apart(summary.figure([5.0, 5.1])), "nothing lost has no logarithm"


def test_disturbed_rows_are_left_out_while_there_is_another():
    rows = [row("one", "tcp-1", 5.0, 1), row("one", "tcp-1", 1.0, 2, disturbed=True), row("two", "tcp-1", 3.0, 1, disturbed=True), row("two", "tcp-1", 9.0, 2, ok=False)]
    found = summary.Results(results_file(rows))
    assert (found.figure("baseline", "one", "tcp-1").median, found.figure("baseline", "one", "tcp-1").doubtful) == (5.0, False)
    assert (found.figure("baseline", "two", "tcp-1").median, found.figure("baseline", "two", "tcp-1").doubtful) == (3.0, True)
    assert found.disturbed() == (2, 4) and found.success("two") == (1, 2)
    assert found.errors() == [("two", "baseline", "tcp-1", "it broke", 1)]


def test_cost_is_taken_from_the_work_else_from_the_row():
    assert summary.cpu_per_gb(row("one", "tcp-1", 5.0)) == 2.0
    assert summary.cpu_per_gb(row("one", "tcp-1", 5.0, figures={"machine_cpu_s_per_gb": 1.5})) == 1.5
    assert summary.cpu_per_gb(row("one", "tcp-1", 5.0, figures={"mbps": 1})) is None
    assert summary.peak_mb(row("one", "tcp-1", 5.0)) == 3.072


def test_the_lab_s_own_programs_do_not_disturb():
    cpu = {"capacity_s": 4.0, "machine_s": 3.0, "tunnel_s": [1.0], "applications_s": 0.5, "lab_s": 1.4}
    assert cost.others_share(cpu) == pytest.approx(0.025)
    assert cost.others_share(cpu | {"lab_s": 0.0}) == pytest.approx(0.375)


def test_processes_that_come_and_go_are_counted_as_far_as_they_are_there():
    class One:
        def __init__(self, pid):
            self.pid = pid

    before = cost.CounterReading([[One(os.getpid())]], [One(2**22 + 1)])
    spent = cost.CounterReading([[One(os.getpid())]], []).since(before)
    assert spent["tunnel_s"][0] >= 0 and spent["lab_s"] == 0


# --- the ranking ---


@pytest.mark.parametrize(("links", "turned", "code"), [(20, 0, 0), (20, 1, 0), (20, 2, 1), (1, 1, 1)])
def test_rankings_agree_from_95_of_100_pairs_on(links, turned, code):
    verdict = ranking.compare(two(10.0, 20.0, links), two(10.0, 20.0, links, turned))
    assert (verdict.code(), verdict.judged, len(verdict.turned)) == (code, links, turned)


def test_pairs_that_overlap_are_not_judged():
    verdict = ranking.compare(two(10.0, 20.0), two(10.0, 10.05))
    assert (verdict.code(), verdict.judged, verdict.only_one, verdict.overlapping) == (2, 0, 1, 0)
    assert ranking.compare(two(10.0, 10.05), two(10.0, 10.05)).overlapping == 1
    assert "none is apart" in ranking.details(verdict)


def test_a_reversed_pair_is_reported_with_the_former_leader():
    verdict = ranking.compare(two(10.0, 20.0), two(20.0, 10.0))
    assert verdict.turned == [("link0", "packets", False, None, "tcp-1", "b", "a")]
    assert "turned: tcp-1, link0, packets: b was ahead of a" in ranking.details(verdict)
    verdict = ranking.compare(two(10.0, 20.0, better="ping"), two(20.0, 10.0, better="ping"))
    assert verdict.turned[0][-2:] == ("a", "b"), "where less is better"


def test_one_round_judges_nothing():
    rows = [row(name, "tcp-1", value) for name, value in (("a", 1.0), ("b", 2.0))]
    assert ranking.compare(results_file(rows), results_file(rows)).code() == 2
