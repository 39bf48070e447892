"""Two Taut networks on one host that both have exit nodes: one of them carries, and nothing leaves in the clear."""

from lab.hosts.wait import wait_until
from lab.nodes.exits import SERVER, choose
from lab.nodes.full_tunnel import TARGETS, FullTunnel, Talk
from lab.nodes.subnets import seen_as
from lab.nodes.taut import Coordinator, Node

PREFIX = "10.82.0.0/16"


class Work(Node):
    """The node of the same host in its second network."""

    @property
    def socket(self):
        return self.host.state / "work.sock"

    @property
    def state(self):
        return self.host.state / "work"


def two_networks(lab):
    """A host in two networks with an exit node each: `exit1` of the usual one, `exit2` of the other. Returns the layout and the second node of the host."""
    net = FullTunnel(lab, count=2)
    office = Coordinator(lab.host("office", net.outside)).start("--network", "office", "--ipv4-prefix", PREFIX)
    net.sealed += [str(address) for address in office.host.addresses]
    # The second exit node changes to the other network.
    gate = net.exits[1]
    gate.taut("leave")
    gate._addresses = []
    gate.up(office.join_token)
    wait_until(lambda: "exit2" in office.cli("routes", "list").stdout, "the coordinator to know the exit node")
    office.cli("routes", "approve", "exit2", "exit-node")
    work = Work(net.client.host)
    work.start("--network", "work")
    work.up(office.join_token)
    return net, work


def through(net, number):
    """Waits until the internet answers through this exit node."""
    wait_until(lambda: seen_as(net.client.host, SERVER[0], timeout=0.5) == net.public(number), f"the internet to answer through exit{number + 1}")


def test_of_two_networks_with_exit_nodes_the_usual_one_carries_and_then_the_other(lab):
    net, work = two_networks(lab)
    choose(work, "exit2")
    through(net, 1)
    choose(net.client, "exit1")
    through(net, 0)
    # Without the kill switch, sockets that are bound to a network card are no matter of routes.
    capture, talk = net.listen(), Talk(net.client.host, TARGETS, interface="lo")
    talk.wait()
    # The members of both networks are reached meanwhile: routes of another network are read at most every 10 s.
    for node, peer in ((net.client, "exit1"), (work, "exit2")):
        wait_until(lambda node=node, peer=peer: node.ping(peer, check=False), f"{peer} to answer")
    net.client.taut("set", "--exit-node", "none")
    through(net, 1)
    talk.wait()
    choose(net.client, "exit1")
    through(net, 0)
    talk.end()
    found = capture.finish()
    assert found["clear"] == 0 and found["sealed"] > 0, found


def test_the_kill_switches_of_two_networks_hold_together(lab):
    net, work = two_networks(lab)
    choose(net.client, "exit1", "--kill-switch")
    choose(work, "exit2", "--kill-switch")
    through(net, 0)
    capture, talk = net.listen(), net.talk()
    # One network ends; the other one's exit node carries, and its kill switch stays.
    net.client.taut("down")
    through(net, 1)
    talk.wait()
    work.kill()
    talk.wait()
    assert seen_as(net.client.host, SERVER[0], timeout=0.5) is None
    net.client.up()
    through(net, 0)
    talk.wait()
    talk.end()
    found = capture.finish()
    assert found["clear"] == 0 and found["sealed"] > 0, found
