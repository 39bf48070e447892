"""`taut netcheck` behind every kind of NAT: without a daemon, with STUN servers named on the command line."""

import json
import sys
from pathlib import Path

import pytest

from lab.hosts import needs
from lab.hosts.nats import Internet
from lab.hosts.programs import binary

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft"))
_STUN = (sys.executable, "-I", str(Path(__file__).parent.parent / "nodes" / "stun_server.py"))

# Expected result for each kind: name, mapping, filtering. A server with two ports of one address cannot tell the two open filters apart.
TOLD = {
    "open": ("none", "not-translated", "not-by-port"),
    "firewall": ("firewall", "not-translated", "address-and-port-dependent"),
    "full-cone": ("cone", "endpoint-independent", "not-by-port"),
    "address-restricted": ("cone", "endpoint-independent", "not-by-port"),
    "port-restricted": ("port-restricted-cone", "endpoint-independent", "address-and-port-dependent"),
    "symmetric": ("symmetric", "address-and-port-dependent", "address-and-port-dependent"),
    "predictable": ("symmetric", "address-and-port-dependent", "address-and-port-dependent"),
}


@pytest.fixture
def world(lab):
    """An internet with two STUN servers: (internet, their addresses)."""
    internet = Internet(lab)
    hosts = [internet.server(name) for name in ("stun1", "stun2")]
    for host in hosts:
        host.start(*_STUN, host.ipv4, 3478, 3479, name="stun").wait_for_output("ready")
    return internet, [host.ipv4 for host in hosts]


def netcheck(host, *servers, text=False):
    """Returns the output of `taut netcheck` in this host, parsed or as lines."""
    named = [word for server in servers for word in ("--relay", server)]
    words = [*named, *([] if text else ["--json"]), "--socket", host.state / "none.sock", "--state", host.state / "none"]
    answer = host.run(binary("taut"), "netcheck", *words, check=False)
    if text:
        return answer.stdout
    report = json.loads(answer.stdout)
    assert answer.returncode == (0 if report["udp"] else 1), answer.stderr
    return report


@pytest.mark.parametrize("kind", TOLD)
def test_each_kind_of_nat_is_named(world, kind):
    internet, servers = world
    host = internet.behind(kind)
    report = netcheck(host, *servers)
    nat = report["ipv4"]["nat"]
    assert report["schema"] == 1 and report["udp"] and report["ipv4"]["state"] == "works"
    assert (nat["kind"], nat["mapping"], nat["filtering"]) == TOLD[kind]
    outside = host.ipv4 if kind in ("open", "firewall") else str(host.nat.external)
    assert {seen.rpartition(":")[0] for seen in nat["seen_as"]} == {outside}
    assert report["ipv4"]["local"] == host.ipv4
    assert all(one["latency_ms"] > 0 for relay in report["relays"] for one in relay["endpoints"])
    assert report["said"]


@pytest.mark.parametrize("random, kind", [(False, "port-restricted-cone"), (True, "symmetric")])
def test_fault_d18_a_router_that_masquerades_is_named(world, random, kind):
    internet, servers = world
    host = internet.behind("port-restricted")
    host.nat.masquerade(random)
    assert netcheck(host, *servers)["ipv4"]["nat"]["kind"] == kind
    assert netcheck(host, servers[0])["ipv4"]["nat"]["kind"] == kind


@pytest.mark.parametrize("relays", [1, 2])
@pytest.mark.parametrize("random, kind", [(False, "port-restricted-cone"), (True, "symmetric")])
def test_fault_d18_a_node_behind_a_router_that_masquerades_names_it(behind, random, kind, relays):
    world = behind(["port-restricted"], relays)
    (node,) = world.nodes
    node.stop()
    node.host.nat.masquerade(random)
    # A port that the router has not seen.
    node.start("--port", 9000)
    known = node.wait_for(lambda status: (status["nat"] or {}).get("filtering", "unknown") != "unknown", "to know the NAT")
    assert known["nat"]["kind"] == kind, known["nat"]


@pytest.mark.parametrize("kind, hairpin", [("port-restricted", False), ("hairpin", True), ("open", None)])
def test_hairpin_is_tried_where_there_is_a_nat(world, kind, hairpin):
    internet, servers = world
    assert netcheck(internet.behind(kind), *servers)["ipv4"]["nat"]["hairpin"] is hairpin


def test_blocked_udp_is_reported_with_advice(world):
    internet, servers = world
    host = internet.behind("udp-blocked")
    report = netcheck(host, *servers)
    assert not report["udp"] and report["ipv4"]["state"] == "silent" and report["ipv4"]["nat"]["kind"] == "unknown"
    assert "3478" in " ".join(report["said"])


def test_one_server_determines_less_and_the_output_says_so(world):
    internet, servers = world
    nat = netcheck(internet.behind("port-restricted"), servers[0])["ipv4"]["nat"]
    assert (nat["kind"], nat["mapping"]) == ("port-restricted-cone", "not-by-port")


def test_a_screen_for_people(world):
    internet, servers = world
    lines = netcheck(internet.behind("port-restricted"), *servers, text=True).splitlines()
    assert lines[0].split() == ["UDP", "works"]
    assert any("port-restricted cone NAT, seen as" in line for line in lines)
    assert any("RFC 4787" in line for line in lines)


def test_a_dead_server_beside_a_living_one_is_shown_as_silent(world):
    internet, servers = world
    report = netcheck(internet.behind("port-restricted"), servers[0], "192.0.2.250")
    assert [one["latency_ms"] is None for relay in report["relays"] for one in relay["endpoints"]] == [False, True]
