"""Names of the internet while a host uses an exit node: that node's servers answer, for its users alone, and nothing is asked elsewhere."""

import json
import sys

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.exits import Exits
from lab.tests.resolver_host import RESOLV_CONF, ResolverHost, needs
from lab.tests.test_name_server import ask
from lab.tests.test_split_names import STUB, start_dnsmasq
from lab.traffic import public_names

DOMAIN = "default.taut.internal"
# What the client's own name server, and that of the exit node, answer to every question.
HERE, THERE = "11.0.0.66", "11.1.0.66"
# The port at which an exit node is asked.
EXIT_PORT = 253


class Office:
    """A client with a resolver and a name server of its own, and an exit node whose host has another name server."""

    def __init__(self, lab, *programs):
        self.net = Exits(lab)
        self.own = ResolverHost(self.net.client.host, *programs)
        self.net.client = self.own
        self.gate = ResolverHost(self.net.exits[0].host)
        self.net.exits[0] = self.gate
        self.server = str(self.net.coordinator.host.ipv4)
        self.near = self.serve(self.net.coordinator.host, HERE)
        self.far = self.serve(self.net.internet, THERE, "198.51.100.1")
        self.gate.write(RESOLV_CONF, "nameserver 198.51.100.1\nsearch gate.example\n")

    def serve(self, host, answer, address=None):
        server = host.start(sys.executable, "-I", public_names.__file__, address or str(host.ipv4), answer, name="names")
        server.wait_for_output("ready")
        return server

    def asked(self, server):
        return [line.split(" ", 1)[1].lower() for line in server.output().splitlines()[1:]]


def start_resolver(office, back_end):
    match back_end:
        case "file":
            office.own.write(RESOLV_CONF, f"nameserver {office.server}\n")
        case "dnsmasq":
            start_dnsmasq(office.own, office.server)
        case _:
            office.own.start_resolved(office.server)


@pytest.mark.parametrize(
    "back_end",
    ["file", pytest.param("dnsmasq", marks=needs("dnsmasq")), pytest.param("systemd-resolved", marks=needs("resolved"))],
)
def test_fault_h8_the_exit_node_answers_for_its_users_and_nobody_else_is_asked(lab, back_end):
    office = Office(lab, *{"file": [], "dnsmasq": ["dnsmasq"], "systemd-resolved": ["resolved"]}[back_end])
    own, net = office.own, office.net
    start_resolver(office, back_end)
    before = own.traces()
    net.start_exit()
    own.start()
    own.up(net.coordinator.join_token)
    own.wait_for_resolver(back_end)
    assert own.addresses("www.example") == {HERE}
    own.taut("set", "--exit-node", "exit1")
    net.wait_for_exit(own, "exit1")
    wait_until(lambda: own.addresses("www.example") == {THERE}, "the exit node's server to answer")
    count = len(office.asked(office.near))
    # systemd-resolved takes no answer with a record of nonsense.
    signed = ["www.signed.example"] if back_end != "systemd-resolved" else []
    for name in ["mail.example", "truncated.example", *signed]:
        assert own.addresses(name) == {THERE}, name
    gate = office.gate
    assert own.addresses(f"exit1.{DOMAIN}") == {gate.ipv4, gate.ipv6}
    # Not the internet's: names of the exit node's own networks, and of this host's.
    for name in ("nas.gate.example", "x.local", "x.other.taut.internal"):
        assert ask(own.host, STUB, (name, "A"))[0]["code"] == "REFUSED", name
    assert "asked through the exit node exit1" in own.taut("status").stdout
    # Without the exit node nothing is asked anywhere, and the network's names go on.
    gate.kill_daemon()
    assert ask(own.host, STUB, ("lost.example", "A"), timeout=8)[0]["code"] == "SERVFAIL"
    assert not own.addresses("lost.example.")
    assert own.addresses(f"exit1.{DOMAIN}") == {gate.ipv4, gate.ipv6}
    assert own.status()["self"]["names"]["internet"]["troubles"]
    # systemd-resolved asks the servers of a link for names below that link's search domains, which libc tries when there is no answer.
    leaked = [name for name in office.asked(office.near)[count:] if back_end != "systemd-resolved" or not name.endswith(".lan.example")]
    assert not leaked, leaked
    own.taut("set", "--exit-node", "none")
    own.wait_for_resolver(back_end)
    wait_until(lambda: own.addresses("after.example") == {HERE}, "the host's own server again")
    own.taut("down")
    wait_until(lambda: own.traces() == before, "the host to be as before", details=lambda: f"{own.traces()}\n{before}")


