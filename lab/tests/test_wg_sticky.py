"""Replies leave from the address that the peer sent to. A peer behind a NAT or a firewall receives no packets from another address."""

import shutil

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.wireguard import WireGuard, conf, pair
from lab.traffic.flow import ping

pytestmark = pytest.mark.skipif(not shutil.which("wg"), reason="needs the program wg: apt-get install wireguard-tools")

# New sessions every few seconds, so that handshakes of both sides are covered.
OFTEN = {"TAUT_TEST_REKEY_AFTER_S": "2"}


def second_address(host, family):
    """Adds an address to the interface of the host that the routes do not choose; returns it, and the first one."""
    first = host.ipv4 if family == 4 else host.ipv6
    second = f"{first.rpartition('.')[0]}.99" if family == 4 else f"{first.rpartition(':')[0]}:99"
    # Deprecated IPv6 addresses are chosen last.
    host.ip(f"address add {second}/{24 if family == 4 else 64} dev eth0 {'' if family == 4 else 'nodad preferred_lft 0'}")
    return second, first


def endpoint(address):
    return f"[{address}]:51820" if ":" in address else f"{address}:51820"


@pytest.mark.parametrize("family", [4, 6])
def test_a_host_with_two_addresses_answers_from_the_one_that_was_asked(lab, family):
    client, server = pair(lab, family=family, passive=True, env=OFTEN)
    second, first = second_address(server.host, family)
    if family == 4:
        # Packets from an address without a return route are dropped (rp_filter).
        client.host.ip(f"route add blackhole {first}/32")
    client.set("peer", server.public, "endpoint", endpoint(second))
    assert client.reaches("10.9.0.2")
    handshake = client.peer(server.public)["handshake"]
    wait_until(
        lambda: ping(server.host, "10.9.0.1", count=3)["received"] == 3 and client.peer(server.public)["handshake"] > handshake,
        "new sessions",
        details=client.details,
    )
    assert ping(client.host, "10.9.0.2", count=20)["received"] == 20
    assert client.peer(server.public)["endpoint"] == endpoint(second)


@pytest.mark.parametrize("family", [4, 6])
def test_fault_d8_an_address_that_goes_is_not_missed(lab, family):
    client, server = pair(lab, family=family, passive=True)
    second, first = second_address(server.host, family)
    client.set("peer", server.public, "endpoint", endpoint(second))
    assert client.reaches("10.9.0.2")
    assert client.peer(server.public)["endpoint"] == endpoint(second)
    server.host.ip(f"address delete {second}/{24 if family == 4 else 64} dev eth0")
    # The kernel refuses the first packet, and it is sent anyway.
    assert ping(server.host, "10.9.0.1", count=3)["received"] == 3
    assert client.peer(server.public)["endpoint"] == endpoint(first)


def test_fault_d7_with_the_route_the_address_changes(lab):
    """Like a laptop that leaves the wireless network while the cable is connected: the old address exists for a while, but packets from it are lost."""
    wire, air, far = lab.switch("wire"), lab.switch("air"), lab.switch("far")
    router = lab.router("router", wire, air, far)
    laptop = WireGuard(lab.host("laptop", wire, air), inner=["10.9.0.1/24"])
    server = WireGuard(lab.host("server", far), inner=["10.9.0.2/24"])
    server.config = conf(server, {"PublicKey": laptop.public, "AllowedIPs": "10.9.0.1/32"})
    laptop.config = conf(laptop, {"PublicKey": server.public, "AllowedIPs": "10.9.0.2/32", "Endpoint": endpoint(server.host.ipv4)})
    for device in (server, laptop):
        device.start()
    assert laptop.reaches("10.9.0.2")
    first, second = (str(address) for address in laptop.host.addresses if address.version == 4)
    assert server.peer(laptop.public)["endpoint"] == endpoint(first)
    gateways = [str(address) for address in router.addresses if address.version == 4]
    laptop.host.ip(f"route replace default via {gateways[1]}")
    wait_until(
        lambda: ping(laptop.host, "10.9.0.2", count=1)["received"] and server.peer(laptop.public)["endpoint"] == endpoint(second),
        "the laptop to speak with its other address",
        details=server.details,
    )
    assert ping(server.host, "10.9.0.1", count=3)["received"] == 3


def _client_of_second_address(lab, family):
    """Makes a client that sends to an address of the server that the server's routes would not choose as source. Returns that address, and the address that the
    routes would choose."""
    client, server = pair(lab, family=family, passive=True)
    second, first = second_address(server.host, family)
    client.set("peer", server.public, "endpoint", endpoint(second))
    assert client.reaches("10.9.0.2")
    assert client.peer(server.public)["endpoint"] == endpoint(second)
    return client, server, second, first


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("what", ["endpoint", "fwmark", "listen-port"])
def test_fault_d19_after_the_user_set_something_the_routes_choose_the_source(lab, family, what):
    client, server, _, first = _client_of_second_address(lab, family)
    there = endpoint(client.host.ipv4 if family == 4 else client.host.ipv6)
    server.set(*{"endpoint": ("peer", client.public, "endpoint", there), "fwmark": ("fwmark", "7"), "listen-port": ("listen-port", "51821")}[what])
    assert ping(server.host, "10.9.0.1", count=3)["received"] == 3
    expected = endpoint(first)
    if what == "listen-port":
        expected = expected.replace(":51820", ":51821")
    assert client.peer(server.public)["endpoint"] == expected


@pytest.mark.parametrize("family", [4, 6])
def test_fault_d19_an_address_that_is_gone_is_not_sent_from_even_where_the_host_may_send_from_any(lab, family):
    client, server, second, first = _client_of_second_address(lab, family)
    server.host.run("sh", "-c", f"echo 1 > /proc/sys/net/ipv{family}/ip_nonlocal_bind")
    server.host.ip(f"address delete {second}/{24 if family == 4 else 64} dev eth0")
    # A handshake would also choose another source, but none is due within the next 15 s.
    assert ping(server.host, "10.9.0.1", count=20, interval=0.2)["received"] > 0
    assert client.peer(server.public)["endpoint"] == endpoint(first)
