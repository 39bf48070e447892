"""The host's resolver asks the node for the network's names while the network is up, and is as it was afterwards. Each test runs the real resolver."""

import sys

import pytest

from lab.hosts.wait import wait_until
from lab.tests.resolver_host import RESOLV_CONF, ResolverHost, needs
from lab.traffic import public_names

DOMAIN = "default.taut.internal"
# The answer of the Internet's name server to every question. Not of a range for documentation: a dnsmasq that filters private addresses filters these, too.
PUBLIC = "11.0.0.66"


class Site:
    """A coordinator with the Internet's name server on its host, a plain node, and a node `own` with a resolver of its own."""

    def __init__(self, layout, *programs):
        net = layout(nodes=2)
        self.coordinator, self.peer = net.coordinator, net.nodes[1]
        self.own = ResolverHost(net.nodes[0].host, *programs)
        self.server = str(net.coordinator.host.ipv4)
        self.public = net.coordinator.host.start(sys.executable, "-I", public_names.__file__, self.server, PUBLIC, name="public-names")
        self.public.wait_for_output("ready")
        self.switch = net.switches[0]
        self.net = net

    @property
    def peer_name(self):
        return f"{self.peer.name}.{DOMAIN}"

    def join(self, *options):
        """Has both nodes join; the resolver's node with these flags."""
        self.coordinator.start()
        self.peer.start()
        self.peer.up(self.coordinator.join_token)
        self.own.start(*options)
        self.own.up(self.coordinator.join_token)
        self.own.wait_for_peers(self.peer.name)

    def asked(self):
        """Returns the names that the Internet's name server was asked for."""
        return [line.split(" ", 1)[1].lower() for line in self.public.output().splitlines()[1:]]

    def finds_both(self):
        """Checks that programs find the network's names and all others."""
        own, peer = self.own, self.peer
        assert own.addresses(self.peer_name) == {peer.ipv4, peer.ipv6}
        assert own.addresses("www.example") == {PUBLIC}
        assert self.peer_name in own.host.run("getent", "hosts", peer.ipv4).stdout

    def is_as_before(self, before):
        """Waits until the host is as it was, and its resolver works."""
        wait_until(lambda: self.own.traces() == before, "the host to be as before", details=lambda: f"{self.own.traces()}\n{before}")
        wait_until(lambda: self.own.addresses("after.example") == {PUBLIC}, "the resolver to work")


@needs("resolved")
def test_fault_h3_systemd_resolved_asks_the_node_until_it_is_down_or_killed(layout):
    site = Site(layout, "resolved")
    own = site.own
    own.start_resolved(site.server)
    before = own.traces()
    assert own.addresses("www.example") == {PUBLIC}
    site.join()
    own.wait_for_resolver("systemd-resolved")
    site.finds_both()
    assert "asked by systemd-resolved" in own.taut("status").stdout
    assert own.traces() == before, "systemd-resolved needs no change of a file"
    own.taut("down")
    site.is_as_before(before)
    assert not own.finds(site.peer_name, site.peer.ipv4)
    own.up()
    own.wait_for_resolver("systemd-resolved")
    site.finds_both()
    own.kill_daemon()
    site.is_as_before(before)
    assert "taut0" not in own.sh("resolvectl domain")
    own.start()
    own.up()
    own.wait_for_resolver("systemd-resolved")
    site.finds_both()


def write_plain(site):
    """Gives the host a plain file with the Internet's name server."""
    site.own.write(RESOLV_CONF, f"# by hand\nnameserver {site.server}\nsearch lan.example\noptions timeout:3 attempts:1\n")
    site.own.sh(f"chmod 640 {RESOLV_CONF}; touch -d 2020-01-01 {RESOLV_CONF}")


def start_openresolv(site):
    site.own.write("/etc/resolvconf.conf", "resolv_conf=/etc/resolv.conf\n")
    site.own.host.run("resolvconf", "-a", "eth0", text=f"nameserver {site.server}\n")


def start_resolvconf(site):
    site.own.sh("mkdir -p /run/resolvconf/interface /run/resolvconf && touch /run/resolvconf/enable-updates")
    site.own.sh(f"ln -s /run/resolvconf/resolv.conf {RESOLV_CONF}; resolvconf --enable-updates")
    site.own.host.run("resolvconf", "-a", "eth0.dhcp", text=f"nameserver {site.server}\n")


# How dnsmasq is restarted on OpenWrt and by sysvinit.
_DNSMASQ_SERVICE = """#!/bin/sh
# $1 is start, stop or restart
[ "$1" = start ] || { kill "$(cat /run/dnsmasq.pid)"; while kill -0 "$(cat /run/dnsmasq.pid)" 2>/dev/null; do sleep 0.01; done; }
[ "$1" = stop ] || dnsmasq --pid-file=/run/dnsmasq.pid --user=root
"""


def start_dnsmasq(site):
    own = site.own
    own.write("/etc/dnsmasq.conf", f"no-resolv\nserver={site.server}\nstop-dns-rebind\nbind-dynamic\ninterface=lo\nconf-dir=/etc/dnsmasq.d/,*.conf\n")
    own.write("/etc/init.d/dnsmasq", _DNSMASQ_SERVICE)
    own.write(RESOLV_CONF, "nameserver 127.0.0.1\n")
    own.sh("mkdir -p /etc/dnsmasq.d; chmod 755 /etc/init.d/dnsmasq; /etc/init.d/dnsmasq start")


RESOLVERS = {
    "file": ("file", (), write_plain),
    "dnsmasq": ("dnsmasq", ("dnsmasq",), start_dnsmasq),
    "openresolv": ("resolvconf", ("openresolv",), start_openresolv),
    "resolvconf": ("resolvconf", ("resolvconf",), start_resolvconf),
}


@pytest.fixture(params=[pytest.param(name, marks=needs(name)) if programs else name for name, (_, programs, _) in RESOLVERS.items()])
def resolver(request):
    """Returns (the name of the back-end, the programs that the host needs, a function that starts the resolver)."""
    return RESOLVERS[request.param]


def test_fault_h1_h3_h4_each_resolver_asks_the_node_and_is_as_before_after_down_and_kill(layout, resolver):
    back_end, programs, start = resolver
    site = Site(layout, *programs)
    own = site.own
    start(site)
    before = own.traces()
    assert own.addresses("www.example") == {PUBLIC}
    site.join()
    own.wait_for_resolver(back_end)
    assert own.traces() != before
    site.finds_both()
    # The Internet knows an address for every name; that of the network comes first, and no name of the network was asked there (H1, H4).
    assert not own.addresses(f"nobody.{DOMAIN}") and not own.addresses("x.other.taut.internal")
    own.taut("down")
    site.is_as_before(before)
    own.up()
    own.wait_for_resolver(back_end)
    site.finds_both()
    own.kill_daemon()
    site.is_as_before(before)
    assert not [name for name in site.asked() if "taut.internal" in name or name.endswith("100.in-addr.arpa")], site.asked()
