"""Where UDP is blocked, nodes reach relays over WebSocket: at the coordinator's own port, or with TLS on 443; and over UDP again once it passes."""

import json

import pytest

from lab.hosts import needs
from lab.hosts.nats import Internet
from lab.hosts.wait import PATIENCE_S, wait_until
from lab.nodes.relay import WEB_PORT, Relay
from lab.nodes.taut import Coordinator, Node
from lab.traffic.flow import Transfer

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("nft", "openssl", "ss")), reason=needs.missing_reason("nft", "openssl", "ss"))

# Bytes of a transfer.
SIZE = 4_000_000


def via(node, name="coordinator"):
    """Returns how the node reaches a relay ("udp", "websocket" or None) and the rest of its state."""
    relay = next((one for one in node.status()["relays"] if one["name"] == name), {})
    return relay.get("via"), relay


def reaches(node, way, name="coordinator", timeout=PATIENCE_S):
    """Waits until the node reaches the relay in this way."""
    what = f"{node.name} to reach {name} by {way}"
    wait_until(lambda: via(node, name)[0] == way, what, timeout, lambda: json.dumps(via(node, name)[1], indent=1))


def ends(node, port):
    """Returns local addresses of the established TCP connections of the node's host to this port."""
    rows = node.host.run("ss", "-Htn", "state", "established", f"( dport = :{port} )").stdout.splitlines()
    return [row.split()[2].rpartition(":")[0] for row in rows]


class World:
    """An internet with a coordinator, and nodes behind NATs of these kinds. With `tls` a separate relay uses TLS, and the coordinator has none."""

    def __init__(self, lab, *kinds, tls=False):
        self.internet = Internet(lab)
        # Some of the NATs only pass web traffic, so the coordinator uses that port.
        self.coordinator = Coordinator(self.internet.server("coord"), port=WEB_PORT).start(*(["--no-relay"] if tls else []))
        self.relay = Relay(self.internet.server("far"), self.coordinator, web=True).start() if tls else None
        self.nodes = [Node(self.internet.behind(kind, f"node{number}")) for number, kind in enumerate(kinds, 1)]
        for node in self.nodes:
            node.start()
            node.up(self.coordinator.join_token)
        for node in self.nodes:
            node.wait_for_peers(*(other.name for other in self.nodes if other is not node))


def crosses(one, two):
    """Checks that bytes arrive unchanged in both directions through the relay."""
    for here, there in ((one, two), (two, one)):
        assert Transfer(here.host, there.host, there.ipv4, size=SIZE).finish()["equal"]
        assert here.peer(there.name)["path"]["kind"] == "relayed"


@pytest.mark.parametrize("kinds", [("udp-blocked", "open"), ("udp-blocked", "udp-blocked"), ("tcp-443", "port-restricted")], ids="-".join)
def test_fault_j10_a_node_without_udp_is_not_locked_out(lab, kinds):
    world = World(lab, *kinds)
    one, two = world.nodes
    reaches(one, "websocket")
    reaches(two, "websocket" if kinds[1] == "udp-blocked" else "udp")
    crosses(one, two)

    relay = via(one)[1]
    assert relay["websocket"]["open"] and relay["websocket"]["url"] == f"ws://{world.coordinator.address}:{WEB_PORT}/relay/v1"
    text = one.taut("status").stdout
    assert "by WebSocket (UDP to it is not answered)" in text
    answer = json.loads(one.taut("why", two.name, "--json").stdout)
    assert "the relay is reached by WebSocket, because it does not answer by UDP" in answer["said"][0]
    # Several rounds of requests determine the state of the network outside.
    wait_until(lambda: json.loads(one.taut("why", two.name, "--json").stdout)["cause"] == "udp-blocked", "the reason to be found")
    checked = json.loads(one.taut("netcheck", "--json").stdout)
    assert not checked["udp"] and checked["by_websocket"] == [{"name": "coordinator", "url": relay["websocket"]["url"]}]
    assert 'taut_relay_via{relay="coordinator",via="websocket"} 1' in one.taut("metrics").stdout

    # The control channel and the bridge; `down` ends both.
    assert len(ends(one, WEB_PORT)) == 2
    one.taut("down")
    wait_until(lambda: not ends(one, WEB_PORT), "both connections to be closed")


def test_fault_j10_only_port_443_by_tls(lab):
    one, two = World(lab, "tcp-443", "tcp-443", tls=True).nodes
    for node in (one, two):
        reaches(node, "websocket", "far")
        assert via(node, "far")[1]["websocket"]["url"].startswith("wss://")
    crosses(one, two)


def test_fault_f8_a_relay_by_websocket_that_is_killed_is_used_again_when_it_is_back(lab):
    world = World(lab, "udp-blocked", "open", tls=True)
    one, two = world.nodes
    reaches(one, "websocket", "far")
    crosses(one, two)
    world.relay.kill()
    wait_until(lambda: via(one, "far")[1]["state"] != "bound", "the loss to be noticed")
    world.relay.start()
    reaches(one, "websocket", "far")
    crosses(one, two)


def test_the_bridge_is_left_when_udp_comes_back_and_taken_again_when_it_goes(lab):
    one, two = World(lab, "udp-blocked", "udp-blocked").nodes
    reaches(one, "websocket")
    reaches(two, "websocket")
    crosses(one, two)
    transfer = Transfer(one.host, two.host, two.ipv4, rate=500_000)
    transfer.flows_on(SIZE // 4)
    one.host.nat.allow_udp()
    # Rounds of requests continue, with pauses that grow to a minute.
    reaches(one, "udp", timeout=2 * PATIENCE_S)
    transfer.flows_on(SIZE // 4)
    wait_until(lambda: len(ends(one, WEB_PORT)) == 1, "the bridge to be gone once UDP has passed its trial")
    one.host.nat.allow_udp(False)
    reaches(one, "websocket")
    transfer.flows_on(SIZE // 4)
    assert transfer.finish()["equal"]
    assert via(two)[0] == "websocket"


def test_fault_d1_another_address_takes_the_bridge_along(lab):
    one, two = World(lab, "udp-blocked", "open").nodes
    reaches(one, "websocket")
    crosses(one, two)
    old = one.host.addresses[0]
    before = via(one)[1]["websocket"]["local"]
    one.host.ip(f"address del {old}/24 dev eth0", "address add 192.168.1.77/24 dev eth0", f"route replace default via {one.host.home.gateway[0]}")
    wait_until(lambda: ends(one, WEB_PORT) == ["192.168.1.77"] * 2, "both connections to come from the new address", 2 * PATIENCE_S)
    wait_until(lambda: one.ping(two.name, "-c", "1", check=False), "packets to flow again")
    reaches(one, "websocket")
    assert via(one)[1]["websocket"]["local"] == before, "the same bridge"
    crosses(one, two)
