"""The method of `make bench`: its order, its file, its arithmetic, and whole runs with made-up systems that fail in every way. No figure is judged."""

import argparse
import collections
import contextlib
import json
import os
import random
import re
import signal
from types import SimpleNamespace

import pytest

from lab.compare import command, cost, plan, ranking, results, run, scenarios, session, summary
from lab.compare.rows import limit
from lab.compare.testbed import Rig
from lab.hosts.programs import ROOT
from lab.hosts.wait import LabError

from .fake_results import LINKS, MACHINE, Fake, Job, Link, Nowhere, comparison, row, told


@pytest.fixture(autouse=True)
def any_machine(monkeypatch):
    """The same on every machine, busy or not."""
    monkeypatch.setattr("lab.measure.machine.facts", lambda: MACHINE)
    monkeypatch.setattr("lab.compare.cost.disturbed", lambda cpu: False)


def silent(_):
    pass


# --- the order ---


def known(systems, works, profiles=("baseline", "low"), variants=()):
    fakes = {name: Fake(name) for name in systems}
    for name in variants:
        fakes[name].variant = True
    return plan.Field(fakes, {work.name: work for work in works}, {name: LINKS.get(name, Link(name)) for name in profiles})


def test_each_round_has_every_system_on_every_link_once_in_an_order_of_its_own():
    field = known(["bare", "one", "two"], [Job("ping"), Job("tcp-1")])
    stages = plan.picked([plan.Part(("bare", "one", "two"), ("baseline", "low"), ("ping", "tcp-1"))], 2)
    first, second = ([(visit.system, visit.profile) for visit in plan.visits(stage, field, 7)] for stage in stages)
    assert len(first) == len(set(first)) == 6 and sorted(first) == sorted(second) and first != second
    assert first == [(visit.system, visit.profile) for visit in plan.visits(stages[0], field, 7)]
    assert any(first != [(visit.system, visit.profile) for visit in plan.visits(stages[0], field, seed)] for seed in range(8, 12))


def test_works_share_a_visit_unless_they_break_it_or_need_more_hosts():
    field = known(["bare"], [Job("ping"), Job("tcp-1"), Job("tcp-ring", hosts=3), Job("reboot", alone=True), Job("flap", alone=True)])
    stage = plan.Stage(1, lambda: [plan.Part(("bare",), ("low",), tuple(field.works))])
    assert sorted(visit.works for visit in plan.visits(stage, field, 1)) == [("flap",), ("ping", "tcp-1"), ("reboot",), ("tcp-ring",)]


def test_what_needs_an_unloaded_system_comes_first_and_the_rest_is_shuffled():
    works = ["tcp-1", "udp-10", "ping", "quic", "memory", "video"]
    orders = [plan.in_order(works, random.Random(seed)) for seed in range(20)]
    assert all(order[:2] == ("memory", "ping") and sorted(order) == sorted(works) for order in orders)
    assert len({order[2:] for order in orders}) > 5


def test_parts_that_overlap_are_not_done_twice():
    field = known(["bare"], [Job("ping"), Job("tcp-1")])
    parts = [plan.Part(("bare",), ("low",), ("ping",)), plan.Part(("bare",), ("low",), ("tcp-1", "ping"))]
    (visit,) = plan.visits(plan.Stage(1, lambda: parts), field, 1)
    assert visit.works == ("ping", "tcp-1")


def test_a_quick_run_does_the_base_for_all_and_the_rest_for_the_chosen():
    works = [Job("ping"), Job("tcp-1"), Job("tcp-10"), Job("video"), Job("quic")]
    field = known(["bare", "taut-aes", "taut-chacha", "a", "b", "c", "odd"], works, ("baseline", "low", "medium", "high", "low-loss"), variants=["odd"])
    first, chosen, second, theory, third = plan.quick(field, 3, lambda: ["c", "a"])
    everyone = {"bare", "taut-aes", "a", "b", "c"}
    assert {visit.system for visit in plan.visits(first, field, 1)} == {visit.system for visit in plan.visits(second, field, 1)} == everyone
    assert {work for visit in plan.visits(first, field, 1) for work in visit.works} == {"ping", "tcp-1"}
    there = plan.visits(chosen, field, 1)
    assert {visit.system for visit in there} == {"bare", "taut-aes", "a", "c"}
    assert {(visit.profile, work) for visit in there for work in visit.works if visit.placement == plan.PACKETS} == {("baseline", "tcp-10"), ("low", "quic"), ("medium", "video")}
    assert {(visit.profile, visit.works) for visit in there if visit.placement == plan.SUPERPACKETS} == {("low", ("tcp-1",))}
    assert theory.optional and {visit.profile for visit in plan.visits(theory, field, 1)} == {"low-loss"}
    assert (second.round, second.optional, third.round, third.optional) == (2, False, 3, True)


