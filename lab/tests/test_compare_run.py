"""Whole runs of `make bench` with fake systems that fail in various ways. Figures are not checked."""

import collections
import json
import re
import signal
from types import SimpleNamespace

import pytest

from lab.compare import plan, results, run, session, summary
from lab.compare.rows import limit
from lab.compare.testbed import VisitHosts
from lab.hosts.wait import LabError

from .fake_results import LINKS, Fake, Job, Nowhere, any_machine, comparison, silent  # noqa: F401 (a fixture)


def test_everything_is_run_and_kept_in_a_file_that_is_whole(tmp_path):
    one = comparison([Fake("bare"), Fake("one")], [Job("ping", "p50_ms", 2.5, "less"), Job("tcp-1")], rounds=2)
    kept = []
    assert one.run(silent, lambda: kept.append(len(one.runs)))
    assert kept[-1] == 8 and set(range(1, 9)) <= set(kept), "it is kept after each row"
    results.save(tmp_path / "results.json", one.result())
    told_again = results.load(tmp_path / "results.json")
    assert len(told_again["runs"]) == 8 and all(each["ok"] for each in told_again["runs"])
    assert told_again["offloads"] == {"baseline, packets": "tso on"} and told_again["works"]["ping"]["unit"] == "ms"
    assert one.place.open == 0


def test_a_system_that_does_not_start_stops_no_other_and_is_given_up():
    broken = Fake("broken", fails=["it has no legs\nand more"] * 9)
    one = comparison([Fake("bare"), broken], [Job("ping"), Job("tcp-1")], rounds=3)
    assert one.run(silent)
    rows = [each for each in one.runs if each["system"] == "broken"]
    assert broken.starts == run.GIVE_UP and len(rows) == 6 and not any(each["ok"] for each in rows)
    assert [each["error"].splitlines()[0] for each in rows[::2]] == ["did not start: it has no legs"] * 2 + ["not tried again: broken did not start on baseline 2 times"]
    assert [each["tried"] for each in rows] == [True] * 4 + [False] * 2
    assert all(each["ok"] for each in one.runs if each["system"] == "bare")


def test_an_adapter_that_is_broken_in_any_way_is_a_row():
    class Odd(Fake):
        def start(self, hosts, helper, mtu):
            return {}["legs"]

    class Mute(Fake):
        def lacking(self):
            raise RuntimeError("no idea")

    one = comparison([Odd("odd"), Mute("mute"), Fake("bare")], [Job("tcp-1")])
    assert one.run(silent)
    assert {each["system"]: each["error"] for each in one.runs} == {"odd": "did not start: KeyError: 'legs'", "bare": None}
    assert one.result()["systems"]["mute"]["lacking"] == "its adapter is broken: RuntimeError: no idea"


def test_after_a_failed_work_the_rest_continues_in_new_hosts():
    def breaks(site, running, quick):
        raise LabError("the stream broke")

    rig, works = Nowhere(), [Job("memory"), Job("ping", does=breaks), Job("tcp-1"), Job("udp-10")]
    one = comparison([Fake("bare")], works, place=rig)
    assert one.run(silent)
    assert len(rig.seen) == 2 and [visit.works[0] for visit, _ in rig.seen][0] == "memory" and "ping" not in rig.seen[1][0].works
    assert {each["work"]: each["ok"] for each in one.runs} == {"memory": True, "ping": False, "tcp-1": True, "udp-10": True}


def test_a_work_that_does_not_tell_its_figure_has_failed():
    one = comparison([Fake("bare")], [Job("tcp-1", does=lambda *_: {"other": 1})])
    one.run(silent)
    assert (one.runs[0]["ok"], one.runs[0]["error"]) == (False, "the work returned no mbps")


def test_hanging_work_is_ended():
    with pytest.raises(LabError, match="no end after 1 s: a test"):
        with limit(1, "a test"):
            signal.pause()


