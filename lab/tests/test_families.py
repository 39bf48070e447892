"""Hosts with IPv4 and IPv6: what they know and do in one family does not depend on the use of the other."""

from lab.hosts.wait import wait_until
from lab.nodes.taut import Coordinator, Node


def test_a_host_that_reaches_the_coordinator_by_ipv6_asks_its_relay_by_ipv4_too(lab):
    middle, left = lab.switch("middle"), lab.switch("left")
    router = lab.router("router", middle, left)
    translate = f'ip saddr {left.subnets[0]} oifname "eth0" masquerade'
    router.run("nft", "-f", "-", text=f"table ip nat {{\n chain t {{\n type nat hook postrouting priority srcnat;\n {translate}\n }}\n }}\n")
    host = lab.host("coord", middle)
    coordinator = Coordinator(host, address=host.ipv6)
    coordinator.start("--url", f"http://{host.ipv4}:8288")
    node = Node(lab.host("node1", left)).start()
    node.up(coordinator.join_token)
    status = node.status()
    assert status["coordinator"]["url"] == coordinator.url, "the first URL of the token, by IPv6"
    (relay,) = status["relays"]
    assert sorted(relay["endpoints"]) == sorted([f"{host.ipv4}:3478", f"[{host.ipv6}]:3478"])
    seen = node.wait_for(lambda status: status["nat"]["kind"] not in ("unknown", "none") and status["nat"], "to see the NAT for IPv4")
    assert any(place.startswith(f"{router.ipv4}:") for place in seen["nat"]["seen_as"]), seen["nat"]


def test_a_path_of_a_family_that_the_host_lost_is_not_called_direct(lab):
    switch = lab.switch("switch")
    host = lab.host("coord", switch)
    coordinator = Coordinator(host, address=host.ipv6)
    coordinator.start("--url", f"http://{host.ipv4}:8288")
    one, two = Node(lab.host("node1", switch)), Node(lab.host("node2", switch))
    # node1 also reaches everything over IPv6; node2 has only IPv4.
    two.host.run("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")
    for node in (one, two):
        node.start()
        node.up(coordinator.join_token)
    one.wait_for_peers(two.name)
    one.ping_until_direct(two.name)
    one.host.ip(f"address delete {one.host.ipv4}/24 dev eth0")
    one.wait_for(lambda status: one.peer(two.name, status)["path"]["kind"] == "relayed", "to say that the relay carries everything")
    # Packets sent before the relay was bound over the other family are lost.
    wait_until(lambda: one.ping(two.name, "--count", "3")["received"] == 3, "the relay to carry everything")
    answer = one.taut("why", two.name).stdout
    assert "straight" not in answer and "No common address family" in answer, answer
