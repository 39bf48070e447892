"""Userspace WireGuards under the stock `wg`: `taut-wg`, and other implementations."""

from ..wireguard import INTERFACE, VERSIONS, WireGuard, conf, lacking
from .base import System, begun, inner, mtu_of, ready
from .taut import taut_version

NETWORK, PORT = 0, 51820
# Bytes that wg-quick subtracts for headers: IPv6, UDP, and 32 bytes of WireGuard.
HEADERS = 80


class Device(System):
    """`name` is an implementation that `lab.nodes.wireguard` can start."""

    def __init__(self, name, title):
        self.name, self.title = name, title
        if name not in VERSIONS:
            self.get = "make build"

    def lacking(self):
        return lacking(self.name)

    def version(self):
        return VERSIONS.get(self.name) or taut_version()

    def start(self, hosts, helper, mtu):
        addresses = [inner(NETWORK, n) for n in range(len(hosts))]
        devices = [WireGuard(host, self.name, [f"{address}/24"]) for host, address in zip(hosts, addresses)]
        for device in devices:
            others = [(address, other) for address, other in zip(addresses, devices) if other is not device]
            device.config = conf(device, *(_peer(other, address) for address, other in others), port=PORT)

        def begin(n):
            devices[n].start()
            # The MTU that wg-quick sets, because the implementations have different defaults.
            hosts[n].ip(f"link set {INTERFACE} mtu {mtu or mtu_of(hosts[n], 'eth0') - HEADERS}")
            return [devices[n].process]

        return ready(hosts, begun(hosts, begin, addresses, INTERFACE))


def _peer(device, address):
    return {"PublicKey": device.public, "AllowedIPs": f"{address}/32", "Endpoint": f"{device.host.ipv4}:{PORT}"}
