"""Evaluation of measurements of paths: which of them count, and what the table says."""

import pytest

from lab.hosts.wait import LabError
from lab.runs.path_rows import Row, is_uneven, recovery


@pytest.mark.parametrize(("before", "after", "uneven"), [(5000, 5000, False), (5000, 3750, False), (5000, 3740, True), (3740, 5000, True)])
def test_a_machine_that_changed_between_two_runs_is_noticed(before, after, uneven):
    assert is_uneven(before, after) == uneven


def test_a_share_is_judged_by_the_least_and_a_time_by_the_longest():
    assert Row("throughput", 40, [80, 41, 90], unit="%").cells() == ["80.0 %", "41.0 % (3 runs)", "yes"]
    assert Row("throughput", 40, [80, 39, 90], unit="%", note="so").cells() == ["80.0 %", "39.0 % (3 runs); so", "no"]
    assert Row("dies", 1000, [7, 1001, 8]).cells() == ["8.0 ms", "1001.0 ms (3 runs)", "no"]
    assert Row("jumbo", 97, [99, 80, 98], unit="%", by_median=True, of="pairs").cells() == ["98.0 %", "80.0 % (3 pairs)", "yes"]
    assert Row("lost", 0, [0, 3, 0], unit="packets", of="underlays").cells() == ["0 packets", "3 packets (3 underlays)", "no"]
    assert Row("dies", 1000, [7, 9, 8], whole=False).cells()[2] == "no"
    assert Row("dies", 1000, [], problem="the bridge broke").cells() == ["not measured: the bridge broke", "–", "no"]


@pytest.mark.parametrize(
    ("unanswered", "took"),
    [
        # The command that broke the path ran until 1.02; requests sent before were answered.
        ((1.02, 1.03), 60),
        # The path was not interrupted.
        ((), 11),
        # Losses before the moment, and long after it, have other causes and are ignored.
        ((0.99, 1.6), 11),
    ],
)
def test_recovery_counts_what_was_asked_after_the_first_loss(unanswered, took):
    asked = [0.98, 1.0, 1.01, 1.04, 1.05, 1.7]
    record = {"asked": asked, "answered": [moment + 0.011 for moment in asked[:3]] + [1.06, 1.061, 1.711], "unanswered": unanswered}
    assert recovery(record, 1.0) == pytest.approx(took)


def test_recovery_without_an_answer_has_no_figure():
    with pytest.raises(LabError):
        recovery({"asked": [1.0], "answered": [1.01], "unanswered": [1.02]}, 1.0)
