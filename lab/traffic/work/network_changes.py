"""Changes to the network of a host: removed, changed and restored as the network manager of the host would do."""

import contextlib
import ipaddress
import json
import shutil
import time

from ...hosts.wait import LabError

# linux/rtnetlink.h, linux/fib_rules.h: tables that exist in every namespace.
_OWN_TABLES = ("default", "local", "main")
_OWN_RULES = (0, 32766, 32767)


def forget(host):
    """Removes everything that programs made in the namespace of a host: links, rules, routes in other tables, packet filters. Cables and their addresses stay."""
    for link in _told(host, "link", "show"):
        if link["ifname"] != "lo" and not link["ifname"].startswith("eth"):
            # The link may already have gone with its program.
            with contextlib.suppress(LabError):
                host.ip(f"link delete {link['ifname']}")
    for family in ("-4", "-6"):
        _forget_rules(host, family)
        tables = {route.get("table", "main") for route in _told(host, family, "route", "show", "table", "all")}
        for table in tables - set(_OWN_TABLES):
            host.run("ip", family, "route", "flush", "table", table)
    if shutil.which("nft"):
        # Fails on a kernel without packet filters, which has none to remove.
        host.run("nft", "flush", "ruleset", check=False)


def _forget_rules(host, family):
    for rule in _told(host, family, "rule", "show"):
        if rule["priority"] not in _OWN_RULES:
            host.run("ip", family, "rule", "delete", "priority", rule["priority"])


def lost_with_the_link(host, interface="eth0"):
    """Returns `ip` commands that restore what a link loses when it goes down: routes through gateways, and IPv6 addresses."""
    commands = []
    for address in _told(host, "-6", "address", "show", "dev", interface, "scope", "global"):
        # Addresses outside the scope are listed as empty entries.
        for one in filter(None, address.get("addr_info", [])):
            commands.append(f"address replace {one['local']}/{one['prefixlen']} dev {interface} nodad")
    return commands + _gateways(host, interface)


def _gateways(host, interface):
    """Returns `ip` commands for the routes through a gateway at this interface."""
    commands = []
    for family in ("-4", "-6"):
        for route in _told(host, family, "route", "show", "dev", interface):
            if "gateway" in route:
                # Replace: IPv6 keeps routes whose gateway still exists.
                commands.append(f"route replace {route['dst']} via {route['gateway']} dev {interface}")
    return commands


def own_and_other(host, interface="eth0"):
    """Returns the current address of the host (with its network) and an unused one of the same network."""
    found = [one for link in _told(host, "-4", "address", "show", "dev", interface) for one in link.get("addr_info", [])]
    if not found:
        raise LabError(f"{host.name} has no IPv4 address at {interface}")
    own = ipaddress.ip_interface(f"{found[0]['local']}/{found[0]['prefixlen']}")
    given = {address for node in host.lab.nodes.values() for address in getattr(node, "addresses", [])}
    if own.ip not in given:
        # The host has moved before: the other address is its original one.
        return own, ipaddress.ip_interface(f"{host.addresses[0]}/{own.network.prefixlen}")
    free = next(ip for ip in reversed(list(own.network.hosts())) if ip not in given)
    return own, ipaddress.ip_interface(f"{free}/{own.network.prefixlen}")


def move(host, address, interface="eth0"):
    """Replaces the address of the host; returns the time of the change (CLOCK_MONOTONIC). Has no effect if the host has this address."""
    own, _ = own_and_other(host, interface)
    if own != address:
        # The old address goes first: a second address of the same network would be removed with it.
        host.ip(
            f"address delete {own} dev {interface}",
            f"address add {address} dev {interface}",
            *_gateways(host, interface),
        )
    return time.monotonic()


def _told(host, *words):
    return json.loads(host.run("ip", "-j", *words).stdout or "[]")
