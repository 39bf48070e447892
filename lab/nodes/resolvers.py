"""The resolvers that hosts have, each started as on a host that has it: real programs of `tools/resolvers` in a `ResolverHost`, with a name server for all names."""

from ..hosts.wait import wait_until
from .resolver_host import RESOLV_CONF


def write_plain(own, server):
    """Gives the host a plain file with the Internet's name server."""
    own.write(RESOLV_CONF, f"# by hand\nnameserver {server}\nsearch lan.example\noptions timeout:3 attempts:1\n")
    own.sh(f"chmod 640 {RESOLV_CONF}; touch -d 2020-01-01 {RESOLV_CONF}")


def start_openresolv(own, server):
    own.rewrites = True
    own.write("/etc/resolvconf.conf", "resolv_conf=/etc/resolv.conf\n")
    own.host.run("resolvconf", "-a", "eth0", text=f"nameserver {server}\n")


def start_resolvconf(own, server):
    own.sh("mkdir -p /run/resolvconf/interface /run/resolvconf && touch /run/resolvconf/enable-updates")
    own.sh(f"ln -s /run/resolvconf/resolv.conf {RESOLV_CONF}; resolvconf --enable-updates")
    own.host.run("resolvconf", "-a", "eth0.dhcp", text=f"nameserver {server}\n")


# How dnsmasq is restarted on OpenWrt and by sysvinit.
_DNSMASQ_SERVICE = """#!/bin/sh
# $1 is start, stop or restart
[ "$1" = start ] || { kill "$(cat /run/dnsmasq.pid)"; while kill -0 "$(cat /run/dnsmasq.pid)" 2>/dev/null; do sleep 0.01; done; }
[ "$1" = stop ] || dnsmasq --conf-file=/tmp/etc/dnsmasq.conf.cfg01411c --pid-file=/run/dnsmasq.pid --user=root
"""


def start_dnsmasq(own, server):
    # The places are OpenWrt's.
    own.write("/tmp/etc/dnsmasq.conf.cfg01411c", f"no-resolv\nserver={server}\nstop-dns-rebind\nbind-dynamic\ninterface=lo\nconf-dir=/tmp/dnsmasq.d\n")
    own.write("/etc/init.d/dnsmasq", _DNSMASQ_SERVICE)
    own.write(RESOLV_CONF, "nameserver 127.0.0.1\n")
    own.sh("mkdir -p /tmp/dnsmasq.d; chmod 755 /etc/init.d/dnsmasq; /etc/init.d/dnsmasq start")


# A connection of NetworkManager, which it needs before it writes settings of DNS. Without udev it manages no interface but those that it makes.
_CONNECTION = """[connection]
id=up0
type=bridge
interface-name=up0
[bridge]
stp=false
[ipv4]
method=manual
address1=10.99.0.1/24
[ipv6]
method=disabled
"""


def start_network_manager(own, server, mode):
    """Starts NetworkManager with this mode of its DNS."""
    own.start_dbus()
    own.rewrites = mode == "dnsmasq"
    settings = f"[main]\nplugins=keyfile\ndns={mode}\nrc-manager=file\n[keyfile]\nunmanaged-devices=*,except:interface-name:up0\n"
    settings += f"[connectivity]\nenabled=false\n[global-dns]\nsearches=lan.example\n[global-dns-domain-*]\nservers={server}\n"
    own.write("/etc/NetworkManager/NetworkManager.conf", settings)
    connection = "/etc/NetworkManager/system-connections/up0.nmconnection"
    own.write(connection, _CONNECTION)
    # Scripts of other packages are not for this host.
    own.sh(f"chmod 600 {connection}; rm -rf /etc/NetworkManager/dispatcher.d /usr/lib/NetworkManager/dispatcher.d")
    manager = own.host.start("NetworkManager", "--debug", name="network-manager")
    wait_until(lambda: own.addresses("started.example"), "NetworkManager to write its settings", details=manager.tail)


RESOLVERS = {
    "network-manager": ("networkmanager-dnsmasq", ("network-manager", "dnsmasq"), lambda own, server: start_network_manager(own, server, "dnsmasq")),
    "network-manager-file": ("file", ("network-manager",), lambda own, server: start_network_manager(own, server, "default")),
    "file": ("file", (), write_plain),
    "dnsmasq": ("dnsmasq", ("dnsmasq",), start_dnsmasq),
    "openresolv": ("resolvconf", ("openresolv",), start_openresolv),
    "resolvconf": ("resolvconf", ("resolvconf",), start_resolvconf),
}

# With systemd-resolved, which needs no change of a file.
ALL_RESOLVERS = {"systemd-resolved": ("systemd-resolved", ("resolved",), lambda own, server: own.start_resolved(server)), **RESOLVERS}
