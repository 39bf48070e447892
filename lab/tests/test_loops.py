"""Tunnels inside tunnels, and routes that lead a tunnel's own datagrams back into it (fault I8): little traffic beside that of the applications."""

import json
import shutil
import time

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.wireguard import INTERFACE, WireGuard, conf, pair
from lab.traffic.flow import ping

pytestmark = pytest.mark.skipif(not shutil.which("wg"), reason="needs the program wg: apt-get install wireguard-tools")

# Bytes that a loop may cost on the wire (fault I8).
EXTRA = 70_000
# Packets that may go around on the host, for a few dozen of the application's.
AROUND = 1_000
# Seconds for which a loop is watched.
WATCHED_S = 5


def sent(host, device="eth0"):
    """Returns the bytes and packets that a device has sent."""
    stats = json.loads(host.run("ip", "-s", "-j", "link", "show", "dev", device).stdout)[0]["stats64"]["tx"]
    return stats["bytes"], stats["packets"]


def watch(host, device, act):
    """Does `act`, waits a while, and returns (bytes on the wire, packets on the device) since before."""
    wire, around = sent(host)[0], sent(host, device)[1]
    act()
    time.sleep(WATCHED_S)
    return sent(host)[0] - wire, sent(host, device)[1] - around


def test_fault_i8_a_default_route_into_a_plain_tunnel_makes_no_loop(lab):
    """Without a mark and a rule for it, the tunnel's own datagrams go into the tunnel."""
    one, two = pair(lab)
    assert one.reaches("10.9.0.2")
    one.setconf(conf(one, {"PublicKey": two.public, "AllowedIPs": "0.0.0.0/0", "Endpoint": f"{two.host.ipv4}:51820"}))
    for length in (100, 1392):
        def loop(length=length):
            one.host.ip(f"route add {two.host.ipv4}/32 dev {INTERFACE}")
            one.host.run("ping", "-n", "-q", "-c", "5", "-i", "0.1", "-W", "1", "-s", length, "10.9.0.2", check=False)

        wire, around = watch(one.host, INTERFACE, loop)
        one.host.ip(f"route delete {two.host.ipv4}/32 dev {INTERFACE}")
        assert wire < EXTRA and around < AROUND, (length, wire, around)
    one.reaches("10.9.0.2")


def nested(nodes):
    """Makes a plain tunnel between two nodes whose endpoints are overlay addresses."""
    devices = [WireGuard(node.host, inner=[f"10.9.0.{number}/24"]) for number, node in enumerate(nodes, 1)]
    for number, (here, there, far) in enumerate(((*devices, nodes[1]), (*devices[::-1], nodes[0]))):
        peer = {"PublicKey": there.public, "AllowedIPs": f"10.9.0.{2 - number}/32", "Endpoint": f"{far.ipv4}:51820"}
        here.config = conf(here, peer)
        here.start()
    return devices


def test_fault_i8_an_overlay_does_not_run_through_a_tunnel_inside_itself(mesh):
    """The inner tunnel has addresses at which the peer answers, and these are no way to the peer once the direct path is gone."""
    one, two = mesh(nodes=2, ipv6=False).nodes
    one.ping_until_direct(two.name)
    first, _ = nested((one, two))
    assert first.reaches("10.9.0.2")

    def break_path():
        for here, there in ((one, two), (two, one)):
            words = f"chain o {{ type filter hook output priority 0; ip daddr {there.host.ipv4} udp dport 8288 drop\n }}"
            here.host.run("nft", "-f", "-", text=f"table inet broken {{\n {words}\n}}")
        wait_until(lambda: one.peer(two.name)["path"]["kind"] != "direct" or "10.9." in str(one.peer(two.name)["path"]["endpoint"]), "the path to change")

    wire, around = watch(one.host, INTERFACE, break_path)
    wire, around = watch(one.host, INTERFACE, lambda: ping(one.host, two.ipv4, count=10))
    path = one.peer(two.name)["path"]
    assert path["kind"] == "relayed", path
    assert wire < EXTRA and around < AROUND, (wire, around)
    first.reaches("10.9.0.2")
