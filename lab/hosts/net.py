"""Named hosts in network namespaces, joined by switches and routers.

    with Lab(logs) as lab:
        left, right = lab.switch("left"), lab.switch("right")
        lab.router("gate", left, right)
        one, two = lab.host("one", left), lab.host("two", right)
        one.run("ping", "-c1", two.ipv4)

Addresses are assigned in order: switch N carries 10.77.N.0/24 and fd77:N::/64. The first router on a switch is the default gateway of its hosts.
Needs root and iproute2. The end of the `with` block removes everything, also after an error.
"""

import contextlib
import ipaddress
import json
import shutil
import sys
from pathlib import Path

from . import leftovers
from .namespace import Namespace, call

# Settings of every host. Duplicate address detection would delay IPv6 by a second or two. rp_filter 2 (loose) is the default of Debian. No router in
# the lab sends advertisements.
SETTINGS = (
    "net.ipv4.conf.all.rp_filter=2",
    "net.ipv4.conf.default.rp_filter=2",
    "net.ipv6.conf.all.accept_dad=0",
    "net.ipv6.conf.default.accept_dad=0",
    "net.ipv6.conf.default.accept_ra=0",
)
_NAMESPACE_STATE = (sys.executable, "-I", str(Path(__file__).with_name("namespace_state.py")))
FORWARDING = ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")


class Lab:
    """All hosts of one test. `logs` is the directory of their output; it is kept only if `failed` was set or an exception was raised."""

    def __init__(self, logs):
        leftovers.clean()
        self.logs = Path(logs)
        shutil.rmtree(self.logs, ignore_errors=True)
        self.state = leftovers.RUN_DIR / leftovers.owner()
        self.failed = False
        self.nodes = {}
        self._switches = 0
        self._port = 20000

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.failed = self.failed or kind is not None
        self.close()

    def switch(self, name, ipv4=True, ipv6=True):
        """Makes a switch with the next free subnets of the requested families."""
        self._switches += 1
        number = self._switches
        subnets = []
        if ipv4:
            subnets.append(ipaddress.ip_network(f"10.77.{number}.0/24"))
        if ipv6:
            subnets.append(ipaddress.ip_network(f"fd77:{number}::/64"))
        return Switch(self, name, subnets)

    def host(self, name, *switches):
        """Makes a host with one interface per switch: eth0, eth1, …"""
        return Host(self, name, switches)

    def router(self, name, *switches):
        """Makes a host that forwards between `switches` and becomes the gateway of each switch without one."""
        return Router(self, name, switches)

    def free_port(self):
        """Returns a port for traffic of the lab that no other call returned."""
        self._port += 1
        return self._port

    def tails(self):
        """Returns the last lines of all programs, for the report of a failed test."""
        return "\n".join(process.tail() for node in self.nodes.values() for process in node.processes)

    def close(self):
        """Ends all processes and deletes all namespaces; keeps the logs after a failure."""
        for node in self.nodes.values():
            for process in node.processes:
                process.kill()
        for node in self.nodes.values():
            leftovers.remove_namespace(node.namespace)
            shutil.rmtree(self.state / node.name, ignore_errors=True)
        self.nodes.clear()
        # The directory is kept while another lab of this process uses it.
        with contextlib.suppress(OSError):
            self.state.rmdir()
        if not self.failed:
            shutil.rmtree(self.logs, ignore_errors=True)


class Switch(Namespace):
    """A bridge in its own namespace. Each port is named after the host behind it."""

    def __init__(self, lab, name, subnets):
        super().__init__(lab, name, SETTINGS)
        self.subnets = subnets
        self.gateway = []
        self.hosts = []
        # Snooping is off: a bridge without a querier may hold back the multicast that IPv6 neighbour discovery needs.
        self.ip("link add br0 type bridge stp_state 0 mcast_snooping 0", "link set br0 up")

    def plug(self, host, interface, port):
        """Connects a new port of this name to a new interface of the host."""
        self.ip(
            f"link add {port} type veth peer name {interface} netns {host.namespace}",
            f"link set {port} master br0 up",
        )

    def next_addresses(self):
        """Returns the next host address of each subnet."""
        number = len(self.hosts) + 1
        return [ipaddress.ip_interface(f"{net[number]}/{net.prefixlen}") for net in self.subnets]


class Host(Namespace):
    """A host. `addresses` are in the order of assignment; `ipv4` and `ipv6` are the first of each family, or None."""

    def __init__(self, lab, name, switches, settings=SETTINGS):
        super().__init__(lab, name, settings)
        self.addresses = []
        self.routed = False
        self._links = 0
        for switch in switches:
            self.connect(switch)

    @property
    def ipv4(self):
        return next((str(a) for a in self.addresses if a.version == 4), None)

    @property
    def ipv6(self):
        return next((str(a) for a in self.addresses if a.version == 6), None)

    def connect(self, switch):
        """Connects a new interface to `switch` and returns its addresses."""
        interface, port = f"eth{self._links}", f"{self.name}.{self._links}"
        self._links += 1
        own = switch.next_addresses()
        switch.plug(self, interface, port)
        flags = {4: "", 6: " nodad"}
        self.ip(
            f"link set {interface} up",
            *(f"address add {a} dev {interface}{flags[a.version]}" for a in own),
        )
        self.addresses += [a.ip for a in own]
        switch.hosts.append(self)
        self.use_gateway(switch.gateway)
        return own

    def use_gateway(self, gateway):
        """Adds default routes through `gateway`, a list of addresses. A gateway set earlier stays."""
        if gateway and not self.routed:
            self.routed = True
            self.ip(*(f"route add default via {address}" for address in gateway))

    def route(self, subnet, via):
        """Adds a static route."""
        self.ip(f"route add {subnet} via {via}")

    def counters(self, interface="eth0"):
        """Returns the bytes received and sent by `interface` so far."""
        text = call("ip", "-n", self.namespace, "-j", "-s", "link", "show", "dev", interface).stdout
        stats = json.loads(text)[0]["stats64"]
        return stats["rx"]["bytes"], stats["tx"]["bytes"]

    def network_state(self):
        """Returns links, addresses, routes and rules as sorted lines, for comparison before and after."""
        lines = []
        for view in ("link", "address", "-4 route show table all", "-6 route show table all", "-4 rule", "-6 rule"):
            text = call("ip", "-n", self.namespace, "-o", *view.split()).stdout
            lines += [f"{view}: {line.strip()}" for line in text.splitlines()]
        return sorted(lines)

    def hidden_state(self, sockets=False):
        """Returns what `network_state` leaves out as lines: network settings and packet filters, and on request the open sockets."""
        return self.run(*_NAMESPACE_STATE, *(["--sockets"] if sockets else [])).stdout.splitlines()


class Router(Host):
    """A host that forwards IPv4 and IPv6 between its switches."""

    def __init__(self, lab, name, switches):
        super().__init__(lab, name, switches, settings=SETTINGS + FORWARDING)

    def connect(self, switch):
        own = super().connect(switch)
        if not switch.gateway:
            switch.gateway = [a.ip for a in own]
            for host in switch.hosts:
                if not isinstance(host, Router):
                    host.use_gateway(switch.gateway)
        return own

    def use_gateway(self, gateway):
        """Does nothing: routes of a router beyond its own subnets are set with `route`."""
