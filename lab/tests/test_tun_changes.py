"""Another program changes the TUN device under load, or removes it (fault I4)."""

import os
import time

import pytest

from lab.hosts.wait import wait_until
from lab.traffic.flow import Transfer

DEVICE = "taut0"
SECOND = os.sysconf("SC_CLK_TCK")


def ticks(process):
    """Returns the CPU time of a program so far in clock ticks (proc(5), utime and stime)."""
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def assert_rests(node):
    """Checks that two idle seconds cost at most a quarter of a second: a busy loop would cost both."""
    before = ticks(node.process)
    time.sleep(2)
    assert ticks(node.process) - before < SECOND / 4


@pytest.fixture
def loaded(mesh):
    """Two nodes, and a transfer between them that runs until the lab closes."""
    net = mesh(nodes=2)
    net.connect()
    one, two = net.nodes
    transfer = Transfer(one.host, two.host, two.ipv4)
    transfer.flows_on(20_000_000)
    return one, two, transfer


@pytest.mark.parametrize("change", ["name other0", "mtu 1300", "txqueuelen 10"])
def test_fault_i4_traffic_outlives_a_change_of_the_tun(loaded, change):
    one, two, transfer = loaded
    one.host.run("ip", "link", "set", DEVICE, *change.split())
    transfer.flows_on(20_000_000)
    assert transfer.finish()["equal"]
    assert one.process.alive and one.ping_until_direct(two.name)
    assert_rests(one)


def test_fault_i4_a_removed_tun_is_made_again(loaded):
    one, two, _ = loaded
    before = one.host.run("ip", "-o", "link", "show", DEVICE).stdout.partition(":")[0]
    one.host.run("ip", "link", "delete", DEVICE)

    def is_new_device():
        shown = one.host.run("ip", "-o", "link", "show", DEVICE, check=False).stdout
        return shown and shown.partition(":")[0] != before

    wait_until(is_new_device, "another device to be made", details=one.process.tail)
    assert one.ping_until_direct(two.name) and two.ping_until_direct(one.name)


def test_fault_i4_traffic_outlives_a_tun_that_was_set_down(loaded):
    one, two, transfer = loaded
    one.host.run("ip", "link", "set", DEVICE, "down")
    transfer.flows_on(20_000_000)
    assert transfer.finish()["equal"]
    assert one.process.alive and one.ping_until_direct(two.name)
    assert_rests(one)


def test_fault_i4_a_tun_that_is_kept_down_costs_nothing(mesh):
    node = mesh(nodes=1).nodes[0]
    node.host.start("sh", "-c", f"while :; do ip link set {DEVICE} down; sleep 0.05; done", name="down")
    node.wait_for(lambda status: status["problem"], "the problem to be reported")
    assert_rests(node)
    assert node.process.alive
