"""Explanations of paths in `taut why`, `taut ping` and `taut status`, with real daemons: direct, relayed, and missing."""

import json

import pytest

from lab.hosts import needs
from lab.nodes.local_api import LocalApi
from lab.nodes.mesh import lay_out
from lab.nodes.taut import Coordinator, Node

BEHIND = pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft"))


def why(node, peer):
    return json.loads(node.taut("why", peer, "--json").stdout)


def test_a_direct_path_has_no_cause(mesh):
    one, two = mesh(nodes=2).nodes
    one.ping_until_direct(two.name)
    report = why(one, two.name)
    assert (report["schema"], report["peer"], report["cause"], report["mend"]) == (1, two.name, None, [])
    assert report["path"]["kind"] == "direct" and report["path"]["since_s"] >= 0
    used = next(way for way in report["ways"] if way["state"] == "in-use")
    assert used["endpoint"] == report["path"]["endpoint"] and used["relay"] is None and used["answered"] > 0
    text = one.taut("why", two.name).stdout
    assert text.startswith(f"{two.name}: direct via ") and "WAY" in text and "MEANING" in text


def test_a_peer_that_is_off_is_reported_as_offline(mesh):
    one, two = mesh(nodes=2).nodes
    two.stop()
    one.wait_for(lambda status: one.peer(two.name, status)["online"] is False, "to hear that its peer is off")
    report = why(one, two.name)
    assert report["cause"] == "offline" and two.name in report["mend"][0]


def test_why_reports_an_unknown_peer(mesh):
    (one,) = mesh(nodes=1).nodes
    answer = one.taut("why", "node9", check=False)
    assert answer.returncode == 1 and "node9" in answer.stderr and "taut status" in answer.stderr


@BEHIND
def test_fault_d5_two_symmetric_nats_stay_on_the_relay_and_say_why(behind):
    world = behind(["symmetric", "symmetric"])
    (one, two), (relay,) = world.nodes, world.relays
    pings = one.ping(two.name, "--count", "3")
    assert pings["received"] == 3 and {reply["path"] for reply in pings["replies"]} == {"relayed"}
    assert {reply["relay"] for reply in pings["replies"]} == {relay.host.name}
    one.wait_for(lambda _: why(one, two.name)["cause"] == "both-symmetric", "to know why the path is relayed")
    report = why(one, two.name)
    assert report["ours"]["kind"] == report["theirs"] == "symmetric"
    assert "ymmetric" in report["said"][1] and report["mend"]
    assert any(way["relay"] == relay.host.name and way["state"] == "in-use" for way in report["ways"])
    peer = one.peer(two.name)
    assert peer["traffic"]["relayed"]["sent"] > 0 and peer["traffic"]["direct"]["sent"] == 0
    text = one.taut("status").stdout
    assert f"relayed by {relay.host.name}" in text and "symmetric NAT" in text


@BEHIND
def test_two_cones_are_relayed_first_and_direct_soon(behind):
    one, two = behind(["port-restricted", "address-restricted"]).nodes
    with LocalApi(one) as api:
        pings = one.ping(two.name, "--until-direct", "-c", "60")
        assert pings["replies"][-1]["path"] == "direct"
        report = api.ask("why", peer=two.name)
        assert report["path"]["endpoint"].startswith(str(two.host.nat.external))
    # The ping ends with the first reply on the direct path. Only a later request is sent on it.
    one.ping(two.name, "-c", "2")
    peer = one.peer(two.name)
    assert peer["traffic"]["direct"]["sent"] > 0


@BEHIND
def test_a_failed_direct_path_is_reported(behind):
    world = behind(["port-restricted", "port-restricted"])
    (one, two), (relay,) = world.nodes, world.relays
    one.ping_until_direct(two.name)
    two.host.nat.black_hole()
    with LocalApi(one) as api:
        one.ping(two.name, "--count", "3", "--timeout", "2s", check=False)
        api.wait_for_path(two.name, "relayed")
    report = why(one, two.name)
    assert report["path"]["relay"] == relay.host.name and report["cause"] and report["mend"]
    assert any(way["state"] in ("died", "trying", "judged", "silent") for way in report["ways"])


def state(report, endpoint):
    """Returns the state in `taut why` of the path to this endpoint."""
    return next(way["state"] for way in report["ways"] if way["relay"] is None and way["endpoint"].startswith(f"{endpoint}:"))


