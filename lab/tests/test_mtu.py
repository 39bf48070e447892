"""The length of packets: paths that carry less or more than 1,500 bytes, with and without ICMP errors (group I of the faults)."""

import base64
import shutil
import sys
import time
from pathlib import Path

import pytest

from lab.hosts import path_mtu as underlay
from lab.hosts.wait import PATIENCE_S, wait_until
from lab.nodes import mtu
from lab.nodes.wireguard import pair
from lab.traffic import forged_icmp
from lab.traffic.flow import Transfer

pytestmark = pytest.mark.skipif(not shutil.which("nft"), reason="needs nft: apt-get install nftables")

MIB = 1 << 20
# Bytes of the headers outside a packet: IP, UDP, and WireGuard's data message.
OUTER = {4: 20 + 8 + 32, 6: 40 + 8 + 32}
# Further bytes through a relay.
RELAY = 8
# The search of a path's limit ends at most so far below the exact one.
STEP = 8
# Least MTU of device and routes, and the one of the device before an MTU was found.
LEAST = 1280
DEFAULT = 1420
# Relays that the network map names in addition, so that it is longer than a packet.
RELAYS = 8


def network(layout, *, nodes=2, link=None, path=None, before=lambda net, router: None, started=lambda net: None, **families):
    """Makes joined nodes with a router between them. `link` is the MTU of all links; `path` is the longest packet that the router forwards to the nodes, without
    ICMP errors. `before` runs before the coordinator starts, `started` before the nodes start."""
    net = layout(nodes=nodes, routed=True, **families)
    router = net.lab.nodes["router"]
    if link:
        underlay.set_links(net.lab, *net.switches, mtu=link)
    if path:
        underlay.narrow(router, *net.switches[1:], mtu=path)
    before(net, router)
    net.coordinator.start()
    started(net)
    net.join(*net.nodes)
    net.wait_for_maps()
    return net


def assert_carries_a_mebibyte_both_ways(one, two):
    for source, target in ((one, two), (two, one)):
        assert Transfer(source.host, target.host, target.ipv4, size=MIB).finish()["equal"]


def settled(node, peer, least=0):
    """Waits until the MTU of the path to a peer is known; returns it."""
    wait_until(lambda: (mtu.path_mtu(node, peer) or 0) > least, f"{node.name} to know the MTU", details=node.process.tail)
    return mtu.path_mtu(node, peer)


def assert_full_pings_arrive(one, two):
    for source, target in ((one, two), (two, one)):
        for address in (target.ipv4, target.ipv6):
            sent, received = mtu.full_pings(source, address)
            assert received == sent, (source.name, address, mtu.packet_mtu(source, address))


def assert_full_pings_arrive_soon(one, two):
    """The other end sent no long packet since the path shrank, so its first ones find that out, and are lost. Its answers to pings are no longer than these."""
    mtu.full_pings(two, one.ipv4)
    assert_full_pings_arrive(one, two)


def test_fault_i1_a_path_of_1280_bytes_that_loses_icmp_carries_a_large_transfer(layout):
    one, two = network(layout, path=1280, ipv6=False).nodes
    one.ping_until_direct(two.name)
    assert_carries_a_mebibyte_both_ways(one, two)
    exact = 1280 - OUTER[4]
    assert exact - STEP <= settled(one, two) <= exact


def test_fault_i1_the_first_flight_is_full_size(layout):
    """Without any packet before, so that nothing is known of the path when TCP begins."""
    one, two = network(layout, path=1280, ipv6=False).nodes
    assert_carries_a_mebibyte_both_ways(one, two)


def test_fault_i1_the_control_channel_passes_a_path_that_loses_long_packets(layout):
    """Also to and from the coordinator the path carries 1,124 bytes, and the network map is longer."""
    net = network(layout, before=narrow_everywhere, started=lengthen_map)
    one, two = net.nodes
    assert len(one.status()["relays"]) > RELAYS
    one.ping_until_direct(two.name)
    # An offer of the node's endpoints reaches the other one through the coordinator, and a change of the map both of them.
    net.coordinator.cli("relays", "remove", "relay0")
    for node in net.nodes:
        node.wait_for(lambda status: len(status["relays"]) == RELAYS, "the relay to be gone")


