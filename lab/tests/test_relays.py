"""Relays that are killed and relays that are observed, with real daemons that need them (group F of docs/spec/faults.md)."""

import pytest

from lab.hosts import needs
from lab.traffic.flow import Listener, Transfer

from .steady_transfer import SOME, flows

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft"))
STRICT = ["symmetric", "symmetric"]


def test_fault_f8_a_relay_that_is_killed_is_replaced_under_traffic(behind):
    world = behind(STRICT, relays=2)
    one, two = world.nodes
    transfer = flows(one, two)
    for _ in range(2):
        dead = world.using(one, two)
        dead.kill()
        for here, there in ((one, two), (two, one)):
            here.wait_for(lambda _, here=here, there=there: here.peer(there.name)["path"]["relay"] not in (None, dead.host.name), "the other relay")
        transfer.flows_on(SOME)
        dead.start()
        for node in (one, two):
            world.serve(node)
    assert transfer.finish()["equal"]


def test_fault_f9_an_observer_at_a_relay_sees_only_ciphertext(behind):
    world = behind(STRICT)
    one, two = world.nodes
    relay = world.relays[0].host
    cable = Listener(world.internet.server_net, relay)
    assert Transfer(one.host, two.host, two.ipv4, size=SOME).finish()["equal"]
    seen = cable.finish()
    carried = sum(row["bytes"] for row in seen["udp"] if row["from"] == f"{relay.ipv4} 3478")
    # Everything went through this relay. test_lab.py shows that the listener recognises plaintext.
    assert carried > SOME and seen["plaintext"] == 0
