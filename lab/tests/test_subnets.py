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
    audit = net.coordinator.cli("audit", "export").stdout
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


def counted(host):
    """Returns the number of IPv4 packets that the host has received."""
    lines = host.run("cat", "/proc/net/snmp").stdout.splitlines()
    names, values = (line.split() for line in lines if line.startswith("Ip:"))
    return int(values[names.index("InReceives")])


def policy(net, tmp_path, text):
    path = tmp_path / "policy.hujson"
    path.write_text(json.dumps(text))
    net.coordinator.cli("policy", "apply", str(path))


def test_fault_g3_the_router_drops_what_the_policy_does_not_let_a_member_send(lab, tmp_path):
    net, router, plain = one_site(lab)
    assert wait_until(lambda: seen_as(net.client.host, plain.ipv4), "the plain host to answer")
    other = f"{net.client.ipv4}/32"
    allowed = {"acls": [{"action": "accept", "src": [other], "dst": [f"{net.prefixes()[0]}:7071"]}]}
    policy(net, tmp_path, allowed)
    # The client sends as before: it has the route, and nothing that it does locally lets it in.
    net.wait_for_route(net.client, net.prefixes()[0], router)
    wait_until(lambda: seen_as(net.client.host, plain.ipv4, timeout=1) is None, "the policy to be in force")
    assert router.status()["drops"]["in-policy"] > 0
    # A host that nobody allowed is not reached by other protocols either; an address of the LAN without a rule is not.
    heard = counted(plain)
    assert seen_as(net.client.host, plain.ipv4, timeout=1) is None
    assert counted(plain) == heard, "not even a packet came through"
    # A member that uses a prefix of the router which is no approved route gets nowhere.
    router.host.ip("address add 10.98.0.1/24 dev eth1")
    plain.ip("address add 10.98.0.2/24 dev eth0")
    net.client.host.ip("route add 10.98.0.0/24 dev taut0")
    assert ping(net.client.host, "10.98.0.2", count=3)["received"] == 0


def test_fault_g9_a_host_behind_a_router_reaches_no_member_but_answers(lab):
    net, router, plain = one_site(lab, gateways=True)
    assert wait_until(lambda: seen_as(net.client.host, plain.ipv4), "the plain host to answer")
    from lab.nodes.subnets import serve

    serve(net.client.host)
    heard = counted(net.client.host)
    assert seen_as(plain, net.client.ipv4, timeout=2) is None
    assert ping(plain, net.client.ipv4, count=3)["received"] == 0
    # Neither with an address of its own choice.
    plain.ip("address add 10.97.0.2/32 dev lo")
    assert plain.run("ping", "-c2", "-W1", "-I", "10.97.0.2", net.client.ipv4, check=False).returncode != 0
    assert net.client.status()["drops"].get("in-source-not-allowed", 0) == 0, "the router itself drops what is not an answer"
    assert counted(net.client.host) - heard < 50


def test_fault_j6_a_network_of_this_host_wins_over_an_equal_route(lab):
    net = Subnets(lab)
    lan = net.prefixes()[0]
    # The client's own network has the prefix that the router advertises, and a gateway in it.
    home = lab.switch("home", ipv4=False, ipv6=False)
    gate = lab.host("gate", home)
    net.client.host.connect(home)
    gate.ip(f"address add {net.lans[0].subnets[0][200]}/24 dev eth0")
    net.client.host.ip(f"address add {net.lans[0].subnets[0][201]}/24 dev eth1")
    router = net.start_router(routes=f"{lan},10.77.0.0/16")
    net.start(net.client, options=("--accept-routes",))
    net.approve(router, f"{lan},10.77.0.0/16")
    net.wait_for_route(net.client, "10.77.0.0/16", router)
    shown = {one["route"]: one for one in net.client.status()["routes"]["peers"]}
    assert shown[lan]["via"] is None and shown[lan]["hidden_by"] == lan
    gateway = str(net.lans[0].subnets[0][200])
    assert ping(net.client.host, gateway, count=3)["received"] == 3, "the gateway of the local network is reached"
    assert "eth1" in net.client.host.run("ip", "route", "get", gateway).stdout
    # The rest of the larger route leads to the router.
    assert "taut0" in net.client.host.run("ip", "route", "get", "10.77.250.1").stdout
    # The local network goes away: then the route is used.
    net.client.host.ip("address flush dev eth1")
    net.wait_for_route(net.client, lan, router)