def until(node, peer, cause):
    """Waits until `taut why` names this cause; returns its answer."""
    node.wait_for(lambda _: why(node, peer)["cause"] == cause, f"`taut why` to say {cause}: {why(node, peer)}")
    return why(node, peer)


def test_a_peer_that_never_answered_has_no_way_that_data_takes(mesh):
    one, two = mesh(nodes=2).nodes
    two.kill()
    assert one.ping(two.name, "--count", "2", "--timeout", "1s", check=False) is None
    report = why(one, two.name)
    assert report["path"]["kind"] == "none" and report["said"][0].startswith("There is no path")
    assert not any(way["state"] == "in-use" for way in report["ways"]), report["ways"]
    assert report["cause"] != "asleep", "packets for it waited a moment ago"


def test_a_peer_that_is_gone_without_a_word_is_not_explained_by_a_nat(behind):
    one, two = behind(["port-restricted", "port-restricted"]).nodes
    one.ping_until_direct(two.name)
    two.host.nat.cut()
    one.ping(two.name, "--count", "2", "--timeout", "1s", check=False)
    # The coordinator may have noticed.
    one.wait_for(lambda _: why(one, two.name)["cause"] in ("unreachable", "offline"), "to know that nothing comes back")
    report = why(one, two.name)
    assert not any(way["state"] in ("in-use", "ready") for way in report["ways"]), report["ways"]
    assert two.name in report["mend"][0]


@BEHIND
def test_udp_that_only_relays_do_not_answer_is_not_called_blocked(behind):
    world = behind(["open", "open"])
    (one, two), (relay,) = world.nodes, world.relays
    one.stop()
    words = f"ip daddr {relay.host.ipv4} udp dport {{ 3478, 3479 }} drop"
    one.host.run("nft", "-f", "-", text=f"table inet f {{\n chain o {{\n type filter hook output priority filter;\n {words}\n }}\n }}\n")
    one.start()
    one.up()
    one.wait_for(lambda status: status["nat"]["kind"] == "blocked", "to have asked in vain")
    one.ping_until_direct(two.name)
    one.wait_for(lambda status: status["nat"]["kind"] == "unknown", "to notice that UDP works")
    report = why(one, two.name)
    assert report["path"]["kind"] == "direct" and report["cause"] is None, report


def test_hosts_without_a_common_family_hear_that_and_nothing_of_nats(lab):
    middle, left, right = lab.switch("middle"), lab.switch("left", ipv6=False), lab.switch("right", ipv4=False)
    router = lab.router("router", middle, left, right)
    # IPv4 is behind a symmetric NAT, which is not the cause.
    translate = f'ip saddr {left.subnets[0]} oifname "eth0" masquerade fully-random'
    router.run("nft", "-f", "-", text=f"table ip nat {{\n chain t {{\n type nat hook postrouting priority srcnat;\n {translate}\n }}\n }}\n")
    host = lab.host("coord", middle)
    coordinator = Coordinator(host, address=host.ipv6)
    coordinator.start("--url", f"http://{host.ipv4}:8288")
    one, two = Node(lab.host("node1", left)), Node(lab.host("node2", right))
    for node in (one, two):
        node.start()
        node.up(coordinator.join_token)
    one.wait_for_peers(two.name)
    one.wait_for(lambda status: status["nat"]["kind"] == "symmetric", "to know its NAT")
    assert one.ping(two.name, "--count", "3")["received"] == 3
    for node, peer, lacks in ((one, two, "IPv4 only"), (two, one, "IPv6 only")):
        report = until(node, peer.name, "no-common-family")
        assert f"this host has {lacks}" in report["said"][1] and report["path"]["kind"] == "relayed", report


def narrow(lab, mtu):
    """Makes two nodes, one behind a link of this MTU: (nodes, a function that sends packets as long as the TUN's MTU)."""
    net = lay_out(lab, nodes=2, routed=True, ipv6=False)
    one, two = net.nodes
    # Long packets are dropped without an ICMP message to the sender.
    lab.nodes["router"].ip(f"link set eth2 mtu {mtu}")
    lab.nodes["router"].run("sysctl", "-qw", "net.ipv4.icmp_ratelimit=1000000", "net.ipv4.icmp_ratemask=8", check=False)
    two.host.ip(f"link set eth0 mtu {mtu}")
    net.coordinator.start()
    net.join(one, two)
    net.wait_for_maps()
    net.connect()

    def long_packets(size):
        return one.host.run("ping", "-c", 4, "-i", "0.3", "-W", 1, "-s", size - 28, "-M", "do", two.ipv4, check=False).returncode == 0

    return one, two, long_packets