def test_the_quick_plan_of_all_that_there_is_fits_into_its_time_with_room_for_disturbances():
    systems, works, profiles = command.field()
    there = plan.Field(systems, works, profiles)
    stages = plan.quick(there, command.QUICK_ROUNDS, lambda: ["wireguard-go", "nebula"])
    wanted = [visit for stage in stages if not stage.optional for visit in plan.visits(stage, there, 1)]
    assert {work for visit in wanted for work in visit.works} == set(works)
    assert sum(plan.seconds(visit, there, True) for visit in wanted) / 60 < 0.9 * command.QUICK_MINUTES


def test_the_full_run_has_every_work_placement_and_tuned_hosts():
    field = known(["bare", "one", "odd"], [Job("ping"), Job("tcp-1"), Job("video")], ("baseline", "low", "wifi"), variants=["odd"])
    (stage,) = plan.full(field, 1, netem=False)
    there = plan.visits(stage, field, 1)
    assert {visit.placement for visit in there} == {plan.PACKETS, plan.SUPERPACKETS} and {visit.tuned for visit in there} == {False, True}
    assert ("wifi", "video") not in {(visit.profile, work) for visit in there for work in visit.works}
    assert {visit.system for visit in there if "video" in visit.works} == {"bare", "one", "odd"}


# --- whole runs ---


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


def test_a_system_that_does_not_start_stops_no_other_and_is_not_tried_for_ever():
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


def test_after_a_work_that_fails_the_rest_goes_on_in_hosts_made_anew():
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
    assert (one.runs[0]["ok"], one.runs[0]["error"]) == (False, "the work did not tell mbps")


def test_what_hangs_is_ended():
    with pytest.raises(LabError, match="no end after 1 s: a test"):
        with limit(1, "a test"):
            signal.pause()


def test_a_work_that_hangs_is_a_row_and_the_next_one_is_done():
    one = comparison([Fake("bare")], [Job("ping", "p50_ms", does=lambda *_: signal.pause(), takes=0.1), Job("tcp-1")])
    one.work_limit_s = 0.5
    assert one.run(silent)
    assert [(each["ok"], each["error"]) for each in one.runs] == [(False, "no end after 1 s: ping"), (True, None)]


def test_the_alarm_of_others_goes_on_afterwards():
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
    Rig.meet(place, site, running)
    switch.ip("link set right.0 down")
    monkeypatch.setattr("lab.compare.testbed.MEETING_S", 1)
    with pytest.raises(LabError, match="it came up, but nothing from left to 10.77.1.2 was answered"):
        Rig.meet(place, site, running)


def test_a_link_tells_what_went_over_it_and_its_doubts():
    one = comparison([Fake("bare")], [Job("tcp-1")], place=Nowhere(reports=[{"doubts": ["it was busy for 95 %"]}, {"doubts": ["it was busy for 96.5 %"]}]))
    one.run(silent)
    assert one.runs[0]["link"] == [{"doubts": ["it was busy for 95 %"]}, {"doubts": ["it was busy for 96.5 %"]}]
    assert summary.Results(one.result()).doubts() == [("it was busy for … %", ["baseline"], 1)]


def test_all_systems_of_a_round_meet_the_same_dice():
    rig = Nowhere()
    comparison([Fake("bare"), Fake("one")], [Job("tcp-1")], rounds=2, place=rig).run(silent)
    seeds = collections.defaultdict(set)
    for visit, seed in rig.seen:
        seeds[visit.round].add(seed)
    assert all(len(found) == 1 for found in seeds.values()) and seeds[1] != seeds[2]


