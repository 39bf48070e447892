"""A wrong figure is a failure only if the machine was not stopped or overloaded during the measurement."""

import contextlib
import time
import types

import pytest

from lab.tests.quiet_machine import TRIES, Watch, in_calm


def _watch(still):
    return lambda: contextlib.nullcontext(types.SimpleNamespace(still=still))


def _figures(*figures):
    remaining = iter(figures)

    def measure():
        figure = next(remaining)
        assert figure == "right", figure
        return figure

    return measure


def test_a_wrong_figure_on_a_machine_that_kept_its_time_fails():
    with pytest.raises(AssertionError, match="off"):
        in_calm(_figures("off", "right"), watch=_watch(0.002))


def test_a_wrong_figure_on_a_machine_that_stood_still_is_measured_again():
    assert in_calm(_figures("off", "off", "right"), watch=_watch(0.2)) == "right"


def test_a_right_figure_passes_even_if_the_machine_stood_still():
    assert in_calm(_figures("right", "off"), watch=_watch(0.2)) == "right"


def test_a_machine_that_always_stands_still_skips_the_test():
    with pytest.raises(pytest.skip.Exception, match="still for 20 % of the time.*: off"):
        in_calm(_figures(*["off"] * TRIES), watch=_watch(0.2))


def test_any_other_error_is_not_blamed_on_the_machine():
    with pytest.raises(ZeroDivisionError):
        in_calm(lambda: 1 / 0, watch=_watch(0.2))


def test_a_watch_looks_at_every_core_and_ends():
    with Watch() as seen:
        time.sleep(0.05)
    assert 0 <= seen.still < 1