def test_fault_h8_an_exit_node_is_no_open_resolver(lab, tmp_path):
    office = Office(lab)
    net, gate = office.net, office.gate
    net.start_exit()
    own = net.start_client("none")
    asked = ("open.example", "A")

    def answers(host, address, *options):
        return ask(host, address, asked, options=("--port", str(EXIT_PORT), *options), timeout=1)[0]

    # The policy of a new network allows everything: a member is answered although it does not use the exit node now.
    for address in (gate.ipv4, gate.ipv6):
        wait_until(lambda address=address: answers(own.host, address), "the exit node to answer")
        assert answers(own.host, address, "--tcp")["answers"] == [THERE]
    # Hosts of the networks around it are not.
    for host in (net.internet, net.coordinator.host):
        host.ip(f"route add {gate.ipv4}/32 via {gate.host.ipv4 if host is net.coordinator.host else net.public()}")
        for address in (gate.ipv4, gate.host.ipv4, net.public()):
            assert answers(host, address) is None and answers(host, address, "--tcp") is None
    # A peer that may reach the node, and not the internet through it.
    policy = tmp_path / "policy.hujson"
    policy.write_text(json.dumps({"acls": [{"action": "accept", "src": ["*"], "dst": ["100.64.0.0/10:*"]}]}))
    net.coordinator.cli("policy", "apply", str(policy))
    wait_until(lambda: answers(own.host, gate.ipv4) is None, "the exit node to be silent")
    assert answers(own.host, gate.ipv4, "--tcp") is None
    count = len(office.asked(office.far))
    # One that may use one port of the internet alone needs names for it, and no other port of the node.
    policy.write_text(json.dumps({"acls": [{"action": "accept", "src": ["*"], "dst": ["autogroup:internet:443"]}]}))
    net.coordinator.cli("policy", "apply", str(policy))
    wait_until(lambda: answers(own.host, gate.ipv4), "the exit node to answer")
    assert len(office.asked(office.far)) > count


def test_fault_h8_a_port_of_another_program_is_not_opened_to_peers(lab, tmp_path):
    office = Office(lab)
    net, gate = office.net, office.gate

    def answers():
        return ask(net.client.host, gate.ipv4, ("open.example", "A"), options=("--port", str(EXIT_PORT)), timeout=1)[0]

    # An unprivileged user of the exit node's host cannot have the port.
    squat = f"import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(('0.0.0.0', {EXIT_PORT}))"
    denied = gate.host.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-I", "-c", squat, check=False)
    assert denied.returncode != 0 and "Permission denied" in denied.stderr, denied.stderr
    # A program of root can, and is not asked: the packet filter is opened for this node's own sockets alone.
    other = gate.host.start(sys.executable, "-I", public_names.__file__, "0.0.0.0", "6.6.6.6", str(EXIT_PORT), name="other")
    other.wait_for_output("ready")
    net.start_exit()
    net.start_client("none")
    policy = tmp_path / "policy.hujson"
    policy.write_text(json.dumps({"acls": [{"action": "accept", "src": ["*"], "dst": ["autogroup:internet:*"]}]}))
    net.coordinator.cli("policy", "apply", str(policy))
    gate.wait_for(lambda status: any(f"port {EXIT_PORT} of its overlay addresses" in warning["message"] for warning in status["warnings"]), "the exit node to say so")
    assert answers() is None
    other.stop()
    wait_until(lambda: answers() and answers()["answers"] == [THERE], "the exit node to have the port")
    assert "6.6.6.6" not in other.output()


def test_names_take_the_hosts_own_way_during_a_pause(lab):
    office = Office(lab)
    own, net = office.own, office.net
    start_resolver(office, "file")
    net.start_exit()
    own.start()
    own.up(net.coordinator.join_token)
    own.taut("set", "--exit-node", "exit1", "--kill-switch")
    wait_until(lambda: own.addresses("www.example") == {THERE}, "the exit node's server to answer")
    own.taut("kill-switch", "pause", "5m", "--state", own.state)
    wait_until(lambda: own.addresses("portal.example") == {HERE}, "the host's own server, as for a captive portal")
    assert own.status()["self"]["names"]["internet"] is None
    own.taut("kill-switch", "resume", "--state", own.state)
    wait_until(lambda: own.addresses("www.example") == {THERE}, "the exit node's server again")


def test_fault_j9_a_crash_leaves_no_rules_of_the_exit_node(lab):
    # The process beside the daemon removes them.
    office = Office(lab)
    office.own.write(RESOLV_CONF, f"nameserver {office.server}\n")
    office.net.start_exit()
    office.net.start_client("exit1")
    office.net.wait_for_exit(office.own, "exit1")

    def rules():
        return [line for family in ("-4", "-6") for line in office.own.host.run("ip", family, "rule", "show").stdout.splitlines() if "proto 116" in line]

    wait_until(rules, "the rules of the exit node")
    office.own.kill_daemon()
    wait_until(lambda: not rules(), "the rules to be gone")
