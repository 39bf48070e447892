"""`make bench-tunnel`: its arithmetic, order and text, and two systems end to end for a second each. Figures are not judged."""

import collections
import dataclasses
import shutil

import pytest

from lab.compare.tunnel import goals, model, page, plan, summary
from lab.compare.tunnel.command import Bench
from lab.compare.tunnel.measure import Lengths, counters, socket_drops, tcp_figures, udp_figures
from lab.compare.tunnel.summary import Figure, Results, figure
from lab.hosts import congestion
from lab.hosts.wait import LabError
from lab.measure.clock import Clock
from lab.measure.cpu import foreign
from lab.measure.quantile import quantile
from lab.nodes.systems import ALL, System


def test_every_round_has_every_configuration_once_in_an_order_of_its_own():
    effort = plan.Effort(rounds=3, lengths=Lengths(1, 1, 1, 1), mtus=(1420, 8900))
    order = plan.shuffled(["bare", "one", "two"], effort, plan.MODES, 7)
    rounds = [[(one.mode, one.system, one.mtu) for one in order if one.round == number] for number in (1, 2, 3)]
    assert all(len(one) == len(set(one)) == 12 for one in rounds)
    assert rounds[0] != rounds[1] and sorted(rounds[0]) == sorted(rounds[1])
    assert order == plan.shuffled(["bare", "one", "two"], effort, plan.MODES, 7)
    assert order != plan.shuffled(["bare", "one", "two"], effort, plan.MODES, 8)


def test_a_sparing_run_has_larger_mtus_and_pinned_hosts_once():
    effort = plan.Effort(rounds=2, lengths=Lengths(1, 1, 1, 1), mtus=(1420, 8900), sparing=True)
    order = plan.shuffled(["one"], effort, plan.MODES, 1)
    assert [(one.round, one.mode) for one in order if one.mtu == 8900] == [(1, "free")]
    assert sorted((one.round, one.mode) for one in order if one.mtu == 1420) == [(1, "free"), (1, "pinned"), (2, "free")]


def test_a_quick_run_takes_eleven_minutes():
    own, variants = [f"system {number}" for number in range(7)], [f"variant {number}" for number in range(4)]
    order = plan.shuffled(own + variants, plan.QUICK, plan.MODES, 1, variants)
    assert sum(plan.QUICK.seconds(each) for each in order) <= 660


def test_variants_are_measured_with_the_usual_mtu_only():
    effort = plan.Effort(rounds=2, lengths=Lengths(1, 1, 1, 1), mtus=(1420, 8900))
    order = plan.shuffled(["one", "two"], effort, plan.MODES, 1, ["two"])
    assert {(each.system, each.mtu) for each in order} == {("one", 1420), ("one", 8900), ("two", 1420)}
    every = plan.shuffled(["one", "two"], effort, plan.MODES, 1, ["two"], ["two"])
    assert {(each.system, each.mtu) for each in every} == {("one", 1420), ("one", 8900), ("two", 1420), ("two", 8900)}
    sparing = plan.shuffled(["one", "two"], dataclasses.replace(effort, sparing=True), plan.MODES, 1, ["two"])
    assert [(each.round, each.mode) for each in sparing if each.system == "two"] == [(1, "free")]


def test_the_tests_of_a_configuration_are_shuffled_and_idle_is_first():
    orders = [plan.tests_in_order(plan.Configuration(number, "free", "one", 1420), 1) for number in range(20)]
    assert all(order[0] == "idle" and len(set(order)) == len(order) == len(plan.TESTS) for order in orders)
    assert len({tuple(order) for order in orders}) > 10
    assert plan.tests_in_order(plan.Configuration(1, "free", "one", 8900), 1) == ["tcp-1"]


def test_a_figure_is_the_median_with_its_spread():
    assert figure([3, 1, 10]) == Figure(3, 1, 10, 3)
    assert figure([1, 4]).median == 2.5
    assert figure([]) is None and figure([None]) is None
    assert page.shown(figure([3000, 1000, 10000]), 1, 1e-3) == "3.0 (1.0–10.0)"
    assert page.shown(figure([1234.6]), 0) == "1,235"
    assert page.shown(None) == page.NONE


def test_a_quantile_is_a_value_that_was_seen():
    values = list(range(100, 0, -1))
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile([7], 0.99)) == (50, 99, 7)
    assert quantile([], 0.5) is None


