"""A whole network in one call: a coordinator and nodes that have joined."""

from dataclasses import dataclass

from ..hosts.net import Lab, Switch
from .taut import Coordinator, Node


@dataclass
class Mesh:
    """`nodes` are named node1, node2, … and stand in that order; `switches` is one, or one per host when routed."""

    lab: Lab
    switches: list[Switch]
    coordinator: Coordinator
    nodes: list[Node]

    def join(self, *nodes):
        """Starts these nodes' daemons and joins them."""
        for node in nodes:
            node.start()
            node.up(self.coordinator.join_token)

    def meet(self):
        """Waits until every node's map names all the others."""
        for node in self.nodes:
            node.wait_for_peers(*(other.name for other in self.nodes if other is not node))

    def connect(self):
        """Waits until every two nodes talk directly."""
        for node in self.nodes:
            for other in self.nodes:
                if other is not node:
                    node.reach(other.name)


def lay_out(lab, nodes=2, ipv4=True, ipv6=True, routed=False, env=None):
    """Hosts and cables: all on one switch, or (`routed`) each on its own with a router between. Nothing started.

    `env` goes to the nodes' daemons.
    """
    count = 1 + (nodes if routed else 0)
    switches = [lab.switch(f"switch{number}", ipv4, ipv6) for number in range(1, count + 1)]
    if routed:
        lab.router("router", *switches)
    coordinator = Coordinator(lab.host("coord", switches[0]))
    hosts = [lab.host(f"node{n}", switches[n if routed else 0]) for n in range(1, nodes + 1)]
    return Mesh(lab, switches, coordinator, [Node(host, env) for host in hosts])


def build(lab, **layout):
    """`lay_out`, then the coordinator is started, all nodes have joined and know each other."""
    mesh = lay_out(lab, **layout)
    mesh.coordinator.start()
    mesh.join(*mesh.nodes)
    mesh.meet()
    return mesh
