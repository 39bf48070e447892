"""Port prediction with real daemons behind the NATs of the lab: sequential ports are predicted, random ones are found with many sockets."""

import json
import time

import pytest

from lab.hosts import needs
from lab.hosts.nats import Internet
from lab.hosts.wait import wait_until
from lab.nodes.taut import Coordinator, Node
from lab.traffic.flow import Transfer

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft"))


@pytest.fixture
def pair(lab):
    """Returns a function that makes two nodes behind two kinds of NAT, with options of the daemons; the coordinator is their relay."""

    def build(*kinds, options=()):
        internet = Internet(lab)
        coordinator = Coordinator(internet.server("coord")).start()
        nodes = [Node(host).start(*options) for host in internet.pair(*kinds)]
        for node in nodes:
            node.up(coordinator.join_token)
        for node, other in (nodes, nodes[::-1]):
            node.wait_for_peers(other.name)
            node.wait_for(lambda status: any(one["state"] == "bound" for one in status["relays"]), "a relay to serve it")
            node.wait_for(lambda status: status["nat"]["filtering"] != "unknown", "to know its NAT")
        return nodes

    return build


def sockets(node):
    """Returns the number of UDP sockets of the node's host."""
    table = node.host.run("cat", "/proc/net/udp", "/proc/net/udp6").stdout
    return sum(": " in line for line in table.splitlines())


def settled(node):
    """Returns the number of sockets after those of the NAT test are closed, which stay open for two seconds."""
    seen = []

    def steady():
        seen.append(sockets(node))
        time.sleep(0.5)
        return len(seen) > 5 and len(set(seen[-6:])) == 1

    wait_until(steady, "the survey of the NAT to be over")
    return seen[-1]


# Two NATs with sequential ports are not tested: in the lab not every run of theirs ends direct (ARCHITECTURE.md, Thin places).
@pytest.mark.parametrize("known", ["port-restricted", "firewall"])
def test_sequential_ports_are_predicted(pair, known):
    hard, other = pair("predictable", known, options=("--search-sockets", "0"))
    assert hard.ping_until_direct(other.name)["replies"][-1]["path"] == "direct"
    assert other.ping(hard.name, "--until-direct", "-c", "60")["replies"][-1]["path"] == "direct"


def test_a_random_port_is_found_and_its_socket_carries_everything(pair):
    hard, other = pair("symmetric", "port-restricted")
    before = settled(hard)
    assert hard.ping_until_direct(other.name)["replies"][-1]["path"] == "direct"
    wait_until(lambda: sockets(hard) == before + 1, "all sockets but one to be closed")
    assert other.ping(hard.name, "--until-direct", "-c", "60")["replies"][-1]["path"] == "direct"
    for one, two in ((hard, other), (other, hard)):
        assert Transfer(one.host, two.host, two.ipv4, size=4_000_000).finish()["equal"]
    for one, two in ((hard, other), (other, hard)):
        peer = one.peer(two.name)
        assert peer["path"]["kind"] == "direct"
        assert peer["traffic"]["direct"]["sent"] > 4_000_000
    for node in (hard, other):
        node.taut("down")
    wait_until(lambda: sockets(hard) == sockets(other) < before, "the sockets to be closed, as at the one who had none but its own")


def test_without_sockets_it_stays_on_the_relay_and_says_so(pair):
    hard, other = pair("symmetric", "port-restricted", options=("--search-sockets", "0"))
    before = settled(hard)
    pings = hard.ping(other.name, "--count", "6")
    assert {reply["path"] for reply in pings["replies"]} == {"relayed"}
    assert sockets(hard) == before

    def why():
        return json.loads(hard.taut("why", other.name, "--json").stdout)

    hard.wait_for(lambda _: why()["cause"] == "one-symmetric", "to know why the path is relayed")
    assert any("was not guessed" in sentence for sentence in why()["said"])
    assert why()["mend"]