def test_fault_i1_a_relay_over_websocket_passes_a_path_that_loses_long_packets(layout):
    def close(net, router):
        narrow_everywhere(net, router)
        underlay.only_tcp(router)

    one, two = network(layout, before=close, ipv6=False).nodes
    wait_until(lambda: one.ping(two.name, "-c", "1", check=False), "an answer through the relay", 2 * PATIENCE_S)
    assert_carries_a_mebibyte_both_ways(one, two)
    assert one.status()["relays"][0]["via"] == "websocket" and one.peer(two.name)["path"]["kind"] == "relayed"


def narrow_everywhere(net, router):
    underlay.narrow(router, *net.switches, mtu=1124)


def lengthen_map(net):
    """Adds relays that do not exist, so that the network map has more than 1,124 bytes."""
    for number in range(RELAYS):
        key = base64.b64encode(bytes([number + 1]) * 32).decode()
        net.coordinator.cli("relays", "add", f"relay{number}", key, *(f"203.0.113.{place}:3478" for place in range(1, 5)))


def test_fault_i2_a_path_below_the_minimum_of_ipv6_carries_a_large_transfer(layout):
    one, two = network(layout, path=1124, ipv6=False).nodes
    one.ping_until_direct(two.name)
    assert_carries_a_mebibyte_both_ways(one, two)
    assert settled(one, two) <= 1124 - OUTER[4]
    assert mtu.packet_mtu(one, two.ipv4) >= LEAST and mtu.packet_mtu(one, two.ipv6) >= LEAST
    assert_full_pings_arrive(one, two)


def test_fault_i3_forged_icmp_errors_do_not_shrink_a_path(layout):
    net = network(layout, ipv6=False)
    one, two = net.nodes
    one.ping_until_direct(two.name)
    before = settled(one, two)
    transfer = Transfer(one.host, two.host, two.ipv4)
    transfer.flows_on(MIB)
    port = one.status()["self"]["port"]
    for sender, receiver in ((one, two), (two, one)):
        words = (sender.host.ipv4, receiver.host.ipv4, port, 68, 100)
        net.lab.nodes["router"].run(sys.executable, "-I", Path(forged_icmp.__file__), *words)
        # The kernel believes the error, so it was a good one.
        assert "mtu" in sender.host.run("ip", "route", "get", receiver.host.ipv4).stdout
    transfer.flows_on(MIB)
    assert transfer.finish()["equal"]
    # The forged errors name less than 600 bytes. On a busy machine a lost probe may cost a few bytes for some seconds.
    found = (mtu.path_mtu(one, two), mtu.path_mtu(two, one))
    assert min(found) > before - 50, (found, before)
    assert_full_pings_arrive(one, two)


UNDERLAYS = {
    "1280 over IPv4": {"path": 1280, "ipv6": False},
    "1280 over IPv6": {"path": 1280, "ipv4": False},
    "1400 over IPv4": {"path": 1400, "ipv6": False},
    "1492 over IPv6": {"path": 1492, "ipv4": False},
    "1500 over IPv4": {"ipv6": False},
    "1500 over IPv6": {"ipv4": False},
    "9000 over IPv4": {"link": 9000, "ipv6": False},
    "9000 over IPv6": {"link": 9000, "ipv4": False},
}


@pytest.mark.parametrize("name", UNDERLAYS)
def test_fault_i1_no_packet_of_full_size_is_lost_from_the_first_one(layout, name):
    one, two = network(layout, **UNDERLAYS[name]).nodes
    assert_no_ping_is_lost_from_the_first_one(one, two)


def assert_no_ping_is_lost_from_the_first_one(one, two):
    """The MTU of the device changes meanwhile, and the kernel fragments pings that are longer."""
    for source, target in ((one, two), (two, one)):
        sent, received = mtu.full_pings(source, target.ipv4, length=DEFAULT, fragment=True)
        assert received == sent, (source.name, source.taut("status").stdout)


