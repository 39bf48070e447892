"""The name server of a node: names of the network, asked at the node's own stub over both transports and both families."""

import ipaddress
import json
import sys
from pathlib import Path

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.taut import PORT
from lab.nodes.wireguard import INTERFACE, WireGuard
from lab.traffic import questions

_ASK = (sys.executable, "-I", questions.__file__)
DOMAIN = "default.taut.internal"
# Another program on port 53 of every address. It answers nothing, and reports what it receives.
_OCCUPY = """
import select, socket
sockets = []
for family, any_address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        taken = socket.socket(family, kind)
        if family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.bind((any_address, 53))
        if kind == socket.SOCK_STREAM:
            taken.listen()
        sockets.append(taken)
print("ready", flush=True)
select.select(sockets, [], [])
print("asked", flush=True)
"""


def ask(host, server, *asked, options=(), timeout=5):
    """Asks the server from this host; returns the answers."""
    done = host.run(*_ASK, server, "--timeout", timeout, *options, text=json.dumps(asked), timeout=30 + timeout * len(asked))
    return json.loads(done.stdout)


def stub(node):
    """Returns the stub's addresses, IPv4 and IPv6, as the status shows them."""
    names = node.status()["self"]["names"]
    assert names["domain"] == DOMAIN
    return names["servers"]


def reverse(address):
    return ipaddress.ip_address(address).reverse_pointer


def everything(node, peer):
    """Returns questions about a peer, each with its answers."""
    return {
        (f"{peer.name}.{DOMAIN}", "A"): [peer.ipv4],
        (f"{peer.name.upper()}.{DOMAIN}", "AAAA"): [peer.ipv6],
        (reverse(peer.ipv4), "PTR"): [f"{peer.name}.{DOMAIN}"],
        (reverse(peer.ipv6), "PTR"): [f"{peer.name}.{DOMAIN}"],
        (f"{node.name}.{DOMAIN}", "A"): [node.ipv4],
        (reverse(node.ipv6), "PTR"): [f"{node.name}.{DOMAIN}"],
    }


@pytest.mark.parametrize("occupied", [False, True], ids=["free", "occupied"])
def test_names_and_addresses_are_answered_over_both_transports_and_families(mesh, occupied):
    net = mesh(nodes=2)
    one, two = net.nodes
    servers = stub(one)
    assert len(servers) == 2
    assert " ".join(servers) in one.taut("status").stdout
    other = None
    if occupied:
        other = one.host.start(sys.executable, "-I", "-c", _OCCUPY, name="occupant")
        other.wait_for_output("ready")
    # Nothing but the map is needed.
    net.coordinator.kill()
    wanted = everything(one, two)
    for server in servers:
        for options in ((), ("--tcp",)):
            answers = ask(one.host, server, *wanted, options=options)
            assert [answer and answer["answers"] for answer in answers] == list(wanted.values()), (server, options)
            assert all(answer["authoritative"] for answer in answers)
    assert other is None or "asked" not in other.output()


def test_what_does_not_exist_and_what_is_foreign_is_told_apart(mesh):
    one = mesh(nodes=1).nodes[0]
    for options in ((), ("--tcp",)):
        for (name, kind), (code, authorities) in {
            (f"nobody.{DOMAIN}", "A"): ("NXDOMAIN", ["SOA"]),
            (f"a.{one.name}.{DOMAIN}", "A"): ("NXDOMAIN", ["SOA"]),
            (f"{one.name}.{DOMAIN}", "MX"): ("NOERROR", ["SOA"]),
            (reverse("100.64.77.7"), "PTR"): ("NXDOMAIN", ["SOA"]),
            ("example.com", "A"): ("REFUSED", []),
            ("other.taut.internal", "A"): ("REFUSED", []),
            (reverse("192.0.2.1"), "PTR"): ("REFUSED", []),
            (DOMAIN, "AXFR"): ("REFUSED", []),
        }.items():
            [answer] = ask(one.host, stub(one)[0], (name, kind), options=options)
            assert (answer["code"], answer["authorities"], answer["answers"]) == (code, authorities, []), name


