"""The order of `make bench`: rounds, visits and works, with fake systems."""

import random


from lab.compare import command, plan

from .fake_results import Job, any_machine, known  # noqa: F401 (a fixture)


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


def test_works_for_an_unloaded_system_come_first_and_the_rest_is_shuffled():
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
    there = plan.Available(systems, works, profiles)
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
