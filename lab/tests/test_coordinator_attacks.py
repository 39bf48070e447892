"""Connections that never authenticate, to the port of the coordinator and to that of a relay (faults F13, P6): limited in number and time."""

import os
import time

import pytest

from lab.hosts import needs
from lab.hosts.nats import Internet
from lab.hosts.wait import wait_until
from lab.nodes.relay import WEB_PORT, Relay
from lab.nodes.taut import Coordinator, Node
from lab.tests.test_websocket import reaches
from lab.traffic.connection_flood import ConnectionFlood, status

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("nft", "openssl", "prlimit")), reason=needs.missing_reason("nft", "openssl", "prlimit"))

# Default soft limit of descriptors of a service without a setting in its unit. Here it is also the hard limit, so that raising it has no effect.
FILES = 1024
# Connections of the flood: more than all descriptors.
CROWD = 1100
# Share of FILES for unauthenticated connections, and the part of it for one address.
UNAUTHENTICATED, OF_ONE_ADDRESS = 224, 28


def limited(host):
    """Limits the programs of this host to FILES descriptors each."""
    host.prefix = ["prlimit", f"--nofile={FILES}:{FILES}"]
    return host


class Attacked:
    """An internet with a coordinator, nodes behind NATs that pass only TCP, an attacker, and an observer."""

    def __init__(self, lab, own_relay=True):
        self.internet = Internet(lab)
        self.coordinator = Coordinator(limited(self.internet.server("coord")), port=WEB_PORT).start(*([] if own_relay else ["--no-relay"]))
        self.attacker, self.watch = self.internet.server("attacker"), self.internet.server("watch")

    def node(self, name):
        """Makes a node behind a NAT that blocks UDP."""
        node = Node(self.internet.behind("tcp-443", name))
        node.start()
        node.up(self.coordinator.join_token)
        return node

    def serves(self, name, relay="coordinator"):
        """Checks that unauthenticated clients get answers, and that a new node joins and binds to the relay over WebSocket."""
        assert status(self.watch, self.coordinator.address, WEB_PORT) == 200, self.coordinator.process.tail()
        node = self.node(name)
        reaches(node, "websocket", relay)
        return node


@pytest.mark.parametrize("kind", ["websocket", "tcp"])
def test_fault_f13_unauthenticated_connections_to_the_coordinator_keep_no_node_out(lab, kind):
    world = Attacked(lab)
    first = world.serves("node1")
    crowd = ConnectionFlood(world.attacker, kind, world.coordinator.address, WEB_PORT, CROWD)
    second = world.serves("node2")
    assert crowd.open() <= OF_ONE_ADDRESS
    # The attack did not close earlier connections.
    assert first.status()["coordinator"]["connected"]
    reaches(first, "websocket")
    crowd.wait_until_closed()
    world.serves("node3")
    first.wait_for_peers("node2", "node3")
    second.wait_for_peers("node1", "node3")
    assert first.ping("node2", "-c", "1")


@pytest.mark.parametrize("kind", ["websocket-tls", "tls", "tcp"])
def test_fault_f13_unauthenticated_connections_to_a_relay_keep_no_node_out(lab, kind):
    world = Attacked(lab, own_relay=False)
    relay = Relay(limited(world.internet.server("far")), world.coordinator, web=True).start()
    first = world.serves("node1", "far")
    crowd = ConnectionFlood(world.attacker, kind, relay.host.ipv4, WEB_PORT, CROWD, "/relay")
    second = world.serves("node2", "far")
    assert crowd.open() <= OF_ONE_ADDRESS
    reaches(first, "websocket", "far")
    crowd.wait_until_closed()
    world.serves("node3", "far")
    second.wait_for_peers("node1", "node3")
    assert first.ping("node2", "-c", "1")


def ticks(process):
    """Returns the CPU time of a program so far in seconds (proc(5): utime and stime)."""
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def without_descriptors(host, process):
    """Makes all descriptors of the program used up."""
    used = 1 + max(int(name) for name in os.listdir(f"/proc/{process.pid}/fd"))
    host.run("prlimit", "--pid", process.pid, f"--nofile={used}:{FILES}")


# Observation time in seconds, and allowed share of a core: a busy loop uses a whole core, a loop with ten pauses per second almost nothing.
WATCHED_S, SHARE = 5.0, 0.3


def test_fault_p6_a_relay_without_descriptors_pauses_and_goes_on(lab):
    world = Attacked(lab, own_relay=False)
    far = limited(world.internet.server("far"))
    relay = Relay(far, world.coordinator, web=True).start("--metrics", f"{far.ipv4}:9478")
    assert status(world.watch, far.ipv4, 9478, "/metrics") == 200
    without_descriptors(far, relay.process)
    crowds = [ConnectionFlood(world.attacker, "tcp", far.ipv4, port, 10) for port in (WEB_PORT, 9478)]
    before = ticks(relay.process)
    time.sleep(WATCHED_S)
    assert ticks(relay.process) - before < SHARE * WATCHED_S
    far.run("prlimit", "--pid", relay.process.pid, f"--nofile={FILES}:{FILES}")
    wait_until(lambda: status(world.watch, far.ipv4, 9478, "/metrics") == 200, "the counters to be shown again")
    world.serves("node1", "far")
    for crowd in crowds:
        crowd.end()


def test_fault_p6_a_coordinator_without_descriptors_pauses_and_goes_on(lab):
    world = Attacked(lab)
    process = world.coordinator.process
    without_descriptors(world.coordinator.host, process)
    crowd = ConnectionFlood(world.attacker, "tcp", world.coordinator.address, WEB_PORT, 10)
    before = ticks(process)
    time.sleep(WATCHED_S)
    assert ticks(process) - before < SHARE * WATCHED_S
    world.coordinator.host.run("prlimit", "--pid", process.pid, f"--nofile={FILES}:{FILES}")
    world.serves("node1")
    crowd.end()


def test_fault_p6_limits_are_raised_divided_and_logged(lab):
    internet = Internet(lab)
    host = internet.server("coord")
    host.prefix = ["prlimit", "--nofile=256:4096"]
    coordinator = Coordinator(host).start()
    said = lambda: [line for line in coordinator.process.err.read_text().splitlines() if "event=descriptors" in line]  # noqa: E731
    # It listens before it logs.
    wait_until(said, "the coordinator to log its limits")
    [line] = said()
    assert line.endswith("unauthenticated=960 channels=1440 relay_streams=1440 rest=256"), line
    assert "4096" in host.run("prlimit", "--pid", coordinator.process.pid, "--nofile", "--noheadings", "--output", "SOFT").stdout
    relay = Relay(limited(internet.server("far")), coordinator, web=True).start()
    answer = relay.process.err.read_text()
    assert f"event=descriptors unauthenticated={UNAUTHENTICATED} streams=672 rest=128" in answer
