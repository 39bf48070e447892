"""`taut leave`: gives up the membership and the keys, with or without a coordinator, and even if the daemon ends during it."""

import base64
import json
import random
import sqlite3
import time

import pytest

from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.traffic.flow import ping


def keys(node):
    """Returns the private keys in the files of the node."""
    identity = json.loads((node.state / "identity.json").read_bytes().partition(b"\n")[2])
    return [base64.b64decode(identity[name]) for name in ("machine_key", "node_key")]


def traces(node, secrets):
    """Returns files in the state directory that belong to the membership or contain one of its keys."""
    ours = ("identity", "map", "stamps", "ticket", "leaving")
    encoded = [base64.b64encode(secret) for secret in secrets]
    files = [path for path in node.state.iterdir() if path.is_file()]
    return [path.name for path in files if path.name.startswith(ours) or any(text in path.read_bytes() for text in encoded)]


def listed(net):
    return sorted(node["name"] for node in json.loads(net.coordinator.cli("nodes", "list", "--json").stdout)["nodes"])


def test_a_node_that_left_is_unknown_to_all(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    net.connect()
    secrets, address, key = keys(two), two.ipv4, two.status()["self"]["node_key"]
    before = two.host.network_state()
    done = two.taut("leave")
    assert done.stdout == "node2 left network default; its keys are removed from this host\n"
    assert traces(two, secrets) == []
    assert listed(net) == ["node1"]
    one.wait_for_peers()
    assert ping(one.host, address, count=3)["received"] == 0
    assert two.host.network_state() != before and two.process.alive
    answer = two.taut("status", check=False)
    assert answer.returncode == 1 and "not a member of any network" in answer.stdout
    status = two.status()
    assert (status["state"], status["problem"], status["leave"]["listed"]) == ("needs-join", None, False)
    # There is nothing to leave any more, and a token makes it a new node.
    answer = two.taut("leave", "--json", check=False)
    assert answer.returncode == 1 and "not a member" in json.loads(answer.stdout)["error"]["message"]
    two.up(net.coordinator.join_token)
    again = two.status()
    assert again["self"]["node_key"] != key and again["leave"] is None
    two._addresses = []
    net.wait_for_maps()
    net.connect()


def test_without_a_coordinator_the_keys_go_and_advice_for_the_operator_is_printed(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    net.connect()
    secrets = keys(two)
    net.coordinator.kill()
    done = two.taut("leave", "--json")
    left = json.loads(done.stdout)["left"]
    assert left["listed"] is True and net.coordinator.url in left["problem"]["message"], left
    hint = left["problem"]["hint"]
    assert "taut-coordinator nodes remove node2 --network " in hint
    assert traces(two, secrets) == [] and two.status()["state"] == "needs-join"
    net.coordinator.start()
    assert listed(net) == ["node1", "node2"]
    net.coordinator.cli(*hint.partition("taut-coordinator ")[2].rstrip("`").split())
    one.wait_for_peers()


def test_a_node_that_is_down_or_whose_daemon_has_ended_leaves_too(layout):
    net = layout(nodes=2)
    net.coordinator.start()
    one, two = net.nodes
    net.join(one)
    one.taut("down")
    assert one.taut("leave").returncode == 0
    # Daemons that `up` and `leave` start end with it.
    two.up(net.coordinator.join_token)
    secrets = keys(two)
    two.taut("down")
    wait_until(lambda: not two.socket.exists(), "the daemon to have ended")
    two.taut("leave", "--state", two.state)
    assert listed(net) == [] and traces(two, secrets) == []
    wait_until(lambda: not two.socket.exists(), "the daemon to have ended")
    answer = two.taut("leave", "--state", two.state, check=False)
    assert answer.returncode == 1 and "not a member" in answer.stderr


@pytest.mark.parametrize("answers", [True, False], ids=["late answer", "no answer"])
def test_fault_n12_a_node_that_leaves_while_it_is_enrolled_is_no_ghost(layout, answers):
    """The database of the coordinator is locked, so that the hello waits in it."""
    net = layout(nodes=1)
    net.coordinator.start()
    one = net.nodes[0].start()
    database = sqlite3.connect(net.coordinator.host.state / "coordinator" / "coordinator.db", isolation_level=None)
    database.execute("begin immediate")
    joining = one.host.start(binary("taut"), "up", "--join", net.coordinator.join_token, "--socket", one.socket, name="up")

    def hello_is_sent():
        text = (one.state / "identity.json").read_bytes() if (one.state / "identity.json").exists() else b""
        return b'"enrol_sent":true' in text

    wait_until(hello_is_sent, "the hello to be sent", details=joining.tail)
    leaving = one.host.start(binary("taut"), "leave", "--json", "--socket", one.socket, name="leave")
    wait_until(lambda: (one.state / "leaving").exists(), "the decision to leave", details=leaving.tail)
    if not answers:
        assert leaving.wait() == 0, leaving.tail()
    database.execute("commit")
    database.close()
    assert leaving.wait() == 0, leaving.tail()
    left = json.loads(leaving.output())["left"]
    assert left["listed"] is not answers, left
    assert answers or "taut-coordinator nodes list" in left["problem"]["hint"], left
    assert joining.wait() == 1 and "`taut leave` was run" in joining.tail(), joining.tail()
    if answers:
        assert listed(net) == []
    assert one.status()["state"] == "needs-join"


def test_only_root_may_leave_and_a_removed_node_leaves_its_keys(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    secrets = keys(two)
    net.coordinator.cli("nodes", "remove", two.name)
    two.wait_for(lambda status: status["state"] == "needs-join", "to learn that it was removed")
    assert traces(two, secrets) != []
    done = two.taut("leave")
    assert "keys are removed" in done.stdout and traces(two, secrets) == []
    assert one.status()["state"] == "running"


@pytest.mark.parametrize("away", [False, True], ids=["coordinator there", "coordinator away"])
def test_fault_p2_killed_while_it_leaves_it_is_a_member_or_gone(layout, away):
    net = layout(nodes=1)
    net.coordinator.start()
    one = net.nodes[0]
    chance = random.Random(7)
    seen = set()
    net.join(one)
    for round_ in range(12):
        secrets, address = keys(one), one.ipv4
        if away:
            net.coordinator.kill()
        leaving = one.host.start(binary("taut"), "leave", "--socket", one.socket, name="leave")
        time.sleep(chance.choice((0, 0.002, 0.01, 0.05, 0.3)) * chance.random())
        one.kill()
        leaving.wait()
        if away:
            net.coordinator.start()
        one.start()
        status = one.wait_for(lambda status: status["state"] != "connecting", "to know what it is", timeout=60)
        is_member = status["state"] == "running"
        seen.add(is_member)
        if is_member:
            assert one.ipv4 == address and (one.state / "identity.json").exists(), f"round {round_}"
        else:
            assert status["state"] == "needs-join" and traces(one, secrets) == [], f"round {round_}: {status}"
            one._addresses = []
            one.up(net.coordinator.join_token)
    assert False in seen
