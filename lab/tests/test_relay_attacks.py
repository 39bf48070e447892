"""A hostile member and a real relay: forged source addresses, endless binds, many ports of one address (faults F14 to F17)."""

import time

import pytest

from lab.hosts import needs
from lab.hosts.wait import wait_until
from lab.nodes import relay_attacks as attacks
from lab.nodes.relay_attacks import RelayTestbed
from lab.traffic.flow import Probe

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft"))
# Time in seconds in which 400 binds per second fill a table of 1,024 entries that are kept for 10 s.
FILL_S = 5
# Bind attempts of honest members meanwhile, by day and at night, and the time of the attack in seconds.
SIZES = pytest.mark.parametrize(("attempts", "seconds"), [(8, 15), (28, 40)])
# Binds per second from many ports. By day other tests run beside: a relay that gets the processor rarely loses datagrams of both kinds in its full socket buffer.
FLOODS = {8: 4_000, 28: 12_000}
FORGE_S = 8


def test_fault_f14_a_forged_frame_neither_cuts_a_node_off_nor_redirects_traffic(lab):
    field = RelayTestbed(lab, ("victim", "friend", "forger", "sender"), apart=(("victim", "friend"),))
    victim, friend, forger = (field.nodes[name] for name in ("victim", "friend", "forger"))
    friend.ping("victim", "-c", "3")
    assert friend.peer("victim")["path"]["relay"] == "relay"
    members = [field.credentials(name) for name in ("forger", "sender")]
    for name in ("forger", "sender"):
        field.nodes[name].stop()
    # Two foreign addresses: that of the victim, and that of a host that uses no relay.
    bystander = lab.host("bystander", field.switch)
    attacks.count_from(bystander, field.at.ipv4)
    invented = f"{bystander.ipv4}:4242"
    attacks.lend(forger.host, victim.host.ipv4)
    attacks.lend(forger.host, bystander.ipv4)
    program = field.program(forger.host, "forge", members, places=[attacks.place(victim), invented])
    probe = Probe(friend.host, victim.host, victim.ipv4, interval=0.01)
    before = field.stats()
    attacks.attack(program, FORGE_S)
    outcome = attacks.final_report(program)
    seen = probe.finish()
    after = field.stats()
    assert outcome["said"] > 100 and set(outcome["forged"]) == {attacks.place(victim), invented}, outcome
    assert seen["received"] >= 0.99 * seen["sent"] > 100, seen
    # IP and UDP headers are 28 bytes, in both directions.
    datagrams, size = attacks.counted(bystander)
    assert size - 28 * datagrams <= outcome["forged"][invented], (datagrams, size, outcome)
    assert outcome["received"] >= 0.9 * outcome["sent"] > 1_000, outcome
    assert after["moved"] == before["moved"] and after["challenges"] > before["challenges"], (before, after)


def _honest_nodes_bind_beside(field, attempts, seconds, options):
    """During a flood of binds, real daemons of both networks restart and are bound, and so are two more members with each single attempt."""
    greedy, two = field.nodes["greedy"], field.nodes["two"]
    for name in ("greedy", "two", "fourth"):
        field.nodes[name].stop()
    flood = field.program(greedy.host, "binds", [field.credentials("greedy")], **options)
    honest = field.program(two.host, "honest", [field.credentials(name) for name in ("two", "fourth")], attempts=attempts)
    attacks.attack(flood, seconds)
    time.sleep(FILL_S)
    attacks.attack(honest, seconds)
    tried = attacks.final_report(honest)
    # One attempt may fail if the machine stood still for its 1.75 s.
    assert tried["attempts"] == attempts and tried["bound"] >= attempts - 1, tried
    for name in ("one", "third"):
        field.nodes[name].restart()
    for name in ("one", "third"):
        field.bound(name)
    assert not attacks.is_over(flood), "they are bound while the attack goes on"
    return attacks.final_report(flood), field.stats()["drops"]


def _invented(field, ports=1):
    """Returns unused addresses of the switch, from which the host of the hostile member sends."""
    host = field.nodes["greedy"].host
    network = str(host.ipv4).rpartition(".")[0]
    addresses = [f"{network}.{number}" for number in range(100, 250)]
    attacks.lend(host, *addresses)
    return [f"{address}:{port}" for address in addresses for port in range(4242, 4242 + ports)]


@SIZES
def test_fault_f15_one_member_with_endless_binds_keeps_no_node_out(lab, attempts, seconds):
    """The binds come from the member's own address and from invented ones, at a rate below the limits."""
    field = RelayTestbed(lab, ("one", "two", "greedy"), others=("third", "fourth"))
    outcome, dropped = _honest_nodes_bind_beside(field, attempts, seconds, {"sockets": 26, "rate": 450, "places": _invented(field)})
    assert outcome["binds"] > 200 * FILL_S and dropped["full"] == 0, (outcome, dropped)


@SIZES
def test_fault_f16_many_ports_of_one_address_keep_no_node_out(lab, attempts, seconds):
    """Invented sources make the relay ask for cookies; then one address shows thousands of them."""
    field = RelayTestbed(lab, ("one", "two", "greedy"), others=("third", "fourth"))
    outcome, dropped = _honest_nodes_bind_beside(field, attempts, seconds, {"sockets": 2_000, "rate": FLOODS[attempts], "places": _invented(field, 3), "repeats": True})
    assert outcome["binds"] > FLOODS[attempts] / 2 * FILL_S, outcome
    assert dropped["cookie-asked"] > 1_000 and dropped["bind-rate"] > FLOODS[attempts], dropped


def test_fault_f17_a_removed_node_is_cut_off_at_the_coordinators_relay(lab):
    field = RelayTestbed(lab, ("one", "removed"), own=True)
    assert field.stats()["clients"] == 2
    members = [field.credentials("removed")]
    field.coordinator.cli("nodes", "remove", "removed")
    assert field.stats()["clients"] == 1
    for _ in range(2):
        program = field.program(field.nodes["removed"].host, "binds", members, sockets=5, rate=10)
        attacks.attack(program, 3)
        outcome = attacks.final_report(program)
        assert outcome["binds"] > 10 and outcome["answers"] == 0, outcome
        assert field.stats()["drops"]["cut-off"] > 5 and field.stats()["clients"] == 1
        # A restarted coordinator reads the removed nodes again.
        field.coordinator.stop()
        field.coordinator.start("--relay-metrics", attacks.METRICS)
        wait_until(lambda: field.stats()["clients"] == 1, "the other node to be bound again")
