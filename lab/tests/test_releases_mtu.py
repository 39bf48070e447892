"""The length of packets between the previous release and a current node. The release answers probes of every length but measures nothing itself, and it joins no pieces."""

import pytest

from lab.hosts import needs, path_mtu
from lab.hosts.wait import wait_until
from lab.nodes import mtu, releases
from lab.nodes.local_api import LocalApi
from lab.traffic.flow import Transfer

from .full_size import OUTER, wait_for_mtu
from .steady_transfer import SOME

OLD = releases.previous()
pytestmark = [
    pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft")),
    pytest.mark.skipif(bool(releases.lacking(OLD)), reason=releases.lacking(OLD)),
]
# MTU of the release's device, in bytes.
OLD_MTU = 1420
# MTU of the narrow underlay, and the longest packet of the release that passes it: the release pads to a multiple of 16.
NARROW = 1400
PADDED = (NARROW - OUTER) // 16 * 16


def meet(layout, underlay, *options):
    """Joins a current node and one of the release, whose daemon has these options, over an underlay of this MTU without ICMP errors. Returns both."""
    net = layout(nodes=2, routed=True, ipv6=False)
    if underlay > 1500:
        path_mtu.set_links(net.lab, *net.switches, mtu=underlay)
    elif underlay < 1500:
        path_mtu.narrow(net.lab.nodes["router"], *net.switches[1:], mtu=underlay)
    new, old = net.nodes
    old.release = OLD
    net.coordinator.start()
    net.join(new)
    old.start(*options)
    old.up(net.coordinator.join_token)
    net.wait_for_maps()
    net.connect()
    wait_for_mtu(new, old, underlay - OUTER)
    return new, old


def all_arrive(source, address, length):
    """Returns true if all of a run of pings arrive. A busy machine delays receipts, and while a node doubts a length, it has no pieces for the release."""
    sent, received = mtu.full_pings(source, address, length)
    return received == sent


def assert_carries(source, target):
    assert Transfer(source.host, target.host, target.ipv4, size=SOME).finish()["equal"]


@pytest.mark.parametrize("underlay", [1500, 9000])
def test_packets_of_full_size_pass_both_ways(layout, underlay):
    new, old = meet(layout, underlay)
    assert mtu.device_mtu(old) == OLD_MTU
    # The current node sends what it measured; the release keeps its MTU.
    for source, target, length in ((new, old, mtu.packet_mtu(new, old.ipv4)), (new, old, OLD_MTU), (old, new, OLD_MTU)):
        wait_until(lambda words=(source, target.ipv4, length): all_arrive(*words), f"all pings of {length} bytes from {source.name}")
    assert_carries(new, old)
    assert_carries(old, new)


def test_a_shorter_path_carries_what_the_current_node_sends_and_the_release_says_why_not_the_rest(layout):
    new, old = meet(layout, NARROW)
    assert_carries(new, old)
    with LocalApi(new) as api:
        ways = api.ask("why", peer=old.name)["ways"]
    assert [(way["mtu"], way["mtu_cause"]) for way in ways if not way["relay"]] == [(NARROW - OUTER, "probes")]
    # The release sends its packets whole, whatever the path carries.
    _, received = mtu.full_pings(old, new.ipv4, OLD_MTU)
    assert received == 0
    assert "packets too long for it" in old.taut("why", new.name).stdout


def test_the_release_with_the_mtu_of_a_shorter_path_is_reached_both_ways(layout):
    new, old = meet(layout, NARROW, "--mtu", PADDED)
    for source, target in ((new, old), (old, new)):
        wait_until(lambda words=(source, target.ipv4): all_arrive(*words, PADDED), f"all pings from {source.name}")
        assert_carries(source, target)
