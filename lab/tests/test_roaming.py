"""Addresses, routers, interfaces and families change under traffic: it continues, and the path follows (group D of docs/spec/faults.md)."""

import json
import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from lab.hosts import needs
from lab.hosts.wait import PATIENCE_S, wait_until
from lab.nodes.local_api import LocalApi
from lab.nodes.mesh import Mesh
from lab.nodes.taut import Coordinator, Node
from lab.traffic.flow import PingStream, Transfer, answers

from .steady_transfer import SOME, flows

BEHIND = pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft"))
CONES = ["port-restricted", "port-restricted"]


def path(node, peer):
    return node.peer(peer.name)["path"]


def ways(node, peer):
    """Returns the paths to `peer` that `node` knows, without relays."""
    with LocalApi(node) as api:
        return [way for way in api.ask("why", peer=peer.name)["ways"] if not way["relay"]]


def leads_through(nat, api, peer):
    """Returns the endpoint of the path to `peer` if `nat` maps it to the peer's host now, None if not."""
    endpoint = api.peer(peer.name)["path"]["endpoint"]
    return endpoint if endpoint in nat.mapped(peer.host.ipv4) else None


def known(node, peer):
    """Returns what both nodes know of their paths, for an error message; the present comes last, because CI keeps the end of long messages."""
    logs = [each.taut("log").stdout for each in (peer, node)]
    return "\n".join(logs + [json.dumps(ways(here, there)) for here, there in ((node, peer), (peer, node))])


@BEHIND
def test_fault_d1_an_address_that_changes_within_a_transfer_harms_nothing(behind):
    one, two = behind(CONES).nodes
    one.ping_until_direct(two.name)
    transfer = flows(one, two)
    own, gateway = one.host.ipv4, one.host.home.gateway[0]
    for address in ("192.168.1.101", "192.168.1.102", "192.168.1.103"):
        # The old address is removed first, as when a lease ends.
        one.host.ip(f"address del {own}/24 dev eth0", f"address add {address}/24 dev eth0", f"route replace default via {gateway}")
        own = address
        transfer.flows_on(SOME)
    assert transfer.finish()["equal"]
    one.ping_until_direct(two.name)
    two.ping_until_direct(one.name)


@BEHIND
def test_fault_d4_a_nat_that_changes_its_port_again_and_again_is_followed(behind):
    one, two = behind(["full-cone", "port-restricted"]).nodes
    one.ping_until_direct(two.name)
    transfer = flows(one, two)
    endpoints = set()
    for _ in range(5):
        one.host.nat.rebind()
        transfer.flows_on(SOME)
        # A NAT that has just changed its port twice looks symmetric, so the path may lead to one of the sockets that a node opens behind such a NAT.
        with LocalApi(two) as api:
            endpoints.add(wait_until(partial(leads_through, one.host.nat, api, one), "a direct path through the NAT", details=partial(known, two, one)))
    assert transfer.finish()["equal"]
    # A port is drawn from 16,384, so it may come twice.
    assert len(endpoints) >= 4 and len(ways(two, one)) <= 20, ways(two, one)


def test_fault_d6_a_family_that_swallows_everything_leaves_the_other_one(mesh):
    net = mesh(nodes=2, routed=True)
    one, two = net.nodes
    net.connect()
    transfer = flows(one, two)
    router = net.lab.nodes["router"]
    with LocalApi(one) as api:
        for family, forwards in (("4", "ipv6.conf.all.forwarding"), ("6", "ipv4.ip_forward"), ("4", "ipv6.conf.all.forwarding")):
            # The router silently drops one family. Nodes reach the coordinator and its relay over IPv4 only.
            setting = Path("/proc/sys/net") / forwards.replace(".", "/")
            router.run("sh", "-c", f"echo 0 > {setting}")
            host = two.host.ipv4 if family == "4" else f"[{two.host.ipv6}]"
            wait_until(lambda host=host: (api.peer(two.name)["path"]["endpoint"] or "").startswith(host), f"a direct path over IPv{family}")
            transfer.flows_on(SOME)
            router.run("sh", "-c", f"echo 1 > {setting}")
    assert transfer.finish()["equal"]


