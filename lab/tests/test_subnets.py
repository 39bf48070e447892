"""Subnet routers: a member reaches plain hosts behind another one, as far as routes are approved and the policy allows it."""

import json

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.subnets import Subnets, segments, seen_as, serve
from lab.traffic.flow import Transfer, ping


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
    assert " approved " in net.coordinator.cli("routes", "list").stdout
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


def test_fault_j6_a_route_inside_the_network_of_another_vpn_is_not_used(lab):
    net = Subnets(lab)
    lan = net.prefixes()[0]
    net.client.host.ip("tuntap add dev vpn0 mode tun", "address add 10.77.0.1/24 dev vpn0", "link set vpn0 up")
    router = net.start_router(routes=f"{lan},10.77.0.128/25")
    net.start(net.client, options=("--accept-routes",))
    net.approve(router, f"{lan},10.77.0.128/25")
    net.wait_for_route(net.client, lan, router)
    shown = {one["route"]: one for one in net.client.status()["routes"]["peers"]}
    assert shown["10.77.0.128/25"]["via"] is None and shown["10.77.0.128/25"]["hidden_by"] == "10.77.0.0/24"
    assert "vpn0" in net.client.host.run("ip", "route", "get", "10.77.0.130").stdout


def both_sites(lab, *options):
    """Two sites whose hosts run nothing of ours and have the routers as gateways; the routers hide no addresses."""
    net = Subnets(lab, sites=2, gateways=True)
    for site, router in enumerate(net.routers):
        net.start_router(site, "--snat", "off", "--accept-routes", *options)
        net.approve(router, net.prefixes(site)[0])
    one, two = net.routers
    net.wait_for_route(one, net.prefixes(1)[0], two)
    net.wait_for_route(two, net.prefixes(0)[0], one)
    return net


def test_fault_i5_two_sites_reach_each_other_without_a_node_on_their_hosts_and_with_short_segments(lab):
    net = both_sites(lab)
    one, two = net.hosts
    wait_until(lambda: seen_as(one, two.ipv4), "the second site to answer")
    for source, target in ((one, two), (two, one)):
        seen, there, here = segments(source, target.ipv4)
        assert seen == source.ipv4, "the host is seen with its own address"
        # Both hosts offer 1460 bytes, which their network carries. What fits into the overlay is less, and each end is told of it: by SYN, and by SYN with ACK.
        assert there <= 1400 and here <= 1400, (there, here)
    transfer = Transfer(one, two, two.ipv4, size=3_000_000)
    assert transfer.finish()["equal"]
    assert ping(two, one.ipv4, count=3)["received"] == 3
    # A member that accepts routes is reached by both sites; one that does not is not.
    net.start(net.client, options=("--accept-routes",))
    net.wait_for_route(net.client, net.prefixes(0)[0], net.routers[0])
    serve(net.client.host)
    wait_until(lambda: seen_as(one, net.client.ipv4) == one.ipv4, "the member to answer a host of a site")


def test_overlapping_networks_are_published_under_other_addresses(lab):
    net = Subnets(lab, sites=2, gateways=True)
    for site, router in enumerate(net.routers):
        router.host.ip("address add 10.1.0.1/24 dev eth1")
        net.hosts[site].ip("address add 10.1.0.2/24 dev eth0", "route replace default via 10.1.0.1 src 10.1.0.2")
        published = f"10.20{site + 1}.0.0/24"
        net.start_router(site, "--snat", "off", "--accept-routes", routes=f"10.1.0.0/24 as {published}")
        net.approve(router, published)
    one, two = net.hosts
    net.start(net.client, options=("--accept-routes",))
    for site, router in enumerate(net.routers):
        net.wait_for_route(net.client, f"10.20{site + 1}.0.0/24", router)
        wait_until(lambda site=site: seen_as(net.client.host, f"10.20{site + 1}.0.2") == net.client.ipv4, "the host to answer under its other address")
    net.wait_for_route(net.routers[0], "10.202.0.0/24", net.routers[1])
    net.wait_for_route(net.routers[1], "10.201.0.0/24", net.routers[0])
    # Both hosts have the address 10.1.0.2, and know each other by another one.
    wait_until(lambda: seen_as(one, "10.202.0.2") == "10.201.0.2", "the other site to answer")
    assert seen_as(two, "10.201.0.2") == "10.202.0.2"
    assert seen_as(net.client.host, "10.1.0.2", timeout=1) is None


