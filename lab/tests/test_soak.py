"""Two minutes of `make soak`, with rekeys every fifteen seconds; and the arithmetic of its checks."""

import pytest

from lab.runs.soak import longest_gap, slope, soak, standstills


def test_nothing_leaks_and_no_node_falls_silent_over_rekeys_and_restarts(lab):
    broken = [(what, seen) for what, held, seen in soak(lab, minutes=2) if not held]
    assert broken == []


def test_a_gap_is_counted_without_the_pauses_inside_of_it():
    assert longest_gap([1, 2, 9], 0, 10, []) == 7
    assert longest_gap([1, 2, 9], 0, 10, [(2.5, 8.5)]) == 1
    assert longest_gap([1, 2, 9], 0, 10, [(2.5, 4), (3, 5)]) == 4
    assert longest_gap([], 0, 10, []) == 10
    assert longest_gap([1, 9], 0, 10, [(20, 30)]) == 8


def test_a_machine_that_stood_still_was_not_silent():
    asked = [0, 0.1, 0.2, 5.2, 5.2, 5.3, 5.4]
    assert standstills(asked) == [(0.2, 5.2)]
    assert longest_gap([0.1, 5.3], 0, 5.4, standstills(asked)) == pytest.approx(0.1)
    assert standstills([number / 10 for number in range(50)]) == []


def test_the_slope_is_that_of_the_nearest_line():
    assert slope([(0, 5), (1, 7), (2, 9)]) == pytest.approx(2)
    assert slope([(0, 1), (1, 0), (2, 1)]) == pytest.approx(0)
    assert slope([(3, 7)]) == 0
