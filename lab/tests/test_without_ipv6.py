"""Hosts with IPv6 switched off, and kernels without IPv6 (fault J12)."""

import sys

import pytest

from lab.hosts import without_sockets
from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes.relay import Relay
from lab.nodes.taut import PORT
from lab.traffic.flow import ping

DEVICE = "taut0"
BLIND = (sys.executable, "-I", without_sockets.__file__, "ipv6")


def switch(host, off, where="all"):
    host.run("sh", "-c", f"echo {int(off)} > /proc/sys/net/ipv6/conf/{where}/disable_ipv6")


def assert_ipv4_alone(node, other):
    status = node.status()
    assert status["state"] == "running" and status["problem"] is None
    assert status["self"]["tun"]["ipv6"] is False
    assert "carries IPv4 alone" in status["warnings"][0]["message"], status["warnings"]
    text = node.taut("status").stdout
    assert "IPv4 only" in text and "carries IPv4 alone" in text
    assert ping(node.host, other.ipv4, count=3)["received"] == 3
    assert "proto 116" not in node.host.run("ip", "-6", "route", check=False).stdout


def assert_both(node, other):
    node.wait_for(lambda status: status["self"]["tun"]["ipv6"] and not status["warnings"], "IPv6 to be taken up")
    for address in (other.ipv4, other.ipv6):
        wait_until(lambda: ping(node.host, address, count=1)["received"], f"{address} to answer", details=node.process.tail)
        assert ping(node.host, address, count=3)["received"] == 3


def test_fault_j12_a_host_with_ipv6_switched_off_joins_with_ipv4_and_takes_ipv6_up_later(layout):
    net = layout(nodes=2)
    net.coordinator.start()
    one, two = net.nodes
    switch(one.host, True)
    switch(one.host, True, "default")
    messages = []
    for node in (one, two):
        node.start()
        messages.append(node.up(net.coordinator.join_token).stderr)
    assert "carries IPv4 alone" in messages[0] and "IPv4" not in messages[1]
    net.wait_for_maps()
    net.connect()
    assert_ipv4_alone(one, two)
    assert ping(two.host, one.ipv4, count=3)["received"] == 3

    switch(one.host, False)
    assert_both(one, two)
    assert_both(two, one)
    # IPv6 is switched off again, for the device only.
    switch(one.host, True, DEVICE)
    one.wait_for(lambda status: status["self"]["tun"]["ipv6"] is False, "the loss to be noticed")
    assert_ipv4_alone(one, two)
    one.restart()
    switch(one.host, False, DEVICE)
    assert_both(one, two)


def test_fault_j12_a_device_whose_mtu_is_too_small_for_ipv6_carries_ipv4(mesh):
    net = mesh(nodes=2)
    net.connect()
    one, two = net.nodes
    one.wait_for(lambda status: status["peers"][0]["path"]["mtu"], "the MTU of the path to be known: the device follows it once")
    one.host.ip(f"link set {DEVICE} mtu 1200")
    one.wait_for(lambda status: status["self"]["tun"]["ipv6"] is False, "the loss to be noticed")
    assert_ipv4_alone(one, two)
    one.host.ip(f"link set {DEVICE} mtu 1420")
    assert_both(one, two)


@pytest.mark.skipif(not without_sockets.possible(), reason="needs a kernel with seccomp filters on a known processor")
def test_fault_j12_coordinator_relay_and_nodes_run_on_kernels_without_ipv6(layout):
    net = layout(nodes=2, ipv6=False)
    for host in (net.coordinator.host, *(node.host for node in net.nodes)):
        switch(host, True)
        switch(host, True, "default")
        host.prefix = [*BLIND]
    coordinator, (one, two) = net.coordinator, net.nodes
    # By default it listens on both families.
    words = ("serve", "--state", coordinator.host.state / "coordinator", "--url", coordinator.url)
    coordinator.process = coordinator.host.start(binary("taut-coordinator"), *words, name="coordinator")
    coordinator.process.wait_for_output(f"listening on 0.0.0.0:{PORT}")
    assert "ipv4-only" in coordinator.process.err.read_text(encoding="utf-8")
    coordinator.take_first_tokens()
    relay = net.lab.host("relay", net.switches[0])
    switch(relay, True)
    relay.prefix = [*BLIND]
    Relay(relay, coordinator).start()
    net.join(one, two)
    net.wait_for_maps()
    net.connect()
    assert_ipv4_alone(one, two)
    one.wait_for(lambda status: any(relay["name"] == "relay" and relay["latency_ms"] for relay in status["relays"]), "the relay to answer")