def two_routers(lab, *options):
    """A client, and two routers of one network."""
    net = Subnets(lab, sites=2, shared=True)
    lan = net.prefixes()[0]
    for site, router in enumerate(net.routers):
        net.start_router(site, *options)
        net.approve(router, lan)
    net.start(net.client, options=("--accept-routes",))
    net.wait_for_route(net.client, lan, net.routers[0])
    # Only hosts that see addresses of members need the way back.
    net.hosts[0].ip(f"route replace 100.64.0.0/10 via {net.routers[0].host.addresses[2]}")
    wait_until(lambda: seen_as(net.client.host, net.hosts[0].ipv4), "the plain host to answer")
    return net, lan, *net.routers, net.hosts[0]


def test_the_next_router_carries_when_the_first_one_fails_and_the_first_one_returns(lab):
    net, lan, first, second, plain = two_routers(lab)
    assert seen_as(net.client.host, plain.ipv4) == str(first.host.addresses[2])
    first.host.ip("link set eth0 down")
    assert wait_until(lambda: seen_as(net.client.host, plain.ipv4, timeout=0.5), "the plain host to answer through the second router") == str(second.host.addresses[2])
    net.wait_for_route(net.client, lan, second)
    first.host.ip("link set eth0 up")
    net.wait_for_route(net.client, lan, first)
    wait_until(lambda: seen_as(net.client.host, plain.ipv4) == str(first.host.addresses[2]), "the first router to carry again")
    moves = [line for line in net.client.taut("log", "--json").stdout.splitlines() if "subnet-moved" in line]
    assert len(moves) == 2, moves


def test_a_connection_goes_on_through_the_next_router_when_addresses_are_not_hidden(lab):
    net, lan, first, second, plain = two_routers(lab, "--snat", "off")
    transfer = Transfer(net.client.host, plain, plain.ipv4)
    transfer.flows_on(1_000_000)
    first.kill()
    # The network behind the routers notices by its own means that the first one is gone.
    plain.ip(f"route replace 100.64.0.0/10 via {second.host.addresses[2]}")
    transfer.flows_on(1_000_000)
    net.wait_for_route(net.client, lan, second)
    assert transfer.finish()["equal"]


def host_state(node):
    return node.host.network_state() + node.host.hidden_state()


@pytest.mark.parametrize("how", ["down", "sigterm", "sigkill"])
def test_fault_j9_a_router_leaves_its_host_as_it_was(lab, how):
    net = Subnets(lab)
    router = net.routers[0]
    before = host_state(router)
    net.start_router()
    net.approve(router, net.prefixes()[0])
    rules = lambda: router.host.run("nft", "list", "ruleset").stdout  # noqa: E731
    wait_until(lambda: "masquerade" in rules(), "the router to have its rules")
    if how == "down":
        router.taut("down")
    elif how == "sigterm":
        router.stop()
    else:
        router.kill()
        assert rules() == "", "the rules go with the program"
        # The switch of the interface is left; the next start sets it back, whatever it is started for.
        router.start()
        router.up()
        router.taut("down")

    def difference():
        return sorted(set(host_state(router)) ^ set(before))

    wait_until(lambda: not difference(), "the host to be as before", timeout=20, details=lambda: "\n".join(difference()))


def test_fault_j8_rules_survive_other_programs_and_are_there_once(lab):
    net, router, plain = one_site(lab)
    for damage in ("flush ruleset", "delete table inet taut0_routes", "flush chain inet taut0_routes postrouting"):
        router.host.run("nft", *damage.split(), check=False)
        assert wait_until(lambda: seen_as(net.client.host, plain.ipv4, timeout=1), "the plain host to answer")
        assert router.host.run("nft", "list", "ruleset").stdout.count("masquerade") == 1
    # A program that sets up the network again switches forwarding off.
    router.host.run("sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/eth1/forwarding")
    wait_until(lambda: seen_as(net.client.host, plain.ipv4, timeout=1), "forwarding to be switched on again", timeout=30)


def test_another_program_that_wants_forwarding_gets_it_from_a_router_and_keeps_it(lab):
    net, router, plain = one_site(lab)
    wait_until(lambda: seen_as(net.client.host, plain.ipv4), "the plain host to answer")
    switch = "cat /proc/sys/net/ipv4/conf/eth1/forwarding"
    guards = lambda: router.host.run("nft", "list", "ruleset").stdout.count("nfproto ipv4 iif \"eth1\" oif != \"eth1\" drop")  # noqa: E731
    assert guards() == 1, router.host.run("nft", "list", "ruleset").stdout
    # As Docker does when it starts after taut.
    router.host.run("sysctl", "-w", "net.ipv4.ip_forward=1")
    wait_until(lambda: guards() == 0, "the interface to be free for the other program")
    assert seen_as(net.client.host, plain.ipv4)
    router.taut("down")
    assert router.host.run("sh", "-c", switch).stdout.strip() == "1"
