"""Nodes behind a router that maps ports: the mapping gives them a direct path."""

import subprocess

import pytest

from lab.hosts import needs
from lab.hosts.nats import KINDS
from lab.hosts.nats.router import NatRouter
from lab.hosts.net import Switch
from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes.gateway import OUTSIDE, HomeRouter
from lab.nodes.mesh import Mesh
from lab.nodes.taut import Coordinator, Node

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("miniupnpd", "nft")), reason=needs.missing_reason("miniupnpd", "nft"))


@pytest.fixture(autouse=True)
def a_program_that_asks():
    """Programs of an earlier build, from TAUT_BIN_DIR, may lack port mapping."""
    answer = subprocess.run([binary("taut"), "daemon", "--help"], capture_output=True, text=True, check=True).stdout
    if "--no-portmap" not in answer:
        pytest.skip("this build of taut has no --no-portmap: it asks no router for ports")


def two_homes(lab):
    """A node behind a port-restricted router with miniupnpd, and one behind a symmetric NAT: hole punching cannot work between them."""
    home = HomeRouter(lab)
    coordinator = Coordinator(lab.host("coord", home.outside))
    office = Switch(lab, "office", [next(OUTSIDE.supernet(new_prefix=8).subnets(new_prefix=24))])
    NatRouter(lab, "strict", KINDS["symmetric"], office, home.outside, OUTSIDE)
    nodes = [Node(lab.host("one", home.inside)), Node(lab.host("two", office))]
    home.serve()
    return home, Mesh(lab, [home.inside, office, home.outside], coordinator, nodes)


def test_a_mapped_port_brings_a_direct_path_through_a_symmetric_nat(lab):
    home, mesh = two_homes(lab)
    one, two = mesh.nodes
    mesh.coordinator.start()
    mesh.join(one, two)
    status = one.wait_for(lambda status: (status["port_mapping"] or {}).get("mapped"), "a port to be mapped")
    assert status["port_mapping"] | {"mapped": [f"{home.outer}:8288"], "protocol": "PCP"} == status["port_mapping"]
    # The router of the office does not answer; node two reports that.
    two.wait_for(lambda status: (status["port_mapping"] or {}).get("problem"), "no port to be mapped")
    mesh.wait_for_maps()
    # Node two can initiate; the other direction needs a relay, or this session.
    two.ping_until_direct("one")
    one.ping_until_direct("two")
    assert two.peer("one")["path"]["endpoint"] == f"{home.outer}:8288"
    assert home.outer in one.taut("status").stdout
    # A node that ends deletes its mapping.
    one.stop()
    wait_until(lambda: not home.mappings(), "the mapping to go", details=one.process.tail)


def test_without_port_mapping_the_gateway_hears_nothing(lab):
    home, mesh = two_homes(lab)
    one, two = mesh.nodes
    mesh.coordinator.start()
    for node in mesh.nodes:
        node.start("--no-portmap")
        node.up(mesh.coordinator.join_token)
    mesh.wait_for_maps()
    one.wait_for(lambda status: status["state"] == "running", "the node to be up")
    assert one.status()["port_mapping"] is None
    # A node with port mapping would have sent its requests long before; the test above shows this on the same links.
    one.ping("two", "-c", "5", check=False)
    assert (home.asked(), home.mappings()) == (0, [])
    assert not two.process.returncode
