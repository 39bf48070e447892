"""Names that the operator chooses: records, domains of servers behind a subnet router, and another base domain, as programs of a host find them."""

import sys

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.resolver_host import RESOLV_CONF, ResolverHost
from lab.nodes.subnets import Subnets
from lab.tests.resolver_host import needs
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
        self.net.start(self.own, options=options)
        self.own.taut("set", "--accept-routes")
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


# How dnsmasq is restarted on OpenWrt and by sysvinit.
_DNSMASQ_SERVICE = """#!/bin/sh
[ "$1" = start ] || { kill "$(cat /run/dnsmasq.pid)"; while kill -0 "$(cat /run/dnsmasq.pid)" 2>/dev/null; do sleep 0.01; done; }
[ "$1" = stop ] || dnsmasq --pid-file=/run/dnsmasq.pid --user=root
"""


def start_dnsmasq(own, server):
    """Starts a dnsmasq on a host, with this server for all names, and has libc ask it."""
    own.write("/etc/dnsmasq.conf", f"no-resolv\nserver={server}\nstop-dns-rebind\nbind-dynamic\ninterface=lo\nconf-dir=/etc/dnsmasq.d/,*.conf\n")
    own.write("/etc/init.d/dnsmasq", _DNSMASQ_SERVICE)
    own.write(RESOLV_CONF, "nameserver 127.0.0.1\nsearch lan.example\n")
    own.sh("mkdir -p /etc/dnsmasq.d; chmod 755 /etc/init.d/dnsmasq; /etc/init.d/dnsmasq start")


def start_resolver(office, back_end):
    """Starts the client's resolver, with the Internet's name server."""
    match back_end:
        case "file":
            office.plain_file()
        case "dnsmasq":
            start_dnsmasq(office.own, office.coordinator.host.ipv4)
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
    # The node knows its names a moment before the host's resolver does.
    wait_until(lambda: own.addresses("first.corp.example") == {PRIVATE}, "the domain's server to be asked")
    before = len(office.asked(office.internet))
    assert own.addresses("mail.corp.example") == {PRIVATE}
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


def test_fault_e17_a_domain_of_the_whole_internet_waits_for_the_users_consent(lab):
    office = Office(lab)
    own, server = office.own, str(office.plain.ipv4)
    office.plain_file()
    office.join()
    own.wait_for_resolver("file")
    for domain in ("com", "co.uk", "lan.example", "corp.example"):
        office.names("set-domain", domain, server)
    shown = office.names("list").stdout
    assert shown.count("needs consent") == 2, shown
    status = own.wait_for(lambda status: len(status["warnings"]) == 3 and len(status["self"]["names"]["domains"]) == 2, "three warnings and two domains")
    text = " ".join(one["message"] + one["hint"] for one in status["warnings"])
    # The third one is a search domain of the host (H1). Each hint has the whole list.
    assert all(word in text for word in ("single label", "public suffix", "search domains", "taut set --accept-domains co.uk,com,lan.example`"))
    assert {one["domain"] for one in status["self"]["names"]["domains"]} == {"lan.example", "corp.example"}
    wait_until(lambda: own.addresses("www.corp.example") == {PRIVATE}, "the harmless domain to be used")
    for name in ("www.example.com", "www.example.co.uk", "www.lan.example"):
        assert own.addresses(name) == {PUBLIC}, name
    assert ask(own.host, STUB, ("www.example.com", "A"))[0]["code"] == "REFUSED"
    own.taut("set", "--accept-domains", "com,co.uk,lan.example")
    for name in ("www.example.com", "www.example.co.uk", "www.lan.example"):
        wait_until(lambda name=name: own.addresses(name) == {PRIVATE}, f"{name} to be asked at the operator's server")
    assert not own.status()["warnings"]
    own.taut("set", "--accept-domains", "none")
    wait_until(lambda: own.addresses("www.example.com") == {PUBLIC}, "the consent to end")