def test_what_others_disturbed_is_done_again(monkeypatch):
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
    said = []
    assert not one.run(said.append, minutes=2)
    assert len(one.runs) == 2 and now[0] <= 120
    (left,) = one.result()["left_out"]
    assert {left["system"]} | {each["system"] for each in one.runs} == {"bare", "one", "two"} and (left["works"], left["optional"]) == (["tcp-1"], False)
    assert results.problems(one.result()) == []
    assert re.match(r"\d\.\d min left: round 1, baseline, ", said[0])
    assert one.run(said.append) and len(one.runs) == 3 and one.result()["left_out"] == []


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


def test_the_best_others_are_those_that_carried_most_on_all_links_together():
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
        session.sit(one, silent, file, None)
    assert len(results.load(file)["runs"]) == 3 and one.place.open == 0
    again = comparison(systems, [Job("tcp-1")], rounds=2)
    again.resume(results.load(file))
    assert session.sit(again, silent, file, None)
    assert len(results.load(file)["runs"]) == 6


# --- the file ---


def test_a_whole_file_has_no_problems_and_each_missing_key_is_one():
    whole = told([row("bare", "tcp-1", 5.0)])
    assert results.problems(whole) == []
    for key in set(results.TOP) - {"schema"}:
        assert results.problems({name: value for name, value in whole.items() if name != key}) == [f"it has no {key}"]
    for key in results.ROW:
        broken = whole | {"runs": [{name: value for name, value in whole["runs"][0].items() if name != key}]}
        assert results.problems(broken) == [f"run 0 has no {key}"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema": 2}, "its schema is 2"),
        ({"quick": "yes"}, "quick of it is a str"),
        ({"systems": {}}, "run 0 has a system that is not told: bare"),
        ({"runs": [row("bare", "tcp-1", 5.0, figures={})]}, "run 0 succeeded and has no mbps"),
        ({"runs": [row("bare", "tcp-1", 5.0)] * 2}, "two runs are of the same"),
        ({"left_out": [{"round": 1}]}, "left_out 0 has no profile"),
    ],
)
def test_a_file_that_is_not_as_told_is_refused(tmp_path, change, why):
    file = tmp_path / "results.json"
    results.save(file, told([row("bare", "tcp-1", 5.0)]) | change)
    with pytest.raises(LabError, match=why):
        results.load(file)


@pytest.mark.parametrize(("text", "why"), [(None, "cannot be read"), ("{", "holds no JSON")])
def test_a_file_that_is_none_is_told(tmp_path, text, why):
    file = tmp_path / "results.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(LabError, match=why):
        results.load(file)


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "results.json"
    results.save(file, {"old": 1})

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        results.save(file, {"new": 1})
    assert json.loads(file.read_text()) == {"old": 1} and list(tmp_path.iterdir()) == [file]


def test_a_unit_follows_from_a_name():
    names = ("mbps", "p99_ms", "lost_percent", "again_s", "machine_cpu_s_per_gb", "peak_mb", "payload_bytes", "retransmits")
    assert [results.unit(name) for name in names] == ["Mbit/s", "ms", "%", "s", "s/GB", "MB", "bytes", ""]


def test_the_document_tells_every_key():
    text = (ROOT / "docs" / "bench.md").read_text()
    for keys in (results.TOP, results.ROW, results.SYSTEM, results.WORK, results.PROFILE, results.LEFT_OUT):
        assert [key for key in keys if f"`{key}`" not in text] == []
    assert [one.name for one in scenarios.ALL if f"`{one.name}`" not in text] == []


# --- the figures ---


def test_a_figure_is_the_median_with_its_spread_and_interval():
    values = [10.0, 12.0, 11.0, 30.0, 9.0]
    one = summary.figure(values)
    assert (one.median, one.least, one.most, one.n) == (11.0, 9.0, 30.0, 5)
    assert one.least <= one.low <= one.median <= one.high <= one.most
    assert summary.figure(values) == summary.figure(list(reversed(values))), "the same figures give the same interval"
    assert (summary.figure([3.0]).low, summary.figure([None]), summary.figure([])) == (None, None, None)
    assert (summary.figure([1.0, 2.0]).low, summary.figure([1.0, 2.0]).high) == (1.0, 2.0)


def test_an_interval_gets_narrow_by_rounds_and_holds_the_truth():
    dice, held = random.Random(5), 0
    for _ in range(60):
        low, high = summary.interval([dice.gauss(100, 10) for _ in range(15)], 1)
        held += low <= 100 <= high
    assert held >= 50
    few, many = ([dice.gauss(100, 10) for _ in range(count)] for count in (8, 200))
    width = [summary.interval(values, 1) for values in (few, many)]
    assert width[1][1] - width[1][0] < width[0][1] - width[0][0]


