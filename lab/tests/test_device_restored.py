"""Another program removes the link, addresses or routes of the overlay: the node restores them (fault J11)."""

import re

import pytest

from lab.hosts.wait import wait_until
from lab.traffic.flow import ping

DEVICE = "taut0"
# Longest time until a restoration in seconds: a try per minute, and ten seconds in which everything must stay.
SLOW_S = 240


def configured(node, device=DEVICE):
    """Returns the configuration of the device: its state, addresses and routes."""
    lines = []
    for view in ("link show up dev", "address show dev", "-4 route show dev", "-6 route show proto 116 dev"):
        shown = node.host.run("ip", "-o", *view.split(), device, check=False).stdout.replace(device, DEVICE).splitlines()
        lines += ["up"] * bool(shown) if view.startswith("link") else sorted(shown)
    return lines


def assert_meets(one, two):
    for address in (two.ipv4, two.ipv6):
        wait_until(lambda: ping(one.host, address, count=1)["received"], f"{address} to answer", details=one.process.tail)
        assert ping(one.host, address, count=3)["received"] == 3


@pytest.fixture
def two_nodes(mesh):
    net = mesh(nodes=2)
    net.connect()
    one, two = net.nodes
    # Up, two addresses, and the routes to the peer and to the node's own name server.
    assert len(configured(one)) == 7, configured(one)
    return one, two


CHANGES = {
    "down": ["link set {device} down"],
    "down and up": ["link set {device} down", "link set {device} up"],
    "own ipv4": ["address delete {own4}/32 dev {device}"],
    "own ipv6": ["address delete {own6}/128 dev {device}"],
    "all addresses": ["address flush dev {device}"],
    "route of ipv4": ["route delete {peer4} dev {device}"],
    "route of ipv6": ["route delete {peer6} dev {device}"],
    "all routes": ["route flush dev {device}", "-6 route flush dev {device}"],
    "renamed and down": ["link set {device} down", "link set {device} name other0"],
}


@pytest.mark.parametrize("change", CHANGES)
def test_fault_j11_removed_settings_are_restored(two_nodes, change):
    one, two = two_nodes
    before = configured(one)
    words = {"device": DEVICE, "own4": one.ipv4, "own6": one.ipv6, "peer4": two.ipv4, "peer6": two.ipv6}
    for command in CHANGES[change]:
        one.host.run("ip", *command.format(**words).split())
    device = "other0" if change == "renamed and down" else DEVICE
    wait_until(
        lambda: configured(one, device) == before,
        "everything to be as before",
        details=lambda: f"{before}\n{configured(one, device)}\n{one.process.tail()}",
    )
    assert_meets(one, two)
    assert_meets(two, one)
    assert one.status()["problem"] is None


def test_fault_j11_additions_of_other_programs_and_the_mtu_are_left_alone(two_nodes):
    one, two = two_nodes
    one.host.ip(f"link set {DEVICE} mtu 1300", f"address add 192.0.2.7/32 dev {DEVICE}", f"route add 198.51.100.7/32 dev {DEVICE}")
    one.host.ip(f"route delete {two.ipv4} dev {DEVICE}")
    assert_meets(one, two)
    shown = one.host.run("ip", "address", "show", "dev", DEVICE).stdout + one.host.run("ip", "route").stdout
    assert "mtu 1300" in shown and "192.0.2.7" in shown and "198.51.100.7" in shown
    one.wait_for(lambda status: status["self"]["tun"]["mtu"] == 1300, "status to show the MTU")
    former = re.search(r"another program changed the MTU .* from=(\d+) to=1300", one.taut("log").stdout).group(1)
    # It follows the path again once the former MTU is back.
    one.host.ip(f"link set {DEVICE} mtu {former}")
    one.wait_for(lambda status: status["self"]["tun"]["mtu"] == 1440, "the device to follow the path")
    assert one.status()["problem"] is None


def test_fault_j11_a_device_that_was_moved_away_is_made_again(two_nodes, lab):
    one, two = two_nodes
    elsewhere = lab.host("elsewhere")
    one.host.run("ip", "link", "set", DEVICE, "netns", elsewhere.namespace)
    assert_meets(one, two)
    assert one.status()["problem"] is None
    assert DEVICE not in elsewhere.run("ip", "link").stdout


@pytest.mark.parametrize("outlived", [False, True], ids=["named", "outlived"])
def test_fault_j11_a_program_that_repeats_itself_is_named_and_outlived(two_nodes, outlived):
    """Until it ends, the node tries once a minute, so the second half is for the night."""
    one, two = two_nodes
    monitor = one.host.start("ip", "-o", "monitor", "address", "dev", DEVICE, name="monitor")
    hostile = one.host.start("sh", "-c", f"while :; do ip address flush dev {DEVICE}; sleep 0.05; done", name="hostile")
    status = one.wait_for(lambda status: status["problem"], "a problem to be reported")
    assert "another program" in status["problem"]["message"] and one.ipv4 in status["problem"]["message"], status["problem"]
    assert status["state"] == "running"
    assert "another program" in one.taut("status").stdout
    # The overlay's other routes work meanwhile.
    ping(one.host, two.host.ipv4, count=10, interval=0.5)
    added = [line for line in monitor.output().splitlines() if one.ipv4 in line and "Deleted" not in line]
    assert 1 <= len(added) <= 5, added
    if not outlived:
        return
    hostile.kill()
    one.wait_for(lambda status: status["problem"] is None, "the problem to be over", timeout=SLOW_S)
    assert_meets(one, two)
    # The next fault is repaired like the first.
    one.host.run("ip", "link", "set", DEVICE, "down")
    assert_meets(one, two)
    assert one.status()["problem"] is None


def test_fault_j11_a_route_of_another_program_is_warned_of_and_left_alone(two_nodes):
    one, two = two_nodes
    one.host.run("ip", "route", "replace", f"{two.ipv4}/32", "dev", "eth0")
    status = one.wait_for(lambda status: status["warnings"], "a warning")
    assert two.ipv4 in status["warnings"][0]["message"] and status["problem"] is None, status
    assert "dev eth0" in one.host.run("ip", "route", "show", two.ipv4).stdout
    assert ping(one.host, two.ipv6, count=3)["received"] == 3
    one.host.run("ip", "route", "delete", f"{two.ipv4}/32", "dev", "eth0")
    assert_meets(one, two)
    assert one.wait_for(lambda status: not status["warnings"], "no warning")["problem"] is None