def test_fault_h5_a_dead_server_is_named_and_other_names_are_answered(lab):
    office = Office(lab)
    own = office.own
    office.plain_file()
    office.join()
    office.names("set-domain", "corp.example", f"{office.net.lans[0].subnets[0].network_address + 77},{office.plain.ipv4}")
    office.names("set-domain", "dead.example", str(office.net.lans[0].subnets[0].network_address + 78))
    office.names("set-domain", "away.example", "100.64.7.7")
    office.wait_for_domain("away.example")
    assert ask(own.host, STUB, ("www.corp.example", "A"))[0]["answers"] == [PRIVATE], "the second server"
    answers = ask(own.host, STUB, ("www.dead.example", "A"), ("www.away.example", "A"))
    assert [answer["code"] for answer in answers] == ["SERVFAIL", "SERVFAIL"]
    assert ask(own.host, STUB, (f"router1.{DOMAIN}", "A"))[0]["ms"] < 1_000
    reasons = {domain: [trouble["reason"] for trouble in one["troubles"]] for domain, one in office.domains().items()}
    assert reasons["dead.example"] and "not answer" in reasons["corp.example"][0]
    assert reasons["away.example"] == ["no node that this host may see has its address"]
    assert "no node that this host may see" in own.taut("status").stdout
    # Without the route there is no way, and nothing is sent elsewhere.
    own.taut("set", "--accept-routes=false")
    own.wait_for(lambda status: not any(one["via"] for one in status["routes"]["peers"]), "the route to be given up")
    assert ask(own.host, STUB, ("x.corp.example", "A"))[0]["code"] == "SERVFAIL"
    assert "--accept-routes" in office.domains()["corp.example"]["troubles"][1]["reason"]


def test_fault_h8_no_other_host_has_the_stub_ask_a_server(lab):
    office = Office(lab)
    own, router = office.own, office.net.routers[0]
    office.plain_file()
    office.join()
    office.names("set-domain", "corp.example", str(office.plain.ipv4))
    office.wait_for_domain("corp.example")
    asked = ("open.corp.example", "A")
    # A peer, and a host of the LAN, that send their questions to the client: by its overlay address, or routed through it.
    assert ask(router.host, own.ipv4, asked, timeout=0.5) == [None]
    coordinator = office.coordinator.host
    coordinator.ip(f"route add {STUB}/32 via {own.host.ipv4}")
    own.host.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    assert ask(coordinator, STUB, asked, timeout=0.5) == [None]
    # With a source of the overlay, too.
    coordinator.ip(f"address add {own.ipv4}/32 dev lo", f"route replace {STUB}/32 via {own.host.ipv4} src {own.ipv4}")
    assert ask(coordinator, STUB, asked, timeout=0.5) == [None]
    assert not [name for name in office.asked(office.inside) if "open" in name]
    assert ask(own.host, STUB, asked)[0]["answers"] == [PRIVATE]


def test_the_operator_chooses_the_base_domain(lab):
    office = Office(lab)
    own = office.own
    office.plain_file()
    office.join()
    own.wait_for_resolver("file")
    office.names("set-record", "printer", "11.1.0.8")
    router = {office.net.routers[0].ipv4, office.net.routers[0].ipv6}
    wait_until(lambda: own.addresses(f"router1.{DOMAIN}") == router, "the usual name")
    office.names("set-base", "corp.example")
    wait_until(lambda: own.addresses("router1.default.corp.example") == router, "the new name")
    assert own.addresses("printer.default.corp.example") == {"11.1.0.8"}
    assert own.status()["self"]["names"]["domain"] == "default.corp.example"
    # The old names end at once.
    assert ask(own.host, STUB, (f"router1.{DOMAIN}", "A"))[0]["code"] == "REFUSED"
    # A base that needs consent is not used.
    office.names("set-base", "lan")
    own.wait_for(lambda status: status["self"]["names"]["domain"] == DOMAIN and status["warnings"], "the default, and a warning")
    own.taut("set", "--accept-domains", "lan")
    wait_until(lambda: own.addresses("printer.default.lan") == {"11.1.0.8"}, "the name below the accepted base")
    office.names("set-base", "default")
    wait_until(lambda: own.addresses(f"printer.{DOMAIN}") == {"11.1.0.8"}, "the default again")


def test_fault_h6_a_public_name_does_not_lead_to_the_overlay(lab):
    office = Office(lab)
    own = office.own
    office.plain_file()
    office.join()
    own.wait_for_resolver("file")
    office.internet.stop()
    office.internet = office.serve(office.coordinator.host, own.ipv4)
    # With a dot at its end, libc tries no search domain.
    assert own.addresses("evil.example.") == {own.ipv4}, "off by default"
    own.taut("set", "--dns-filter", "overlay")
    wait_until(lambda: not own.addresses("evil.example."), "the answer to be dropped")
    # Names that are not public ones may lead there.
    assert own.addresses("nas.lan.example") == {own.ipv4}
    assert own.addresses(f"router1.{DOMAIN}")
    own.taut("set", "--dns-filter", "none")
    wait_until(lambda: own.addresses("evil.example.") == {own.ipv4}, "the filter to be off")