@pytest.mark.parametrize(("link", "fits"), [(1400, 1340), (1300, 1240)])
def test_fault_i10_a_link_that_carries_less_is_named_and_used(lab, link, fits):
    one, two, long_packets = narrow(lab, link)
    one.wait_for(lambda _: long_packets(1280), "packets of the smallest device to pass")
    report = until(one, two.name, None)
    # The link less IPv4, UDP and WireGuard; through the relay 8 less. The search stops within 8 bytes.
    direct = [way for way in report["ways"] if way["relay"] is None and way["mtu"]]
    assert direct and all(fits - 8 <= way["mtu"] <= fits for way in direct), report
    assert all(way["mtu_cause"] == "probes" for way in direct) and "longer ones are lost" in direct[0]["meaning"], report


@BEHIND
def test_a_neighbour_behind_a_firewall_is_in_a_network_of_this_host(behind):
    one, two = behind(["port-restricted", "port-restricted"], place="same-lan").nodes
    words = f"ip saddr {one.host.ipv4} udp dport 8288 drop"
    two.host.run("nft", "-f", "-", text=f"table inet f {{\n chain i {{\n type filter hook input priority filter;\n {words}\n }}\n }}\n")
    one.ping(two.name, "--count", "3")
    two.wait_for(lambda _: state(why(two, one.name), one.host.ipv4) not in ("trying", "asleep"), "to have tried its neighbour")
    assert state(why(two, one.name), one.host.ipv4) == "neighbour"
    assert state(why(one, two.name), two.host.ipv4) == "one-way"


@BEHIND
def test_two_hosts_behind_one_nat_without_hairpin_are_told(behind):
    one, two = behind(["carrier-no-hairpin", "carrier-no-hairpin"], place="same-carrier").nodes
    one.ping(two.name, "--count", "3")
    report = until(one, two.name, "no-hairpin")
    # Both homes have the same addresses.
    assert one.host.ipv4 == two.host.ipv4 and state(report, two.host.ipv4) == "own-address"
    assert state(report, one.host.carrier.external) == "hairpin" and "IPv6" in report["mend"][0]


def test_a_host_whose_other_peers_answer_hears_about_the_coordinator_and_not_about_its_network(mesh):
    net = mesh(nodes=3)
    one, two, three = net.nodes
    full = {line.split()[1] for line in one.taut("hosts").stdout.splitlines()}
    for peer in (two, three):
        # By the full name, as `taut hosts` prints it.
        [name] = [name for name in full if name.startswith(f"{peer.name}.")]
        assert one.ping(name, "--until-direct")["received"] > 0
        assert why(one, name)["peer"] == peer.name
    two.kill()
    net.coordinator.kill()
    one.wait_for(lambda status: not status["coordinator"]["connected"], "to lose the coordinator")
    one.ping(two.name, "--count", "2", "--timeout", "1s", check=False)
    one.ping(three.name, "--count", "1")
    report = until(one, two.name, "coordinator-unreachable")
    assert "other peers answer" in report["said"][1] and "ip route" not in report["mend"][0], report


def test_a_host_without_a_route_hears_of_its_network(mesh):
    one, two = mesh(nodes=2, routed=True).nodes
    one.ping_until_direct(two.name)
    for family in ("-4", "-6"):
        one.host.run("ip", family, "route", "del", "default")
    one.ping(two.name, "--count", "2", "--timeout", "1s", check=False)
    report = until(one, two.name, "no-network")
    assert "ip route" in report["mend"][0]
    assert one.status()["nat"]["kind"] == "unknown" and one.status()["nat"]["problem"]
    answer = one.taut("netcheck", "--json", check=False)
    assert answer.returncode == 1, "nothing was reached"
    checked = json.loads(answer.stdout)
    assert "no route" in checked["said"][0] and not checked["udp"]
