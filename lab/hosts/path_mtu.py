"""The MTU of links and of paths: what a router between two switches carries, and whether it tells anyone.

    set_links(lab, *lab_switches, mtu=9000)      # interfaces, ports and bridges
    narrow(router, switch, mtu=1280)             # packets that the router forwards to this switch
    only_relays(router, one, two)                # no UDP between two switches

A router's limit is on its routes and not on an interface: a veth interface takes four bytes more than its MTU, for a VLAN tag, and superpackets of any size; a route
checks each packet of a superpacket.
"""

import json

# Makes a router send no ICMP message about packets that are too big for the next hop.
SILENT = """
table inet silent {
    chain output {
        type filter hook output priority 0;
        icmp type destination-unreachable icmp code frag-needed drop
        icmpv6 type packet-too-big drop
    }
}
"""
# Keeps a router from forwarding UDP between two interfaces, so that nodes behind it need a relay.
_NO_DIRECT = """
table inet direct {{
    chain forward {{
        type filter hook forward priority 0;
        {rules}
    }}
}}
"""
# Keeps a router from forwarding UDP.
_NO_UDP = """
table inet web {
    chain forward {
        type filter hook forward priority 0;
        meta l4proto udp drop
    }
}
"""

_DROP = 'iifname "{}" oifname "{}" meta l4proto udp drop'


def set_links(lab, *switches, mtu):
    """Gives all links of these switches an MTU."""
    for switch in switches:
        ports = [port.split("@")[0] for port in _names(switch) if "." in port]
        for port in ports:
            host, _, number = port.rpartition(".")
            lab.nodes[host].ip(f"link set eth{number} mtu {mtu}")
        switch.ip(*(f"link set {port} mtu {mtu}" for port in ports), f"link set br0 mtu {mtu}")


def narrow(router, *switches, mtu, silent=True):
    """Has `router` forward at most `mtu` bytes to these switches, each of which it is plugged into. `silent`: without ICMP errors."""
    if silent:
        router.run("nft", "-f", "-", text="table inet silent {}\ndelete table inet silent\n" + SILENT)
    for switch in switches:
        interface = interface_to(router, switch)
        for subnet in switch.subnets:
            # An IPv6 route with another metric would be a second route beside that of the kernel.
            kind = "metric 256 proto kernel" if subnet.version == 6 else "scope link"
            router.ip(f"route replace {subnet} dev {interface} {kind} mtu {mtu}")


def only_relays(router, one, two, back=True):
    """Keeps `router` from forwarding UDP from switch `one` to switch `two`, and with `back` in the other direction, too."""
    ends = [interface_to(router, switch) for switch in (one, two)]
    rules = [_DROP.format(*ends), *([_DROP.format(*ends[::-1])] if back else [])]
    router.run("nft", "-f", "-", text=_NO_DIRECT.format(rules="\n        ".join(rules)))


def allow_direct(router):
    """Reverts `only_relays`."""
    router.run("nft", "delete", "table", "inet", "direct")


def only_tcp(router):
    """Keeps `router` from forwarding UDP."""
    router.run("nft", "-f", "-", text=_NO_UDP)


def interface_to(router, switch):
    """Returns the interface of `router` that is plugged into `switch`."""
    port = next(port for port in _names(switch) if port.startswith(f"{router.name}."))
    return "eth" + port.split("@")[0].rpartition(".")[2]


def _names(switch):
    return [link["ifname"] for link in json.loads(switch.run("ip", "-j", "link", "show").stdout)]
