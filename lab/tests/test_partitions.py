"""Partitions between any two of node, peer, relay and coordinator: faults N1 and N11, whose table is in docs/spec/faults.md."""

import contextlib

import pytest

from lab.hosts import needs
from lab.nodes.local_api import LocalApi
from lab.nodes.taut import Node

from .steady_transfer import SOME, flows

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft"))
CONES, STRICT = ["port-restricted", "port-restricted"], ["symmetric", "symmetric"]
OFTEN = {"TAUT_TEST_REKEY_AFTER_S": "2"}


@contextlib.contextmanager
def apart(host, one, other, ways=2):
    """Drops packets from address `one` to `other` in `host`, through which all these packets pass. With two `ways` it also drops the other direction."""
    drops = "\n".join(f"ip saddr {a} ip daddr {b} drop" for a, b in ((one, other), (other, one))[:ways])
    hooks = "\n".join(f"chain {hook} {{\ntype filter hook {hook} priority filter;\n{drops}\n}}" for hook in ("forward", "input", "output"))
    host.run("nft", "-f", "-", text=f"table ip apart {{\n{hooks}\n}}\n")
    try:
        yield
    finally:
        host.run("nft", "delete", "table", "ip", "apart")


def outside(node):
    """Returns a node's address as servers see it."""
    return node.host.nat.external


def renew(one, two):
    """Waits until two more sessions were made."""
    before = one.sessions_made(two.name, one.wait_for(lambda status: one.sessions_made(two.name, status), "a session"))
    one.wait_for(lambda status: one.sessions_made(two.name, status) >= before + 2, "two new sessions")


def test_fault_n1_without_the_coordinator_sessions_renew_hosts_move_and_relays_change(behind):
    world = behind(STRICT, relays=2, env=OFTEN)
    one, two = world.nodes
    transfer = flows(one, two)
    world.coordinator.kill()
    renew(one, two)
    transfer.flows_on(SOME)
    own, gateway = one.host.ipv4, one.host.home.gateway[0]
    one.host.ip(f"address del {own}/24 dev eth0", "address add 192.168.1.101/24 dev eth0", f"route replace default via {gateway}")
    transfer.flows_on(SOME)
    world.using(one, two).kill()
    transfer.flows_on(SOME)
    assert not one.status()["coordinator"]["connected"]
    world.coordinator.start("--no-relay")
    one.wait_for(lambda status: status["coordinator"]["connected"], "the coordinator to be back")
    assert transfer.finish()["equal"]


@pytest.mark.parametrize("ways", [1, 2])
def test_fault_n11_node_and_coordinator_apart(behind, ways):
    """Sessions are renewed. A node that joins meanwhile is known to the others, and to this node as soon as it hears again."""
    world = behind(CONES, env=OFTEN)
    one, two = world.nodes
    one.ping_until_direct(two.name)
    transfer = flows(one, two)
    third = Node(world.internet.behind("open", "node3"))
    # One way: messages of the coordinator are lost.
    with apart(world.internet.core, world.coordinator.address, outside(one), ways):
        third.start()
        third.up(world.coordinator.join_token)
        two.wait_for_peers(one.name, third.name)
        if ways == 2:
            one.wait_for(lambda status: not status["coordinator"]["connected"], "the coordinator to be missed")
        renew(one, two)
        transfer.flows_on(SOME)
        assert one.peer(third.name) is None and one.peer(two.name)["path"]["kind"] == "direct"
    one.wait_for_peers(two.name, third.name)
    assert transfer.finish()["equal"]


def test_fault_n11_node_and_node_apart(behind):
    """The relay carries until the direct path is back."""
    one, two = behind(CONES).nodes
    one.ping_until_direct(two.name)
    transfer = flows(one, two)
    with LocalApi(one) as api:
        two.host.nat.black_hole()
        api.wait_for_path(two.name, "relayed")
        transfer.flows_on(SOME)
        two.host.nat.restore()
        api.wait_for_path(two.name, "direct")
    assert transfer.finish()["equal"]


@pytest.mark.parametrize("ways", [1, 2])
def test_fault_n11_node_and_relay_apart(behind, ways):
    """Another relay carries, though the first one works and serves the peer."""
    world = behind(STRICT, relays=2)
    one, two = world.nodes
    transfer = flows(one, two)
    relay = world.using(one, two)
    with apart(world.internet.core, relay.host.ipv4, outside(one), ways):
        one.wait_for(lambda _: one.peer(two.name)["path"]["relay"] not in (None, relay.host.name), "the other relay to carry")
        transfer.flows_on(SOME)
    world.serve(one)
    assert transfer.finish()["equal"]


def test_fault_n11_a_direct_path_needs_no_relay(behind):
    world = behind(CONES)
    one, two = world.nodes
    one.ping_until_direct(two.name)
    transfer = flows(one, two)
    world.relays[0].kill()
    one.wait_for(lambda status: status["relays"][0]["state"] != "bound", "the relay to be missed")
    transfer.flows_on(SOME)
    assert one.peer(two.name)["path"]["kind"] == "direct"
    world.relays[0].start()
    world.serve(one)
    assert transfer.finish()["equal"]


def test_fault_f11_n11_relay_and_coordinator_apart(behind):
    """The relay knows the key of the coordinator and needs nothing more: a node that joins now is served as well. Without a coordinator no node can
    join."""
    world = behind(STRICT)
    one, two = world.nodes
    relay = world.relays[0].host
    with apart(relay, world.coordinator.address, relay.ipv4):
        transfer = flows(one, two)
        third = Node(world.internet.behind("symmetric", "node3"))
        third.start()
        third.up(world.coordinator.join_token)
        one.wait_for_peers(two.name, third.name)
        third.wait_for_peers(one.name, two.name)
        world.serve(third)
        pings = third.ping(one.name, "--count", "3")
        assert {reply["path"] for reply in pings["replies"]} == {"relayed"}
    world.coordinator.kill()
    transfer.flows_on(SOME)
    fourth = Node(world.internet.behind("symmetric", "node4"))
    fourth.start()
    assert fourth.taut("up", "--join", world.coordinator.join_token, "--timeout", "2s", check=False).returncode != 0
    assert not fourth.status()["relays"]
    assert transfer.finish()["equal"]
