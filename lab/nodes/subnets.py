"""Subnet routers: nodes with a network behind them, and plain hosts in those networks that run nothing of ours."""

import sys

from ..hosts.wait import wait_until
from .taut import Coordinator, Node

# Answers each connection with the address of the client, as the host sees it, and with the longest segment that it would send.
_WHO = (
    "import socket,sys\n"
    "s=socket.create_server(('::',int(sys.argv[1])),family=socket.AF_INET6,dualstack_ipv6=True)\n"
    "print('ready',flush=True)\n"
    "while True:\n"
    " c,a=s.accept(); m=c.getsockopt(socket.IPPROTO_TCP,socket.TCP_MAXSEG)\n"
    " c.sendall(f\"{a[0].removeprefix('::ffff:')} {m}\".encode()); c.close()\n"
)
_ASK = (
    "import socket,sys\n"
    "s=socket.create_connection((sys.argv[1],int(sys.argv[2])),timeout=float(sys.argv[3])); m=s.getsockopt(socket.IPPROTO_TCP,socket.TCP_MAXSEG)\n"
    "print(s.recv(99).decode(),m)\n"
)
PORT = 7070


class Subnets:
    """A coordinator, a client and `sites` routers on one network. Behind each router is a LAN with one plain host, whose gateway is the router if `gateways`.

    `shared`: all routers have the same LAN behind them. The routers forward nothing before their daemons run.
    """

    def __init__(self, lab, sites=1, shared=False, gateways=False):
        self.outside = lab.switch("outside")
        self.coordinator = Coordinator(lab.host("coord", self.outside)).start()
        self.client = Node(lab.host("client", self.outside))
        lans = [lab.switch(f"lan{number}") for number in range(1, (1 if shared else sites) + 1)]
        self.lans = lans * sites if shared else lans
        self.routers = [Node(lab.host(f"router{number}", self.outside, lan)) for number, lan in enumerate(self.lans, 1)]
        self.hosts = [lab.host(f"plain{number}", lan) for number, lan in enumerate(lans, 1)]
        if gateways:
            for host, router in zip(self.hosts, self.routers, strict=False):
                host.use_gateway([address for address in router.host.addresses[2:]])
        for host in self.hosts:
            serve(host)

    def prefixes(self, site=0):
        """Returns the prefixes of a site's LAN: IPv4, IPv6."""
        return [str(subnet) for subnet in self.lans[site].subnets]

    def start(self, *nodes, options=()):
        """Starts daemons with these options, and joins them."""
        for node in nodes:
            node.start(*options)
            node.up(self.coordinator.join_token)

    def start_router(self, site=0, *options, routes=None):
        """Starts the router of a site, which advertises the LAN's IPv4 prefix, or `routes`."""
        router = self.routers[site]
        self.start(router, options=("--advertise-routes", routes or self.prefixes(site)[0], *options))
        return router

    def approve(self, router, routes, node=None):
        """Approves routes; returns when the router knows."""
        self.wait_for_proposal(router)
        self.coordinator.cli("routes", "approve", router.name, routes)
        router.wait_for(lambda status: all(one["approved"] for one in status["routes"]["advertised"]), "its routes to be approved")

    def wait_for_proposal(self, router):
        """Waits until the coordinator knows what a router advertises."""
        wait_until(lambda: router.name in self.coordinator.cli("routes", "list").stdout, f"the coordinator to know the routes of {router.name}")

    def wait_for_route(self, node, route, via):
        """Waits until a node sends packets to a prefix through this router."""

        def carries(status):
            return any(one["route"] == route and one["via"] == via.name for one in status["routes"]["peers"])

        return node.wait_for(carries, f"{route} to be reached through {via.name}")


def serve(host, port=PORT):
    """Runs a service on a plain host that answers with the client's address."""
    service = host.start(sys.executable, "-I", "-c", _WHO, port, name=f"who-{port}")
    service.wait_for_output("ready")


def seen_as(source, address, port=PORT, timeout=3):
    """Connects from a host; returns the client's address as the service sees it, or None without an answer."""
    answer = segments(source, address, port, timeout)
    return answer and answer[0]


def segments(source, address, port=PORT, timeout=3):
    """Connects from a host; returns the client's address, and the longest segment that the service and the client would send. None without an answer."""
    done = source.run(sys.executable, "-I", "-c", _ASK, address, port, timeout, check=False)
    words = done.stdout.split()
    return (words[0], int(words[1]), int(words[2])) if done.returncode == 0 and len(words) == 3 else None