@pytest.mark.parametrize("name", UNDERLAYS)
def test_packets_of_full_size_arrive_after_the_first_second(layout, name):
    words = UNDERLAYS[name]
    one, two = network(layout, **words).nodes
    one.ping_until_direct(two.name)
    time.sleep(1)
    assert_full_pings_arrive(one, two)
    exact = (words.get("path") or words.get("link") or 1500) - OUTER[4 if words.get("ipv6") is False else 6]
    for here, there in ((one, two), (two, one)):
        assert exact - STEP <= settled(here, there) <= exact
        wait_until(lambda here=here, there=there: mtu.packet_mtu(here, there.ipv4) == max(mtu.path_mtu(here, there), LEAST), "the host to follow", details=here.process.tail)
    assert_full_pings_arrive(one, two)


def test_packets_of_full_size_arrive_through_a_relay_over_ipv6(layout):
    net = network(layout, ipv4=False, before=lambda net, router: underlay.only_relays(router, *net.switches[1:]))
    one, two = net.nodes
    assert_no_ping_is_lost_from_the_first_one(one, two)
    assert one.peer(two.name)["path"]["kind"] == "relayed"
    time.sleep(1)
    assert_full_pings_arrive(one, two)
    exact = 1500 - OUTER[6] - RELAY
    assert exact - STEP <= settled(one, two) <= exact


def test_each_direction_has_its_own_limit(layout):
    net = network(layout, ipv6=False, before=lambda net, router: underlay.narrow(router, net.switches[2], mtu=1400))
    one, two = net.nodes
    one.ping_until_direct(two.name)
    time.sleep(1)
    assert_full_pings_arrive(one, two)
    assert settled(one, two) <= 1400 - OUTER[4] < settled(two, one)
    assert_carries_a_mebibyte_both_ways(one, two)


@pytest.mark.parametrize("after", [1400, 1280, 1124])
def test_fault_i1_a_path_that_shrinks_under_traffic_carries_on(layout, after):
    net = network(layout, ipv6=False)
    one, two = net.nodes
    one.ping_until_direct(two.name)
    before = settled(one, two)
    transfer = Transfer(one.host, two.host, two.ipv4)
    transfer.flows_on(MIB)
    underlay.narrow(net.lab.nodes["router"], *net.switches[1:], mtu=after)
    transfer.flows_on(4 * MIB)
    wait_until(lambda: mtu.path_mtu(one, two) <= after - OUTER[4], "the shorter MTU to be found", details=one.process.tail)
    assert transfer.finish()["equal"] and before > after - OUTER[4]
    assert_full_pings_arrive_soon(one, two)


def test_an_interface_whose_mtu_shrinks_under_traffic_carries_on(layout):
    net = network(layout, ipv6=False)
    one, two = net.nodes
    one.ping_until_direct(two.name)
    settled(one, two)
    transfer = Transfer(one.host, two.host, two.ipv4)
    transfer.flows_on(MIB)
    underlay.set_links(net.lab, net.switches[1], mtu=1300)
    transfer.flows_on(4 * MIB)
    assert transfer.finish()["equal"]
    wait_until(lambda: mtu.path_mtu(one, two) <= 1300 - OUTER[4], "the shorter MTU to be found", details=one.process.tail)
    assert_full_pings_arrive_soon(one, two)


def test_peers_with_different_limits_have_routes_of_their_own(layout):
    def widen(net, router):
        underlay.set_links(net.lab, *net.switches[1:], mtu=9000)
        underlay.narrow(router, net.switches[3], mtu=1400)

    net = network(layout, nodes=3, ipv6=False, before=widen)
    net.connect()
    one, two, three = net.nodes
    for address, peer, limit in ((two.ipv4, two, None), (two.ipv6, two, None), (three.ipv4, three, 1400), (three.ipv6, three, 1400)):
        wanted = None if limit is None else settled(one, peer)
        wait_until(lambda a=address, w=wanted: mtu.device_mtu(one) > 8900 and mtu.route_mtu(one, a) == w, f"the route to {address} to follow", details=one.process.tail)
    assert mtu.route_mtu(one, three.ipv4) <= 1400 - OUTER[4]
    status = one.status()
    assert status["self"]["tun"]["mtu"] == mtu.device_mtu(one)
    for peer in (two, three):
        assert_full_pings_arrive(one, peer)
    # A program that removes the route is corrected, and the route has its MTU again.
    before = mtu.route_mtu(one, three.ipv4)
    one.host.run("ip", "route", "delete", three.ipv4, "dev", mtu.DEVICE)
    wait_until(lambda: mtu.route_mtu(one, three.ipv4) == before, "the route to return with its MTU", details=one.process.tail)
    one.host.run("ip", "route", "change", three.ipv4, "dev", mtu.DEVICE, "proto", "116", "scope", "link", "mtu", "9000")
    wait_until(lambda: mtu.route_mtu(one, three.ipv4) == before, "the MTU of the route to return", details=one.process.tail)


