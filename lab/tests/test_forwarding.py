"""A host that forwards: a member reaches the node on it, and nothing behind it (fault G15)."""

import json
import shutil

import pytest

from lab.nodes.taut import PORT, Coordinator, Node
from lab.nodes.wireguard import WireGuard, conf
from lab.traffic.flow import ping

pytestmark = pytest.mark.skipif(not shutil.which("wg"), reason="needs the program wg: apt-get install wireguard-tools")


def behind(lab):
    """A switch with hosts, a router to a LAN, and a host in that LAN."""
    outside, inside = lab.switch("outside"), lab.switch("inside")
    router = lab.router("router", outside, inside)
    return outside, router, lab.host("lan", inside)


def echoes(host):
    """Returns the echo requests of both families that the host has received."""
    lines = host.run("cat", "/proc/net/snmp", "/proc/net/snmp6").stdout.splitlines()
    names, values = (line.split() for line in lines if line.startswith("Icmp:"))
    v6 = next(line.split()[1] for line in lines if line.startswith("Icmp6InEchos "))
    return int(values[names.index("InEchos")]) + int(v6)


def as_member(node, victim):
    """Makes a WireGuard interface with the keys of a member whose program was stopped: it can send anything to the victim."""
    node.stop()
    identity = json.loads((node.state / "identity.json").read_text(encoding="utf-8").partition("\n")[2])
    device = WireGuard(node.host, inner=[f"{node.ipv4}/32", f"{node.ipv6}/128"])
    device.private = identity["node_key"]
    to = {
        "PublicKey": victim.status()["self"]["node_key"],
        "AllowedIPs": "0.0.0.0/0, ::/0",
        "Endpoint": f"{victim.host.ipv4}:{PORT}",
    }
    device.config = conf(device, to, port=PORT)
    return device.start()


def test_fault_g15_a_member_reaches_nothing_behind_a_node_that_forwards(lab):
    outside, router, lan = behind(lab)
    coordinator = Coordinator(lab.host("coord", outside)).start()
    victim, member = Node(router), Node(lab.host("member", outside))
    for node in (victim, member):
        node.start()
        node.up(coordinator.join_token)
    victim.wait_for_peers("member")
    assert member.ipv4 and member.ipv6
    device = as_member(member, victim)
    # Both families go through the tunnel, with the overlay addresses of the member as source.
    for address in (victim.ipv4, victim.ipv6, lan.ipv4, lan.ipv6):
        member.host.ip(f"route replace {address} dev wg0")
    assert device.reaches(victim.ipv4)
    for behind_it, own in ((lan.ipv4, victim.ipv4), (lan.ipv6, victim.ipv6)):
        heard, dropped = echoes(lan), victim.status()["drops"].get("in-destination-not-ours", 0)
        # The victim answers through the relay, and the member's stock WireGuard cannot receive from a relay. Therefore requests are counted instead of answers.
        ping(member.host, behind_it, count=5)
        assert echoes(lan) == heard, "the LAN heard a member"
        assert victim.status()["drops"]["in-destination-not-ours"] >= dropped + 5
        heard = echoes(router)
        ping(member.host, own, count=5)
        assert echoes(router) >= heard + 5, "the node's own addresses are reached"


def test_fault_g15_in_taut_wg_allowed_ips_decide(lab):
    outside, router, lan = behind(lab)
    client, server = WireGuard(lab.host("client", outside), inner=["10.9.0.1/24"]), WireGuard(router, inner=["10.9.0.2/24"])
    server.config = conf(server, {"PublicKey": client.public, "AllowedIPs": "10.9.0.1/32"})
    allowed = f"10.9.0.2/32, {lan.ipv4}/32"
    client.config = conf(client, {"PublicKey": server.public, "AllowedIPs": allowed, "Endpoint": f"{router.ipv4}:51820"})
    for device in (server, client):
        device.start()
    client.host.ip(f"route replace {lan.ipv4} dev wg0")
    assert client.reaches("10.9.0.2")
    assert ping(client.host, lan.ipv4, count=5)["received"] == 5
