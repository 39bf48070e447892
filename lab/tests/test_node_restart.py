"""A node that restarts, with SIGTERM or after a crash, is the same node again."""

import pytest

from lab.traffic.flow import ping


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_restarted_node_keeps_address_and_identity(mesh, kill):
    net = mesh(nodes=2)
    one, two = net.nodes
    net.connect()
    before = two.status()["self"]
    two.restart(kill)
    after = two.status()["self"]
    for field in ("id", "name", "addresses", "node_key"):
        assert after[field] == before[field]
    net.wait_for_maps()
    net.connect()
    assert ping(one.host, two.ipv4, count=3)["received"] == 3
    assert ping(two.host, one.ipv6, count=3)["received"] == 3


def test_a_killed_peer_goes_offline_and_comes_back(mesh):
    one, two = mesh(nodes=2).nodes
    one.wait_for(lambda s: one.peer(two.name, s)["online"], "node2 to be online")
    two.kill()
    # The coordinator notices when the lease ends.
    one.wait_for(lambda s: not one.peer(two.name, s)["online"], "node2 to be offline", timeout=180)
    two.start().up()
    one.wait_for(lambda s: one.peer(two.name, s)["online"], "node2 to be online again")


def test_down_and_up_again(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    address = two.ipv4
    two.taut("down")
    if not two.process.alive:
        two.start()
    two.up()
    assert two.status()["self"]["addresses"][0].startswith(address)
    net.connect()
