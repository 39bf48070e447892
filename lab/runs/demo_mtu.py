"""The part of the demo about MTU: a path with jumbo frames beside usual ones, all found without a setting."""

from ..hosts import path_mtu
from ..nodes import mtu
from .demo_output import print_line, show, show_system

# MTU of the network with jumbo frames, in bytes. All other links have 1,500.
JUMBO = 9000


def widen(lab, network):
    """Gives all links of a network jumbo frames."""
    path_mtu.set_links(lab, network, mtu=JUMBO)


def wait_until_known(source, target):
    """Returns the MTU of the path from one node to another as soon as it is known."""
    source.wait_for(lambda status: source.peer(target.name, status)["path"]["mtu"], f"the MTU of the path to {target.name}")
    return {"from": source.name, "to": target.name, "bytes": mtu.path_mtu(source, target)}


def show_jumbo(node, beside, other):
    """Shows the MTU from `node` to a peer with jumbo frames and to another one, and that the host uses both. Returns both."""
    found = [wait_until_known(node, beside), wait_until_known(node, other)]
    longest = found[0]["bytes"]
    node.wait_for(lambda status: status["self"]["tun"]["mtu"] == longest, "the device to take jumbo packets")
    print_line(f"{node.name} → {beside.name}: packets of up to {longest} bytes, found by probes on the link with jumbo frames; no MTU was set anywhere")
    show(node, "why", beside.name)
    print_line(f"the device of {node.name} has an MTU of {longest} bytes, and routes to peers behind shorter links have their own:")
    show_system(node, "ip", "-4", "route", "show", "dev", mtu.DEVICE)
    return found
