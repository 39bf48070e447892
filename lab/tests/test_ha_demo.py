"""The demo of high availability: what it concludes from what it saw; a small run; nothing is left after an interrupt."""

import copy
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest

from lab.hosts import leftovers, needs
from lab.hosts.programs import ROOT
from lab.hosts.wait import wait_until
from lab.nodes import balancer, postgres
from lab.runs import ha_demo, ha_load, ha_picture, ha_report
from lab.runs.ha_events import BLOWS, Blow
from lab.runs.ha_site import SMALL, Site

LACK = needs.missing_reason("nft", "haproxy", "ss") or postgres.missing()
can_run = pytest.mark.skipif(bool(LACK), reason=LACK)

ROW = {
    "blow": "replica-killed",
    "title": "a replica is killed",
    "detail": "co1 with 3 channels",
    "at_s": 1.0,
    "moments_s": [1.0],
    "pings_lost": 0,
    "pings_sent": 5000,
    "channels_cut": 3,
    "away_at_end": 0,
    "again_s": 0.5,
    "longest_without_channel_s": 0.4,
    "changes_refused": 1,
    "changes_without_answer": 1,
    "changes_sent": 50,
    "changes_none_for_s": 0.3,
    "rename_everywhere_s": 0.2,
}
RESULT = {
    "date": "2026-11-28",
    "machine": {"cpu": "a processor", "cores": 2, "kernel": "6.18"},
    "seconds": 12.0,
    "nodes": 3,
    "replicas": 3,
    "pings_sent": 5000,
    "pings_lost": 0,
    "flows": [{"pair": "node1 → node2", "bytes": 1, "equal": True}],
    "database": {"acknowledged": 2, "missing": 0, "twice": 0, "refused_but_made": 0, "unclear_and_made": 0},
    "maps_differing": 0,
    "blows": [ROW],
    "outages": [{"node": "node1", "from_s": 1.0, "to_s": 1.5}, {"node": "node2", "from_s": 2.0, "to_s": None}],
    "changes_failed_at_s": [1.1],
    "lost": [{"pair": "node1 → node2", "at_s": [1.2]}],
}


def request(what, number, status, key=None, unclear=False):
    return {"what": what, "number": number, "id": key, "status": status, "unclear": unclear}


@pytest.mark.parametrize(
    ("requests", "keys", "seen"),
    [
        ([request("create", 0, 201, 5)], [(5, 0, False)], {"acknowledged": 1}),
        ([request("create", 0, 201, 5)], [], {"acknowledged": 1, "missing": 1}),
        ([request("create", 0, 201, 5)], [(6, 0, False)], {"acknowledged": 1, "missing": 1}),
        ([request("create", 0, 201, 5)], [(5, 0, False), (6, 0, False)], {"acknowledged": 1, "twice": 1}),
        ([request("create", 0, 503)], [(5, 0, False)], {"refused_but_made": 1}),
        ([request("create", 0, 503, unclear=True)], [(5, 0, False)], {"unclear_and_made": 1}),
        ([request("create", 0, None, unclear=True)], [], {}),
        ([request("create", 0, 201, 5), request("revoke", 0, 200, 5)], [(5, 0, True)], {"acknowledged": 2}),
        ([request("create", 0, 201, 5), request("revoke", 0, 200, 5)], [(5, 0, False)], {"acknowledged": 2, "missing": 1}),
    ],
)
def test_answers_are_compared_with_the_database(requests, keys, seen):
    assert {name: count for name, count in ha_load.compare(requests, keys).items() if count} == seen


def test_each_thing_that_must_hold_is_judged():
    assert all(one["held"] for one in ha_report.verdicts(RESULT))
    breaks = [
        lambda result: result.update(pings_lost=1),
        lambda result: result["flows"][0].update(equal=False),
        lambda result: result["blows"][0].update(away_at_end=1),
        *(lambda result, name=name: result["database"].update({name: 1}) for name in ("missing", "twice", "refused_but_made")),
        lambda result: result.update(maps_differing=1),
    ]
    for number, spoil in enumerate(breaks):
        broken = copy.deepcopy(RESULT)
        spoil(broken)
        assert [place for place, one in enumerate(ha_report.verdicts(broken)) if not one["held"]] == [number]