def test_both_directions_of_a_tcp_run_are_added():
    end = {
        "sum_sent": {"retransmits": 2},
        "sum_received": {"bits_per_second": 3e9},
        "sum_sent_bidir_reverse": {"retransmits": 5},
        "sum_received_bidir_reverse": {"bits_per_second": 1e9},
        "sender_tcp_congestion": "cubic",
    }
    output = tcp_figures({"end": end})
    assert output == {"mbps": 4000, "ways_mbps": [3000, 1000], "retransmits": 7, "congestion_control": "cubic"}


def test_udp_is_reported_as_the_receiver_counted():
    end = {"sum_sent": {"bits_per_second": 2e9}, "sum_received": {"bits_per_second": 1e9, "packets": 200, "lost_packets": 50, "seconds": 2}}
    assert udp_figures({"end": end}) == {"offered_mbps": 2000, "mbps": 1000, "lost_percent": 25, "packets": 200, "packets_per_s": 75}


def test_a_stream_that_carries_nothing_is_a_failure():
    end = {"sum_sent": {"retransmits": 2}, "sum_received": {"bits_per_second": 20_000, "bytes": 2500}}
    with pytest.raises(LabError, match="2500 bytes arrived"):
        tcp_figures({"end": end})


def test_lost_datagrams_are_counted_by_place():
    head = "   sl  local_address rem_address   st ... drops\n"
    assert socket_drops(f"{head}  1: 00000000:CA6C 00000000:0000 07 0 5\n{head}  9: 00:CA6C 00:0000 07 0 2\n") == 7
    kernel = {"left.interface_tx_dropped": 10, "right.Udp.RcvbufErrors": 25, "right.tunnel_socket_drops": 5}
    figures = {"packets": 200, "kernel": kernel}
    assert [place(figures, None) for place in (summary.lost_before, summary.lost_inside, summary.lost_after)] == [5, 2.5, 10]


def test_the_kernels_counters_are_found_by_name():
    text = "Ip: A B\nIp: 1 2\nUdp: InDatagrams RcvbufErrors\nUdp: 9 4\nTcpExt: TCPOFOQueue Other\nTcpExt: 6 8\n"
    assert counters(text) == {"Udp.RcvbufErrors": 4, "TcpExt.TCPOFOQueue": 6}


# Figures of every TCP run besides its rate.
REST = {"mbps": 1.0, "retransmits": 0, "bytes": 1e9, "cpu": {"capacity_s": 4.0, "machine_s": 2.0, "tunnel_s": [1.0, 0.5], "applications_s": 0.4}, "kernel": {}}


def run(system, number=1, mode="free", mtu=1420, error=None, **tests):
    return {
        "round": number, "mode": mode, "system": system, "mtu": mtu, "error": error, "memory_kib": {"idle": [1000, 2000], "peak": [3000, 4000]},
        "tests": {name.replace("_", "-"): figures if "error" in figures else REST | figures for name, figures in tests.items()},
    }  # fmt: skip


def test_failures_are_left_out_of_the_figures_and_named():
    results = Results([run("one", 1, tcp_1={"mbps": 5}), run("one", 2, tcp_1={"error": "iperf3: no route\nmore"}), run("one", 3, error="did not start")])
    assert results.figure("one", "free", 1420, "tcp-1", lambda f, _: f["mbps"]) == Figure(5, 5, 5, 1)
    assert results.errors("one") == [("free", 1420, "tcp-1", "iperf3: no route"), ("free", 1420, "start", "did not start")]


def test_disturbed_tests_are_in_no_figure_and_are_counted():
    results = Results([run("one", 1, tcp_1={"mbps": 5, "disturbed": False}), run("one", 2, tcp_1={"mbps": 1, "retransmits": 9, "disturbed": True})])
    assert results.figure("one", "free", 1420, "tcp-1", summary.mbps) == Figure(5, 5, 5, 1)
    assert results.all_retransmits("one", "free").most == 0
    assert results.disturbed() == (1, 2)


def test_the_foreign_share_excludes_the_tunnel_and_the_measuring_programs():
    cpu = {"capacity_s": 4.0, "machine_s": 3.0, "tunnel_s": [1.0, 0.5], "applications_s": 0.5}
    assert foreign(cpu) == 0.25
    assert foreign(cpu | {"machine_s": 1.9}) == 0


class Meddled:
    """A meter on a machine that other programs disturb for the first `times` runs."""

    def __init__(self, times):
        self.times, self.runs = times, 0

    def run(self, _):
        self.runs += 1
        return {"mbps": float(self.runs), "cpu": REST["cpu"] | {"machine_s": 4.0 if self.runs <= self.times else 2.0}}


