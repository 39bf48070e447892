"""Malformed datagrams of an unauthenticated host: 200,000 of the ten million of `make hammer`."""

from lab.runs.hammer import hammer


def test_fault_a1_a2_a3_a4_a5_a10_a12_a14_a15_a18_malformed_datagrams_through_the_real_socket(lab):
    broken = [(what, seen) for what, held, seen in hammer(lab, count=200_000) if not held]
    assert broken == []