def test_an_mtu_that_the_user_chose_stays(layout):
    net = layout(nodes=2, routed=True, ipv6=False)
    underlay.narrow(net.lab.nodes["router"], *net.switches[1:], mtu=1400)
    net.coordinator.start()
    one, two = net.nodes
    one.start("--mtu", 1500)
    one.up(net.coordinator.join_token)
    net.join(two)
    net.wait_for_maps()
    one.ping_until_direct(two.name)
    wait_until(lambda: mtu.route_mtu(one, two.ipv4) == settled(one, two), "the route to have the MTU of the path", details=one.process.tail)
    assert mtu.device_mtu(one) == 1500
    assert_full_pings_arrive(one, two)


@pytest.mark.parametrize("end", ["down", "kill"])
def test_nothing_is_left_of_routes_with_an_mtu(layout, end):
    net = layout(nodes=2, routed=True, ipv6=False)
    one, two = net.nodes
    before = one.host.network_state()
    underlay.narrow(net.lab.nodes["router"], *net.switches[1:], mtu=1400)
    net.coordinator.start()
    net.join(one, two)
    net.wait_for_maps()
    one.ping_until_direct(two.name)
    settled(one, two)
    if end == "down":
        one.taut("down")
    else:
        one.kill()
    wait_until(lambda: one.host.network_state() == before, "nothing to be left", details=lambda: "\n".join(one.host.network_state()))


@pytest.mark.skipif(not shutil.which("wg"), reason="needs the program wg: apt-get install wireguard-tools")
@pytest.mark.parametrize("where", ["router", "interface"])
def test_datagrams_to_a_native_peer_are_fragmented_where_the_path_is_too_short(lab, where):
    """The MTU of the path to a native peer cannot be measured, so its datagrams may be fragmented: by routers, or by this host's kernel.

    Both ends are `taut wg`: wireguard-go forbids fragments, and its own long datagrams do not pass such a path.
    """
    switches = [lab.switch(f"switch{number}", ipv6=False) for number in (1, 2)]
    router = lab.router("router", *switches)
    one, two = pair(lab, switches=switches)
    if where == "router":
        underlay.narrow(router, *switches, mtu=1280)
    else:
        underlay.set_links(lab, *switches, mtu=1280)
    assert one.reaches("10.9.0.2")
    for source, target in ((one, "10.9.0.2"), (two, "10.9.0.1")):
        sent, received = mtu.full_pings(source, target, length=1420)
        assert sent == received
    assert Transfer(one.host, two.host, "10.9.0.2", size=MIB).finish()["equal"]
    assert Transfer(two.host, one.host, "10.9.0.1", size=MIB).finish()["equal"]
    assert fragments_made(router if where == "router" else one.host) > 100


def fragments_made(host):
    """Returns the number of IPv4 fragments that a host's kernel made."""
    names, values = (line.split() for line in host.run("cat", "/proc/net/snmp").stdout.splitlines() if line.startswith("Ip:"))
    return int(values[names.index("FragCreates")])


@pytest.mark.parametrize("option", [(), ("--mtu", 1500)], ids=["auto", "fixed"])
def test_the_status_shows_the_mtu_that_a_user_gave_the_device(layout, option):
    net = layout(nodes=1)
    [one] = net.nodes
    net.coordinator.start()
    one.start(*option)
    one.up(net.coordinator.join_token)
    one.wait_for(lambda status: status["self"]["tun"]["mtu"] == (option or (0, DEFAULT))[1], "to show its MTU")
    for length in (1300, 2000):
        one.host.ip(f"link set {mtu.DEVICE} mtu {length}")
        one.wait_for(lambda status, length=length: status["self"]["tun"]["mtu"] == length, "to show the MTU of the device")
