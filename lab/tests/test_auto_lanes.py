"""Lanes that open on their own (`--lanes auto`, the default): one while there is little to do, more for a peer whose flows need them, and one again."""

import os
from pathlib import Path

import pytest

from lab.hosts.wait import wait_until
from lab.traffic.flow import Probe, Transfer

# Flows without a limit of their rate: on two lanes, one in 128 runs has all of them on one.
_HEAVY = 8
# Longest time until lanes have opened or closed: the machine may be busy.
_PATIENCE_S = 60

# Lanes open by the time that a thread has on a core, which beside other tests is too short.
pytestmark = pytest.mark.alone

needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="more lanes than cores never open")


def _start(net, *options):
    net.coordinator.start()
    for node, own in zip(net.nodes, options, strict=True):
        node.start(*own)
        node.up(net.coordinator.join_token)
    net.wait_for_maps()
    net.connect()
    return net.nodes


def _lanes(node, status=None):
    return len((status or node.status())["self"]["lanes"]["ports"])


def _threads(node):
    names = (name.read_text(encoding="utf-8").strip() for name in Path(f"/proc/{node.process.pid}/task").glob("*/comm"))
    return sorted(name for name in names if name.startswith("taut-lane"))


def _load(source, target):
    return [Transfer(source.host, target.host, address) for address in (target.ipv4, target.ipv6) for _ in range(_HEAVY // 2)]


def _events(node, name):
    return [line for line in node.taut("log").stdout.splitlines() if name in line]


@needs_two_cores
def test_lanes_open_under_load_and_are_given_back(layout):
    one, two = _start(layout(nodes=2), (), ())
    before = [_threads(node) for node in (one, two)]
    assert before == [["taut-lane-0"]] * 2
    status = one.status()
    assert status["self"]["lanes"]["auto"] and status["self"]["lanes"]["most"] >= 2
    assert one.peer(two.name, status)["session"]["lanes_limit"] == "not-needed"
    # These flows are light, and keep their order whatever happens.
    probes = [Probe(one.host, two.host, two.ipv4, interval=0.03, burst=4) for _ in range(4)]
    transfers = _load(one, two)
    try:
        status = one.wait_for(lambda status: one.peer(two.name, status)["session"]["lanes_in_use"] > 1, "lanes to open", _PATIENCE_S)
        # The session has the lanes of whichever node was busy first.
        assert max(_lanes(one, status), _lanes(two)) > 1
    finally:
        for transfer in transfers:
            assert transfer.finish()["equal"]
    for node in (one, two):
        node.wait_for(lambda status, node=node: _lanes(node, status) == 1, "lanes to be given back", _PATIENCE_S)
    results = []
    for probe in probes:
        probe.end()
        results.append(probe.finish())
    assert not any(result["reordered"] or result["doubled"] for result in results), results
    for node in (one, two):
        wait_until(lambda node=node: _threads(node) == ["taut-lane-0"], "one thread")
        assert node.status()["self"]["lanes"]["problem"] is None
        assert len(_events(node, "more lanes run")) == len(_events(node, "one lane runs again"))
    one.ping(two.name, "-c", 3)


@needs_two_cores
@pytest.mark.parametrize("lanes", ["1", "2"])
def test_a_fixed_number_stays_fixed_beside_a_peer_that_opens_lanes(layout, lanes):
    one, two = _start(layout(nodes=2), (), ("--lanes", lanes))
    transfers = _load(one, two)
    one.wait_for(lambda status: _lanes(one, status) > 1, "lanes to open", _PATIENCE_S)
    assert _lanes(two) == int(lanes) and not two.status()["self"]["lanes"]["auto"]
    for transfer in transfers:
        assert transfer.finish()["equal"]
    one.wait_for(lambda status: _lanes(one, status) == 1, "lanes to be given back", _PATIENCE_S)
    one.ping(two.name, "-c", 3)


@needs_two_cores
@pytest.mark.parametrize("lanes", ["auto", "1", "2"])
def test_lanes_for_one_peer_leave_the_sessions_of_others_alone(layout, lanes):
    one, two, three = _start(layout(nodes=3), (), (), ("--lanes", lanes))
    session = one.peer(three.name)["session"]
    probes = [
        Probe(source.host, target.host, target.ipv6 if number % 2 else target.ipv4, interval=0.02, burst=4)
        for number in range(6)
        for source, target in ((one, three), (three, one))
    ]
    transfers = _load(one, two)
    one.wait_for(lambda status: one.peer(two.name, status)["session"]["lanes_in_use"] > 1, "lanes to open", _PATIENCE_S)
    for transfer in transfers:
        assert transfer.finish()["equal"]
    one.wait_for(lambda status: _lanes(one, status) == 1, "lanes to be given back", _PATIENCE_S)
    results = []
    for probe in probes:
        probe.end()
        results.append(probe.finish())
    assert not any(result["reordered"] or result["doubled"] for result in results), results
    after = one.peer(three.name)["session"]
    assert (after["established"], after["lanes"]) == (session["established"], session["lanes"])


@needs_two_cores
def test_one_heavy_flow_opens_nothing(layout):
    one, two = _start(layout(nodes=2), (), ())
    transfer = Transfer(one.host, two.host, two.ipv4)
    transfer.flows_on(300_000_000, timeout=_PATIENCE_S)
    assert transfer.finish()["equal"]
    assert not _events(one, "more lanes run") and not _events(two, "more lanes run")
    assert _lanes(one) == _lanes(two) == 1


@needs_two_cores
def test_status_says_that_only_the_first_port_is_let_in(layout):
    net = layout(nodes=2)
    one, two = _start(net, (), ())
    for node in (one, two):
        own = node.status()["self"]["port"]
        for family in ("-4", "-6"):
            # The first routing rule is the one for addresses of the host: this rule must precede it.
            cut = f"rule add pref 5 ipproto udp dport {own + 1}-{own + 16} blackhole"
            for words in ("rule add pref 10 table local", "rule del pref 0", cut):
                node.host.run("ip", family, *words.split())
    transfers = _load(one, two)
    one.wait_for(
        lambda status: one.peer(two.name, status)["session"]["lanes_limit"] == "ports-closed", "the closed ports to be noticed", _PATIENCE_S
    )
    assert "lets only the first port in" in one.taut("status").stdout
    assert "a firewall or NAT lets only the first port in" in one.taut("why", two.name).stdout
    assert one.peer(two.name)["session"]["lanes_in_use"] == 1
    for transfer in transfers:
        assert transfer.finish()["equal"]
    # The lanes are given back when the trial ends, or with the load if the machine was faster by chance.
    wait_until(lambda: any(_events(node, "reason=ports-closed") for node in (one, two)), "the reason in the log", _PATIENCE_S)