def test_fault_d6_d8_a_removed_address_costs_no_packet(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    net.connect()
    transfer = flows(one, two)
    for _ in range(2):
        used = path(one, two)["endpoint"].rpartition(":")[0].strip("[]")
        length, again = (64, "nodad") if ":" in used else (24, "")
        two.host.ip(f"address del {used}/{length} dev eth0")
        one.wait_for(lambda _, used=used: path(one, two)["kind"] == "direct" and used not in path(one, two)["endpoint"], "the other family")
        transfer.flows_on(SOME)
        two.host.ip(f"address add {used}/{length} dev eth0 {again}")
    assert transfer.finish()["equal"]


def test_fault_d7_a_better_interface_is_taken_with_its_address(lab):
    """Like a laptop on Wi-Fi to which a cable is connected: both networks work, and the routes prefer the cable."""
    air, wire, far = (lab.switch(name, ipv6=False) for name in ("air", "wire", "far"))
    router = lab.router("router", air, wire, far)
    slow, fast = (str(address) for address in router.addresses[:2])
    coordinator = Coordinator(lab.host("coord", far)).start()
    laptop, server = Node(lab.host("laptop", air)), Node(lab.host("server", far))
    laptop.host.ip(f"route del default via {slow}", f"route add default via {slow} metric 600")
    Mesh(lab, [air, wire, far], coordinator, [laptop, server]).join(laptop, server)
    laptop.wait_for_peers("server")
    server.ping_until_direct("laptop")
    transfer = flows(laptop, server)
    assert path(server, laptop)["endpoint"] == f"{laptop.host.ipv4}:8288"
    laptop.host.connect(wire)
    laptop.host.ip(f"route add default via {fast} metric 100")
    cable = str(laptop.host.addresses[-1])
    server.wait_for(lambda _: path(server, laptop)["endpoint"] == f"{cable}:8288", "the path to follow the routes")
    transfer.flows_on(SOME)
    # From here on the wireless network is unused: the laptop sends from its other address.
    seen, sent = laptop.host.counters("eth0")[1], laptop.host.counters("eth1")[1]
    transfer.flows_on(SOME)
    assert laptop.host.counters("eth1")[1] - sent > SOME > 10 * (laptop.host.counters("eth0")[1] - seen)
    laptop.host.ip("link set eth0 down")
    transfer.flows_on(SOME)
    assert transfer.finish()["equal"]


@BEHIND
@pytest.mark.parametrize("direction", ["in", "out"])
def test_fault_d9_a_path_that_dies_in_one_direction_is_left(behind, direction):
    one, two = behind(CONES).nodes
    one.ping_until_direct(two.name)
    transfer = flows(one, two)
    with LocalApi(one) as here, LocalApi(two) as there:
        there.wait_for_path(one.name, "direct")
        two.host.nat.black_hole(direction)
        # The node whose packets no longer arrive uses the relay; the other direction may stay direct.
        (here if direction == "in" else there).wait_for_path((two if direction == "in" else one).name, "relayed")
        transfer.flows_on(SOME)
        two.host.nat.restore()
        here.wait_for_path(two.name, "direct")
        there.wait_for_path(one.name, "direct")
    transfer.flows_on(SOME)
    assert transfer.finish()["equal"]


# In each of these pairs, private addresses do not reach the peer, or both hosts have the same one.
@BEHIND
@pytest.mark.parametrize(
    ("kind", "place"),
    [("port-restricted", "apart"), ("port-restricted", "same-lan"), ("hairpin", "isolated"), ("carrier", "same-carrier"), ("carrier", "apart")],
)
def test_fault_d12_equal_private_ranges_carriers_and_hairpins_connect(behind, kind, place):
    one, two = behind([kind, kind], place=place).nodes
    if place == "apart":
        assert one.host.ipv4 == two.host.ipv4, "the same address at both homes"
    outside = str((two.host.carrier or two.host.nat).external)
    for here, there in ((one, two), (two, one)):
        here.ping_until_direct(there.name)
    within = {"same-lan": two.host.ipv4, "same-carrier": None}.get(place, outside)
    assert within is None or path(one, two)["endpoint"].startswith(f"{within}:")
    assert Transfer(one.host, two.host, two.ipv4, size=SOME).finish()["equal"]


@BEHIND
def test_fault_d13_a_node_that_slept_is_back_soon_and_idle_afterwards(behind):
    """Stopped for longer than the lifetime of its sessions and of its NAT mapping. A unit test of the clocks of the daemon covers minutes of sleep."""
    one, two = behind(CONES, env={"TAUT_TEST_REKEY_AFTER_S": "1"}).nodes
    one.ping_until_direct(two.name)
    asleep = one.process.pid
    with PingStream(two.host, one.ipv4, interval=0.05) as beat:
        os.kill(asleep, signal.SIGSTOP)
        try:
            one.host.nat.rebind()
            time.sleep(6)
        finally:
            os.kill(asleep, signal.SIGCONT)
        with LocalApi(one) as here, LocalApi(two) as there:
            here.wait_for_path(two.name, "direct")
            there.wait_for_path(one.name, "direct")
        assert answers(two.host, one.ipv4, PATIENCE_S)
        beats = beat.finish()
    assert beats["sent"] > len(beats["answered"]) > 0
    before = ticks(asleep)
    time.sleep(2)
    # Two seconds have 200 ticks: a busy loop uses them all.
    assert ticks(asleep) - before < 50


def ticks(pid):
    """Returns the CPU time of a process so far in hundredths of a second (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
