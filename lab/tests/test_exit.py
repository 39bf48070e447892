"""Exit nodes: a member reaches the internet through another one that its user chose, as far as that one is approved and the policy allows it."""

import json
import os
import signal
import sys

from lab.hosts.wait import wait_until
from lab.nodes.exits import GATEWAY, SERVER, Exits, udp_answer
from lab.nodes.subnets import PORT, seen_as
from lab.nodes.taut import answering
from lab.traffic.flow import ping


def one_exit(lab, choice="exit1", **layout):
    """A client that uses an exit node."""
    net = Exits(lab, **layout)
    gate = net.start_exit()
    net.start_client(choice)
    net.wait_for_exit(net.client, "exit1")
    net.lead_into_tunnel(net.client)
    wait_until(lambda: seen_as(net.client.host, SERVER[0]), "the internet to answer")
    return net, gate


def policy(net, tmp_path, text):
    path = tmp_path / "policy.hujson"
    path.write_text(json.dumps(text))
    net.coordinator.cli("policy", "apply", str(path))


def test_a_member_reaches_the_internet_through_an_exit_node_with_its_address(lab):
    net = Exits(lab, lan=True)
    gate = net.start_exit(approve=False)
    host = net.client.host
    wait_until(lambda: "exit node" in net.coordinator.cli("routes", "list").stdout, "the proposal")
    # Nobody approved it: a host that chose it before it knew the network sends nothing, neither there nor elsewhere.
    net.client.start()
    net.client.taut("set", "--exit-node", "exit1")
    net.client.up(net.coordinator.join_token)
    net.lead_into_tunnel(net.client)
    assert seen_as(host, SERVER[0], timeout=1) is None
    status = net.client.status()
    assert status["exit"]["via"] is None and status["drops"]["out-no-exit"] > 0
    assert any("exit1" in one["message"] for one in status["warnings"]), status["warnings"]
    net.approve(gate)
    assert net.coordinator.cli("routes", "list").stdout.count("exit node") == 1
    net.wait_for_exit(net.client, "exit1")
    wait_until(lambda: seen_as(host, SERVER[0]), "the internet to answer")
    for ipv6 in (False, True):
        assert seen_as(host, SERVER[ipv6]) == net.public(ipv6=ipv6)
        assert udp_answer(host, SERVER[ipv6])[0] == net.public(ipv6=ipv6)
        assert ping(host, SERVER[ipv6], count=2)["received"] == 2
    # The networks of the exit node are not the internet.
    host.ip(f"route add {net.lan.subnets[0]} dev taut0")
    assert ping(host, net.plain.ipv4, count=2)["received"] == 0
    # What the exit node begins does not reach the client from a public address; hosts of its network cannot use it.
    net.plain.ip(f"route add default via {gate.host.addresses[2]}")
    assert seen_as(net.plain, SERVER[0], timeout=1) is None
    assert "exit node" in net.client.taut("status").stdout
    net.client.taut("set", "--exit-node", "none")
    net.wait_for_exit(net.client, None)
    assert seen_as(host, SERVER[0], timeout=1) is None


def test_an_exit_node_that_the_policy_forbids_is_not_known_and_not_used(lab, tmp_path):
    net, gate = one_exit(lab)
    policy(net, tmp_path, {"acls": [{"action": "accept", "src": ["*"], "dst": ["100.64.0.0/10:*"]}]})
    net.wait_for_exit(net.client, None)
    assert net.client.status()["exit"]["candidates"] == []
    assert seen_as(net.client.host, SERVER[0], timeout=1) is None
    assert ping(net.client.host, gate.ipv4, count=2)["received"] == 2
    policy(net, tmp_path, {"acls": [{"action": "accept", "src": ["*"], "dst": ["autogroup:internet:443"]}]})
    net.wait_for_exit(net.client, "exit1")
    # The exit node itself enforces it: that port is closed.
    assert seen_as(net.client.host, SERVER[0], timeout=1) is None
    assert gate.status()["drops"]["in-policy"] > 0


def test_an_automatic_choice_moves_when_its_exit_node_fails(lab):
    net = Exits(lab, count=2)
    for number in range(2):
        net.start_exit(number)
    net.start_client("auto")
    net.lead_into_tunnel(net.client)
    host = net.client.host
    status = net.client.wait_for(lambda status: status["exit"]["via"], "a choice")
    first = status["exit"]["via"]
    other = {"exit1": "exit2", "exit2": "exit1"}[first]
    wait_until(lambda: seen_as(host, SERVER[0]), "the internet to answer")
    assert seen_as(host, SERVER[0]) == net.public(int(first[-1]) - 1)
    failed = net.exits[int(first[-1]) - 1]
    failed.host.ip("link set eth0 down")
    wait_until(lambda: seen_as(host, SERVER[0], timeout=0.5) == net.public(int(other[-1]) - 1), "the other one to carry")
    net.wait_for_exit(net.client, other)
    # It stays there when the first one is back: another address would end connections.
    failed.host.ip("link set eth0 up")
    net.client.wait_for(lambda status: all(peer["path"]["kind"] != "none" for peer in status["peers"]), "both to answer")
    assert net.client.status()["exit"]["via"] == other
    assert "exit-moved" in net.client.taut("log").stdout


