"""What a host's network is made of beside its programs: taken away, changed, put back as the host's own network manager would."""

import contextlib
import ipaddress
import json
import shutil
import time

from ...hosts.wait import LabError

# linux/rtnetlink.h, linux/fib_rules.h: what every namespace begins with.
_OWN_TABLES = ("default", "local", "main")
_OWN_RULES = (0, 32766, 32767)


def forget(host):
    """Clears what programs made in a host's namespace: links, rules, routes in other tables, packet filters. Its cables and their addresses stay."""
    for link in _told(host, "link", "show"):
        if link["ifname"] != "lo" and not link["ifname"].startswith("eth"):
            # It may have gone with its program by now.
            with contextlib.suppress(LabError):
                host.ip(f"link delete {link['ifname']}")
    for family in ("-4", "-6"):
        _forget_rules(host, family)
        tables = {route.get("table", "main") for route in _told(host, family, "route", "show", "table", "all")}
        for table in tables - set(_OWN_TABLES):
            host.run("ip", family, "route", "flush", "table", table)
    if shutil.which("nft"):
        # A kernel without packet filters has none to forget.
        host.run("nft", "flush", "ruleset", check=False)


def _forget_rules(host, family):
    for rule in _told(host, family, "rule", "show"):
        if rule["priority"] not in _OWN_RULES:
            host.run("ip", family, "rule", "delete", "priority", rule["priority"])


def lost_with_the_link(host, interface="eth0"):
    """`ip` commands that bring back what a link loses when it goes down: routes by way of others, and IPv6 addresses."""
    commands = []
    for address in _told(host, "-6", "address", "show", "dev", interface, "scope", "global"):
        # What the scope leaves out is there without words.
        for one in filter(None, address.get("addr_info", [])):
            commands.append(f"address replace {one['local']}/{one['prefixlen']} dev {interface} nodad")
    return commands + _gateways(host, interface)


def _gateways(host, interface):
    """`ip` commands for the routes that lead by a gateway at this interface."""
    commands = []
    for family in ("-4", "-6"):
        for route in _told(host, family, "route", "show", "dev", interface):
            if "gateway" in route:
                # Replace: IPv6 keeps those whose gateway is still there.
                commands.append(f"route replace {route['dst']} via {route['gateway']} dev {interface}")
    return commands


def own_and_other(host, interface="eth0"):
    """The address (with its network) that the host has now, and one of the same network that nobody has."""
    found = [one for link in _told(host, "-4", "address", "show", "dev", interface) for one in link.get("addr_info", [])]
    if not found:
        raise LabError(f"{host.name} has no IPv4 address at {interface}")
    own = ipaddress.ip_interface(f"{found[0]['local']}/{found[0]['prefixlen']}")
    given = {address for node in host.lab.nodes.values() for address in getattr(node, "addresses", [])}
    if own.ip not in given:
        # It has moved before: the other one is its own.
        return own, ipaddress.ip_interface(f"{host.addresses[0]}/{own.network.prefixlen}")
    free = next(ip for ip in reversed(list(own.network.hosts())) if ip not in given)
    return own, ipaddress.ip_interface(f"{free}/{own.network.prefixlen}")


def move(host, address, interface="eth0"):
    """Gives the host this address instead of the one it has; returns when that was done (CLOCK_MONOTONIC). Harmless if it has it."""
    own, _ = own_and_other(host, interface)
    if own != address:
        # The old one first: as a further address of the same network the new one would go with it.
        host.ip(
            f"address delete {own} dev {interface}",
            f"address add {address} dev {interface}",
            *_gateways(host, interface),
        )
    return time.monotonic()


def _told(host, *words):
    return json.loads(host.run("ip", "-j", *words).stdout or "[]")
