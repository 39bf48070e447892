"""Names that the operator chooses: records, domains of servers behind a subnet router, and another base domain, as programs of a host find them."""

import sys

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.subnets import Subnets
from lab.tests.resolver_host import RESOLV_CONF, ResolverHost, needs
from lab.tests.test_name_server import ask
from lab.traffic import public_names

DOMAIN = "default.taut.internal"
# What the Internet's name server, and the one behind the router, answer to every question.
PUBLIC, PRIVATE = "11.0.0.66", "11.1.0.66"
STUB = "100.64.0.0"


class Office:
    """A client with a resolver of its own, the Internet's name server on the coordinator's host, and a name server on a plain host behind a subnet router."""

    def __init__(self, lab, *programs):
        self.net = Subnets(lab)
        self.coordinator, self.own = self.net.coordinator, ResolverHost(self.net.client.host, *programs)
        self.net.client = self.own
        self.plain = self.net.hosts[0]
        self.internet = self.serve(self.coordinator.host, PUBLIC)
        self.inside = self.serve(self.plain, PRIVATE)

    def serve(self, host, answer):
        server = host.start(sys.executable, "-I", public_names.__file__, str(host.ipv4), answer, name="names")
        server.wait_for_output("ready")
        return server

    def join(self, *options):
        """Has the router and the client join, with the router's LAN approved."""
        router, prefix = self.net.start_router(), self.net.prefixes()[0]
        self.net.start(self.own, options=("--accept-routes", *options))
        self.net.approve(router, prefix)
        self.net.wait_for_route(self.own, prefix, router)

    def names(self, *words):
        return self.coordinator.cli("names", *words)

    def domains(self):
        return {one["domain"]: one for one in self.own.status()["self"]["names"]["domains"]}

    def wait_for_domain(self, domain):
        return self.own.wait_for(lambda status: any(one["domain"] == domain for one in status["self"]["names"]["domains"]), f"the domain {domain}")

    def asked(self, server):
        """Returns the names that a name server was asked for."""
        return [line.split(" ", 1)[1].lower() for line in server.output().splitlines()[1:]]

    def plain_file(self):
        self.own.write(RESOLV_CONF, f"nameserver {self.coordinator.host.ipv4}\nsearch lan.example\n")

    def start_dnsmasq(self):
        own, server = self.own, self.coordinator.host.ipv4
        own.write("/etc/dnsmasq.conf", f"no-resolv\nserver={server}\nstop-dns-rebind\nbind-dynamic\ninterface=lo\nconf-dir=/etc/dnsmasq.d/,*.conf\n")
        own.write("/etc/init.d/dnsmasq", _DNSMASQ_SERVICE)
        own.write(RESOLV_CONF, "nameserver 127.0.0.1\nsearch lan.example\n")
        own.sh("mkdir -p /etc/dnsmasq.d; chmod 755 /etc/init.d/dnsmasq; /etc/init.d/dnsmasq start")


# How dnsmasq is restarted on OpenWrt and by sysvinit.
_DNSMASQ_SERVICE = """#!/bin/sh
[ "$1" = start ] || { kill "$(cat /run/dnsmasq.pid)"; while kill -0 "$(cat /run/dnsmasq.pid)" 2>/dev/null; do sleep 0.01; done; }
[ "$1" = stop ] || dnsmasq --pid-file=/run/dnsmasq.pid --user=root
"""


def start_resolver(office, back_end):
    """Starts the client's resolver, with the Internet's name server."""
    match back_end:
        case "file":
            office.plain_file()
        case "dnsmasq":
            office.start_dnsmasq()
        case _:
            office.own.start_resolved(office.coordinator.host.ipv4)


@pytest.mark.parametrize(
    "back_end",
    ["file", pytest.param("dnsmasq", marks=needs("dnsmasq")), pytest.param("systemd-resolved", marks=needs("resolved"))],
)
def test_fault_h4_a_domain_behind_a_router_is_asked_there_and_nowhere_else(lab, back_end):
    programs = {"file": [], "dnsmasq": ["dnsmasq"], "systemd-resolved": ["resolved"]}[back_end]
    office = Office(lab, *programs)
    own = office.own
    start_resolver(office, back_end)
    office.join()
    own.wait_for_resolver(back_end)
    assert own.addresses("www.corp.example") == {PUBLIC}, "the operator has chosen nothing yet"
    office.names("set-domain", "corp.example", str(office.plain.ipv4))
    office.names("set-record", "git.corp.example", "11.1.0.7")
    office.names("set-record", "printer", "11.1.0.8")
    own.wait_for(lambda status: len(status["self"]["names"]["domains"]) + status["self"]["names"]["records"] == 3, "all names of the operator")
    before = len(office.asked(office.internet))
    wait_until(lambda: own.addresses("mail.corp.example") == {PRIVATE}, "the domain's server to be asked")
    assert own.addresses("git.corp.example") == {"11.1.0.7"}
    assert own.addresses(f"printer.{DOMAIN}") == {"11.1.0.8"}
    assert own.addresses("other.example") == {PUBLIC}
    assert own.addresses("truncated.corp.example") == {PRIVATE}
    assert not [name for name in office.asked(office.internet)[before:] if "corp" in name], office.asked(office.internet)
    assert "git.corp.example" not in office.asked(office.inside)
    assert "domain" in own.taut("status").stdout
    # The domain ends with the network, and with the operator's choice.
    office.names("remove-domain", "corp.example")
    own.wait_for(lambda status: not status["self"]["names"]["domains"], "the domain to be gone")
    wait_until(lambda: own.addresses("web.corp.example") == {PUBLIC}, "the Internet's server to be asked again")
    own.taut("down")
    wait_until(lambda: own.addresses("git.corp.example") == {PUBLIC}, "the record to be gone")
