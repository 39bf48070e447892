"""The measurement of the speed of linkbox: what counts as carried, and a short real run."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from lab.hosts.programs import ROOT
from lab.runs import linkspeed


def _way(**counts):
    counts = {"received": 10_000, "sent": 9_975, "lost": 25, "missed": 0, "refused": 0, "oversize": 0, "unfinished": 0} | counts
    return {"counts": counts, "lateness_us": {"p50": 10.0, "p99": 40.0, "max": 900.0}}


def _row(poured=10_000, refused=0, doubts=(), **counts):
    answer = {"seconds": 2.0, "interfaces": {end: {"sent": poured, "refused": refused} for end in linkspeed.ENDS}}
    report = {"to_right": _way(**counts), "to_left": _way(), "seconds": 2.2, "load": {"mean": 0.5, "turns": 4_000}, "doubts": list(doubts)}
    return linkspeed.row(5_000, answer, report)


def test_a_row_is_what_sender_and_emulator_say():
    row = _row()
    assert (row.offered_pps, row.passed_pps, row.lost) == (5_000, 4_987.5, 0.0025)
    assert (row.lateness_p50_us, row.lateness_p99_us, row.lateness_max_us) == (10, 40, 900)
    # The emulator's report covers a slightly longer time than that in which it had work.
    assert (row.load, row.frames_per_turn, row.vanished) == (0.55, 10.0, 0)
    assert row.carried and linkspeed.verdict(row) == "carried"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (_row(missed=1, received=9_999), "too much"),
        (_row(refused=1), "too much"),
        (_row(received=9_990), "too much"),
        (_row(doubts=["to the left: one frame in a hundred left 0.6 ms late or more, where 2.3 ms are usual"]), "carried, some late"),
        (_row(poured=9_800, received=9_800), "the sender was too slow"),
        # Using nearly a whole core does not count as a failure.
        (_row(doubts=["for a tenth of a second it was busy for 95 %"]), "carried"),
    ],
)
def test_what_counts_as_carried(row, why):
    assert linkspeed.verdict(row) == why


def test_the_ceiling_is_the_last_rate_that_was_carried():
    rows = [_row(), dataclasses.replace(_row(), asked_pps=6_000, offered_pps=5_990.4), dataclasses.replace(_row(), asked_pps=7_000, offered_pps=7_000, missed=3)]
    assert linkspeed.ceiling(rows) == 5_990 and linkspeed.ceiling([]) == 0
    shown = linkspeed.table(rows)
    assert len(shown.splitlines()) == 2 + len(rows) and "too much" in shown.splitlines()[-1]


_two_cores = pytest.mark.skipif(os.cpu_count() < 2, reason="linkbox and the sender have a core each")


@_two_cores
def test_frames_go_both_ways_and_are_all_accounted_for(lab):
    (row,) = linkspeed.climb(lab, "base 0.3ms delay 2ms jitter 2ms loss 5%", [2_000], 1_514, 1.0)
    # The rate is not checked, because the machine may be busy.
    assert row.offered_pps > 0 and (row.missed, row.refused, row.vanished) == (0, 0, 0)
    assert row.lost == pytest.approx(0.05, abs=0.025)
    assert row.passed_pps == pytest.approx(row.offered_pps * 0.95, rel=0.05)


def test_the_command_says_what_is_wrong():
    done = subprocess.run([sys.executable, "-m", "lab.runs.linkspeed", "--profile", "hihg"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no profile is called hihg" in done.stderr and not done.stdout


@pytest.mark.root
@_two_cores
def test_the_command_makes_a_page(tmp_path):
    page = tmp_path / "page"
    page.write_text(f"before\n{linkspeed.BEGIN}\nold\n{linkspeed.END}\nafter\n")
    words = ("--link", "base 0.3ms", "--rates", "1000", "--seconds", "0.3", "--json", "--output", str(tmp_path / "result.json"), "--document", str(page))
    done = subprocess.run([sys.executable, "-m", "lab.runs.linkspeed", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer == json.loads((tmp_path / "result.json").read_text()) and answer["schema"] == linkspeed.SCHEMA
    text = page.read_text()
    assert "old" not in text and "of 1514 bytes" in text and text.startswith("before\n") and text.endswith("after\n")