@pytest.mark.parametrize(("times", "runs", "disturbed"), [(0, 1, False), (1, 2, False), (9, 3, True)])
def test_a_disturbed_test_is_run_again(monkeypatch, times, runs, disturbed):
    monkeypatch.setattr("lab.compare.tunnel.command.calm", lambda _: True)
    meter = Meddled(times)
    figures = Bench([], plan.QUICK, ["free"], 1)._test(meter, "tcp-1", print)
    assert (meter.runs, figures["attempts"], figures["disturbed"], figures["mbps"]) == (runs, runs, disturbed, runs)


def test_added_latency_is_relative_to_the_bare_link_of_the_same_round():
    rows = [run("bare", 1, idle={"ms": [0.1]}), run("one", 1, idle={"ms": [0.15]}), run("bare", 2, idle={"ms": [0.5]}), run("one", 2, idle={"ms": [0.51]})]
    rows.append(run("one", 3, idle={"ms": [9]}))
    seen = Results(rows).added_us("one", "free", 1420)
    assert (round(seen.median), round(seen.least), round(seen.most), seen.rounds) == (30, 10, 50, 2)


def test_the_tables_take_their_place_and_nothing_else():
    document = f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n"
    once = page.placed(document, "new")
    assert once == f"before\n{page.BEGIN}\n\nnew\n\n{page.END}\nafter\n" and page.placed(once, "new") == once
    with pytest.raises(ValueError):
        page.placed("no place", "new")