def test_a_work_that_hangs_is_a_row_and_the_next_one_is_done():
    one = comparison([Fake("bare")], [Job("ping", "p50_ms", does=lambda *_: signal.pause(), takes=0.1), Job("tcp-1")])
    one.work_limit_s = 0.5
    assert one.run(silent)
    assert [(each["ok"], each["error"]) for each in one.runs] == [(False, "no end after 1 s: ping"), (True, None)]


def test_the_alarm_of_the_caller_continues_afterwards():
    rung = []
    outer, left = signal.signal(signal.SIGALRM, lambda *_: rung.append(1)), signal.alarm(500)
    try:
        with limit(5, "a test"):
            pass
        assert 0 < signal.alarm(0) <= 500
        signal.raise_signal(signal.SIGALRM)
        assert rung == [1]
    finally:
        signal.signal(signal.SIGALRM, outer)
        signal.alarm(left)


def test_a_system_that_comes_up_and_carries_nothing_has_not_started(lab, monkeypatch):
    switch = lab.switch("wire")
    site = SimpleNamespace(hosts=[lab.host(name, switch) for name in ("left", "right")])
    place = Nowhere()
    running = Fake("one").start(site.hosts, None, None)
    VisitHosts.meet(place, site, running)
    switch.ip("link set right.0 down")
    monkeypatch.setattr("lab.compare.testbed.MEETING_S", 1)
    with pytest.raises(LabError, match="it came up, but nothing from left to 10.77.1.2 was answered"):
        VisitHosts.meet(place, site, running)


def test_a_row_contains_the_report_and_the_doubts_of_the_link():
    one = comparison([Fake("bare")], [Job("tcp-1")], place=Nowhere(reports=[{"doubts": ["it was busy for 95 %"]}, {"doubts": ["it was busy for 96.5 %"]}]))
    one.run(silent)
    assert one.runs[0]["link"] == [{"doubts": ["it was busy for 95 %"]}, {"doubts": ["it was busy for 96.5 %"]}]
    assert summary.Results(one.result()).doubts() == [("it was busy for … %", ["baseline"], 1)]


def test_all_systems_of_a_round_get_the_same_link_seed():
    rig = Nowhere()
    comparison([Fake("bare"), Fake("one")], [Job("tcp-1")], rounds=2, place=rig).run(silent)
    seeds = collections.defaultdict(set)
    for visit, seed in rig.seen:
        seeds[visit.round].add(seed)
    assert all(len(found) == 1 for found in seeds.values()) and seeds[1] != seeds[2]


def test_a_work_disturbed_by_other_programs_is_repeated(monkeypatch):
    answers = iter([True, False])
    monkeypatch.setattr("lab.compare.cost.disturbed", lambda cpu: next(answers))
    monkeypatch.setattr("lab.compare.cost.calm", lambda *_: True)
    job = Job("tcp-1")
    one = comparison([Fake("bare")], [job])
    one.tries = 2
    one.run(silent)
    assert (job.runs, one.runs[0]["attempts"], one.runs[0]["disturbed"]) == (2, 2, False)


