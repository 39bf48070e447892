"""Faults of group D that also change the MTU of the path: the path follows, no packet of full size is stuck, and only the fault itself loses any."""

import pytest

from lab.hosts import needs, path_mtu
from lab.nodes.local_api import LocalApi
from lab.nodes.mesh import Mesh
from lab.nodes.taut import Coordinator, Node

from .full_size import OUTER, RELAY, FullPings, wait_for_mtu
from .steady_transfer import SOME, flows

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft"))


def wait_for_mtus(one, two, exact):
    for here, there in ((one, two), (two, one)):
        wait_for_mtu(here, there, exact)


def is_direct(node, peer, status, unlike=None):
    """Returns true if the path to a peer is direct, and to another endpoint than `unlike`."""
    path = node.peer(peer.name, status)["path"]
    return path["kind"] == "direct" and path["endpoint"] != unlike


@pytest.mark.parametrize(("direct", "relayed"), [(1500, 1280), (9000, 1500)])
def test_fault_d9_a_path_that_dies_in_one_direction_leaves_a_relay_with_a_smaller_mtu(layout, direct, relayed):
    net = layout(nodes=2, routed=True, ipv6=False)
    router, sides = net.lab.nodes["router"], net.switches[1:]
    path_mtu.set_links(net.lab, *sides, mtu=direct)
    # What nodes send to the relay; it sends on packets that came to it, so this limits both ways through it.
    path_mtu.narrow(router, net.switches[0], mtu=relayed)
    net.coordinator.start()
    net.join(*net.nodes)
    net.wait_for_maps()
    one, two = net.nodes
    net.connect()
    wait_for_mtus(one, two, direct - OUTER)
    transfer = flows(one, two)
    with LocalApi(one) as here:
        with FullPings(one, two) as pings:
            path_mtu.only_relays(router, *sides, back=False)
            here.wait_for_path(two.name, "relayed")
            pings.faults_end()
            wait_for_mtu(one, two, relayed - OUTER - RELAY)
            transfer.flows_on(SOME)
        with FullPings(one, two):
            path_mtu.allow_direct(router)
            here.wait_for_path(two.name, "direct")
            wait_for_mtus(one, two, direct - OUTER)
            transfer.flows_on(SOME)
    assert transfer.finish()["equal"]


def test_a_jumbo_path_that_is_found_behind_the_relay_is_taken_without_a_loss(layout):
    net = layout(nodes=2, routed=True, ipv6=False)
    router, sides = net.lab.nodes["router"], net.switches[1:]
    path_mtu.set_links(net.lab, *sides, mtu=9000)
    path_mtu.only_relays(router, *sides)
    net.coordinator.start()
    net.join(*net.nodes)
    net.wait_for_maps()
    one, two = net.nodes
    transfer = flows(one, two)
    wait_for_mtus(one, two, 1500 - OUTER - RELAY)
    with FullPings(one, two):
        path_mtu.allow_direct(router)
        wait_for_mtus(one, two, 9000 - OUTER)
        transfer.flows_on(SOME)
    assert transfer.finish()["equal"]


def test_fault_d4_a_nat_that_changes_its_port_with_a_smaller_mtu(behind):
    """As when a provider changes the line: another port, and for a while also a shorter MTU."""
    one, two = behind(["full-cone", "port-restricted"]).nodes
    nat = one.host.nat
    one.ping_until_direct(two.name)
    two.ping_until_direct(one.name)
    wait_for_mtus(one, two, 1500 - OUTER)
    transfer = flows(one, two)
    for exact in (1280, 1500):
        with FullPings(one, two) as pings:
            for switch in (one.host.home, nat.outside):
                path_mtu.narrow(nat, switch, mtu=exact, silent=False)
            before = two.peer(one.name)["path"]["endpoint"]
            nat.rebind()
            two.wait_for(lambda status, before=before: is_direct(two, one, status, before), "the path to follow the port")
            one.wait_for(lambda status: is_direct(one, two, status), "the direct path")
            wait_for_mtus(one, two, exact - OUTER)
            pings.faults_end()
            transfer.flows_on(SOME)
    assert transfer.finish()["equal"]


def two_networks(lab, mtu):
    """Makes a laptop on `air`, with another network `wire` of this MTU beside it, and a server far away. Returns them, `wire`, and the gateways of both networks."""
    air, wire, far = (lab.switch(name, ipv6=False) for name in ("air", "wire", "far"))
    router = lab.router("router", air, wire, far)
    slow, fast = (str(address) for address in router.addresses[:2])
    coordinator = Coordinator(lab.host("coord", far)).start()
    laptop, server = Node(lab.host("laptop", air)), Node(lab.host("server", far))
    path_mtu.set_links(lab, wire, far, mtu=max(mtu, 1500))
    path_mtu.set_links(lab, wire, mtu=mtu)
    laptop.host.ip(f"route del default via {slow}", f"route add default via {slow} metric 600")
    Mesh(lab, [air, wire, far], coordinator, [laptop, server]).join(laptop, server)
    laptop.wait_for_peers("server")
    server.ping_until_direct("laptop")
    wait_for_mtus(laptop, server, 1500 - OUTER)
    return laptop, server, wire, (slow, fast)


@pytest.mark.parametrize("mtu", [1280, 9000])
def test_fault_d7_a_better_interface_with_another_mtu_is_taken(lab, mtu):
    """Like a laptop on Wi-Fi to which a cable is connected, and whose Wi-Fi is turned off later."""
    laptop, server, wire, (_, gateway) = two_networks(lab, mtu)
    transfer = flows(laptop, server)
    with FullPings(laptop, server) as pings:
        laptop.host.connect(wire)
        path_mtu.set_links(lab, wire, mtu=mtu)
        laptop.host.ip(f"route add default via {gateway} metric 100")
        # The server still sends to the Wi-Fi.
        wait_for_mtu(laptop, server, mtu - OUTER)
        pings.faults_end()
        transfer.flows_on(SOME)
    with FullPings(laptop, server) as pings:
        laptop.host.ip("link set eth0 down")
        wait_for_mtu(server, laptop, mtu - OUTER)
        pings.faults_end()
        transfer.flows_on(SOME)
    assert transfer.finish()["equal"]


def test_fault_d1_a_host_roams_to_a_network_of_1280_bytes_and_back(lab):
    laptop, server, wire, (slow, fast) = two_networks(lab, 1280)
    transfer = flows(laptop, server)
    laptop.host.connect(wire)
    path_mtu.set_links(lab, wire, mtu=1280)
    laptop.host.ip("link set eth1 down")
    networks = {"eth0": (slow, 1500), "eth1": (fast, 1280)}
    for old, new in (("eth0", "eth1"), ("eth1", "eth0")):
        via, exact = networks[new]
        with FullPings(laptop, server) as pings:
            # The old network is gone before the new one is there.
            laptop.host.ip(f"link set {old} down", f"link set {new} up", f"route add default via {via}")
            wait_for_mtu(server, laptop, exact - OUTER)
            wait_for_mtu(laptop, server, exact - OUTER)
            pings.faults_end()
            transfer.flows_on(SOME)
    assert transfer.finish()["equal"]
