"""The host's resolver asks the node for the network's names while the network is up, and is as it was afterwards. Each test runs the real resolver."""

import os
import sys
from pathlib import Path

import pytest

from lab.hosts.needs import found
from lab.hosts.programs import binary
from lab.hosts.shifted_clock import ShiftedClock
from lab.hosts.user_namespace import UserNamespaceHost
from lab.hosts.wait import wait_until
from lab.nodes.resolver_host import RESOLV_CONF, ResolverHost
from lab.nodes.resolvers import RESOLVERS, write_plain
from lab.nodes.taut import Coordinator, Node, answering
from lab.tests.test_name_server import ask
from lab.tests.resolver_host import needs
from lab.traffic import capture, public_names
from lab.traffic.flow import Listener

DOMAIN = "default.taut.internal"
# The answer of the Internet's name server to every question. Not of a range for documentation: a dnsmasq that filters private addresses filters these, too.
PUBLIC = "11.0.0.66"
# A time of the first of January 1970, in seconds.
HALF_A_DAY_S = 43_200
# The address at which the helper answers a host whose resolver cannot send some names elsewhere.
FORWARDER = "127.64.0.53"


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

    def asks_no_name_of_the_network(self):
        """Checks that the Internet's name server, which has an address for every name, learns of no name of the network: not of one that exists, of one that does not, nor with a
        search domain of the host behind it."""
        for name in (f"nobody.{DOMAIN}", "x.other.taut.internal", "taut.internal"):
            assert not self.own.addresses(name), name
        self.own.host.run("getent", "hosts", "100.64.7.7", check=False)
        assert not [name for name in self.asked() if "taut.internal" in name or name.endswith("100.in-addr.arpa")], self.asked()

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
    site.asks_no_name_of_the_network()
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


@pytest.fixture(params=[pytest.param(name, marks=[needs(program) for program in programs]) for name, (_, programs, _) in RESOLVERS.items()])
def resolver(request):
    """Returns (the name of the back-end, the programs that the host needs, a function that starts the resolver with a name server)."""
    return RESOLVERS[request.param]


def test_fault_h1_h3_h4_each_resolver_asks_the_node_and_is_as_before_after_down_and_kill(layout, resolver):
    back_end, programs, start = resolver
    site = Site(layout, *programs)
    own = site.own
    start(own, site.server)
    before = own.traces()
    assert own.addresses("www.example") == {PUBLIC}
    site.join()
    own.wait_for_resolver(back_end)
    assert own.traces() != before
    site.finds_both()
    site.asks_no_name_of_the_network()
    own.taut("down")
    site.is_as_before(before)
    own.up()
    own.wait_for_resolver(back_end)
    site.finds_both()
    own.kill_daemon()
    site.is_as_before(before)


def test_fault_h4_no_name_of_the_network_leaves_the_host_in_the_clear(layout):
    site = Site(layout)
    own = site.own
    write_plain(site.own, site.server)
    # The capture finds this text in a question, where it is a label.
    secret = f"{capture.MARKER.decode()}.{DOMAIN}"

    def leaked(*states):
        """Returns the frames with that name that the host sent, while programs ask in each of these states."""
        listener = Listener(site.switch, own.host)
        for enter in states:
            enter()
            own.addresses(secret), own.addresses(f"x.{secret}"), own.addresses("www.example")
        return listener.finish()["plaintext"]

    def overwritten():
        own.write(RESOLV_CONF, f"nameserver {site.server}\nsearch other.example\n")
        wait_until(lambda: "taut dns-helper" in own.read(RESOLV_CONF), "the settings to be repaired")

    assert leaked(lambda: None) > 0, "without the node, the question leaves"
    site.join()
    own.wait_for_resolver("file")
    assert leaked(lambda: None, overwritten, site.coordinator.kill, site.peer.kill) == 0
    site_before = f"nameserver {site.server}\nsearch other.example\n"
    own.taut("down")
    wait_until(lambda: own.read(RESOLV_CONF) == site_before, "the newer file to be there")


