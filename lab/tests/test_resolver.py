"""The host's resolver asks the node for the network's names while the network is up, and is as it was afterwards. Each test runs the real resolver."""

import sys

import pytest

from lab.hosts.wait import wait_until
from lab.tests.resolver_host import RESOLV_CONF, ResolverHost, needs
from lab.traffic import public_names

DOMAIN = "default.taut.internal"
# The answer of the Internet's name server to every question.
PUBLIC = "192.0.2.66"


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