def test_few_rounds_have_to_differ_clearly_to_be_apart():
    near = [summary.figure(values).apart(summary.figure([1.04 * value for value in values])) for values in ([10.0, 10.2], [10.0, 10.1, 10.2])]
    assert near == [False, False], "though not one round of the one is in those of the other"
    assert summary.figure([10.0, 10.2]).apart(summary.figure([20.0, 20.4]))
    many = [10.0, 10.1, 10.2, 10.0, 10.1, 10.2]
    assert summary.figure(many).apart(summary.figure([1.04 * value for value in many]))
    assert summary.figure([10.0]).apart(summary.figure([20.0, 20.4])) is None
    assert summary.figure([0.0, 0.1]).apart(summary.figure([5.0, 5.1])), "nothing lost has no logarithm"


def test_disturbed_rows_are_left_out_while_there_is_another():
    rows = [row("one", "tcp-1", 5.0, 1), row("one", "tcp-1", 1.0, 2, disturbed=True), row("two", "tcp-1", 3.0, 1, disturbed=True), row("two", "tcp-1", 9.0, 2, ok=False)]
    found = summary.Results(told(rows))
    assert (found.figure("baseline", "one", "tcp-1").median, found.figure("baseline", "one", "tcp-1").doubtful) == (5.0, False)
    assert (found.figure("baseline", "two", "tcp-1").median, found.figure("baseline", "two", "tcp-1").doubtful) == (3.0, True)
    assert found.disturbed() == (2, 4) and found.success("two") == (1, 2)
    assert found.errors() == [("two", "baseline", "tcp-1", "it broke", 1)]


def test_cost_is_taken_from_the_work_else_from_the_row():
    assert summary.cpu_per_gb(row("one", "tcp-1", 5.0)) == 2.0
    assert summary.cpu_per_gb(row("one", "tcp-1", 5.0, figures={"machine_cpu_s_per_gb": 1.5})) == 1.5
    assert summary.cpu_per_gb(row("one", "tcp-1", 5.0, figures={"mbps": 1})) is None
    assert summary.peak_mb(row("one", "tcp-1", 5.0)) == 3.072


def test_the_lab_s_own_programs_do_not_disturb():
    cpu = {"capacity_s": 4.0, "machine_s": 3.0, "tunnel_s": [1.0], "applications_s": 0.5, "lab_s": 1.4}
    assert cost.others_share(cpu) == pytest.approx(0.025)
    assert cost.others_share(cpu | {"lab_s": 0.0}) == pytest.approx(0.375)


def test_processes_that_come_and_go_are_counted_as_far_as_they_are_there():
    class One:
        def __init__(self, pid):
            self.pid = pid

    before = cost.Look([[One(os.getpid())]], [One(2**22 + 1)])
    spent = cost.Look([[One(os.getpid())]], []).since(before)
    assert spent["tunnel_s"][0] >= 0 and spent["lab_s"] == 0


# --- the ranking ---


def two(first, second, links=1, turned=0, better="tcp-1"):
    """Two systems on so many links with three rounds each; on `turned` of them the order is the other way round."""
    rows = []
    for link in range(links):
        left, right = (second, first) if link < turned else (first, second)
        rows += [row(name, better, value + 0.1 * number, number, f"link{link}") for name, value in (("a", left), ("b", right)) for number in (1, 2, 3)]
    return told(rows)


@pytest.mark.parametrize(("links", "turned", "code"), [(20, 0, 0), (20, 1, 0), (20, 2, 1), (1, 1, 1)])
def test_rankings_agree_from_95_of_100_pairs_on(links, turned, code):
    verdict = ranking.compare(two(10.0, 20.0, links), two(10.0, 20.0, links, turned))
    assert (verdict.code(), verdict.judged, len(verdict.turned)) == (code, links, turned)


def test_pairs_that_overlap_are_not_judged():
    verdict = ranking.compare(two(10.0, 20.0), two(10.0, 10.05))
    assert (verdict.code(), verdict.judged, verdict.only_one, verdict.overlapping) == (2, 0, 1, 0)
    assert ranking.compare(two(10.0, 10.05), two(10.0, 10.05)).overlapping == 1
    assert "none is apart" in ranking.details(verdict)