def test_the_time_without_a_channel_counts_from_the_disturbance_before_it():
    blow = Blow("rolling-restart", "", "mark-1", [], ended=60.0, moments=[10.0, 20.0])
    assert ha_report.after_moment([(10.2, 10.5), (20.1, 23.0)], blow) == 3.0
    assert ha_report.longest([(10.2, 10.5), (20.1, 23.0)], blow) == 2.9
    assert ha_report.after_moment([(59.0, None)], blow) == 40.0
    assert ha_report.after_moment([], blow) is None


def test_the_picture_is_well_formed_and_shows_each_strip():
    looks = [{"at": 0.0, "channels": [2, 1, 0]}, {"at": 1.1, "channels": [None, 2, 1]}, {"at": 2.0, "channels": [0, 2, 1]}]
    words = [element.text for element in xml.fromstring(ha_picture.svg(RESULT, looks)).iter("{http://www.w3.org/2000/svg}text")]
    assert {"node1: no channel", "node2: no channel", "pings lost", "changes that failed", "replica killed"} <= set(words)


def test_the_text_and_the_page_name_every_blow():
    result = {**RESULT, "verdicts": ha_report.verdicts(RESULT), "targets": ha_report.targets(RESULT)}
    assert "a replica is killed" in ha_report.text(result) and "NO" not in ha_report.text(result)
    assert "| 0 of 5,000 | 3 | 0.50 s |" in ha_report.table(result)


@pytest.mark.skipif(not shutil.which("haproxy"), reason=needs.lacking("haproxy"))
def test_haproxy_accepts_the_shipped_file(tmp_path):
    for text in (balancer.TEMPLATE.read_text(), balancer.configuration(["192.0.2.3", "192.0.2.4", "192.0.2.5"])):
        file = tmp_path / "haproxy.cfg"
        file.write_text(text)
        done = subprocess.run(["haproxy", "-c", "-f", file], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr


@can_run
def test_fault_n3_n5_no_blow_breaks_the_overlay_or_loses_a_change(lab):
    result, looks = ha_demo.run(Site(lab, SMALL, print))
    assert [one["what"] for one in result["verdicts"] if not one["held"]] == [], result
    assert [row["blow"] for row in result["blows"]] == [key for key, _, _ in BLOWS]
    rows = {row["blow"]: row for row in result["blows"]}
    # The blows hit something: otherwise the rest says nothing. A node that is back at once may be back before its observer looks again; the replicas count every channel.
    opened = {blow: row["channels_opened"] for blow, row in rows.items()}
    assert opened["calm"] == opened["database-restarted"] == 0
    assert opened["balancer-killed"] >= result["nodes"]
    assert opened["replica-killed"] > 0 and opened["replica-cut-off"] > 0
    assert rows["database-restarted"]["changes_refused"] > 0
    assert result["database"]["acknowledged"] > 0 and result["pings_sent"] > 100
    xml.fromstring(ha_picture.svg(result, looks))


@can_run
@pytest.mark.root
@pytest.mark.programs
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupt_in_the_middle_leaves_nothing(tmp_path, number):
    words = [sys.executable, "-m", "lab.runs.ha_demo", "--small", "--output", tmp_path]
    with (tmp_path / "log").open("wb") as log:
        demo = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log)
    try:
        mark = f"{demo.pid}-{leftovers.start_time(demo.pid)}"
        said = lambda: (tmp_path / "log").read_text()  # noqa: E731
        wait_until(lambda: "is killed (SIGKILL)" in said() or demo.poll() is not None, "the first blow", details=said)
        servers = _inside(mark)
        assert servers, said()
        demo.send_signal(number)
        assert demo.wait(60) == 130, said()
    finally:
        demo.kill()
        demo.wait()
    assert [name for name, _, _ in leftovers.namespaces() if mark in name] == []
    assert not (leftovers.RUN_DIR / mark).exists()
    # A killed process leaves its namespaces a moment before it is gone.
    alive = lambda: [pid for pid, start in servers.items() if leftovers.start_time(pid) == start]  # noqa: E731
    wait_until(lambda: not alive(), "the processes in the namespaces to be gone", details=alive)


def _inside(mark):
    """Returns the start times of the processes in the namespaces of a run, by process id, without those that end meanwhile."""
    names = [name for name, _, _ in leftovers.namespaces() if mark in name]
    done = [subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False) for name in names]
    started = {int(word): leftovers.start_time(int(word)) for one in done for word in one.stdout.split()}
    return {pid: start for pid, start in started.items() if start is not None}