def test_nothing_is_done_again_for_a_disturbance_when_time_is_short(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("lab.measure.clock.time.monotonic", lambda: now[0])
    monkeypatch.setattr("lab.compare.cost.disturbed", lambda cpu: True)
    monkeypatch.setattr("lab.compare.cost.calm", lambda *_: True)

    def works(site, running, quick):
        now[0] += 50.0
        return {"mbps": 1.0}

    one = comparison([Fake("bare"), Fake("one"), Fake("two")], [Job("tcp-1", does=works, takes=50)])
    one.tries = 2
    assert one.run(silent, minutes=4)
    assert [each["attempts"] for each in one.runs] == [2, 1, 1], "one more would have left the third out"


def test_a_run_goes_on_where_it_ended():
    def make():
        return comparison([Fake("bare"), Fake("one")], [Job("ping"), Job("tcp-1")], rounds=2)

    first = make()
    first.run(silent)
    whole = first.result()
    whole["runs"] = whole["runs"][:5]
    whole["runs"][1]["disturbed"] = True
    again = make()
    again.resume(json.loads(json.dumps(whole)))
    assert again.sittings == 2 and len(again.runs) == 4
    assert again.run(silent) and sorted(map(results.key_of, again.runs), key=str) == sorted(map(results.key_of, first.runs), key=str)
    other = comparison([Fake("bare"), Fake("one")], [Job("ping"), Job("tcp-1")], rounds=2, seed=9)
    with pytest.raises(LabError, match="seed differ"):
        other.resume(whole)


def test_no_visit_is_begun_that_would_not_end_in_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("lab.measure.clock.time.monotonic", lambda: now[0])

    def works(site, running, quick):
        now[0] += 50.0
        return {"mbps": 1.0}

    one = comparison([Fake("bare"), Fake("one"), Fake("two")], [Job("tcp-1", does=works, takes=50)])
    lines = []
    assert not one.run(lines.append, minutes=2)
    assert len(one.runs) == 2 and now[0] <= 120
    (left,) = one.result()["left_out"]
    assert {left["system"]} | {each["system"] for each in one.runs} == {"bare", "one", "two"} and (left["works"], left["optional"]) == (["tcp-1"], False)
    assert results.problems(one.result()) == []
    assert re.match(r"\d\.\d min left: round 1, baseline, ", lines[0])
    assert one.run(lines.append) and len(one.runs) == 3 and one.result()["left_out"] == []


def test_an_optional_round_that_does_not_fit_is_left_out(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("lab.measure.clock.time.monotonic", lambda: now[0])

    def works(site, running, quick):
        now[0] += 50.0
        return {"mbps": 1.0}

    one = comparison([Fake("bare")], [Job("tcp-1", does=works, takes=50)])
    one.stages.append(plan.Stage(2, one.stages[0].parts, optional=True))
    assert one.run(silent, minutes=1.5) and [each["round"] for each in one.runs] == [1]
    assert [(each["round"], each["optional"]) for each in one.left_out()] == [(2, True)]
    assert one.run(silent) and [each["round"] for each in one.runs] == [1, 2]


def test_the_best_others_have_the_highest_throughput_over_all_links():
    speeds = {"bare": 900, "taut-aes": 800, "fast-once": 100, "even": 60, "slow": 10}
    share = {"baseline": speeds, "low": speeds | {"fast-once": 1, "even": 50, "slow": 40}}

    def does(site, running, quick):
        return {"mbps": share[site.profile.name][current[0]]}

    current = [None]

    class Named(Fake):
        def start(self, hosts, helper, mtu):
            current[0] = self.name
            return super().start(hosts, helper, mtu)

    one = comparison([Named(name) for name in speeds], [Job("tcp-1", does=does)], {name: LINKS[name] for name in share})
    one.run(silent)
    assert one.chosen == [], "nobody asked"
    assert one.best() == ["even", "fast-once"]
    one.run(silent)
    assert one.chosen == ["even", "fast-once"]


def test_an_interrupt_leaves_a_file_that_can_be_resumed(tmp_path):
    def interrupted(site, running, quick):
        if len(one.runs) == 3:
            raise KeyboardInterrupt
        return {"mbps": 1.0}

    file, works = tmp_path / "results.json", [Job("tcp-1", does=interrupted)]
    systems = [Fake("bare"), Fake("one"), Fake("two")]
    one = comparison(systems, works, rounds=2)
    with pytest.raises(KeyboardInterrupt):
        session.run_session(one, silent, file, None)
    assert len(results.load(file)["runs"]) == 3 and one.place.open == 0
    again = comparison(systems, [Job("tcp-1")], rounds=2)
    again.resume(results.load(file))
    assert session.run_session(again, silent, file, None)
    assert len(results.load(file)["runs"]) == 6
