"""Exit status and messages of the command line: 0 success, 1 failure, 2 usage error."""

import json
import socket
import sys

import pytest

from lab.hosts.programs import binary
from lab.nodes.taut import PORT


@pytest.fixture
def node(layout):
    return layout(nodes=1).nodes[0]


@pytest.mark.parametrize("words", [("status",), ("ping", "node9"), ("hosts",), ("down",)], ids=lambda w: w[0])
def test_without_a_daemon_the_answer_is_1_and_advice(node, words):
    answer = node.taut(*words, check=False)
    assert answer.returncode == 1
    assert "taut up" in answer.stderr


@pytest.mark.parametrize(
    "words", [("status", "--nonsense"), ("ping",), ("ping", "node2", "-c", "many"), ("nonsense",)], ids=" ".join
)
def test_a_usage_error_is_2(node, words):
    answer = node.taut(*words, check=False)
    assert answer.returncode == 2
    assert answer.stderr.strip()


def test_up_without_a_token_on_a_new_host_asks_for_one(node):
    answer = node.start().up(check=False)
    assert answer.returncode == 1
    assert "--join" in answer.stderr


def test_ping_of_an_unknown_peer_is_1_and_names_it(mesh):
    answer = mesh(nodes=1).nodes[0].taut("ping", "node9", check=False)
    assert answer.returncode == 1
    assert "node9" in answer.stderr


def test_ping_of_a_silent_peer_is_1(mesh):
    one, two = mesh(nodes=2).nodes
    two.kill()
    answer = one.taut("ping", two.name, "-c", "2", "--timeout", "2s", check=False)
    assert answer.returncode == 1


def test_an_operator_without_the_right_token_is_refused(layout):
    coordinator = layout(nodes=0).coordinator.start()
    coordinator.operator_token = "tautop-wrong"
    answer = coordinator.cli("nodes", "list", check=False)
    assert answer.returncode == 1
    assert "token" in answer.stderr.lower()


def test_an_operator_sees_nodes_keys_and_networks(mesh):
    net = mesh(nodes=2)
    for node in net.nodes:
        line = next(x for x in net.coordinator.cli("nodes", "list").stdout.splitlines() if node.name in x)
        assert node.ipv4 in line
    assert net.coordinator.cli("keys", "list").stdout.strip()
    assert "default" in net.coordinator.cli("networks", "list").stdout


def test_status_is_0_only_while_the_node_is_up(mesh):
    net = mesh(nodes=1)
    node = net.nodes[0]
    assert node.taut("status", check=False).returncode == 0
    node.taut("down")
    down = node.taut("status", check=False)
    assert down.returncode == 1 and "down; connect with `taut up`" in down.stdout
    node.up()
    net.coordinator.cli("nodes", "remove", node.name)
    node.wait_for(lambda status: status["state"] == "needs-join", "to learn that it was removed")
    removed = node.taut("status", check=False)
    assert removed.returncode == 1 and "problem: " in removed.stdout and "not a member" in removed.stdout, removed
    answer = node.taut("status", "--json", check=False)
    assert answer.returncode == 1 and json.loads(answer.stdout)["problem"]["message"]
    node.stop()
    answer = node.taut("status", "--json", check=False)
    output = json.loads(answer.stdout)
    assert (answer.returncode, output["schema"], output["state"]) == (1, 1, "no-daemon")
    assert "taut up" in output["error"]["hint"]


def test_up_that_times_out_reports_it_in_json_and_continues(mesh):
    net = mesh(nodes=1)
    net.coordinator.kill()
    node = net.nodes[0]
    node.stop()
    for name in ("map.json", "map.json.prev"):
        (node.state / name).unlink(missing_ok=True)
    node.start()
    answer = node.taut("up", "--json", "--timeout", "1s", check=False)
    output = json.loads(answer.stdout)
    assert answer.returncode == 1 and "keeps trying" in output["error"]["hint"], output
    assert node.taut("status", check=False).returncode == 1, "it is connecting"
    net.coordinator.start()
    node.wait_for(lambda status: status["state"] == "running", "to be up after all")