def test_the_status_shows_what_the_internet_sees(lab):
    net, _ = one_exit(lab)
    host, public = net.client.host, net.public()
    # Without a relay on the internet, the exit node's public endpoints are likely.
    expected = [{"address": public, "measured": False}, {"address": net.public(ipv6=True), "measured": False}]
    net.client.wait_for(lambda status: status["exit"]["seen_as"] == expected, "the endpoints of the exit node")
    assert f"probably seen as {public}" in net.client.taut("status").stdout
    net.start_relay()
    net.client.wait_for(lambda status: any(relay["name"] == "far" for relay in status["relays"]), "the relay to be known")
    # Another choice has it measured at once.
    net.client.taut("set", "--exit-node", "none")
    net.client.taut("set", "--exit-node", "auto")
    expected[0]["measured"] = True
    net.client.wait_for(lambda status: status["exit"]["seen_as"] == expected, "the relay to answer through the exit node")
    assert seen_as(host, SERVER[0]) == public
    assert f"exit1, chosen automatically; the internet sees {public}" in net.client.taut("status").stdout
    assert f"{SERVER[0]} is on the internet, through the exit node exit1" in net.client.taut("why", SERVER[0]).stdout


def test_an_exit_node_without_ipv6_answers_that_there_is_none(lab):
    net, gate = one_exit(lab, ipv6=False)
    assert any("does not forward IPv6" in one["message"] for one in gate.status()["warnings"])
    asks = f"import socket; socket.create_connection(('{SERVER[1]}',{PORT}),timeout=5)"
    done = net.client.host.run(sys.executable, "-I", "-c", asks, check=False)
    assert "unreachable" in done.stderr or "No route to host" in done.stderr, done.stderr


def test_fault_e17_another_node_that_gets_the_name_is_not_used(lab):
    net = Exits(lab, count=2)
    for number in range(2):
        net.start_exit(number)
    client = net.start_client("exit1")
    net.wait_for_exit(client, "exit1")
    for before, after in (("exit1", "former"), ("exit2", "exit1")):
        net.coordinator.cli("nodes", "rename", before, after)
    net.wait_for_exit(client, "former")
    assert client.status()["exit"]["chosen"] == "exit1"
    client.stop()
    client.start()
    net.wait_for_exit(client, "former")
    net.lead_into_tunnel(client)
    wait_until(lambda: seen_as(client.host, SERVER[0]) == net.public(), "the node that was chosen to carry")
    net.coordinator.cli("nodes", "remove", "former")
    net.wait_for_exit(client, None)
    assert seen_as(client.host, SERVER[0], timeout=1) is None
    problem = client.status()["exit"]["problem"]
    assert "not known here any more" in problem["message"] and "another node has that name" in problem["message"]
    client.taut("set", "--exit-node", "exit1")
    wait_until(lambda: seen_as(client.host, SERVER[0]) == net.public(1), "the other one to carry")


def test_fault_j10_a_firewall_that_drops_forwarded_packets_is_named(lab):
    net, gate = one_exit(lab)

    def firewall(*commands):
        for command in commands:
            gate.host.run("nft", *command.split())

    def named():
        return [one for one in gate.status()["warnings"] if "ip filter FORWARD" in one["message"]]

    assert not named()
    firewall("add table ip filter", "add chain ip filter FORWARD { type filter hook forward priority 0 ; policy drop ; }")
    assert seen_as(net.client.host, SERVER[0], timeout=1) is None
    wait_until(named, "the warning", timeout=30)
    assert "DOCKER-USER -i taut0" in named()[0]["hint"]
    assert "forwarding-dropped" in gate.taut("log").stdout
    firewall("insert rule ip filter FORWARD iifname taut0 accept", "insert rule ip filter FORWARD oifname taut0 accept")
    assert seen_as(net.client.host, SERVER[0]) == net.public()
    wait_until(lambda: not named(), "the warning to be gone", timeout=30)


