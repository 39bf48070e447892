"""The link itself, with nothing on it: what a tunnel could reach at most."""

import platform

from .base import Running, System, mtu_of


class Bare(System):
    name = "bare"
    title = "bare link (veth, no tunnel)"

    def version(self):
        return f"Linux {platform.release()}"

    def start(self, hosts, helper, mtu):
        # Its MTU is the link's: there is no header to leave room for. No program either: a boot has nothing to start.
        addresses = [host.ipv4 for host in hosts]
        return Running(addresses, interface="eth0", processes=[[] for _ in hosts], payload=mtu_of(hosts[0], "eth0"))
