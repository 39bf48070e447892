"""Hosts on the link of a profile, and one helper beside them for servers that a system needs."""

from dataclasses import dataclass

from . import netem
from .cable import Cables
from .profiles import ETHERNET_MTU
from .wait import LabError

# Where a link is emulated: per wire packet by linkbox, per superpacket by linkbox, or by netem at the interfaces of the hosts.
PLACEMENTS = ("packets", "superpackets", "netem")
NAMES = ("left", "right", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
# Makes a router send no ICMP message about packets that are too big for the next hop.
_SILENT = """
table inet silent {
    chain output {
        type filter hook output priority 0;
        icmp type destination-unreachable icmp code frag-needed drop
    }
}
"""


@dataclass
class Site:
    """Laid-out hosts. `hosts` are members, the first one is the sender in one-way work; `helper` is for coordinators and lighthouses."""

    hosts: list
    helper: object
    profile: object
    placement: str
    # Congestion control that TCP in the hosts uses.
    congestion: str
    cables: object = None

    def link_reports(self):
        """Returns what the emulators report since the previous call, in the order of the hosts; empty on a plain link."""
        return [emulator.report() for emulator in self.cables.emulators] if self.cables else []


def lay_out(lab, profile, *, count=2, seed=1, placement="packets", congestion="cubic"):
    """Makes the hosts of a profile, up and able to reach each other. `congestion` is the TCP congestion control, if namespaces may use it
    (lab.hosts.congestion)."""
    if placement not in PLACEMENTS:
        raise LabError(f"{placement!r} is no placement; there are: {', '.join(PLACEMENTS)}")
    if not 2 <= count <= len(NAMES):
        raise LabError(f"a site has 2 to {len(NAMES)} hosts, not {count}")
    switch = lab.switch("net", ipv6=False)
    beyond = _black_hole(lab, switch, profile.path_mtu) if profile.path_mtu else switch
    helper = lab.host("helper", beyond)
    emulated = profile.emulated and placement != "netem"
    cables = Cables(lab, switch, profile, seed, placement == "superpackets") if emulated else None
    first, *others = NAMES[:count]
    hosts = [lab.host(first, cables or switch), *(lab.host(name, cables or beyond) for name in others)]
    if not emulated and profile.mtu != ETHERNET_MTU:
        _set_mtu(switch, [helper, *hosts], profile.mtu)
    if profile.emulated and placement == "netem":
        for number, host in enumerate(hosts):
            netem.impair(host, profile.words("right" if number == 0 else "left"))
    for host in (helper, *hosts):
        host.run("sh", "-c", f"echo {congestion} > /proc/sys/net/ipv4/tcp_congestion_control", check=False)
    chosen = hosts[0].run("cat", "/proc/sys/net/ipv4/tcp_congestion_control").stdout.strip()
    return Site(hosts, helper, profile, placement, chosen, cables)


def _set_mtu(switch, hosts, mtu):
    for host in hosts:
        host.ip(f"link set eth0 mtu {mtu}")
    switch.ip(*(f"link set {host.name}.0 mtu {mtu}" for host in hosts), f"link set br0 mtu {mtu}")


def _black_hole(lab, switch, path_mtu):
    """Makes a router between the first host and a switch for the others. Its routes carry `path_mtu` bytes, and it sends no ICMP message about that.

    The limit is on the routes and not on an interface: a veth interface takes four bytes more than its MTU, for a VLAN tag, and superpackets of any size;
    a route checks each packet of a superpacket.
    """
    beyond = lab.switch("beyond", ipv6=False)
    gate = lab.router("gate", switch, beyond)
    gate.ip(*(f"route replace {subnet} dev eth{number} scope link mtu {path_mtu}" for number, side in enumerate((switch, beyond)) for subnet in side.subnets))
    gate.run("nft", "-f", "-", text=_SILENT)
    return beyond
