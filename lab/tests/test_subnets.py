"""Subnet routers: a member reaches plain hosts behind another one, as far as routes are approved and the policy allows it."""

import json

from lab.hosts.wait import wait_until
from lab.nodes.subnets import Subnets, seen_as
from lab.traffic.flow import ping


def one_site(lab, *options, **layout):
    """A client that accepts routes, and a router whose LAN is approved."""
    net = Subnets(lab, **layout)
    router = net.start_router(0, *options)
    net.start(net.client, options=("--accept-routes",))
    net.approve(router, net.prefixes()[0])
    net.wait_for_route(net.client, net.prefixes()[0], router)
    return net, router, net.hosts[0]


def test_a_member_reaches_a_plain_host_behind_another_one(lab):
    net = Subnets(lab)
    router, plain = net.start_router(), net.hosts[0]
    net.start(net.client, options=("--accept-routes",))
    lan = net.prefixes()[0]
    net.wait_for_proposal(router)
    assert "waits for approval" in net.coordinator.cli("routes", "list").stdout
    assert seen_as(net.client.host, plain.ipv4, timeout=1) is None
    net.coordinator.cli("routes", "approve", router.name, lan)
    net.wait_for_route(net.client, lan, router)
    wait_until(lambda: seen_as(net.client.host, plain.ipv4), "the plain host to answer")
    # The host knows nothing of the overlay: it sees the router's address in its LAN.
    assert seen_as(net.client.host, plain.ipv4) == str(router.host.addresses[2])
    assert ping(net.client.host, plain.ipv4, count=5)["received"] == 5
    assert "in use" in net.coordinator.cli("routes", "list").stdout
    audit = net.coordinator.cli("audit", "list", "--json").stdout
    assert lan in audit and "node-changed" in audit
    net.coordinator.cli("routes", "revoke", router.name, lan)
    net.client.wait_for(lambda status: not status["routes"]["peers"], "the route to be gone")
    assert seen_as(net.client.host, plain.ipv4, timeout=1) is None
    assert f"{lan} dev taut0" not in net.client.host.run("ip", "route", "show").stdout


def test_fault_g10_a_route_that_nobody_approved_is_unreachable(lab):
    net, router, plain = one_site(lab)
    # A second prefix that the router advertises is not approved; the client sends there all the same.
    other = lab.host("other", net.lans[0])
    other.ip("address add 10.99.0.2/24 dev eth0")
    router.host.ip("address add 10.99.0.1/24 dev eth1")
    router.stop()
    router.start("--advertise-routes", f"{net.prefixes()[0]},10.99.0.0/24")
    router.up()
    router.wait_for(lambda status: [one["approved"] for one in status["routes"]["advertised"]] == [True, False], "one route to be approved")
    wait_until(lambda: seen_as(net.client.host, plain.ipv4), "the approved route to work")
    net.client.host.ip("route add 10.99.0.0/24 dev taut0")
    assert ping(net.client.host, "10.99.0.2", count=3)["received"] == 0
    assert net.client.status()["drops"]["out-no-route"] >= 3


def test_a_host_that_accepts_no_routes_uses_none(lab):
    net = Subnets(lab)
    router = net.start_router()
    net.start(net.client)
    net.approve(router, net.prefixes()[0])
    net.client.wait_for(lambda status: status["routes"]["peers"], "to know the route")
    shown = net.client.status()["routes"]
    assert shown["accepts"] is False and shown["peers"] == [{"route": net.prefixes()[0], "via": None, "routers": [router.name], "hidden_by": None}]
    assert net.prefixes()[0] not in net.client.host.run("ip", "route", "show").stdout
    assert json.loads(net.client.taut("status", "--json").stdout)["routes"] == shown
