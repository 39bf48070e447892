"""A whole network in one call: a coordinator and joined nodes."""

from dataclasses import dataclass

from ..hosts.net import Lab, Switch
from .taut import Coordinator, Node


@dataclass
class Mesh:
    """`nodes` are named node1, node2, … and are in that order; `switches` is one switch, or one per host when routed."""

    lab: Lab
    switches: list[Switch]
    coordinator: Coordinator
    nodes: list[Node]

    def join(self, *nodes):
        """Starts the daemons of these nodes and joins them."""
        for node in nodes:
            node.start()
            node.up(self.coordinator.join_token)

    def wait_for_maps(self):
        """Waits until the map of every node names all others."""
        for node in self.nodes:
            node.wait_for_peers(*(other.name for other in self.nodes if other is not node))

    def connect(self):
        """Waits until every pair of nodes has a direct path."""
        for node in self.nodes:
            for other in self.nodes:
                if other is not node:
                    node.ping_until_direct(other.name)


def lay_out(lab, nodes=2, ipv4=True, ipv6=True, routed=False, env=None):
    """Makes hosts and cables: all on one switch, or (`routed`) each on its own switch with a router between. Starts nothing.

    `env` is the environment of the daemons.
    """
    count = 1 + (nodes if routed else 0)
    switches = [lab.switch(f"switch{number}", ipv4, ipv6) for number in range(1, count + 1)]
    if routed:
        lab.router("router", *switches)
    coordinator = Coordinator(lab.host("coord", switches[0]))
    hosts = [lab.host(f"node{n}", switches[n if routed else 0]) for n in range(1, nodes + 1)]
    return Mesh(lab, switches, coordinator, [Node(host, env) for host in hosts])


def build(lab, **layout):
    """Does the work of `lay_out`, starts the coordinator and joins all nodes. Returns when the nodes know each other."""
    mesh = lay_out(lab, **layout)
    mesh.coordinator.start()
    mesh.join(*mesh.nodes)
    mesh.wait_for_maps()
    return mesh
