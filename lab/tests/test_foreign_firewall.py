"""Firewalls of other programs that drop what a host forwards: at a subnet router and at an exit node, and the commands of docs/routes.md that let Taut through."""

import re

import pytest

from lab.hosts.programs import ROOT
from lab.hosts.wait import wait_until
from lab.nodes.exits import SERVER, Exits
from lab.nodes.subnets import Subnets, seen_as
from lab.traffic.flow import ping

# How each kind of firewall drops what is forwarded: as `ufw` and Docker do, and as /etc/nftables.conf of many hosts does.
FIREWALLS = {
    "iptables": "iptables -P FORWARD DROP; ip6tables -P FORWARD DROP",
    "nft": "nft add table inet filter; nft 'add chain inet filter forward { type filter hook forward priority 0; policy drop; }'",
}
_PAGE = ROOT / "docs" / "routes.md"


def drop_forwarded(host, kind):
    host.run("sh", "-ec", FIREWALLS[kind])


def follow_page(host, kind):
    """Runs the commands with which the page answers a firewall of this kind."""
    [block] = re.findall(r"^ *```sh\n(.*?)^ *```$", _PAGE.read_text().partition("**Firewalls**")[2], re.MULTILINE | re.DOTALL)[:1]
    lines = [line for line in block.splitlines() if kind in line.partition("#")[0]]
    assert lines, block
    host.run("sh", "-ec", "\n".join(lines))


@pytest.mark.parametrize("kind", FIREWALLS)
def test_fault_j10_a_subnet_router_behind_a_firewall_that_drops_what_is_forwarded(lab, kind):
    net = Subnets(lab)
    router, prefix, plain = net.start_router(), net.prefixes()[0], net.hosts[0]
    net.start(net.client, options=("--accept-routes",))
    net.approve(router, prefix)
    net.wait_for_route(net.client, prefix, router)
    client = net.client.host
    wait_until(lambda: seen_as(client, plain.ipv4), "the plain host to answer")
    drop_forwarded(router.host, kind)
    # A drop of another program is final; the router itself is still reached, also by those who repair it.
    assert seen_as(client, plain.ipv4, timeout=1) is None
    assert ping(client, router.ipv4, count=2)["received"] == 2
    assert ping(client, router.host.ipv4, count=2)["received"] == 2
    follow_page(router.host, kind)
    assert seen_as(client, plain.ipv4) == str(router.host.addresses[2])
    # Taut changed nothing of it, and leaves it there.
    router.taut("down")
    rules = router.host.run("sh", "-ec", "nft list table inet filter" if kind == "nft" else "iptables -S FORWARD").stdout
    assert "drop" in rules.lower() and "taut0" in rules, rules


@pytest.mark.parametrize("kind", FIREWALLS)
def test_fault_j10_an_exit_node_behind_a_firewall_that_drops_what_is_forwarded(lab, kind):
    net = Exits(lab)
    gate = net.start_exit()
    net.start_client("exit1")
    net.wait_for_exit(net.client, "exit1")
    net.lead_into_tunnel(net.client)
    client = net.client.host
    wait_until(lambda: seen_as(client, SERVER[0]) == net.public(), "the internet to answer")
    drop_forwarded(gate.host, kind)
    for address in SERVER:
        assert seen_as(client, address, timeout=1) is None
    assert ping(client, gate.ipv4, count=2)["received"] == 2
    follow_page(gate.host, kind)
    for six in (False, True):
        assert seen_as(client, SERVER[six]) == net.public(ipv6=six)
