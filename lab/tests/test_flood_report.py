"""The report of `make flood`, and one short flood, which shows that it can measure."""

import pytest

from lab.runs.flood import joined, measure, share
from lab.runs.flood_network import Network
from lab.runs.flood_report import page, text, verdicts


def row(kind, aimed, **figures):
    """Returns a row in which every target is met."""
    spread = {"median": 200.0, "least": 199.0, "most": 201.0}
    good = {
        "mode": "network", "fault": "B0", "kind": kind, "aimed_pps": aimed, "sent_pps": aimed, "sent": 5 * aimed, "answers": 0, "bytes_back_per_byte": 0.0,
        "kernel_dropped": 0, "mbps_quiet": spread, "mbps_flooded": spread, "lost_quiet": spread, "lost_flooded": spread, "cpu_flooded": {"taut": 0.1},
        "per_second": {"computed": 500, "answered": 2}, "dh_per_s": 506, "throughput_lost": 0.0, "connects": 50, "connects_failed": 0,
        "connect_quiet_p50_ms": 2.0, "connect_p50_ms": 3.0, "connect_p99_ms": 9.0, "connect_max_ms": 9.0, "flow_stays": True, "memory_kib": 5_000,
        "memory_grown_kib": 4, "rounds": 5, "seconds": 5, "load": 0.5,
    }  # fmt: skip
    return {**good, **figures}


def judged(*rows):
    return {name: target["verdict"] for name, target in verdicts(rows)["network"].items()}


def test_each_target_is_judged_by_its_own_rows():
    hard, good = row("spoofed", 50_000), row("spoofed", 20_000)
    outsider = row("bad-mac1", 200_000)
    assert judged(outsider, good, hard) == {"R2": "stretch", "R3": "stretch", "R4": "stretch"}
    assert judged(good) == {"R2": "stretch", "R3": "not measured", "R4": "gate"}
    assert judged(row("bad-mac1", 200_000, answers=1), hard) == {"R2": "missed", "R3": "stretch", "R4": "not measured"}
    assert judged(row("replay", 1, bytes_back_per_byte=0.6))["R2"] == "gate"
    assert judged(row("replay", 1, bytes_back_per_byte=1.01))["R2"] == "missed"
    assert judged(row("bad-mac1", 200_000, throughput_lost=0.06))["R3"] == "gate"
    assert judged(row("bad-mac1", 200_000, throughput_lost=0.21))["R3"] == "missed"


def test_late_or_costly_connections_miss_the_target():
    hard = row("spoofed", 50_000)
    for wrong in ({"connects_failed": 1}, {"connect_p99_ms": 2_001}, {"connect_p99_ms": None}, {"dh_per_s": 2_001}, {"flow_stays": False}):
        assert judged(row("spoofed", 20_000, **wrong), hard)["R4"] == "missed", wrong
        assert judged(row("spoofed", 20_000), row("spoofed", 50_000, **wrong))["R4"] == "gate", wrong
    assert judged(row("spoofed", 20_000), row("spoofed", 50_000, throughput_lost=0.06))["R4"] == "gate"
    assert judged(row("spoofed", 20_000), row("spoofed", 50_000, connect_p99_ms=501))["R4"] == "gate"


def test_a_flood_that_was_too_slow_is_said_to_be():
    seen = verdicts([row("bad-mac1", 200_000, sent_pps=100_000)])["network"]["R3"]
    assert "the generator made 100,000 a second" in seen["seen"] and seen["verdict"] == "not measured"
    assert judged(row("spoofed", 20_000, sent_pps=10_000))["R4"] == "not measured"
    hard = row("spoofed", 50_000, sent_pps=40_000)
    assert judged(row("spoofed", 20_000), hard)["R4"] == "gate"
    assert "(40,000 were made)" in verdicts([row("spoofed", 20_000), hard])["network"]["R4"]["seen"]


def test_a_later_run_replaces_the_figures_that_it_measured_again():
    former = [row("replay", 20_000, sent=1), row("bad-mac1", 200_000, sent=2)]
    merged = joined([row("replay", 20_000, sent=3)], former)
    assert [(line["kind"], line["sent"]) for line in merged] == [("bad-mac1", 2), ("replay", 3)]


def test_the_slowest_of_fifty_is_their_p99():
    assert (share(list(range(50)), 0.99), share(list(range(200)), 0.99), share([], 0.5)) == (49, 198, None)


@pytest.mark.alone
def test_one_short_flood_is_measured_and_reported(lab):
    # Other limits apply to an idle machine. The limit on the work of the agent, and that all peers connect, hold on any machine.
    field = Network(lab)
    seen = measure(field, "spoofed", "B2", 20_000, seconds=1, rounds=1, tries=2)
    assert seen["sent"] > 0 and 0 < seen["bytes_back_per_byte"] <= 0.5 and seen["connects_failed"] == 0, seen
    assert 0 < seen["per_second"]["computed"] <= 2_000 and seen["mbps_quiet"]["median"] > 0, seen
    result = {"machine": {"cpu": "a", "cores": 2, "kernel": "b"}, "floods": [seen], "verdicts": verdicts([seen])}
    assert "spoofed (B2)" in text(result) and "| R4 |" in page(result)
