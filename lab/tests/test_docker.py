"""Containers of Docker on a host that uses an exit node: what they send takes the exit node or goes nowhere, and never leaves in the clear."""

import pytest

from lab.hosts.needs import missing_reason
from lab.hosts.wait import wait_until
from lab.nodes.docker import Docker
from lab.nodes.exits import SERVER
from lab.nodes.full_tunnel import TARGETS, FullTunnel, Talk
from lab.nodes.subnets import seen_as, serve
from lab.runs import kill_switch as schedules

pytestmark = pytest.mark.skipif(bool(missing_reason("iptables-nft", "iptables-legacy")), reason=missing_reason("iptables-nft", "iptables-legacy"))
# The two kinds of iptables, with which Docker works.
VARIANTS = ("nft", "legacy")
PORT = 8080


def with_container(lab, variant):
    net = FullTunnel(lab)
    return net, Docker(lab, net.client.host, variant)


def wait_for_container(net, docker):
    """Waits until the internet answers the container through the exit node, over both families."""
    for six in (False, True):
        answers = lambda six=six: seen_as(docker.container, SERVER[six], timeout=0.5) == net.public(ipv6=six)
        wait_until(answers, f"the internet to answer the container at {SERVER[six]}")


@pytest.mark.parametrize("variant", VARIANTS)
def test_fault_j10_containers_take_the_exit_node_and_nothing_of_them_leaves_in_the_clear(lab, variant):
    net, docker = with_container(lab, variant)
    capture, talk = net.listen(), Talk(docker.container, TARGETS)
    # The witness: without an exit node they are seen.
    talk.wait()
    seen = capture.count()
    assert seen > 0
    net.choose()
    wait_for_container(net, docker)
    before = capture.count()
    for fault in (schedules.device_removed, schedules.routes_distributed, schedules.exit_away):
        talk.wait()
        fault(net, talk)
    docker.restart()
    net.wait_for_tunnel()
    wait_for_container(net, docker)
    found = capture.finish()
    assert found["clear"] == before, found


@pytest.mark.parametrize("variant", VARIANTS)
def test_fault_j10_the_kill_switch_holds_containers_too(lab, variant):
    net, docker = with_container(lab, variant)
    net.choose("exit1", "--kill-switch")
    wait_for_container(net, docker)
    capture, talk = net.listen(), Talk(docker.container, TARGETS)
    faults = (schedules.killed, schedules.restarted, schedules.stopped, schedules.device_removed, schedules.routes_distributed, schedules.rules_flushed, schedules.cable_pulled, schedules.exit_away)
    for fault in faults:
        talk.wait()
        fault(net, talk)
    docker.restart()
    # Nobody runs, and Docker starts again.
    net.client.stop()
    docker.restart()
    talk.wait()
    assert seen_as(docker.container, SERVER[0], timeout=0.5) is None
    net.client.start()
    net.wait_for_tunnel()
    wait_for_container(net, docker)
    found = capture.finish()
    assert found["clear"] == 0 and found["sealed"] > 0, found


@pytest.mark.parametrize("variant", VARIANTS)
def test_fault_j10_published_ports_are_answered_the_way_the_connection_came(lab, variant):
    net, docker = with_container(lab, variant)
    serve(docker.container)
    docker.publish(PORT, 7070)
    net.choose()
    host, source = net.client.host, net.bystander
    # Docker hides nobody's address from the container.
    assert seen_as(source, host.ipv4, PORT, timeout=1) == source.ipv4
    assert seen_as(source, host.ipv6, PORT, timeout=1) == source.ipv6
    net.client.taut("set", "--kill-switch")
    assert seen_as(source, host.ipv4, PORT, timeout=0.5) is None
    net.client.taut("set", "--exit-node-allow-lan-access")
    wait_until(lambda: seen_as(source, host.ipv4, PORT, timeout=0.5) == source.ipv4, "the published port to answer the local network")
    assert seen_as(source, host.ipv6, PORT, timeout=1) == source.ipv6
    # Members of the overlay reach it, too, at the overlay address.
    assert seen_as(net.exits[0].host, net.client.ipv4, PORT, timeout=1) == net.exits[0].ipv4