def test_a_turned_pair_is_told_with_who_was_ahead():
    verdict = ranking.compare(two(10.0, 20.0), two(20.0, 10.0))
    assert verdict.turned == [("link0", "packets", False, None, "tcp-1", "b", "a")]
    assert "turned: tcp-1, link0, packets: b was ahead of a" in ranking.details(verdict)
    verdict = ranking.compare(two(10.0, 20.0, better="ping"), two(20.0, 10.0, better="ping"))
    assert verdict.turned[0][-2:] == ("a", "b"), "where less is better"


def test_one_round_judges_nothing():
    rows = [row(name, "tcp-1", value) for name, value in (("a", 1.0), ("b", 2.0))]
    assert ranking.compare(told(rows), told(rows)).code() == 2


# --- the command ---


def told_lab(*words):
    parser = argparse.ArgumentParser(prog="lab")
    command.add(parser.add_subparsers(required=True))
    args = parser.parse_args([str(word) for word in words])
    return args.run(args)


@pytest.fixture
def made_up(monkeypatch, tmp_path):
    """A lab whose systems, works and links are made up; returns its systems, to change them."""
    systems = {one.name: one for one in (Fake("bare"), Fake("one"), Fake("two"), Fake("gone", lacks="it is not here: make peers"))}
    works = {one.name: one for one in (Job("ping", "p50_ms", 1.0, "less"), Job("tcp-1"))}
    monkeypatch.setattr(command, "field", lambda: (dict(systems), dict(works), {name: LINKS[name] for name in ("baseline", "low")}))
    monkeypatch.setattr(session, "lacks", lambda *_: [])
    monkeypatch.setattr(session.pages, "make", lambda *_: False)
    monkeypatch.setattr(session.testbed, "Rig", Nowhere)
    monkeypatch.setattr(session.congestion, "allowed", lambda name: contextlib.nullcontext(name == "cubic"))
    return systems


def test_a_bench_with_a_broken_system_ends_in_a_file(made_up, tmp_path, capsys):
    made_up["two"].fails = ["no legs"] * 99
    file = tmp_path / "results.json"
    assert told_lab("bench", "--systems", "one,two,gone", "--rounds", 2, "--output", file) == 0
    kept = results.load(file)
    assert {each["system"] for each in kept["runs"]} == {"bare", "one", "two"}, "the bare link is in every round"
    assert {each["ok"] for each in kept["runs"] if each["system"] == "one"} == {True}
    out = capsys.readouterr().out
    assert "left out: gone: it is not here: make peers" in out and "did not start: no legs" in out and re.search(r"min left: round 2", out)


def test_a_quick_bench_and_its_outcome_as_json(made_up, tmp_path, capsys):
    file = tmp_path / "results.json"
    assert told_lab("bench", "--quick", "--json", "--output", file) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"schema": 1, "results": str(file), "report": None, "whole": True, "runs": 39, "failed": 0, "left_out": 0}
    assert "min left" in captured.err
    assert told_lab("bench", "--quick", "--json", "--resume", "--output", file) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 39 and results.load(file)["sittings"] == 2
    assert told_lab("bench", "--profiles", "low", "--rounds", 1, "--output", file) == 0
    assert (len(results.load(file)["runs"]), len(results.load(tmp_path / "results.before.json")["runs"])) == (6, 39), "what was there is kept"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("bench", "--systems", "nonsense"), "there is no system 'nonsense'; there are: bare, one, two, gone"),
        (("bench", "--profiles", "moon"), "there is no profile 'moon'; there are: baseline, low"),
        (("bench", "--work", "ping,sleep"), "there is no kind of work 'sleep'; there are: ping, tcp-1"),
        (("scenario", "nonsense"), "there is no scenario 'nonsense'; there are: p2p-three-containers"),
    ],
)
def test_words_that_mean_nothing_are_told_with_those_that_do(made_up, capsys, words, why):
    assert told_lab(*words) == 2
    assert why in capsys.readouterr().err


def test_what_the_machine_lacks_is_one_sentence(made_up, monkeypatch, capsys):
    monkeypatch.setattr(session, "lacks", lambda *_: ["needs root, to make network namespaces and TUN devices: run it with sudo"])
    assert told_lab("bench") == 1
    assert capsys.readouterr().err == "lab: needs root, to make network namespaces and TUN devices: run it with sudo\n"


