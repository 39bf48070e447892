"""Routes of a host that lead to the overlay's own servers through the overlay: little extra traffic, and everything is back without them (fault I8)."""

import time

from lab.nodes.mtu import DEVICE

# Most bytes that a few pings may cost on all interfaces of a host whose routes make a loop.
BOUND = 70_000


def sent_by_pings(host, address, *interfaces):
    """Sends pings for a second, answered or not, and returns the bytes that these interfaces have sent until half a second later."""
    before = [host.counters(interface)[1] for interface in interfaces]
    host.run("ping", "-n", "-q", "-i", "0.2", "-w", "1", address, check=False)
    time.sleep(0.5)
    return sum(host.counters(interface)[1] - was for interface, was in zip(interfaces, before, strict=True))


def test_fault_i8_routes_to_the_peer_and_to_its_relay_through_the_overlay_make_no_storm(mesh):
    net = mesh(nodes=2, ipv6=False)
    one, two = net.nodes
    net.connect()
    # The address of the peer first, so that the relay remains, and then that of the relay, too.
    loops = [two.host.ipv4, net.coordinator.address]
    for address in loops:
        one.host.ip(f"route add {address}/32 dev {DEVICE}")
        assert sent_by_pings(one.host, two.ipv4, "eth0", DEVICE) < BOUND
    assert one.status()["drops"]["out-no-route"] > 0
    one.host.ip(*(f"route del {address}/32 dev {DEVICE}" for address in loops))
    net.connect()