def test_a_renamed_node_has_its_new_name_at_once(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    server = stub(one)[0]

    def codes():
        return [answer["code"] for answer in ask(one.host, server, (f"{two.name}.{DOMAIN}", "A"), (f"web.{DOMAIN}", "A"))]

    assert codes() == ["NOERROR", "NXDOMAIN"]
    net.coordinator.cli("nodes", "rename", two.name, "web")
    one.wait_for_peers("web")
    assert codes() == ["NXDOMAIN", "NOERROR"]
    # It answers for its own new name, too.
    two.wait_for(lambda status: status["self"]["name"] == "web", "its new name")
    assert ask(two.host, server, (f"web.{DOMAIN}", "A"))[0]["answers"] == [two.ipv4]
    net.coordinator.cli("nodes", "remove", "web")
    one.wait_for_peers()
    assert codes() == ["NXDOMAIN", "NXDOMAIN"]


def test_hundreds_of_questions_on_one_connection_are_all_answered(mesh):
    one, two = mesh(nodes=2).nodes
    for server in stub(one):
        # Some 70 kB of answers: more than a window, in dozens of segments.
        answers = ask(one.host, server, *[(f"{two.name}.{DOMAIN}", "A")] * 300, *[(f"x{n}.{DOMAIN}", "A") for n in range(300)], options=["--tcp"])
        assert [answer and answer["code"] for answer in answers] == ["NOERROR"] * 300 + ["NXDOMAIN"] * 300


def test_the_resolver_of_the_host_finds_names_through_the_stub(mesh):
    one, two = mesh(nodes=2).nodes
    config = Path(one.host.state) / "resolv.conf"
    for server in stub(one):
        config.write_text(f"nameserver {server}\nsearch {DOMAIN}\n")
        script = f'mount --bind {config} /etc/resolv.conf && getent ahosts "$1"; getent hosts "$2"'
        for name in (f"{two.name}.{DOMAIN}", two.name):
            done = one.host.run("unshare", "-m", "sh", "-c", script, "sh", name, two.ipv4)
            assert two.ipv4 in done.stdout and two.ipv6 in done.stdout, done.stdout
            assert f"{two.name}.{DOMAIN}" in done.stdout.splitlines()[-1]


def test_each_lane_answers_the_flows_that_it_reads(layout):
    net = layout(nodes=2)
    net.coordinator.start()
    one, two = net.nodes
    one.start("--lanes", "4")
    one.up(net.coordinator.join_token)
    net.join(two)
    net.wait_for_maps()
    assert len(one.status()["self"]["lanes"]["ports"]) == 4
    asked = json.dumps([(f"{two.name}.{DOMAIN}", "A")])
    for server in stub(one):
        for options in ((), ("--tcp",)):
            # Each question has a socket of its own, so the kernel or the first lane distributes them.
            times = json.loads(one.host.run(*_ASK, server, "--repeat", 60, "--timeout", 2, *options, text=asked, timeout=150).stdout)
            assert None not in times and len(times) == 60


def test_down_and_up_take_the_stub_along(mesh):
    one, two = mesh(nodes=2).nodes
    name = (f"{two.name}.{DOMAIN}", "A")
    servers = stub(one)

    def routes():
        return one.host.run("ip", "route", "show", servers[0]).stdout + one.host.run("ip", "-6", "route", "show", servers[1]).stdout

    assert routes().count("dev") == 2
    one.taut("down")
    assert routes() == ""
    assert ask(one.host, servers[0], name, timeout=0.5) == [None]
    one.up()
    wait_until(lambda: ask(one.host, servers[0], name, timeout=0.5)[0], "an answer")


def test_fault_h8_a_peer_gets_no_answer_from_the_stub_of_another_node(mesh):
    """The peer is a WireGuard implementation with the keys of a member, which routes the stub's addresses into the tunnel."""
    net = mesh(nodes=2)
    one, two = net.nodes
    servers, inner = stub(one), (two.ipv4, two.ipv6)
    two.stop()
    me = one.status()["self"]
    identity = json.loads((two.state / "identity.json").read_text(encoding="utf-8").partition("\n")[2])
    member = WireGuard(two.host, inner=[f"{inner[0]}/32", f"{inner[1]}/128"])
    member.config = (
        f"[Interface]\nPrivateKey = {identity['node_key']}\n[Peer]\nPublicKey = {me['node_key']}\nEndpoint = {one.host.ipv4}:{PORT}\n"
        f"AllowedIPs = {one.ipv4}/32, {one.ipv6}/128, {servers[0]}/32, {servers[1]}/128\n"
    )
    member.start()
    two.host.ip(*(f"route add {address} dev {INTERFACE}" for address in (one.ipv4, one.ipv6, *servers)))
    assert member.reaches(one.ipv4) is not None
    before = one.status()["drops"].get("in-destination-not-ours", 0)
    asked = (f"{two.name}.{DOMAIN}", "A")
    for server in servers:
        assert ask(two.host, server, asked, timeout=1) == [None]
        assert ask(two.host, server, asked, options=["--tcp"], timeout=1) == [None]
    assert one.status()["drops"]["in-destination-not-ours"] >= before + 4
    # The host itself is answered meanwhile.
    assert ask(one.host, servers[0], asked)[0]["answers"] == [two.ipv4]


def test_fault_h8_the_network_behind_a_forwarding_host_gets_no_answer(mesh):
    net = mesh(nodes=1)
    one = net.nodes[0]
    server = stub(one)[0]
    one.host.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    neighbour = net.coordinator.host
    neighbour.ip(f"route add {server} via {one.host.ipv4}")
    for options in ((), ("--tcp",)):
        assert ask(neighbour, server, (f"{one.name}.{DOMAIN}", "A"), options=options, timeout=1) == [None]
    assert one.status()["drops"]["out-names"] >= 2
    assert ask(one.host, server, (f"{one.name}.{DOMAIN}", "A"))[0]["answers"] == [one.ipv4]
