"""Relays in the map, and tickets for them: they reach every node, and exist after a restart without the coordinator."""

import base64
import json
import sys
import time

from lab.hosts.wait import wait_until

TICKET_LIFE_S = 48 * 3600
# Occupies the relay's port until its standard input closes.
TAKE = """
import socket, sys
taken = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
taken.bind(("::", 3478))
print("taken", flush=True)
sys.stdin.read()
"""
# A Binding request, padded beyond its answer (RFC 8489 section 5); prints the source address that each port reports.
ASK = """
import socket, struct, sys
for port in sys.argv[2:]:
    asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asked.settimeout(1)
    padding = struct.pack("!HH", 0x8022, 96) + bytes(96)
    request = struct.pack("!HHI12s", 1, len(padding), 0x2112A442, bytes(12)) + padding
    for _ in range(20):
        asked.sendto(request, (sys.argv[1], int(port)))
        try:
            answer = asked.recv(2048)
        except TimeoutError:
            continue
        print(port, struct.unpack("!H", answer[:2])[0] == 0x0101)
        break
"""
KEY = base64.b64encode(bytes(range(1, 33))).decode()


def body(node, name):
    """Returns the JSON of a state file without its header line, or None if it does not exist."""
    path = node.state / name
    return json.loads(path.read_text().split("\n", 1)[1]) if path.exists() else None


def relays(node):
    return (body(node, "map.json") or {}).get("map", {}).get("relays", [])


def named(node, name):
    return next((relay for relay in relays(node) if relay["name"] == name), None)


def test_fault_n2_relays_and_tickets_outlive_two_reboots_without_the_coordinator(mesh):
    net = mesh(nodes=2)
    net.coordinator.cli("relays", "add", "far", KEY, "0.0.0.0:3478", "192.0.2.7:3478", "--stun-port", "3479")
    for node in net.nodes:
        wait_until(lambda node=node: named(node, "far"), f"{node.name} to learn of the relay")
        wait_until(lambda node=node: body(node, "ticket.json"), f"{node.name} to have a ticket")
        relay = named(node, "far")
        # An unspecified relay address stands for the address at which the node reaches the coordinator.
        assert relay["endpoints"] == [f"{net.coordinator.address}:3478", "192.0.2.7:3478"]
        assert (relay["key"], relay["stun_port"]) == (KEY, 3479)
    tickets = {node.name: body(node, "ticket.json") for node in net.nodes}
    assert len({ticket["bind_key"] for ticket in tickets.values()}) == 2, "each has a key of its own"
    before = {node.name: relays(node) for node in net.nodes}

    net.coordinator.kill()
    for node in net.nodes:
        node.restart(kill=True)
    net.wait_for_maps()
    net.connect()
    for node in net.nodes:
        assert relays(node) == before[node.name]
        assert body(node, "ticket.json") == tickets[node.name]
        assert not node.status()["coordinator"]["connected"]


def test_a_relay_that_is_removed_is_gone_from_every_map_and_a_new_channel_brings_a_new_ticket(mesh):
    net = mesh(nodes=1)
    (node,) = net.nodes
    net.coordinator.cli("relays", "add", "far", KEY, "192.0.2.7:3478")
    wait_until(lambda: named(node, "far"), "the node to learn of the relay")
    assert "far" in net.coordinator.cli("relays", "list").stdout
    net.coordinator.cli("relays", "remove", "far")
    wait_until(lambda: not named(node, "far"), "the node to learn that the relay is gone")

    first = body(node, "ticket.json")["expires"]
    net.coordinator.stop()
    # The expiry of a ticket has a resolution of one second.
    wait_until(lambda: time.time() > first - TICKET_LIFE_S + 1, "the next second")
    net.coordinator.start()
    wait_until(lambda: body(node, "ticket.json")["expires"] > first, "another ticket")
    key = net.coordinator.cli("ticket-key").stdout.strip()
    assert len(base64.b64decode(key)) == 32
    refused = net.coordinator.cli("relays", "add", "bad", KEY, "127.0.0.1:3478", check=False)
    assert refused.returncode == 1 and "to which nothing may be sent" in refused.stdout + refused.stderr


def test_the_relay_inside_the_coordinator_is_in_every_map_and_answers(mesh):
    net = mesh(nodes=1)
    (node,) = net.nodes
    wait_until(lambda: named(node, "coordinator"), "the coordinator's own relay to be in the map")
    relay = named(node, "coordinator")
    assert (relay["id"], relay["endpoints"], relay["stun_port"]) == (0, [f"{net.coordinator.address}:3478"], 3479)
    output = node.host.run(sys.executable, "-I", "-c", ASK, net.coordinator.address, "3478", "3479").stdout
    assert output.split() == ["3478", "True", "3479", "True"]

    net.coordinator.stop()
    net.coordinator.start("--no-relay")
    wait_until(lambda: not named(node, "coordinator"), "the node to learn that the relay is gone")
    net.coordinator.stop()
    net.coordinator.start("--relay-port", "5000", "--relay-address", "192.0.2.9", "--relay-address", "192.0.2.9:6000", "--relay-rate", "2G")
    wait_until(lambda: named(node, "coordinator"), "the relay to be back")
    again = named(node, "coordinator")
    assert (again["endpoints"], again["stun_port"]) == (["192.0.2.9:5000", "192.0.2.9:6000"], 5001)
    assert again["key"] == relay["key"], "its key is kept"


def test_a_coordinator_without_its_relays_port_says_so_and_goes_on(layout):
    net = layout(nodes=1)
    blocker = net.coordinator.host.start(sys.executable, "-I", "-c", TAKE, name="blocker")
    blocker.wait_for_output("taken")
    net.coordinator.start()
    net.join(*net.nodes)
    output = net.coordinator.process.tail()
    assert "event=relay-not-started" in output and "--no-relay" in output
    wait_until(lambda: body(net.nodes[0], "map.json"), "the node to have a map")
    assert relays(net.nodes[0]) == []
