"""Relays that are killed and relays that are observed, with real daemons that need them (group F of docs/spec/faults.md)."""

import json

import pytest

from lab.hosts import needs
from lab.hosts.wait import wait_until
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


def test_fault_f17_a_relay_cuts_off_a_removed_node_at_once_and_the_operator_sees_its_load(behind):
    world = behind(STRICT)
    one, two = world.nodes
    relay = world.relays[0]
    transfer = Transfer(one.host, two.host, two.ipv4, size=SOME)
    assert transfer.finish()["equal"]

    def listed():
        rows = json.loads(world.coordinator.cli("relays", "list", "--json").stdout)["relays"]
        return next(row for row in rows if row["name"] == relay.host.name)

    load = wait_until(lambda: (listed()["channel"] or {}).get("load"), "the relay's first report")
    assert load["clients_max"] > load["clients"] and not listed()["busy"]
    wait_until(lambda: relay.status()["clients"] == 2, "both nodes at the relay")
    # The node cannot learn of its removal, as if its host were in foreign hands: it stays bound with the ticket that it has.
    two.host.run("ip", "route", "add", "blackhole", f"{world.coordinator.host.ipv4}/32")
    world.coordinator.cli("nodes", "remove", two.name)
    wait_until(lambda: relay.status()["revocations"] == 1 and relay.status()["clients"] == 1, "the end of the binding", details=lambda: str(relay.status()))
    wait_until(lambda: relay.status()["drops"]["cut-off"] > 0, "a refused attempt to bind again", details=lambda: str(relay.status()))
    assert relay.status()["clients"] == 1
    # Without the coordinator the relay goes on, and keeps what it was told.
    world.coordinator.stop()
    wait_until(lambda: relay.status()["coordinators"] == 0, "the end of the channel")
    before = relay.status()["drops"]["cut-off"]
    wait_until(lambda: relay.status()["drops"]["cut-off"] > before, "another refused attempt", details=lambda: str(relay.status()))


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
