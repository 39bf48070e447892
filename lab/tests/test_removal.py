"""The removal of a node: its peers forget it, and it reaches no node any more."""

from lab.hosts.wait import wait_until
from lab.traffic.flow import Probe, ping


def test_a_removed_node_reaches_no_node_and_the_others_stay(mesh):
    net = mesh(nodes=3)
    one, two, three = net.nodes
    net.connect()
    gone = {"ipv4": three.ipv4, "ipv6": three.ipv6}
    probe = Probe(one.host, two.host, two.ipv4)

    net.coordinator.cli("nodes", "remove", three.name)
    one.wait_for_peers(two.name)
    two.wait_for_peers(one.name)
    for node in (one, two):
        for address in gone.values():
            assert ping(node.host, address, count=3)["received"] == 0
        assert ping(three.host, node.ipv4, count=3)["received"] == 0
        assert node.ping(three.name, "-c", "1", "--timeout", "2s", check=False) is None
    assert probe.finish()["lost"] == []
    assert three.name not in net.coordinator.cli("nodes", "list").stdout


def test_up_reports_a_removal_during_downtime(mesh):
    net = mesh(nodes=2)
    two = net.nodes[1]
    two.taut("down")
    assert not two.status()["coordinator"]["connected"]
    net.coordinator.cli("nodes", "remove", two.name)
    answer = two.up(check=False)
    assert answer.returncode == 1 and "not a member" in answer.stderr, answer
    assert answer.stdout == "", answer


def test_up_without_a_coordinator_says_so_and_succeeds(mesh):
    net = mesh(nodes=2)
    two = net.nodes[1]
    two.taut("down")
    net.coordinator.kill()
    answer = two.up()
    assert "the coordinator has not been reached yet" in answer.stderr and two.name in answer.stdout, answer


def test_a_node_removed_while_it_was_away_learns_it(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    two.stop()
    net.coordinator.cli("nodes", "remove", two.name)
    one.wait_for_peers()
    two.start()
    two.wait_for(lambda status: status["problem"], "to know that it was removed")
    # A removed node can ask the coordinator that it knows, and a person may let it in again.
    answer = two.taut("up", "--timeout", "2s", check=False)
    assert answer.returncode == 1 and "taut-coordinator devices approve" in answer.stderr, answer
    # With a new key the node becomes a member again.
    two.up(net.coordinator.join_token)
    wait_until(lambda: two.status()["state"] == "running", "node2 to be a member again")
    net.wait_for_maps()
