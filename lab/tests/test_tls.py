"""A coordinator that speaks https itself: nodes join and reach its relay over it, its certificate is replaced while they are connected, and an ACME server issues
it."""

import os
import signal

import pytest

from lab.hosts import needs
from lab.hosts.nats import Internet
from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes import pebble
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
    wait_until(lambda: world.log().count("event=certificate-replaced") == 2, "the third certificate", timeout=90, details=world.coordinator.process.tail)
    assert world.shown() == 3

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
    if kind == "tcp":
        # The kernel accepts a TCP connection before the coordinator refuses it. TLS and WebSockets wait for an answer of the coordinator.
        wait_until(lambda: crowd.open() <= OF_ONE_ADDRESS, "the coordinator to refuse the rest", timeout=5)
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


needs_pebble = pytest.mark.skipif(bool(pebble.missing()), reason=pebble.missing())
NAME = "taut.example"
# Life of a certificate that is renewed during a test, in seconds.
SHORT_LIFE = 45


class Certified:
    """An internet with a coordinator whose certificate is of an ACME server, which is not started yet."""

    def __init__(self, lab, *options, life=24 * 3600):
        self.internet = Internet(lab)
        self.host, other = self.internet.server("coord"), self.internet.server("acme")
        authority = Authority(other)
        self.pebble = pebble.Pebble(other, authority, self.host.ipv4, life)
        self.coordinator = Coordinator(self.host, port=PORT, scheme="https", env={"SSL_CERT_FILE": str(authority.certificate)})
        self.coordinator.start("--acme", NAME, "--acme-directory", self.pebble.directory, "--acme-contact", "admin@taut.example", *options)

    def log(self):
        return self.coordinator.process.err.read_text(errors="replace")

    def wait_for_line(self, text, count=1):
        wait_until(lambda: self.log().count(text) >= count, f"{count} lines with {text}", details=self.coordinator.process.tail, timeout=90)

    def shown(self):
        return serial(self.host, self.host.ipv4, PORT)


@needs_pebble
@pytest.mark.parametrize("way", ["tls-alpn-01", "http-01"])
def test_a_certificate_by_acme_follows_a_temporary_one_and_stays_over_a_restart(lab, way):
    world = Certified(lab, *(("--acme-http", "0.0.0.0:80") if way == "http-01" else ()))
    # The ACME server is away: the log says so, and nodes join all the same.
    world.wait_for_line("event=acme-failed")
    temporary = world.shown()
    node = Node(world.internet.behind("open", "node1"))
    node.start()
    node.up(world.coordinator.join_token)
    world.pebble.start()
    os.kill(world.coordinator.process.pid, signal.SIGHUP)
    world.wait_for_line("event=acme-issued")
    issued = world.shown()
    assert issued != temporary and f"names={NAME}" in world.log()
    # Pebble prints the URL of a check by HTTP, and nothing about one by TLS.
    assert ("validate w/ HTTP" in world.pebble.process.output()) == (way == "http-01")
    assert "coordinator-lost" not in node.taut("log").stdout
    kept = world.host.state / "coordinator" / "acme"
    assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600} and kept.stat().st_mode & 0o777 == 0o700

    world.coordinator.stop()
    world.coordinator.start("--acme", NAME, "--acme-directory", world.pebble.directory, *(("--acme-http", "0.0.0.0:80") if way == "http-01" else ()))
    assert world.shown() == issued, "the stored certificate, without a new order"
    assert world.log().count("event=acme-issued") == 1


@needs_pebble
def test_a_certificate_by_acme_is_renewed_before_its_end_without_losing_a_channel(lab):
    world = Certified(lab, life=SHORT_LIFE)
    world.pebble.start()
    node = Node(world.internet.behind("open", "node1"))
    node.start()
    node.up(world.coordinator.join_token)
    os.kill(world.coordinator.process.pid, signal.SIGHUP)
    world.wait_for_line("event=acme-issued")
    first = world.shown()
    world.wait_for_line("event=acme-issued", count=2)
    assert world.shown() != first
    assert "coordinator-lost" not in node.taut("log").stdout and node.status()["coordinator"]["connected"]


@needs_pebble
def test_a_refusal_of_the_acme_server_is_told_with_its_reason(lab):
    world = Certified(lab, "--acme-http", "0.0.0.0:8080")
    world.pebble.start()
    os.kill(world.coordinator.process.pid, signal.SIGHUP)
    # The check comes to port 80, where nobody answers.
    world.wait_for_line(f"the check of {NAME} failed")
    line = next(line for line in world.log().splitlines() if f"the check of {NAME} failed" in line)
    assert "event=acme-failed" in line and "retry_s=" in line and "connection" in line, line
