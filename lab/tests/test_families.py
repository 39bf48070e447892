"""IPv4 and IPv6, inside and outside, on one switch and across a router."""

import pytest

from lab.flow import Transfer, ping

FAMILIES = ["ipv4", "ipv6"]


@pytest.mark.parametrize("overlay", FAMILIES)
@pytest.mark.parametrize("underlay", FAMILIES)
@pytest.mark.parametrize("routed", [False, True], ids=["switch", "router"])
def test_every_family_over_every_family(mesh, routed, underlay, overlay):
    net = mesh(nodes=2, routed=routed, ipv4=underlay == "ipv4", ipv6=underlay == "ipv6")
    one, two = net.nodes
    net.connect()
    there = getattr(two, overlay)
    assert ping(one.host, there, count=3)["received"] == 3
    assert Transfer(one.host, two.host, there, size=4_000_000).finish()["equal"]
    endpoint = one.peer(two.name)["path"]["endpoint"]
    assert endpoint.startswith("[") == (underlay == "ipv6")
    assert str(two.host.addresses[0]) in endpoint
