"""A coordinator that speaks https itself: nodes join and reach its relay over it, and its certificate is replaced while they are connected."""

import os
import signal

import pytest

from lab.hosts import needs
from lab.hosts.nats import Internet
from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes.authority import Authority, serial
from lab.nodes.taut import Coordinator, Node
from lab.tests.test_coordinator_attacks import OF_ONE_ADDRESS, limited
from lab.tests.test_devices import asking
from lab.tests.test_websocket import crosses, reaches, via
from lab.traffic.connection_flood import ConnectionFlood

PORT = 443
# Connections of a flood: more than the limit of one address.
CROWD = 100
pytestmark = pytest.mark.skipif(bool(needs.missing_reason("nft", "openssl", "prlimit", "ss")), reason=needs.missing_reason("nft", "openssl", "prlimit", "ss"))


class World:
    """An internet with a coordinator that speaks https with a certificate of its own authority."""

    def __init__(self, lab):
        self.internet = Internet(lab)
        self.host = limited(self.internet.server("coord"))
        self.authority = Authority(self.host)
        self.certificate, self.key = self.host.state / "certificate.pem", self.host.state / "key.pem"
        self.issue()
        self.coordinator = Coordinator(self.host, port=PORT, scheme="https", env={"TAUT_CA": str(self.authority.certificate)})
        self.coordinator.start("--tls-cert", self.certificate, "--tls-key", self.key)

    def issue(self):
        self.authority.issue(self.certificate, self.key, self.host.ipv4, "127.0.0.1")

    def node(self, name, kind="open"):
        """Makes a node that joins by the coordinator's URL alone."""
        node = Node(self.internet.behind(kind, name))
        node.start()
        options = ("--coordinator", self.coordinator.url)
        trusted = {"SSL_CERT_FILE": str(self.authority.certificate)}
        refused = node.taut("up", *options, "--hostname", name, check=False)
        assert refused.returncode == 1 and "certificate" in refused.stderr, refused
        process, code = asking(node, *options, env=trusted)
        self.coordinator.cli("devices", "approve", code)
        wait_until(lambda: node.status()["state"] == "running", "the host to be in", details=process.tail)
        return node

    def shown(self):
        return serial(self.host, self.host.ipv4, PORT)

    def log(self):
        return self.coordinator.process.err.read_text(errors="replace")

    def hang_up(self, event):
        """Sends SIGHUP, and waits for one more line with this event."""
        before = self.log().count(event)
        os.kill(self.coordinator.process.pid, signal.SIGHUP)
        wait_until(lambda: self.log().count(event) > before, f"a line with {event}", details=self.coordinator.process.tail)


def test_nodes_join_by_the_url_alone_and_use_the_relay_over_https(lab):
    world = World(lab)
    one, two = world.node("node1", "udp-blocked"), world.node("node2", "udp-blocked")
    one.wait_for_peers("node2")
    for node in (one, two):
        reaches(node, "websocket")
        assert via(node)[1]["websocket"]["url"].startswith("wss://")
    crosses(one, two)


def test_a_certificate_is_replaced_without_losing_a_channel_and_a_broken_pair_is_not_taken(lab):
    world = World(lab)
    one, two = world.node("node1"), world.node("node2")
    one.wait_for_peers("node2")
    assert world.shown() == 1

    world.issue()
    world.hang_up("event=certificate-replaced")
    assert world.shown() == 2
    good = world.key.read_bytes()
    world.key.write_text("no key")
    world.hang_up("event=certificate-not-replaced")
    assert "contains no private key" in world.log() and world.shown() == 2
    world.key.write_bytes(good)
    # Without a signal, by the change of the files. A minute passes until they are looked at.
    world.issue()
    wait_until(lambda: world.shown() == 3, "the third certificate", timeout=90, details=world.coordinator.process.tail)

    for node in (one, two):
        events = node.taut("log").stdout
        assert "coordinator-lost" not in events, events
        assert node.status()["coordinator"]["connected"]
    assert one.ping("node2", "-c", "1")


@pytest.mark.parametrize("kind", ["tcp", "tls", "websocket-tls"])
def test_fault_e11_connections_that_wait_leave_room_for_others(lab, kind):
    world = World(lab)
    attacker = world.internet.server("attacker")
    crowd = ConnectionFlood(attacker, kind, world.host.ipv4, PORT, CROWD)
    assert crowd.open() <= OF_ONE_ADDRESS
    world.node("node1")
    crowd.wait_until_closed()


def test_a_start_with_a_pair_that_does_not_fit_says_what_to_do(lab):
    host = Internet(lab).server("coord")
    authority = Authority(host)
    certificate, key, other = (host.state / name for name in ("certificate.pem", "key.pem", "other.pem"))
    authority.issue(certificate, other, host.ipv4)
    authority.issue(certificate, key, host.ipv4)
    words = ("--config", "/dev/null", "--state", host.state / "coordinator")
    for command in (("serve", *words), ("config", "check", *words)):
        refused = host.run(binary("taut-coordinator"), *command, "--tls-cert", certificate, "--tls-key", other, check=False)
        assert refused.returncode == 1 and f"{other} does not fit the first certificate in {certificate}" in refused.stderr, refused