def test_the_time_left_follows_the_pace(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("lab.measure.clock.time.monotonic", lambda: now[0])
    clock = Clock([60, 60, 120])
    assert clock.left(0) == "4.0 min"
    now[0] += 120
    assert clock.left(1) == "6.0 min"


class Idle(System):
    """A system that is available, but is never started in these tests."""

    def __init__(self, name):
        self.name = self.title = name

    def version(self):
        return "1"


def test_a_run_goes_on_where_it_ended():
    def bench(seed=1):
        return Bench([Idle("one"), Idle("two")], plan.Effort(2, Lengths(1, 1, 1, 1), (1420,)), ["free"], seed)

    first = bench()
    order = first.missing()
    first.runs = [run(one.system, one.round, one.mode, one.mtu, idle={"disturbed": one is order[1]}) for one in order[:3]]
    output, again = first.result(quick=False), bench()
    again.resume(output)
    assert again.result(quick=False)["sittings"] == 2
    assert again.missing() == [order[1], order[3]]
    with pytest.raises(LabError, match="seed"):
        bench(seed=2).resume(output)


def test_a_failing_system_stops_nothing_and_is_given_up(lab):
    class Broken(Idle):
        starts = 0

        def start(self, hosts, helper, mtu):
            self.starts += 1
            raise LabError("it has no legs\nand more")

    broken = Broken("broken")
    bench = Bench([broken], plan.Effort(3, Lengths(1, 1, 1, 1), (1420,)), ["free"], 1)
    assert bench.run(False, print)
    assert [one["error"].splitlines()[0] for one in bench.runs] == ["it has no legs"] * 2 + ["not tried again: it has no legs"]
    assert broken.starts == 2
    assert "- broken, free, MTU 1,420, start: it has no legs" in page.text(bench.result(quick=True))


def test_names_of_systems_are_unique():
    assert max(collections.Counter(system.name for system in ALL).values()) == 1


@pytest.mark.root
@pytest.mark.skipif(not shutil.which("iperf3"), reason="needs the program iperf3: apt-get install iperf3")
def test_two_systems_end_to_end():
    effort = plan.Effort(rounds=1, lengths=Lengths(tcp=1, udp=1, idle=1, loaded=1), mtus=(1420,))
    chosen = [system for system in ALL if system.name in ("bare", "taut-wg")]
    with congestion.allowed("cubic") as cubic:
        # This test shares the machine with other tests, so disturbed measurements are not repeated here.
        bench = Bench(chosen, effort, ["pinned"], 1, tries=1)
        assert bench.run(cubic, print)
    assert not any(bench.lacking.values()), bench.lacking
    output = bench.result(quick=True)
    assert [one["error"] for one in output["runs"]] == [None, None]
    for one in output["runs"]:
        assert set(one["tests"]) == set(plan.TESTS)
        assert not [figures for figures in one["tests"].values() if "error" in figures]
        assert one["tests"]["tcp-1"]["mbps"] > 0 and one["tests"]["tcp-1"]["cpu"]["machine_s"] > 0
    text = page.text(output)
    assert "| taut-wg |" in text and "MTU 1,420" in text and "### To reach" in text


def rounds_of(mbps):
    """Returns runs with these throughputs of one stream per system."""
    return [run(system, tcp_1={"mbps": value}) for system, value in mbps.items()]


@pytest.mark.parametrize(
    ("ours", "verdict"), [(5000, "go for"), (2600, "go for"), (2599, "reach"), (2000, "reach"), (1999, "missed"), (None, "not measured")]
)
def test_a_verdict_follows_from_both_limits(ours, verdict):
    results = Results(rounds_of({"wireguard-go": 1000} | ({"taut-wg": ours} if ours else {})))
    row = next(row for row in goals.judge(results, {}) if row["what"].startswith("taut-wg, one") and row["mode"] == "free")
    assert row["verdict"] == verdict


def test_less_is_better_where_the_limit_says_so():
    goal = goals.Goal("loss", "free", None, 10, 1, "%", most=False)
    assert [goal.verdict(goals.Seen(value, "")) for value in (0, 1, 1.1, 10, 10.1)] == ["go for", "go for", "reach", "reach", "missed"]
    assert goal.limits() == ["≤ 10 %", "≤ 1 %"]


def test_a_condition_beside_the_figure_counts():
    echo = {"ms": [1.0] * 100, "retransmits": 0}
    assert verdict_of("echo beside one stream without retransmits, p99, AES", [run("taut-aes", loaded=echo)]) == "go for"
    assert verdict_of("echo beside one stream without retransmits, p99, AES", [run("taut-aes", loaded=echo | {"retransmits": 1})]) == "missed"


def test_of_several_systems_the_worst_is_judged():
    runs = [run(name, tcp_1={"mbps": 1000}, tcp_4={"mbps": four}) for name, four in (("taut-aes", 1000), ("taut-chacha", 950), ("taut-wg", 890))]
    assert verdict_of("four streams, against one", runs) == "missed"
    assert verdict_of("four streams, against one", runs[:2] + [run("taut-wg", tcp_1={"mbps": 1000}, tcp_4={"mbps": 1001})]) == "reach"


def test_retransmits_of_every_tcp_run_count():
    clean = [run(name, tcp_1={"mbps": 1, "retransmits": 0}, tcp_4={"mbps": 1, "retransmits": 0}) for name in goals.OURS]
    assert verdict_of("TCP retransmits of a round", clean) == "go for"
    clean[1]["tests"]["tcp-4"]["retransmits"] = 1
    assert verdict_of("TCP retransmits of a round", clean) == "missed"
    clean[1]["tests"]["tcp-4"]["kernel"] = {"left.TcpExt.TCPDSACKRecv": 3, "right.TcpExt.TCPSACKReorder": 4}
    clean[2]["tests"]["tcp-1"]["retransmits"] = 1
    row = next(row for row in goals.judge(Results(clean), {}) if row["what"] == "TCP retransmits of a round")
    assert row["seen"].endswith("of 2 in all rounds the receiver had 1 already)")


def test_a_goal_that_was_not_measured_says_why():
    row = next(row for row in goals.judge(Results([]), {"taut-lanes-2": "no --lanes"}) if row["what"].startswith("two lanes"))
    assert (row["verdict"], row["seen"]) == ("not measured", "no --lanes")


def test_the_model_follows_from_the_costs_and_from_nothing_else():
    cost = model.Costs(sending=0.5, receiving=0.4, rest=0.3)
    assert [model.gbit_per_s(cost, lanes, cores=8) for lanes in (1, 2, 4)] == [16, 32, 64], "the dearer end, times the lanes"
    assert model.gbit_per_s(cost, 8, cores=8) == pytest.approx(8 * 8 / 0.8), "all cores, with everything else that they do"
    assert model.gbit_per_s(cost, 4, cores=8, flows=1) == 16, "one flow has one lane"
    assert model.busy(2, 2) == 1.5 and model.busy(8, 1000) == pytest.approx(8)


def test_the_model_takes_its_costs_from_two_lanes_under_four_streams():
    cpu = {"capacity_s": 9, "machine_s": 4.0, "tunnel_s": [1.5, 1.0], "applications_s": 1.0}
    runs = [run(model.SYSTEM, mode=mode, tcp_4={"mbps": 1, "bytes": size, "cpu": cpu}) for mode, size in (("free", 1e9), ("pinned", 2e9))]
    assert model.costs(Results(runs)) == model.Costs(0.75, 0.5, 0.375, "pinned")
    assert model.costs(Results(runs[:1])) == model.Costs(1.5, 1.0, 0.75, "free")
    output = model.text(Results(runs))
    assert "not a measurement" in output and "| 8 | 56.9 |" in output
    assert model.text(Results([run("taut-aes", tcp_4={"mbps": 1})])) is None


def verdict_of(what, runs):
    return next(row["verdict"] for row in goals.judge(Results(runs), {}) if (row["what"], row["mode"]) == (what, "free"))