def test_fault_h3_a_helper_that_was_killed_itself_is_followed_by_another_or_cleaned_up_after_at_the_next_start(layout):
    site = Site(layout)
    own = site.own
    write_plain(site.own, site.server)
    before = own.traces()
    site.join()
    own.wait_for_resolver("file")
    first = helper_of(own)
    os.kill(first, 9)
    own.wait_for(lambda status: "ended" in (status["self"]["names"]["resolver"]["problem"] or {}).get("message", ""), "the loss to be shown")
    # A new helper takes its place: otherwise no name would be found until the daemon's end.
    own.wait_for_resolver("file")
    second = helper_of(own)
    assert second != first
    site.finds_both()
    os.kill(second, 9)
    own.kill()
    assert own.traces() != before
    # The kill took the daemon, too; this one has no network to bring up.
    own.start("--state", own.host.state / "another")
    site.is_as_before(before)
    assert own.stop() == 0


@needs("resolved")
def test_fault_h3_a_helper_of_the_service_manager_puts_the_host_back_too(layout):
    site = Site(layout, "resolved")
    own = site.own
    write_plain(site.own, site.server)
    before = own.traces()
    # As taut-dns.socket and taut-dns@.service do it.
    activation = ("--accept", "--inetd", "--listen=/run/taut-dns-helper.sock", binary("taut"), "dns-helper")
    own.host.start("systemd-socket-activate", *activation, name="socket")
    wait_until(lambda: "socket" in own.sh("stat -c %F /run/taut-dns-helper.sock || true"), "the service manager to listen")
    site.join()
    own.wait_for_resolver("file")
    assert not own.sh(f"pgrep -P {own.process.pid} -f dns-helper || true"), "the daemon started no helper"
    site.finds_both()
    own.kill_daemon()
    site.is_as_before(before)


def test_a_second_daemon_leaves_the_first_one_its_file(layout):
    site = Site(layout)
    own = site.own
    write_plain(site.own, site.server)
    before = own.traces()
    site.join()
    own.wait_for_resolver("file")
    taken = own.traces()
    office = Coordinator(site.peer.host).start("--network", "office", "--ipv4-prefix", "10.82.0.0/16")
    socket = ("--socket", own.host.state / "other.sock")
    daemon = own.host.start(binary("taut"), "daemon", "--state", own.host.state / "other", *socket, "--tun", "taut1", name="other")
    wait_until(lambda: answering(own.host.state / "other.sock"), "the second daemon to answer", details=daemon.tail)
    own.host.run(binary("taut"), "up", "--join", office.join_token, *socket, timeout=60)
    status = own.host.run(binary("taut"), "status", *socket).stdout
    assert "another taut daemon answers" in status, status
    assert daemon.stop() == 0
    assert own.traces() == taken
    site.finds_both()
    own.taut("down")
    site.is_as_before(before)


def test_a_daemon_in_a_network_namespace_leaves_the_files_of_the_host_outside_alone(mesh):
    before = Path(RESOLV_CONF).read_bytes(), Path(RESOLV_CONF).stat().st_ino
    one = mesh(nodes=1).nodes[0]
    resolver = one.status()["self"]["names"]["resolver"]
    assert resolver["by"] is None and "network namespace" in resolver["problem"]["message"]
    assert not one.host.run("pgrep", "-P", one.process.pid, "-f", "dns-helper", check=False).stdout, "no helper runs"
    assert (Path(RESOLV_CONF).read_bytes(), Path(RESOLV_CONF).stat().st_ino) == before


# A daemon that writes there anyway fails, and the machine keeps its resolver.
_READ_ONLY_ETC = "mount --bind /etc /etc && mount -o remount,bind,ro /etc"


def test_a_daemon_in_a_user_namespace_leaves_the_files_of_the_machine_alone_without_a_look_at_its_first_process(lab):
    switch = lab.switch("internet")
    coordinator = Coordinator(lab.host("coord", switch)).start()
    host = UserNamespaceHost(lab, "one", [switch], _READ_ONLY_ETC)
    assert host.run("ls", "/proc/1/root", check=False).returncode != 0
    one = Node(host).start()
    one.up(coordinator.join_token)
    resolver = one.status()["self"]["names"]["resolver"]
    assert resolver["by"] is None and "network namespace" in resolver["problem"]["message"]


def helper_of(node):
    """Returns the process id of the node's helper."""
    [helper] = [pid for pid in node.host.run("pgrep", "-f", "taut dns-helper").stdout.split() if in_namespace(pid, node)]
    return int(helper)


