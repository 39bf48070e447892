"""A coordinator behind real reverse proxies: limits apply to the clients that trusted proxies name, and claims of other addresses are ignored (faults
E19, F13)."""

import json

import pytest

from lab.hosts import needs
from lab.hosts.nats import Internet
from lab.nodes.proxies import KINDS, PORT, Proxy
from lab.nodes.taut import Coordinator, Node
from lab.tests.test_coordinator_attacks import OF_ONE_ADDRESS, limited
from lab.tests.test_websocket import reaches
from lab.traffic.connection_flood import ConnectionFlood, status

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("nft", "prlimit", "ss")), reason=needs.missing_reason("nft", "prlimit", "ss"))

# Connections: more than the limit of one address, fewer than that of a proxy.
CROWD = 100


class Behind:
    """A coordinator behind a proxy of this kind, and hosts outside."""

    def __init__(self, lab, kind, *options):
        self.internet = Internet(lab)
        host, front = limited(self.internet.server("coord")), self.internet.server("front")
        self.address, self.direct = front.ipv4, host.ipv4
        # Nodes and the operator know only the proxy; the relay's UDP ports do not pass it.
        self.coordinator = Coordinator(host, self.address, PORT).start(*options)
        self.proxy = Proxy(front, kind, f"{self.direct}:{PORT}")
        self.attacker, self.watch = self.internet.server("attacker"), self.internet.server("watch")

    def node(self, name):
        """Makes a node behind a NAT that blocks UDP, bound to the relay over WebSocket."""
        node = Node(self.internet.behind("udp-blocked", name))
        node.start()
        node.up(self.coordinator.join_token)
        reaches(node, "websocket")
        return node

    def log(self):
        return self.coordinator.process.err.read_text(errors="replace")


def behind(lab, kind, trusted=True):
    lack = needs.missing_reason(KINDS[kind][0])
    if lack:
        pytest.skip(lack)
    # Servers get their addresses in order: the coordinator has the first, the proxy the second.
    world = Behind(lab, kind, *(["--trusted-proxy", "192.0.2.3/32"] if trusted else []))
    assert world.address == "192.0.2.3"
    return world


@pytest.mark.parametrize("kind", KINDS)
def test_fault_e19_f13_a_flood_through_a_proxy_leaves_other_clients_alone(lab, kind):
    world = behind(lab, kind)
    first = world.node("node1")
    outside = first.host.nat.external
    crowd = ConnectionFlood(world.attacker, "websocket", world.address, PORT, CROWD)
    assert crowd.open() <= OF_ONE_ADDRESS
    assert status(world.watch, world.address, PORT) == 200
    second = world.node("node2")
    first.wait_for_peers("node2")
    assert first.ping("node2", "-c", "1") and second.status()["coordinator"]["connected"]
    crowd.wait_until_closed()
    # The log and the map name the client, not the proxy.
    assert f'name=node1 address="{outside} via {world.address}"' in world.log()
    listed = json.loads(world.coordinator.cli("nodes", "list", "--json").stdout)["nodes"]
    endpoints = next(node for node in listed if node["name"] == "node1")["endpoints"]
    assert any(endpoint.startswith(f"{outside}:") for endpoint in endpoints), endpoints
    assert not any(endpoint.startswith(f"{world.address}:") for endpoint in endpoints), endpoints


@pytest.mark.parametrize("kind", KINDS)
def test_fault_e19_a_client_that_claims_other_addresses_is_one_client(lab, kind):
    """Through the proxy, and around it."""
    world = behind(lab, kind)
    for address in (world.address, world.direct):
        crowd = ConnectionFlood(world.attacker, "websocket", address, PORT, CROWD, claim=True)
        assert crowd.open() <= OF_ONE_ADDRESS, address
        crowd.end()
    assert "198.18." not in world.log()
    world.node("node1")


def test_fault_e19_an_untrusted_proxy_is_one_client(lab):
    world = behind(lab, "nginx", trusted=False)
    crowd = ConnectionFlood(world.attacker, "websocket", world.address, PORT, CROWD, claim=True)
    assert crowd.open() <= OF_ONE_ADDRESS
    crowd.wait_until_closed()
    node = world.node("node1")
    assert f"name=node1 address={world.address}" in world.log()
    node.stop()
