"""Devices: a host that asks to join without a token, approval, disabling while traffic flows, expiry, ephemeral nodes."""

import json
import re

from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.traffic.flow import Probe, ping

CODE = re.compile(r"\b[B-Z]{4}-[B-Z]{4}\b")


def devices(net):
    """Returns the devices by name, as the API lists them."""
    answer = net.coordinator.cli("devices", "list", "--json").stdout
    return {node["name"]: node for node in json.loads(answer)["nodes"]}


def invitation(net):
    """Returns the options of `taut up` that `devices invite` prints."""
    line = net.coordinator.cli("devices", "invite").stdout.splitlines()[0]
    assert line.startswith("taut up --coordinator http"), line
    return line.split()[2:]


def said(process):
    """Returns what a program wrote for people, to standard error."""
    return process.err.read_text(errors="replace")


def asking(node, *options, env=None):
    """Starts `taut up` on a node; returns (the process, its code)."""
    words = ("up", *options, "--hostname", node.name, "--socket", node.socket, "--state", node.state)
    process = node.host.start(binary("taut"), *words, name="asking", env=env)
    code = wait_until(lambda: CODE.search(said(process)), "a code to be shown", details=process.tail)
    return process, code[0]


def test_a_host_without_a_token_is_seen_approved_and_in(layout):
    net = layout(nodes=2)
    net.coordinator.start()
    one, two = net.nodes
    net.join(one)
    two.start()
    # Over plain http the coordinator is not authenticated, so `taut up` refuses it without its key.
    refused = two.taut("up", "--coordinator", net.coordinator.url, check=False)
    assert refused.returncode == 1 and "--coordinator-key" in refused.stderr, refused
    assert two.status()["state"] == "needs-join"
    process, code = asking(two, *invitation(net))
    waiting = two.status()["waiting"]
    assert (waiting["reason"], waiting["code"]) == ("approval", code)
    shown = net.coordinator.cli("devices", "requests").stdout
    assert code in shown and two.name in shown and str(two.host.addresses[0]) in shown and waiting["machine"] in shown
    assert one.status()["peers"] == []
    # The daemon restarts while it waits, and asks again as the same machine: the code stays.
    two.kill()
    two.start()
    again, same = asking(two)
    assert same == code
    net.coordinator.cli("devices", "approve", code, "--owner", "ann")
    wait_until(lambda: two.status()["state"] == "running", "the host to be in", details=again.tail)
    assert devices(net)[two.name]["owner"] == "ann"
    one.wait_for_peers(two.name)
    assert ping(one.host, two.ipv4, count=5)["received"] > 0


def test_a_denied_host_is_told(layout):
    net = layout(nodes=1)
    net.coordinator.start()
    node = net.nodes[0].start()
    process, code = asking(node, *invitation(net))
    net.coordinator.cli("devices", "deny", code)
    wait_until(lambda: not process.alive, "`taut up` to end", details=process.tail)
    assert "denied" in said(process)


def test_a_device_waits_for_its_approval_where_the_network_wants_one(layout):
    net = layout(nodes=2)
    net.coordinator.start()
    one, two = net.nodes
    net.join(one)
    net.coordinator.cli("networks", "set", "default", "--approval", "on")
    two.start()
    answer = two.taut("up", "--join", net.coordinator.join_token, "--hostname", two.name, "--timeout", "3s", check=False)
    assert answer.returncode == 1 and "approves" in answer.stderr, answer
    assert one.status()["peers"] == [] and devices(net)[two.name]["state"] == "unapproved"
    net.coordinator.cli("devices", "approve", two.name)
    two.wait_for(lambda status: status["state"] == "running", "to be in without a restart")
    one.wait_for_peers(two.name)


def test_fault_e18_a_device_that_is_disabled_while_traffic_flows_is_cut_off_and_comes_back(mesh):
    net = mesh(nodes=3)
    one, two, three = net.nodes
    net.connect()
    stays = Probe(one.host, two.host, two.ipv4)
    net.coordinator.cli("devices", "disable", three.name)
    one.wait_for_peers(two.name)
    three.wait_for(lambda status: status["waiting"] and not status["peers"], "to know that it is disabled")
    assert ping(one.host, three.ipv4, count=3)["received"] == 0
    assert ping(three.host, one.ipv4, count=3)["received"] == 0
    assert stays.finish()["lost"] == []
    assert "disabled" in three.taut("status", check=False).stdout
    net.coordinator.cli("devices", "enable", three.name)
    one.wait_for_peers(two.name, three.name)
    three.wait_for(lambda status: not status["waiting"], "to be back")
    assert one.ping(three.name, "-c", "3", "--timeout", "5s")


def test_fault_m6_an_expired_device_is_renewed_with_its_addresses_and_warned_before(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    net.connect()
    address = two.ipv4
    net.coordinator.cli("devices", "key-expiry", two.name, "2d")
    status = two.wait_for(lambda status: status["expires_in_s"], "to know when it expires")
    assert any("expires in" in warning["message"] for warning in status["warnings"]), status["warnings"]
    net.coordinator.cli("devices", "expire", two.name)
    one.wait_for_peers()
    two.wait_for(lambda status: status["waiting"] and status["waiting"]["reason"] == "renewal", "to have expired")
    process, code = asking(two)
    net.coordinator.cli("devices", "approve", code)
    two.wait_for(lambda status: not status["waiting"] and status["peers"], "to be renewed")
    wait_until(lambda: not process.alive, "`taut up` to end", details=process.tail)
    assert two.status()["self"]["addresses"][0] == address
    one.wait_for_peers(two.name)


def test_a_key_for_ephemeral_nodes_says_so(layout):
    net = layout(nodes=1)
    net.coordinator.start()
    key, token = net.coordinator.create_key("--ephemeral", "5m", "--uses", "2", "--tags", "tag:ci")
    assert (key["ephemeral_after"], key["most_uses"], key["tags"]) == (300, 2, ["tag:ci"])
    node = net.nodes[0].start()
    node.up(token)
    assert devices(net)[node.name]["ephemeral_after"] == 300
    assert "ephemeral" in net.coordinator.cli("devices", "list").stdout


def test_a_key_that_is_rotated_while_traffic_flows_costs_no_packet(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    net.connect()
    before = two.status()["self"]["node_key"]
    old = (two.state / "identity.json").read_bytes()
    probes = [Probe(one.host, two.host, two.ipv4), Probe(two.host, one.host, one.ipv4)]

    def made():
        return one.sessions_made(two.name) + two.sessions_made(one.name)

    # The peer may start a handshake with the new key before the next poll after the rotation.
    sessions = made()
    rotated = json.loads(two.taut("rotate-key", "--json").stdout)
    assert rotated["former"] == before and rotated["node_key"] != before
    one.wait_for(lambda status: one.peer(two.name, status)["node_key"] == rotated["node_key"], "to have the new key")
    wait_until(lambda: made() > sessions, "a session of the new key")
    assert [probe.finish()["lost"] for probe in probes] == [[], []]
    # A copy of the state from before the rotation restores the former key, which is revoked.
    two.kill()
    (two.state / "identity.json").write_bytes(old)
    two.start()
    assert "revoked" in two.up(check=False).stderr
    assert one.peer(two.name)["node_key"] == rotated["node_key"]