def in_namespace(pid, node):
    """Returns true if this process runs on the node's host."""
    namespace = os.stat(f"/run/netns/{node.host.namespace}").st_ino
    return Path(f"/proc/{pid}").exists() and os.stat(f"/proc/{pid}/ns/net").st_ino == namespace


@pytest.mark.skipif(not found("cc"), reason="the program cc is missing: apt-get install gcc")
def test_fault_h3_h7_coordinator_and_time_server_are_found_by_name_also_with_a_wrong_clock(layout):
    site = Site(layout)
    own = site.own
    write_plain(site.own, site.server)
    clock = ShiftedClock(own.host, has_own_etc=True)
    clock.set(HALF_A_DAY_S)
    assert clock.year() == 1970
    site.coordinator = Coordinator(site.coordinator.host, "coord.example")
    site.coordinator.start()
    # Nodes find the coordinator through the name server that their host has.
    own.start()
    own.up(site.coordinator.join_token)
    own.wait_for_resolver("file")
    assert own.addresses("time.example") == {PUBLIC}
    for restart in (lambda: None, lambda: own.restart(kill=True)):
        site.coordinator.kill()
        own.wait_for(lambda status: not status["coordinator"]["connected"], "the channel to be lost")
        restart()
        own.wait_for_resolver("file")
        assert own.addresses("time.example") == {PUBLIC}
        site.coordinator.start()
        own.wait_for(lambda status: status["coordinator"]["connected"], "the coordinator to be found by name")


# Prints the answer to a question, with the DNSSEC bit of EDNS, as it arrives.
_RAW = """
import socket, sys
question = b"\\x12\\x34\\1\\x20\\0\\1\\0\\0\\0\\0\\0\\1\\6signed\\7example\\0\\0\\1\\0\\1\\0\\0\\x29\\4\\xd0\\0\\0\\x80\\0\\0\\0"
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(5)
client.sendto(question, (sys.argv[1], 53))
print(client.recv(4096).hex())
"""


def test_fault_h5_answers_pass_the_forwarder_unchanged_and_truncated_ones_come_over_tcp(layout):
    site = Site(layout)
    own = site.own
    # The first server is dead: its host does not exist.
    own.write(RESOLV_CONF, f"nameserver 10.77.1.99\nnameserver {site.server}\n")
    site.join()
    own.wait_for_resolver("file")

    def signed(server):
        """Returns the server's answer for a name with a signature, as bytes, then the same as it is read over TCP."""
        return own.host.run(sys.executable, "-I", "-c", _RAW, server).stdout, ask(own.host, server, ("signed.example", "A"), options=["--tcp"])[0]

    (direct, read), (through, read_through) = signed(site.server), signed(FORWARDER)
    assert direct == through and read["answers"] == [PUBLIC, "46"]
    assert {**read, "ms": 0} == {**read_through, "ms": 0}
    assert own.addresses("truncated.example") == {PUBLIC}
    assert "tcp truncated.example" in site.public.output()


def test_bare_names_and_the_switch(layout):
    site = Site(layout)
    own = site.own
    write_plain(site.own, site.server)
    site.join("--dns-search")
    own.wait_for_resolver("file")
    # The host's own domain comes first, and its server has an address for every name (H1).
    assert own.addresses(site.peer.name) == {PUBLIC}
    own.stop()
    own.sh(f"sed -i /search/d {RESOLV_CONF}")
    own.start("--dns-search")
    own.up()
    own.wait_for_resolver("file")
    assert own.addresses(site.peer.name) == {site.peer.ipv4, site.peer.ipv6}
    own.stop()
    before = own.traces()
    own.start("--accept-dns=false")
    own.up()
    off = own.resolver()
    assert off["by"] is None and off["problem"]["message"] == "dns is off" and own.traces() == before
    own.stop()
    own.start()
    own.up()
    own.wait_for_resolver("file")
    # While the daemon runs, the switch is a setting.
    own.taut("set", "--no-dns")
    site.is_as_before(before)
    assert own.resolver()["by"] is None
    own.taut("set", "--dns", "--dns-search")
    own.wait_for_resolver("file")
    assert own.finds(site.peer.name, site.peer.ipv4)
