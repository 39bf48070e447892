"""A coordinator behind real reverse proxies: limits apply to the clients that trusted proxies name, and claims of other addresses are ignored (faults
E19, F13)."""

import json

import pytest

from lab.hosts import needs
from lab.hosts.nats import Internet
from lab.nodes.authority import Authority
from lab.nodes.proxies import KINDS, PORT, Proxy, packaged
from lab.nodes.taut import Coordinator, Node
from lab.tests.test_coordinator_attacks import OF_ONE_ADDRESS, limited
from lab.tests.test_websocket import crosses, reaches, via
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


class TwoUrls(Coordinator):
    """A coordinator on the host of an nginx with the files of dist/nginx: https for all, and http for nodes without TLS."""

    def __init__(self, host):
        super().__init__(host, port=8288)
        authority = Authority(host)
        certificate, key = host.state / "certificate.pem", host.state / "key.pem"
        authority.issue(certificate, key, self.address)
        self.http = f"http://{self.address}"
        self.start("--url", self.http, "--trusted-proxy", "127.0.0.1/32")
        self.proxy = packaged(host, {"/etc/taut/tls/certificate.pem": certificate, "/etc/taut/tls/key.pem": key, "taut.example": self.address})

    @property
    def url(self):
        return f"https://{self.address}"


@pytest.mark.skipif(bool(needs.missing_reason("nginx", "openssl", "curl")), reason=needs.missing_reason("nginx", "openssl", "curl"))
def test_nodes_without_tls_use_the_second_url_which_passes_their_paths_alone(lab):
    internet = Internet(lab)
    coordinator, watch = TwoUrls(internet.server("coord")), internet.server("watch")
    secure, plain = (Node(internet.behind("udp-blocked", name)) for name in ("node1", "node2"))
    # A stand-in for a program without TLS: its attempts with the first URL fail, too.
    plain.host.run("nft", "add table inet without_tls; add chain inet without_tls out { type filter hook output priority 0; }; add rule inet without_tls out tcp dport 443 reject with tcp reset")
    for node in (secure, plain):
        node.start()
        node.up(coordinator.join_token)
        reaches(node, "websocket")
    secure.wait_for_peers("node2")
    assert via(secure)[1]["websocket"]["url"] == f"wss://{coordinator.address}/relay/v1"
    assert via(plain)[1]["websocket"]["url"] == f"ws://{coordinator.address}/relay/v1"
    crosses(secure, plain)
    log = coordinator.process.err.read_text(errors="replace")
    assert f'name=node2 address="{plain.host.nat.external} via 127.0.0.1"' in log

    def answer(url):
        return watch.run("curl", "-ks", "-o", "/dev/null", "-w", "%{http_code}", url).stdout

    for path in ("/", "/api/v1/nodes", "/approve/x", "/readyz", "/control/v1/../../api/v1/nodes", "/relay-control/v1"):
        assert answer(coordinator.http + path) == "404", path
    assert [answer(f"{url}/key") for url in (coordinator.http, coordinator.url)] == ["200", "200"]
    assert answer(f"{coordinator.url}/api/v1/nodes") == "401"
