"""A small internet: servers and routers in public networks, hosts behind NATs of every kind.

Servers are in 192.0.2.0/24, routers and the outside of NATs in 198.51.100.0/24, networks with public addresses behind a router in parts of
203.0.113.0/24 (all three are for documentation: RFC 5737). Every home has 192.168.1.0/24, so hosts of different homes have equal addresses.
Between a carrier-grade NAT and its customers is 100.64.0.0/24 (RFC 6598).
"""

import ipaddress

from ..cable import Cables
from ..net import Switch
from ..wait import LabError
from .kinds import KINDS
from .router import NO_REDIRECTS, NatRouter

SERVERS = ipaddress.ip_network("192.0.2.0/24")
_NET = ipaddress.ip_network("198.51.100.0/24")
_PUBLIC = ipaddress.ip_network("203.0.113.0/24")
_HOME = ipaddress.ip_network("192.168.1.0/24")
_GUESTS = ipaddress.ip_network("192.168.2.0/24")
_CARRIER = ipaddress.ip_network("100.64.0.0/24")


class Internet:
    """The public networks of `lab`, joined by one router; methods add everything else.

    With a `link` (a `Profile`), packets that leave a router into the network of routers pass that link: once on the way from a home to another home or
    to a server.
    """

    def __init__(self, lab, link=None):
        self.lab = lab
        self.net = Switch(lab, "net", [_NET])
        if link:
            self.net = Cables(lab, self.net, link)
        self.server_net = Switch(lab, "servers", [SERVERS])
        self.core = lab.router("core", self.net, self.server_net)
        self.core.run("sh", "-ec", "\n".join(f"echo 0 > /proc/sys/{word.partition('=')[0].replace('.', '/')}" for word in NO_REDIRECTS))
        self._public = _PUBLIC.subnets(new_prefix=29)
        self._count = 0

    def server(self, name):
        """Makes a host that all others reach: for the coordinator and relays."""
        return self.lab.host(name, self.server_net)

    def behind(self, kind, name=None):
        """Makes a host behind its own NAT of this kind (a name, or a changed `Kind`).

        `host.nat` is the next router, `host.carrier` the carrier-grade NAT or None.
        """
        kind = KINDS[kind] if isinstance(kind, str) else kind
        carrier, outside = self._carrier(kind) if kind.carrier else (None, self.net)
        return self._home(kind, name, carrier, outside)

    def beside(self, host, name=None):
        """Makes another host on the network of `host`."""
        return self._host(name, host.home, host.nat, host.carrier)

    def guest(self, host, name=None):
        """Makes another host behind the NAT of `host`, on a network that the NAT keeps apart from that of `host`."""
        switch = Switch(self.lab, f"guests{self._next()}", [_GUESTS])
        host.nat.guests(switch)
        return self._host(name, switch, host.nat, host.carrier)

    def neighbour(self, host, name=None):
        """Makes another host behind its own NAT and the same carrier-grade NAT."""
        return self._home(host.nat.kind, name, host.carrier, host.nat.outside)

    def pair(self, a, b, place="apart", names=("left", "right")):
        """Makes two hosts of these kinds, placed as `place` says (kinds.PLACES)."""
        one = self.behind(a, names[0])
        if place == "apart":
            return one, self.behind(b, names[1])
        if a != b:
            raise LabError(f"two hosts that are {place} are of one kind, not {a} and {b}")
        return one, {"same-lan": self.beside, "isolated": self.guest, "same-carrier": self.neighbour}[place](one, names[1])

    def _home(self, kind, name, carrier, outside):
        number = self._next()
        subnet = _HOME if kind.translates else next(self._public)
        home = Switch(self.lab, f"home{number}", [subnet])
        nat = NatRouter(self.lab, f"nat{number}", kind, home, outside, SERVERS)
        if not kind.translates:
            self.core.route(subnet, nat.external)
        return self._host(name, home, nat, carrier)

    def _host(self, name, switch, nat, carrier):
        host = self.lab.host(name or f"host{self._next()}", switch)
        host.home, host.nat, host.carrier = switch, nat, carrier
        return host

    def _carrier(self, kind):
        number = self._next()
        customers = Switch(self.lab, f"isp{number}", [_CARRIER])
        return NatRouter(self.lab, f"cgn{number}", kind, customers, self.net, SERVERS), customers

    def _next(self):
        self._count += 1
        return self._count
