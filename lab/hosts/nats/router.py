"""A NAT router in a namespace, and the faults that can happen to it."""

import dataclasses
import json
import sys
from pathlib import Path

from ..net import FORWARDING, SETTINGS, Host
from ..wait import LabError
from . import rules

# A router that forwards within one network would redirect its hosts to the direct route.
NO_REDIRECTS = ("net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.default.send_redirects=0")
_FLUSH = (sys.executable, "-I", str(Path(__file__).with_name("flush.py")))


class NatRouter(Host):
    """A router of `kind` between the switch `inside` and the switch `outside`; it is the gateway of the hosts inside."""

    def __init__(self, lab, name, kind, inside, outside, servers):
        super().__init__(lab, name, (), settings=SETTINGS + FORWARDING + NO_REDIRECTS)
        self.kind = kind
        self.servers = servers
        self.outside = outside
        self.insides = []
        self._generation = 0
        self._broken = set()
        self._join(inside, "eth0")
        self.external = self.connect(outside)[0].ip
        self._port = f"{name}.1"
        timeouts = ("udp_timeout", "udp_timeout_stream")
        writes = (f"echo {kind.timeout_s} > /proc/sys/net/netfilter/nf_conntrack_{name}" for name in timeouts)
        self._load()
        self.run("sh", "-ec", "\n".join(writes))

    def guests(self, switch):
        """Adds an inside network that the router keeps apart from the first."""
        self._join(switch, f"eth{self._links}")
        self._load()

    def forget(self):
        """Deletes flows and filters, as a restart does that keeps the table of ports: no host can send in before one has sent out."""
        if self.kind.mapping == "endpoint-independent":
            self._nft("flush map ip nat back\nflush set ip nat sent")
        self._flush()

    def rebind(self):
        """Deletes everything: the next datagram gets another external port. Packets are dropped meanwhile, as during a restart of a router, because passing packets would keep the
        old port alive.
        """
        self._generation += 1
        self._load(rules.CLOSED)
        self._flush()
        self._nft("delete table ip closed")

    def mapped(self, address):
        """Returns "address:port" of every endpoint-independent mapping to the host with the inside `address`."""
        table = json.loads(self.run("nft", "--json", "list map ip nat back").stdout)["nftables"]
        entries = next(item["map"].get("elem", []) for item in table if "map" in item)
        # An entry is [external port, inside], and the port has a lifetime beside it.
        return {f"{self.external}:{outer['elem']['val']}" for outer, inner in entries if inner["concat"][0] == str(address)}

    def change_address(self):
        """Gives the router another external address, as a provider does, and returns it."""
        if not self.kind.translates:
            raise LabError(f"{self.name} translates no addresses: move its hosts instead")
        old, prefix = self.external, self.outside.subnets[0].prefixlen
        self.external = self.outside.next_addresses()[0].ip
        self.outside.hosts.append(self)
        # The old address goes first: with it the kernel deletes every later address of its network.
        self.ip(f"address del {old}/{prefix} dev eth1", f"address add {self.external}/{prefix} dev eth1", *self._default())
        self.rebind()
        return self.external

    def black_hole(self, direction="both"):
        """Drops packets "in", "out" or "both" ways between this network and hosts other than the servers, until `restore`."""
        self.restore()
        self._nft(rules.fault(direction, self.servers))
        self._broken.add("hole")

    def cut(self):
        """Takes the outside link down, until `restore`."""
        self.outside.ip(f"link set {self._port} down")
        self._broken.add("cable")

    def restore(self):
        """Reverts `black_hole` and `cut`."""
        if "hole" in self._broken:
            self._nft("delete table ip hole")
        if "cable" in self._broken:
            self.outside.ip(f"link set {self._port} up")
        self._broken.clear()

    def allow_udp(self, allowed=True):
        """Allows or blocks UDP from now on."""
        self.kind = dataclasses.replace(self.kind, udp=allowed)
        self._load()

    def masquerade(self, random=False):
        """Turns it into a Linux router with only a masquerading rule, whatever its kind; with `random` each flow gets another port."""
        self._nft(rules.masquerade(random))
        self._flush()

    def _join(self, switch, interface):
        own = self.connect(switch)
        switch.gateway = [a.ip for a in own]
        self.insides.append((interface, switch.subnets[0]))

    def _default(self):
        return [f"route replace default via {address}" for address in self.outside.gateway]

    def _load(self, more=""):
        hole = "hole" in self._broken
        self._broken.discard("hole")
        self._nft(rules.text(self.kind, self.insides, self.external, self.servers, self._generation) + more)
        if hole:
            self.black_hole()

    def _flush(self):
        self.run(*_FLUSH)

    def _nft(self, text):
        self.run("nft", "-f", "-", text=text)
