"""Requests generated from the description of the API: a short run. `make api-fuzz` runs longer."""

import pytest

from lab.runs.api import fuzz, lacking


def test_fault_e1_no_request_is_a_fault_of_the_coordinator_and_all_answers_are_described(lab):
    if lack := lacking():
        pytest.skip(lack)
    seen = fuzz(lab, examples=3, invalid=2)
    print("\n".join(f"{who}: {what}" for who, held, what in seen if held))
    assert [f"{who}: {what}" for who, held, what in seen if not held] == []
    assert len(seen) == 4
