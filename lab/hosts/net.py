"""Named hosts in network namespaces, joined by switches and routers.

    with Lab(logs) as lab:
        left, right = lab.switch("left"), lab.switch("right")
        lab.router("gate", left, right)
        one, two = lab.host("one", left), lab.host("two", right)
        one.run("ping", "-c1", two.ipv4)

Addresses are given out in order: switch N carries 10.77.N.0/24 and fd77:N::/64. The first router on a switch is the
default gateway of its hosts. Needs root and iproute2. All is removed when the `with` ends, however it ends.
"""

import contextlib
import ipaddress
import json
import shutil
import sys
from pathlib import Path

from . import leftovers
from .namespace import Namespace, call

# What every host starts with. Duplicate address detection would delay IPv6 by a second or two; rp_filter 2 (loose) is
# what Debian sets; router advertisements come from nobody here.
SETTINGS = (
    "net.ipv4.conf.all.rp_filter=2",
    "net.ipv4.conf.default.rp_filter=2",
    "net.ipv6.conf.all.accept_dad=0",
    "net.ipv6.conf.default.accept_dad=0",
    "net.ipv6.conf.default.accept_ra=0",
)
_TRACES = (sys.executable, "-I", str(Path(__file__).with_name("namespace_state.py")))
FORWARDING = ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")


class Lab:
    """Everything made for one test. `logs` is where hosts write; it is kept only when `failed` was set or raised."""

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
        """A switch with the next free subnets of the wanted families."""
        self._switches += 1
        number = self._switches
        subnets = []
        if ipv4:
            subnets.append(ipaddress.ip_network(f"10.77.{number}.0/24"))
        if ipv6:
            subnets.append(ipaddress.ip_network(f"fd77:{number}::/64"))
        return Switch(self, name, subnets)

    def host(self, name, *switches):
        """A host with one interface per switch: eth0, eth1, …"""
        return Host(self, name, switches)

    def router(self, name, *switches):
        """A host that forwards between `switches`, and the gateway of those that have none yet."""
        return Router(self, name, switches)

    def free_port(self):
        """A port that no other call of this lab got, for the lab's own traffic."""
        self._port += 1
        return self._port

    def tails(self):
        """The last lines of everything that ran, for a failed test's report."""
        return "\n".join(process.tail() for node in self.nodes.values() for process in node.processes)

    def close(self):
        """Ends all processes, deletes all namespaces; keeps the logs when something failed."""
        for node in self.nodes.values():
            for process in node.processes:
                process.kill()
        for node in self.nodes.values():
            leftovers.remove_namespace(node.namespace)
            shutil.rmtree(self.state / node.name, ignore_errors=True)
        self.nodes.clear()
        # Another lab of this process may still keep something there.
        with contextlib.suppress(OSError):
            self.state.rmdir()
        if not self.failed:
            shutil.rmtree(self.logs, ignore_errors=True)


class Switch(Namespace):
    """A bridge in a namespace of its own; a port is named after the host behind it."""

    def __init__(self, lab, name, subnets):
        super().__init__(lab, name, SETTINGS)
        self.subnets = subnets
        self.gateway = []
        self.hosts = []
        # Snooping off: a bridge that knows no querier may hold back the multicast that IPv6 resolves neighbours by.
        self.ip("link add br0 type bridge stp_state 0 mcast_snooping 0", "link set br0 up")

    def plug(self, host, interface, port):
        """A cable from a new port of that name to a new interface of the host."""
        self.ip(
            f"link add {port} type veth peer name {interface} netns {host.namespace}",
            f"link set {port} master br0 up",
        )

    def next_addresses(self):
        """The next host address of each subnet."""
        number = len(self.hosts) + 1
        return [ipaddress.ip_interface(f"{net[number]}/{net.prefixlen}") for net in self.subnets]


class Host(Namespace):
    """A host: `addresses` in the order given out, `ipv4` and `ipv6` the first of each (None without)."""

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
        """Plugs a new interface into `switch`; returns its addresses."""
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
        """Default routes over `gateway`, a list of addresses; the first gateway stays."""
        if gateway and not self.routed:
            self.routed = True
            self.ip(*(f"route add default via {address}" for address in gateway))

    def route(self, subnet, via):
        """A static route."""
        self.ip(f"route add {subnet} via {via}")

    def counters(self, interface="eth0"):
        """Bytes received and sent by `interface` so far."""
        text = call("ip", "-n", self.namespace, "-j", "-s", "link", "show", "dev", interface).stdout
        stats = json.loads(text)[0]["stats64"]
        return stats["rx"]["bytes"], stats["tx"]["bytes"]

    def network_state(self):
        """Links, addresses, routes and rules as sorted lines, to compare before and after."""
        lines = []
        for view in ("link", "address", "-4 route show table all", "-6 route show table all", "-4 rule", "-6 rule"):
            text = call("ip", "-n", self.namespace, "-o", *view.split()).stdout
            lines += [f"{view}: {line.strip()}" for line in text.splitlines()]
        return sorted(lines)

    def traces(self, sockets=False):
        """Network settings and packet filters as lines, and open sockets on request: what `network_state` leaves out."""
        return self.run(*_TRACES, *(["--sockets"] if sockets else [])).stdout.splitlines()


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
        """A router's routes beyond its own subnets are stated by `route`, never guessed."""
