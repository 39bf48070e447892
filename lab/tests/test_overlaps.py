"""Addresses that belong to another overlay of the host, and addresses that are used twice (faults D12, D17, J13)."""

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.mesh import lay_out
from lab.nodes.taut import Coordinator, Node
from lab.traffic.flow import ping

REFUSED = "the network was not joined"


class Second(Node):
    """A second daemon on a host, with its own state, socket and device."""

    @property
    def socket(self):
        return self.host.state / "second.sock"

    @property
    def state(self):
        return self.host.state / "second"

    def start(self, *options):
        return super().start("--tun", "taut1", *options)


def second_network(lab, net, *options):
    """Starts a second coordinator on its own host."""
    coordinator = Coordinator(lab.host("coord2", net.switches[0]))
    return coordinator.start(*options)


def vpn(host, address, name="vpn0"):
    """Makes the interface, addresses and routes that a tunnel of another program would have."""
    host.ip(f"tuntap add dev {name} mode tun", f"address add {address} dev {name}", f"link set {name} up")


def endpoints(node):
    return node.status()["self"]["endpoints"]


def test_fault_d17_addresses_of_other_tunnels_are_neither_offered_nor_probed(layout):
    net = layout(nodes=2, ipv6=False)
    net.coordinator.start()
    one, two = net.nodes
    vpn(one.host, "10.9.0.1/24")
    # The peer offers an address inside that tunnel, which is an address of a LAN at the peer.
    two.host.ip("link add lan0 type bridge", "address add 10.9.0.2/24 dev lan0", "link set lan0 up")
    net.join(one, two)
    net.wait_for_maps()
    net.connect()
    assert not [endpoint for endpoint in endpoints(one) if endpoint.startswith("10.9.0.")]
    two.wait_for(lambda status: any(one.startswith("10.9.0.2:") for one in status["self"]["endpoints"]), "the peer to offer it")
    assert "10.9.0.1" not in str(two.peer(one.name)["candidates"])
    assert "10.9.0.2" not in str(one.peer(two.name)["candidates"])
    # A tunnel that comes up later is noticed.
    three = "10.10.0.2"
    two.host.ip(f"address add {three}/24 dev lan0")
    one.wait_for(lambda status: three in str(one.peer(two.name, status)["candidates"]), "a new candidate")
    vpn(one.host, "10.10.0.1/24", "vpn1")
    one.wait_for(lambda status: three not in str(one.peer(two.name, status)["candidates"]), "it to be left out")
    assert not [endpoint for endpoint in endpoints(one) if endpoint.startswith("10.10.0.")]


def test_two_networks_with_different_prefixes_share_a_host(layout, lab):
    net = layout(nodes=2)
    net.coordinator.start()
    other = second_network(lab, net, "--ipv4-prefix", "10.80.0.0/16")
    net.join(*net.nodes)
    net.wait_for_maps()
    second = [Second(node.host) for node in net.nodes]
    for node in second:
        node.start()
        node.up(other.join_token)
    one, two = second
    one.wait_for_peers(two.name)
    one.ping_until_direct(two.name)
    net.connect()
    for node, peer in (net.nodes, second):
        assert ping(node.host, peer.ipv4, count=3)["received"] == 3
        status = node.status()
        assert status["problem"] is None and status["warnings"] == [], status["warnings"]
        inside = [address for mine in (net.nodes[0], one) for address in (mine.ipv4, mine.ipv6)]
        assert not [endpoint for endpoint in status["self"]["endpoints"] if any(address in endpoint for address in inside)]


def test_fault_j13_a_second_network_with_the_same_addresses_is_refused(layout, lab):
    net = layout(nodes=2)
    net.coordinator.start()
    other = second_network(lab, net)
    net.join(*net.nodes)
    net.wait_for_maps()
    net.connect()
    one, two = net.nodes
    second = Second(one.host).start()
    done = second.up(other.join_token, check=False)
    assert done.returncode == 1 and REFUSED in done.stderr, done
    assert one.ipv4 in done.stderr and "taut0" in done.stderr and "--ipv4-prefix" in done.stderr and "`taut leave`" in done.stderr, done.stderr
    assert "taut1" not in one.host.run("ip", "link").stdout
    problem = second.status()["problem"]
    assert REFUSED in problem["message"] and second.status()["state"] == "connecting"
    # The first network is not affected.
    assert ping(one.host, two.ipv4, count=3)["received"] == 3
    assert one.status()["warnings"] == []
    # When the addresses are free, the second network comes up automatically.
    one.taut("down")
    second.wait_for(lambda status: status["state"] == "running", "the second network to come up")


