"""Several lanes between nodes that reach each other through a relay only. A flow keeps its order and loses no packet."""

import os
import time

import pytest

from lab.hosts import needs
from lab.nodes import releases
from lab.traffic.flow import Listener, Probe, Transfer

from .steady_transfer import SOME

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft"))
OLD = releases.previous()
STRICT = ["symmetric", "symmetric"]
TWO_LANES = ("--lanes", "2")
# Number of flows in each direction: both lanes have some, because the ports of a flow determine its lane.
_FLOWS = 6
# Flows without a limit of their rate: on two lanes, one in 128 runs has all of them on one.
_HEAVY = 8
# First byte of a relay's data frame.
_DATA = 0x80
# Time in which flows are observed, in seconds.
_WHILE_S = 3
# Longest time until lanes have opened or closed: the machine may be busy.
_PATIENCE_S = 60


def _probes(one, two, flows=_FLOWS, burst=8):
    return [
        Probe(source.host, target.host, target.ipv6 if number % 3 == 2 else target.ipv4, interval=0.03, burst=burst)
        for number in range(flows)
        for source, target in ((one, two), (two, one))
    ]


def _results(probes):
    for probe in probes:
        probe.end()
    return [probe.finish() for probe in probes]


def _in_order(results):
    assert all(result["sent"] > 100 for result in results), results
    assert not any(result["reordered"] or result["doubled"] for result in results), results


def _lanes(node, peer, status=None):
    session = node.peer(peer.name, status)["session"]
    return session and (session["lanes_in_use"], session["lanes"])


def _wait_for_lanes(world, count):
    one, two = world.nodes
    for here, there in ((one, two), (two, one)):
        here.wait_for(
            lambda status, here=here, there=there: _lanes(here, there, status) == (count, count), f"{count} lanes in use", _PATIENCE_S
        )
        assert here.peer(there.name)["path"]["kind"] == "relayed"


def _ports_at(relay, heard):
    """Returns the ports from which data frames came to the relay, apart from single probes."""
    place = f"{relay.host.ipv4} 3478"
    frames = {row["from"]: row["frames"] for row in heard["udp"] if row["to"] == place and row["type"] == _DATA}
    return {source for source, count in frames.items() if count > 0.02 * sum(frames.values())}


def test_lanes_open_through_a_relay_and_no_flow_is_reordered(behind):
    world = behind(STRICT, options=TWO_LANES)
    one, two = world.nodes
    probes = _probes(one, two)
    _wait_for_lanes(world, 2)
    transfers = [Transfer(source.host, target.host, target.ipv4, size=SOME) for source, target in ((one, two), (two, one)) for _ in range(2)]
    for transfer in transfers:
        assert transfer.finish()["equal"]
    cable = Listener(world.internet.server_net, world.relays[0].host)
    time.sleep(_WHILE_S)
    assert len(_ports_at(world.relays[0], cable.finish())) == 4, "the flows take two lanes of each node"
    results = _results(probes)
    _in_order(results)
    assert one.peer(two.name)["session"]["lanes_limit"] is None


@pytest.mark.parametrize("lanes", ["1", "auto"])
def test_a_peer_with_one_lane_opens_none_through_a_relay(behind, lanes):
    world = behind(STRICT, options=("--lanes", lanes))
    one, two = world.nodes
    results = _results(_probes(one, two, flows=1))
    assert not any(result["reordered"] or result["doubled"] for result in results), results
    assert _lanes(one, two) == (1, 1)


@pytest.mark.alone
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="more lanes than cores never open")
def test_lanes_open_under_load_through_a_relay_and_are_given_back(behind):
    # With this suite, the nodes and not the relay limit the transfers: it costs them most per byte, and the relay nothing.
    world = behind(STRICT, options=("--suites", "ChaCha20Poly1305"))
    one, two = world.nodes
    # Two nodes, a relay and the programs share the cores, so a lane is busy enough for a whole second only now and then.
    # These flows are light, and keep their order whatever happens.
    probes = _probes(one, two, flows=2, burst=4)
    transfers = [Transfer(one.host, two.host, address) for address in (two.ipv4, two.ipv6) for _ in range(_HEAVY // 2)]
    try:
        status = one.wait_for(lambda status: one.peer(two.name, status)["session"]["lanes_in_use"] > 1, "lanes to open", 10 * _PATIENCE_S)
        assert one.peer(two.name, status)["path"]["kind"] == "relayed"
    finally:
        for transfer in transfers:
            assert transfer.finish()["equal"]
    for node in (one, two):
        node.wait_for(lambda status: len(status["self"]["lanes"]["ports"]) == 1, "lanes to be given back", _PATIENCE_S)
    results = _results(probes)
    assert not any(result["reordered"] or result["doubled"] for result in results), results


def test_after_a_restart_of_the_relay_the_lanes_are_back(behind):
    world = behind(STRICT, options=TWO_LANES)
    one, two = world.nodes
    probes = _probes(one, two)
    _wait_for_lanes(world, 2)
    relay = world.relays[0]
    relay.kill()
    relay.start()
    for node in (one, two):
        world.serve(node)
    _results(probes)
    # These packets wait for the new way, or use it.
    assert Transfer(one.host, two.host, two.ipv4, size=SOME).finish()["equal"]
    probes = _probes(one, two)
    _wait_for_lanes(world, 2)
    time.sleep(_WHILE_S)
    _in_order(_results(probes))


@pytest.mark.skipif(bool(releases.lacking(OLD)), reason=releases.lacking(OLD))
def test_a_relay_of_the_release_carries_one_lane(behind):
    world = behind(STRICT, options=TWO_LANES, release=OLD)
    one, two = world.nodes
    probes = _probes(one, two)
    time.sleep(_WHILE_S)
    assert Transfer(one.host, two.host, two.ipv4, size=SOME).finish()["equal"]
    _in_order(_results(probes))
    for here, there in ((one, two), (two, one)):
        assert _lanes(here, there) == (1, 2)
        assert here.peer(there.name)["session"]["lanes_limit"] == "relayed"
        assert here.peer(there.name)["path"]["kind"] == "relayed"
