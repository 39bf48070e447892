"""Userspace WireGuards under the stock `wg`: ours under the name `taut-wg`, and others'."""

from ..wait import LabError
from ..wireguard import INTERFACE, VERSIONS, WireGuard, conf, lacking
from .base import Running, System
from .taut import taut_version

PORT = 51820


class Device(System):
    """`name` is an implementation that `lab.wireguard` can start."""

    def __init__(self, name, title):
        self.name, self.title = name, title

    def lacking(self):
        return lacking(self.name)

    def version(self):
        return VERSIONS.get(self.name) or taut_version()

    def start(self, hosts, helper, mtu):
        devices = [WireGuard(host, self.name, [f"{_inner(n)}/24"]) for n, host in enumerate(hosts)]
        for device in devices:
            others = [(n, other) for n, other in enumerate(devices) if other is not device]
            device.config = conf(device, *(_peer(other, _inner(n)) for n, other in others), port=PORT)
            device.start()
            # As wg-quick does. Each has another MTU of its own accord.
            device.host.ip(f"link set {INTERFACE} mtu {mtu}")
        for n in range(1, len(hosts)):
            devices[0].reaches(_inner(n))
        return Running(
            addresses=[_inner(n) for n in range(len(hosts))],
            interface=INTERFACE,
            processes=[[device.process] for device in devices],
        )


def _inner(number):
    if number > 253:
        raise LabError("more hosts than 10.9.0.0/24 has addresses")
    return f"10.9.0.{number + 1}"


def _peer(device, inner):
    return {"PublicKey": device.public, "AllowedIPs": f"{inner}/32", "Endpoint": f"{device.host.ipv4}:{PORT}"}