def test_fault_g12_a_client_does_not_take_the_port_of_a_server_at_the_exit_node(lab):
    net, gate = one_exit(lab)
    server = net.serve_udp(gate.host, 4500, "0.0.0.0")
    # The client sends from the server's port, to a host of its choice: there another port of the exit node is seen.
    seen = udp_answer(net.client.host, SERVER[0], own=4500)
    assert seen[0] == net.public() and 61_000 <= seen[1] <= 65_535
    # What that host sends to the server from there reaches the server, and the server answers.
    net.udp.stop()
    assert udp_answer(net.internet, net.public(), port=4500, own=PORT)
    assert "heard hello" in server.output()


def test_networks_with_public_addresses_around_an_exit_node_are_out_of_reach(lab):
    net, gate = one_exit(lab)
    host = net.client.host
    wait_until(lambda: seen_as(host, SERVER[0]), "the internet to answer")
    # The gateway serves, too, at addresses of networks that the exit node is in.
    assert seen_as(gate.host, GATEWAY[0]) == net.public()
    for address in GATEWAY:
        assert seen_as(host, address, timeout=1) is None, address
    network = "198.51.100.0/24"
    gate.taut("set", "--advertise-routes", network)
    wait_until(lambda: network in net.coordinator.cli("routes", "list").stdout, "the coordinator to know the route")
    net.coordinator.cli("routes", "approve", gate.name, network)
    net.client.taut("set", "--accept-routes")
    wait_until(lambda: seen_as(host, GATEWAY[0], timeout=0.5) == net.public(), "the approved subnet to answer")
    assert seen_as(host, GATEWAY[1], timeout=1) is None


def test_an_exit_node_that_cannot_be_used_is_refused(lab):
    net = Exits(lab, count=2)
    gate = net.start_exit(approve=False)
    client = net.start_client("none")

    def refused(name):
        done = client.taut("set", "--exit-node", name, "--kill-switch", check=False)
        assert done.returncode, (name, done)
        status = client.status()
        assert (status["exit"]["chosen"], status["kill_switch"]) == ("none", None), status
        return done.stderr

    for name in (client.name, client.ipv4, f"{client.name}.default", "203.0.113.18"):
        assert "its own exit node" in refused(name) or "address of the internet" in refused(name)
    for name in ("nosuch", "100.64.7.7", "auto", "exit1"):
        assert "no member" in refused(name) or "no other member" in refused(name)
    assert "did you mean `exit1`?" in refused("exit")
    assert "routes approve exit1 exit-node" in refused("exit1")
    net.approve(gate)
    client.wait_for(lambda status: status["exit"]["candidates"] == ["exit1"], "the exit node to be known")
    assert "takes one of exit1" in refused("nosuch")
    net.start_exit(1, approve=False)
    client.wait_for(lambda status: len(status["peers"]) == 2, "the other node to be known")
    assert "exit2 is no exit node" in refused("exit2") and "takes one of exit1" in refused("exit2")
    assert not client.taut("set", "--exit-node", "exit1").stderr


def test_up_refuses_an_exit_node_that_no_member_is(lab):
    net = Exits(lab)
    client = net.client
    up = ("up", "--no-portmap")
    # The network is not known yet: the choice is kept, and the user learns what is wrong with it.
    joined = client.taut(*up, "--exit-node", "nosuch", "--join", net.coordinator.join_token)
    assert "no member of this network that this host knows is called nosuch" in joined.stderr, joined.stderr
    shown = client.taut("status").stdout
    assert "is called nosuch, so nothing reaches the internet" in shown and "--exit-node none" in shown, shown
    client.taut("down")
    rules = client.host.run("ip", "rule").stdout
    refused = client.taut(*up, "--exit-node", "nosuch", "--kill-switch", check=False)
    assert refused.returncode == 1 and "is called nosuch" in refused.stderr and "no member offers an exit node" in refused.stderr, refused
    assert "is not running" in client.taut("status", check=False).stderr
    assert "taut0" not in client.host.run("nft", "list", "tables").stdout
    assert client.host.run("ip", "rule").stdout == rules
    net.start_exit()
    assert not client.taut(*up, "--exit-node", "exit1").stderr
    net.wait_for_exit(client, "exit1")
    client.taut("down")
    # A kill switch that outlived its daemon outlives a wrong choice, too.
    client.taut(*up, "--exit-node", "exit1", "--kill-switch")
    net.wait_for_exit(client, "exit1")
    os.kill(json.loads(client.taut("status", "--json").stdout)["pid"], signal.SIGKILL)
    wait_until(lambda: not answering(client.socket), "the daemon to be gone")
    assert "is called nosuch" in client.taut(*up, "--exit-node", "nosuch", "--kill-switch").stderr
    assert "taut0" in client.host.run("nft", "list", "tables").stdout
    client.taut("down")
    assert "taut0" not in client.host.run("nft", "list", "tables").stdout
