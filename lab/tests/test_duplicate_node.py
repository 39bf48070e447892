"""One state directory on two hosts: which one is served, what both report, and that it causes no storm (fault D14 of docs/spec/faults.md)."""

import json
import shutil
import time

from lab.hosts.wait import PATIENCE_S
from lab.nodes.taut import Node
from lab.traffic.flow import PingStream, answers


def test_fault_d14_two_hosts_with_one_state_report_it_and_cause_no_storm(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    net.connect()
    clone = Node(net.lab.host("clone", net.switches[0]))
    shutil.copytree(two.state, clone.state)
    clone.start()
    for node in (two, clone):
        node.wait_for(lambda status: "another host uses this node's keys" in ((status["problem"] or {}).get("message") or ""), "the duplicate to be reported")
    (listed,) = [node for node in json.loads(net.coordinator.cli("nodes", "list", "--json").stdout)["nodes"] if node["name"] == two.name]
    assert listed["twin"] and "two hosts" in net.coordinator.cli("nodes", "list").stdout
    # Both send to the same peer all the time.
    before, joined = one.sessions_made(two.name), count_events(net.coordinator, "connected")
    with PingStream(two.host, one.ipv4, interval=0.05), PingStream(clone.host, one.ipv4, interval=0.05):
        time.sleep(20)
    assert count_events(net.coordinator, "connected") == joined
    # At most the handshakes that a peer may begin: five in five seconds each.
    assert one.sessions_made(two.name) - before <= 20
    # The node that was started last is served. When it ends, the other one is served soon.
    assert clone.status()["coordinator"]["connected"] and not two.status()["coordinator"]["connected"]
    clone.stop()
    two.up()
    two.wait_for(lambda status: status["coordinator"]["connected"], "the other one to be served")
    assert answers(one.host, two.ipv4, PATIENCE_S)


def count_events(coordinator, event):
    """Returns the number of lines with this event in the coordinator's log."""
    return sum(file.read_text().count(f"event={event} ") for file in (coordinator.process.out, coordinator.process.err))
