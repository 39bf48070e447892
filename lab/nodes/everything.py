"""A host that uses everything of Taut that changes a host, and the exit node and subnet router that it uses. Both are installed in the usual places."""

import sys

from ..hosts.wait import wait_until
from ..traffic import public_names
from .exits import SERVER, Exits, choose
from .installed import InstalledNode
from .resolver_host import ResolverHost
from .resolvers import ALL_RESOLVERS, write_plain
from .subnets import seen_as
from .taut import Coordinator

# The second network of the host: its name on the host, its own name, and its prefix.
WORK, OFFICE, PREFIX = "work", "office", "10.82.0.0/16"
# What the name server of the host's network answers to every question.
ANSWER = "11.0.0.66"


class Everything(Exits):
    """`own` has a resolver, is in two networks, is the router of a network behind it, uses the routes of `gate`, and `gate` as its exit node with local networks and kill switch. `gate` has both."""

    def __init__(self, lab, resolver="file"):
        super().__init__(lab, lan=True)
        self.office = Coordinator(lab.host("office", self.outside)).start("--network", OFFICE, "--ipv4-prefix", PREFIX)
        home, gateway = lab.switch("home"), lab.host("gateway", self.outside)
        self.client.host.connect(home)
        self.back_end, programs, start = ALL_RESOLVERS[resolver]
        own, gate = ResolverHost(self.client.host, *programs), ResolverHost(self.exits[0].host)
        server = self.coordinator.host.ipv4
        names = self.coordinator.host.start(sys.executable, "-I", public_names.__file__, server, ANSWER, name="names")
        names.wait_for_output("ready")
        self.machines = {"own": own, "gate": gate}
        start(own, server)
        write_plain(gate, server)
        own.host.ip(*(f"route replace default via {address} dev eth0" for address in gateway.addresses))
        # The strictest reverse path filter, which an exit node in use has to loosen.
        for host in (own.host, gate.host):
            host.run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.eth0.rp_filter=1")
        self.home, self.site = str(home.subnets[0]), str(self.lan.subnets[0])
        self.own, self.work, self.gate = InstalledNode(own), InstalledNode(own, WORK), InstalledNode(gate)

    def nodes(self, name):
        """Returns the nodes of a host."""
        return {"own": [self.own, self.work], "gate": [self.gate]}[name]

    def switch_on(self):
        """Installs both hosts where they are not, joins them where they are no members, switches everything on, and waits until it is in force."""
        self.begin(self.gate, "--advertise-exit-node", "--advertise-routes", self.site)
        self.begin(self.own)
        # An exit node's user asks for all names in another way than one whose own resolver asks the internet.
        uses = lambda status: status["self"]["names"]["resolver"]["by"] == self.back_end or status["exit"]["chosen"] != "none"
        self.own.wait_for(uses, f"its resolver to be {self.back_end}")
        self.own.taut("set", "--accept-routes", "--advertise-routes", self.home)
        self.work.up(self.office.join_token)
        for node, routes in ((self.gate, f"exit-node,{self.site}"), (self.own, self.home)):
            known = lambda node=node, route=routes.split(",")[-1]: f"{node.name} " in self.coordinator.cli("routes", "list").stdout
            wait_until(known, f"the coordinator to know the routes of {node.name}")
            self.coordinator.cli("routes", "approve", node.name, routes)
        self.gate.wait_for(lambda status: status["exit"]["is_exit"] and approved(status), "to be an exit node and a router")
        choose(self.own, self.gate.name, "--exit-node-allow-lan-access", "--kill-switch")
        self.own.wait_for(self.is_on, "everything to be in force")
        wait_until(lambda: seen_as(self.own.host, SERVER[0], timeout=0.5) == self.public(), "the internet to answer through the exit node")
        self.work.wait_for(lambda status: status["state"] == "running", "the second network")

    def begin(self, node, *settings):
        """Starts a node, and makes its settings where it does not keep them."""
        if not (node.machine.root / "usr/local/bin/taut").exists():
            node.install()
        node.up(self.coordinator.join_token)
        if settings:
            node.taut("set", *settings)

    def is_on(self, status):
        """Returns true if the status of `own` says that all of it is in force."""
        names, exit_ = status["self"]["names"], status["exit"]
        uses = any(one["route"] == self.site and one["via"] == self.gate.name for one in status["routes"]["peers"])
        return names["resolver"]["by"] and exit_["via"] == self.gate.name and status["kill_switch"]["in_force"] and uses and approved(status)


def approved(status):
    """Returns true if all routes of a node are approved."""
    return all(one["approved"] for one in status["routes"]["advertised"]) and status["routes"]["advertised"]
