"""An exit node's routing on the host, and the kill switch: what leaves in the clear, and what is left behind."""

import json
import signal

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.exits import SERVER
from lab.nodes.full_tunnel import FullTunnel
from lab.nodes.subnets import seen_as, serve

PUBLIC = "203.0.113.0/24"


def rules(host, family=""):
    """Returns our routing rules of a family."""
    lines = host.run("ip", *family.split(), "rule", "show").stdout.splitlines()
    return [line for line in lines if "proto 116" in line]


def guard(host):
    """Returns the kill switch's table, or an empty text."""
    return host.run("nft", "list", "table", "inet", "taut0_kill_switch", check=False).stdout


def nothing_clear(capture, talk):
    talk.wait()
    found = capture.finish()
    assert found["clear"] == 0 and found["frames"] > 0, found
    return found


def test_fault_j7_everything_but_our_own_packets_takes_the_exit_node(lab):
    net = FullTunnel(lab)
    net.choose()
    host = net.client.host
    capture, talk = net.listen(), net.talk()
    assert seen_as(host, SERVER[1]) == net.public(ipv6=True)
    # Without the kill switch a program that chooses the interface itself is not held back; routes decide about all others.
    talk.end()
    capture.finish()
    # The local network is out of reach, and within it with the setting.
    serve(net.bystander, 7171)
    assert seen_as(host, net.bystander.ipv4, 7171, timeout=0.5) is None
    net.client.taut("set", "--exit-node-allow-lan-access")
    wait_until(lambda: seen_as(host, net.bystander.ipv4, 7171, timeout=0.5) == host.ipv4, "the local network to answer")
    net.client.taut("set", "--exit-node", "none")
    wait_until(lambda: not rules(host), "the rules to be gone")
    assert not rules(host, "-6") and "taut0_exit" not in host.run("nft", "list", "tables").stdout
    assert seen_as(host, SERVER[0], timeout=0.5) is None