def test_up_does_not_rename_a_member_and_says_that_the_operator_can(layout):
    net = layout(nodes=1)
    net.coordinator.start()
    node = net.nodes[0].start()
    node.taut("up", "--join", net.coordinator.join_token, "--hostname", "My_Laptop")
    assert node.status()["self"]["name"] == "my-laptop"
    answer = node.taut("up", "--hostname", "other", check=False)
    assert answer.returncode == 1, answer
    assert "as my-laptop" in answer.stderr and "taut-coordinator nodes rename my-laptop other" in answer.stderr
    # The operator renames it. The command of the node succeeds anyway.
    net.coordinator.cli("nodes", "rename", "my-laptop", "other")
    node.wait_for(lambda status: status["self"]["name"] == "other", "to have its new name")
    for name in ("other", "My_Laptop"):
        answer = node.taut("up", "--join", net.coordinator.join_token, "--hostname", name)
        assert answer.stdout.startswith("other  ") and "the token was not needed" in answer.stderr, answer
    assert node.status()["problem"] is None


def test_a_token_of_another_network_is_refused_and_leaves_no_problem(mesh):
    net = mesh(nodes=1)
    node = net.nodes[0]
    net.coordinator.cli("networks", "create", "lab", "--ipv4-prefix", "10.80.0.0/16")
    _, token = net.coordinator.create_key("--network", "lab")
    answer = node.taut("up", "--join", token, check=False)
    assert answer.returncode == 1
    assert "a member of network default already" in answer.stderr and "taut leave" in answer.stderr, answer
    assert node.status()["problem"] is None and node.status()["network"] == "default"


TAKE = """
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", int(sys.argv[1])))
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_port_that_another_program_has_is_named(layout):
    net = layout(nodes=1)
    net.coordinator.start()
    node = net.nodes[0]
    node.host.start(sys.executable, "-c", TAKE, PORT, name="other").wait_for_output("ready")
    refused = node.taut("up", "--join", net.coordinator.join_token, "--port", PORT, check=False)
    assert refused.returncode == 1 and f"another program uses UDP port {PORT}" in refused.stderr, refused
    wanted = node.taut("up")
    me = node.status()["self"]
    assert me["ports_taken"] == [PORT] and me["port"] != PORT
    assert f"UDP port {me['port']} (another program has {PORT})" in wanted.stdout
    assert f"UDP port {me['port']} (another program has {PORT})" in node.taut("status").stdout
    node.taut("down")


def test_a_daemon_that_was_told_to_end_answers_nothing_more(layout):
    """Otherwise `taut down` returns while the daemon still listens, and the next `taut up` reaches it."""
    net = layout(nodes=1)
    net.coordinator.start()
    node = net.nodes[0]
    node.taut("up", "--join", net.coordinator.join_token)
    with socket.socket(socket.AF_UNIX) as user:
        user.connect(str(node.socket))
        user.sendall(b'{"command":"down"}\n{"command":"status"}\n')
        with user.makefile() as answers:
            assert [json.loads(answer) for answer in answers] == [{"answer": "done"}]
    assert "no daemon answers" in node.taut("status", check=False).stderr


def test_a_mistyped_word_is_recognised(node):
    answer = node.taut("staus", check=False)
    assert answer.returncode == 2 and "did you mean `status`?" in answer.stderr
    answer = node.taut("up", "--hostnme", "a", check=False)
    assert answer.returncode == 2 and "did you mean `--hostname`?" in answer.stderr


def test_netcheck_of_a_fresh_host_asks_the_coordinator_by_its_url(layout):
    net = layout(nodes=1)
    net.coordinator.start()
    node, url = net.nodes[0], net.coordinator.url
    nowhere = ("--state", node.state, "--socket", node.socket)
    command = (binary("taut"), "netcheck")
    answer = node.host.run(*command, *nowhere, "--json", check=False)
    assert answer.returncode == 1 and "taut netcheck http://" in json.loads(answer.stdout)["error"]["hint"]
    output = json.loads(node.host.run(*command, url, *nowhere, "--json").stdout)
    assert output["udp"] and output["relays"][0]["endpoints"][0]["endpoint"].endswith(":3478")
    # The second port of the relay determines the filtering.
    assert output["ipv4"]["nat"]["kind"] == "none" and output["ipv4"]["nat"]["filtering"] == "not-by-port"
    [coordinator] = output["coordinators"]
    assert coordinator["url"] == url and coordinator["endpoints"][0]["latency_ms"] > 0
    stun = f"stun:{net.coordinator.address}"
    assert json.loads(node.host.run(*command, stun, *nowhere, "--json").stdout)["udp"]
    net.coordinator.stop()
    answer = node.host.run(*command, url, *nowhere, check=False)
    assert answer.returncode == 1, "nothing was reached"
    assert "not reached by TCP" in answer.stdout and "Check that it runs" in answer.stdout
