"""Two hosts on one switch, a third one beside them, and the cores that they may use."""

from dataclasses import dataclass

# Inner MTU and MTU of the link: larger by the overhead of a tunnel, at most outer IPv4, UDP, and the header and tag of WireGuard.
LINKS = {1420: 1500, 8900: 9000, 65440: 65535}
CORES = (0, 1)


@dataclass
class Site:
    """`hosts` are sender and receiver, `helper` is for coordinators. Pinned: the programs of each host have one core, including measuring programs."""

    hosts: list
    helper: object
    congestion: str


def lay_out(lab, mtu, pinned, cubic):
    """Makes the hosts with a link that carries `mtu` inside a tunnel."""
    switch = lab.switch("wire", ipv6=False)
    helper, *hosts = (lab.host(name, switch) for name in ("helper", "left", "right"))
    link = LINKS[mtu]
    for host in hosts:
        host.ip(f"link set eth0 mtu {link}")
        if cubic:
            host.run("sh", "-c", "echo cubic > /proc/sys/net/ipv4/tcp_congestion_control")
    switch.ip(*(f"link set {host.name}.0 mtu {link}" for host in hosts), f"link set br0 mtu {link}")
    for host, core in zip(hosts, CORES):
        if pinned:
            host.prefix = ["taskset", "-c", str(core)]
    chosen = hosts[0].run("cat", "/proc/sys/net/ipv4/tcp_congestion_control").stdout.strip()
    return Site(hosts, helper, chosen)
