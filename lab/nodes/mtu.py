"""What a host's kernel sends to a peer: the MTU of its route, and pings of exactly that length."""

import json
import re

from ..hosts.wait import LabError
from .taut import bare

DEVICE = "taut0"
# Least MTU of device and routes, in bytes: the minimum of IPv6.
LEAST = 1280
# Bytes of the headers in front of the contents of a ping: IPv4 or IPv6, and ICMP.
_HEADERS = {4: 28, 6: 48}
_SUMMARY = re.compile(r"(\d+) packets transmitted, (\d+) received")


def device_mtu(node, device=DEVICE):
    """Returns the MTU of the device."""
    return json.loads(node.host.run("ip", "-j", "link", "show", "dev", device).stdout)[0]["mtu"]


def route_mtu(node, address):
    """Returns the attribute `mtu` of the route to an overlay address, or None. It is that of the route, not of what the kernel learnt from ICMP errors."""
    family = 6 if ":" in address else 4
    shown = node.host.run("ip", f"-{family}", "route", "show", bare(address)).stdout
    found = re.search(r"\bmtu (\d+)", shown)
    return int(found[1]) if found else None


def packet_mtu(node, address):
    """Returns the length of the longest packet that the kernel sends to an overlay address."""
    return route_mtu(node, address) or device_mtu(node)


def path_mtu(node, peer):
    """Returns the MTU of the path to a peer that `taut status` shows, or None."""
    return node.peer(peer.name)["path"]["mtu"]


def full_pings(node, address, length=None, count=50, interval=0.02, fragment=False):
    """Sends pings of `length` bytes, by default as long as the kernel's packets may be. Returns (sent, received). They have Don't Fragment, or with `fragment` the
    kernel fragments those that are longer than the MTU of the route at that moment."""
    length = length or packet_mtu(node, address)
    contents = length - _HEADERS[6 if ":" in address else 4]
    done = node.host.run("ping", "-n", "-q", "-M", "dont" if fragment else "do", "-s", contents, "-c", count, "-i", interval, "-W", "2", address, check=False)
    found = _SUMMARY.search(done.stdout)
    if not found:
        raise LabError(f"ping {address} from {node.name} failed\n{done.stdout}{done.stderr}")
    return int(found[1]), int(found[2])
