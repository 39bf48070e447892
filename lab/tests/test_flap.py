"""The plan of `make flap`: the seed determines it, each thing has one fault at a time, and all faults are reverted at the end."""

from lab.runs import flap


def test_the_seed_decides_everything():
    assert flap.plan(1, 600) == flap.plan(1, 600) != flap.plan(2, 600)


def test_every_fault_happens_and_is_reverted_before_the_end():
    seen = set()
    for seed in range(20):
        until = {}
        for fault in flap.plan(seed, 600):
            assert fault.what in flap.possible(fault.whose)
            assert fault.at >= until.get(fault.whose, 0), "two at once"
            until[fault.whose] = fault.until or fault.at
            assert until[fault.whose] <= 600
            seen.add(fault.what)
    assert seen == {"gone", "cable", "hole in", "hole out", "hole both", "forgets", "other ports", "other address"}