def test_fault_j13_an_address_of_the_host_is_refused_at_the_first_join_only(layout):
    net = layout(nodes=3)
    net.coordinator.start()
    one, two, three = net.nodes
    net.join(two, three)
    # The next address that the coordinator will assign.
    taken = two.ipv4.rpartition(".")[0] + ".3"
    one.host.ip("link add lan0 type bridge", f"address add {taken}/24 dev lan0", "link set lan0 up")
    one.start()
    done = one.up(net.coordinator.join_token, check=False)
    assert done.returncode == 1 and REFUSED in done.stderr and f"{taken} is this node's" in done.stderr and "lan0" in done.stderr, done
    one.host.ip(f"address delete {taken}/24 dev lan0")
    one.wait_for(lambda status: status["state"] == "running", "the network to come up")
    net.wait_for_maps()
    net.connect()
    # Later there is only a warning, also after a restart, and everything else works.
    one.host.ip(f"address add {two.ipv4}/24 dev lan0")

    def warned(status):
        return any(two.ipv4 in warning["message"] and "lan0" in warning["message"] for warning in status["warnings"])

    one.wait_for(warned, "the conflict to be reported")
    assert ping(one.host, three.ipv4, count=3)["received"] == 3
    assert ping(one.host, two.ipv6, count=3)["received"] == 3
    one.restart()
    status = one.wait_for(warned, "the conflict to be reported")
    assert status["state"] == "running" and status["problem"] is None
    assert "lan0" in one.taut("status").stdout
    assert ping(one.host, three.ipv4, count=3)["received"] == 3
    one.host.ip(f"address delete {two.ipv4}/24 dev lan0")
    one.wait_for(lambda status: status["warnings"] == [], "the warning to be over")
    wait_until(lambda: ping(one.host, two.ipv4, count=1)["received"], "the member to answer", details=one.process.tail)


@pytest.mark.parametrize("place", ["lan", "vpn"])
def test_fault_j13_an_overlap_without_a_conflict_is_warned_of(lab, place):
    net = lay_out(lab, nodes=2)
    net.coordinator.start("--ipv4-prefix", "10.80.0.0/16")
    one, two = net.nodes
    if place == "vpn":
        vpn(one.host, "10.80.7.7/24")
    else:
        one.host.ip("link add lan0 type bridge", "address add 10.80.7.7/24 dev lan0", "link set lan0 up")
    net.join(one, two)
    net.wait_for_maps()
    net.connect()
    status = one.wait_for(lambda status: status["warnings"], "the overlap to be reported")
    assert "10.80.7.0/24" in status["warnings"][0]["message"] and "10.80.0.0/16" in status["warnings"][0]["message"]
    assert status["problem"] is None and two.status()["warnings"] == []
    assert ping(one.host, two.ipv4, count=3)["received"] == 3


def test_fault_j13_networks_that_come_to_share_addresses_leave_each_other_alone(layout, lab):
    net = layout(nodes=4, ipv6=False)
    net.coordinator.start()
    one, two, three, four = net.nodes
    other = second_network(lab, net)
    # The first two addresses of the other network are assigned and free again.
    for host in (three.host, four.host):
        passing = Second(host).start()
        passing.up(other.join_token)
        other.cli("nodes", "remove", host.name)
        passing.stop()
    net.join(one, two)
    here, there = Second(one.host), Second(two.host)
    for node in (here, there):
        node.start()
        node.up(other.join_token)
    here.wait_for_peers(there.name)
    here.ping_until_direct(there.name)
    one.ping_until_direct(two.name)
    numbers = [int(node.ipv4.rpartition(".")[2]) for node in (one, two, here, there)]
    assert numbers == [1, 2, 3, 4]
    status = here.wait_for(lambda status: status["warnings"], "the overlap to be reported")
    assert "taut0" in status["warnings"][0]["message"] and status["problem"] is None, status["warnings"]
    # The first address of the prefix is the name server's of the network that was here first; the other one answers over IPv6.
    assert "100.64.0.0" in one.status()["self"]["names"]["servers"]
    assert [":" in server for server in here.status()["self"]["names"]["servers"]] == [True]

    # Now the first network assigns the addresses that the other network has on this host.
    net.join(three, four)
    net.wait_for_maps()
    assert [three.ipv4, four.ipv4] == [here.ipv4, there.ipv4]

    def warned(status):
        return any(here.ipv4 in warning["message"] and "taut1" in warning["message"] for warning in status["warnings"])

    one.wait_for(warned, "the conflict to be reported")
    for node, address in ((one, two.ipv4), (here, there.ipv4)):
        assert ping(node.host, address, count=3)["received"] == 3
    assert "taut1" in one.host.run("ip", "route", "show", there.ipv4).stdout
    assert one.status()["problem"] is None and here.status()["problem"] is None


def test_fault_d12_hosts_with_carrier_addresses_in_the_overlays_prefix_join_and_connect(layout):
    net = layout(nodes=2, ipv6=False)
    coordinator, nodes = net.coordinator, net.nodes
    # Hosts of a carrier's customers. Instead of the carrier's NAT, the coordinator has a route to them.
    coordinator.host.ip("route add 100.70.0.0/16 dev eth0")
    for number, node in enumerate(nodes, 1):
        node.host.ip(
            f"address delete {node.host.ipv4}/24 dev eth0",
            f"address add 100.70.0.{number}/10 dev eth0",
            f"route add {coordinator.host.ipv4} dev eth0",
        )
    coordinator.start()
    net.join(*nodes)
    net.wait_for_maps()
    one, two = nodes
    wait_until(lambda: ping(one.host, two.ipv4, count=1)["received"], "the peer to answer", details=one.process.tail)
    status = one.status()
    assert status["problem"] is None and status["warnings"] == [], status["warnings"]
