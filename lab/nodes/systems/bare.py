"""The link without a tunnel: the upper limit for every tunnel."""

import platform

from .base import Running, System, mtu_of


class Bare(System):
    name = "bare"
    title = "bare link (veth, no tunnel)"

    def version(self):
        return f"Linux {platform.release()}"

    def start(self, hosts, helper, mtu):
        # Uses the MTU of the link, since there are no headers. A boot has no program to start.
        addresses = [host.ipv4 for host in hosts]
        return Running(addresses, interface="eth0", processes=[[] for _ in hosts], payload=mtu_of(hosts[0], "eth0"))
