"""Exit codes and words of the command line: 0 done, 1 failed, 2 not understood."""

import pytest


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
def test_what_is_not_understood_is_2(node, words):
    answer = node.taut(*words, check=False)
    assert answer.returncode == 2
    assert answer.stderr.strip()


def test_up_without_a_token_on_a_new_host_asks_for_one(node):
    answer = node.start().up(check=False)
    assert answer.returncode == 1
    assert "--join" in answer.stderr


def test_ping_of_a_stranger_is_1_and_names_it(mesh):
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