def test_without_root_or_a_program_nothing_begins(monkeypatch):
    monkeypatch.setattr("lab.compare.session.needs.missing", lambda *_: ["needs root"])
    assert session.lacks({}) == ["needs root"]
    monkeypatch.setattr("lab.compare.session.needs.missing", lambda *_: [])
    monkeypatch.setenv("TAUT_BIN_DIR", "/nonexistent")
    assert session.lacks({"baseline": LINKS["baseline"]}) == []
    assert "no program linkbox" in session.lacks(LINKS)[0]
    monkeypatch.setattr("lab.compare.session.netem.available", lambda: False)
    assert session.lacks({"baseline": LINKS["baseline"]}, "packets,netem") == ["this kernel has no netem: modprobe sch_netem, or another placement"]


def test_an_unknown_congestion_control_is_refused(made_up, capsys):
    assert told_lab("bench", "--congestion", "reno9") == 1
    assert "no congestion control reno9" in capsys.readouterr().err


def test_nothing_that_can_be_had_is_a_failure(made_up, capsys, tmp_path):
    for system in made_up.values():
        system.lacks = "not here"
    assert told_lab("bench", "--output", tmp_path / "results.json") == 1
    assert "no system that was asked for can be had here" in capsys.readouterr().err


def test_an_interrupted_bench_says_how_to_go_on(made_up, monkeypatch, tmp_path, capsys):
    def interrupted(site, running, quick):
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "run", lambda self, *rest: interrupted(*rest) if self.name == "tcp-1" else {"p50_ms": 1.0})
    assert told_lab("bench", "--profiles", "baseline", "--output", tmp_path / "results.json") == 130
    assert "--resume goes on" in capsys.readouterr().err
    assert [each["work"] for each in results.load(tmp_path / "results.json")["runs"]] == ["ping"]


@pytest.mark.parametrize(("turned", "code"), [(0, 0), (1, 1)])
def test_compare_tells_by_its_exit_code(tmp_path, capsys, turned, code):
    for name, count in (("a", 0), ("b", turned)):
        results.save(tmp_path / f"{name}.json", two(10.0, 20.0, 1, count))
    assert told_lab("compare", tmp_path / "a.json", tmp_path / "b.json", "--json") == code
    assert json.loads(capsys.readouterr().out)["agrees"] == (code == 0)
    assert told_lab("compare", tmp_path / "a.json", tmp_path / "none.json") == 1
    assert "cannot be read" in capsys.readouterr().err


def test_scenarios_are_listed_by_name_and_run(made_up, capsys, tmp_path, monkeypatch):
    assert told_lab("scenario", "--json") == 0
    assert list(json.loads(capsys.readouterr().out)) == [one.name for one in scenarios.ALL]
    monkeypatch.setattr(scenarios.Streams, "run", lambda self, site, running, quick: {"mbps": 1.0, "bytes": 1})
    monkeypatch.setattr(scenarios.Streams, "lacking", lambda self: None)
    assert told_lab("scenario", "p2p-three-containers", "--quick", "--systems", "one", "--output", tmp_path / "s.json") == 0
    kept = results.load(tmp_path / "s.json")
    assert kept["scenario"] == "p2p-three-containers" and {each["work"] for each in kept["runs"]} == {"tcp-1-to-2", "tcp-1-to-3"}
    assert {each["system"] for each in kept["runs"]} == {"bare", "one"} and kept["rounds"] == 2


def test_every_scenario_has_a_plan():
    field = known(["bare", "taut-aes", "taut-lanes-2", "one"], [Job("ping"), Job("tcp-1")], ("baseline", "low", "medium", "high", "jumbo"), variants=["taut-lanes-2"])
    for one in scenarios.ALL:
        works = {work.name: work for work in one.works} if one.works is not None else field.works
        there = plan.Field(field.systems, works, field.profiles)
        seen = plan.visits(plan.Stage(1, lambda: one.parts(there)), there, 1)
        assert {"bare", "taut-aes"} <= {visit.system for visit in seen}, one.name
        assert one.seconds(there, True) < one.seconds(there, False) or one.works is None


def test_lanes_go_up_to_the_cores():
    counts = scenarios.lane_counts()
    assert counts[:2] == [1, 2] and counts[-1] <= max(2, os.cpu_count())
