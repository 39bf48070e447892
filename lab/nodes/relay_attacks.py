"""A hostile member at the relay of its own network, beside honest nodes that need that relay (faults F14 to F17; lab/tests/test_relay_attacks.py)."""

import base64
import hashlib
import hmac
import json

from ..hosts.programs import binary
from ..hosts.wait import wait_until
from .relay import PORT, Relay
from .taut import PORT as NODE_PORT
from .taut import Coordinator, Node

METRICS = "127.0.0.1:9478"
OPEN_FILES = 4_096


class RelayTestbed:
    """Hosts on one switch: a coordinator, a relay, nodes of two networks. Pairs in `apart` reach each other only through the relay. With `own` the
    relay is that of the coordinator."""

    def __init__(self, lab, names, others=(), apart=(), own=False):
        self.switch = lab.switch("sw", ipv6=False)
        self.coordinator = Coordinator(lab.host("coord", self.switch)).start(*(("--relay-metrics", METRICS) if own else ("--no-relay",)))
        self.at = self.coordinator.host if own else lab.host("relay", self.switch)
        if not own:
            Relay(self.at, self.coordinator).start("--metrics", METRICS)
        self.nodes = {name: Node(lab.host(name, self.switch)) for name in (*names, *others)}
        for one, two in apart:
            _keep_apart(self.nodes[one].host, self.nodes[two].host)
        tokens = dict.fromkeys(names, self.coordinator.join_token)
        if others:
            self._second_network()
            token = self.coordinator.create_key("--network", "second")[1]
            tokens |= dict.fromkeys(others, token)
        for name, node in self.nodes.items():
            node.start()
            node.up(tokens[name])
        for name in self.nodes:
            self.bound(name)

    def _second_network(self):
        self.coordinator.cli("networks", "create", "second", "--ipv4-prefix", "10.99.0.0/16")
        self.coordinator.cli("relays", "add", self.at.name, self.key(), f"{self.at.ipv4}:{PORT}", "--network", "second")

    def key(self):
        """Returns the key of the relay, as maps contain it."""
        relays = json.loads(self.coordinator.cli("relays", "list", "--network", "default", "--json").stdout)["relays"]
        return relays[0]["key"]

    def bound(self, name):
        """Waits until the relay has bound this node."""
        self.nodes[name].wait_for(lambda status: [one["state"] for one in status["relays"]] == ["bound"], "the relay to bind it")

    def stats(self):
        """Returns the counters of the relay."""
        return json.loads(self.at.run(binary("taut-relay"), "status", "--metrics", METRICS, "--json").stdout)

    def credentials(self, name):
        """Returns what a joined node shows to relays, read from its files: for the hostile program, which continues in its name after its daemon
        ended."""
        node = self.nodes[name]
        identity, ticket = (_body(node.state / file) for file in ("identity.json", "ticket.json"))
        # As `Membership::bind_key` derives it.
        message = b"taut bind v1" + bytes.fromhex(identity["network"])
        bind = hmac.new(base64.b64decode(identity["machine_key"]), message, hashlib.blake2s).digest()
        return {"bind": base64.b64encode(bind).decode(), "ticket": ticket["ticket"]}

    def program(self, host, attack, members, **more):
        """Starts the hostile program in this host; it is bound and waits for orders."""
        config = {"relay": f"{self.at.ipv4}:{PORT}", "key": self.key(), "members": members, "attack": attack, **more}
        path = host.state / f"{attack}.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        # It needs more sockets than a program may open by default.
        program = host.start("prlimit", f"--nofile={OPEN_FILES}", binary("examples/hostile"), path, name=f"hostile-{attack}")
        program.wait_for_output("ready")
        return program


def attack(program, seconds):
    """Makes the program attack for `seconds` from now on."""
    program.write(f"{1000 * seconds}\n")


def is_over(program):
    """Returns true if the attack has ended."""
    return len(program.output().splitlines()) > 1


def final_report(program):
    """Waits for the end of the attack and returns the report of the program."""
    wait_until(lambda: is_over(program), "the attack to end", timeout=120, details=program.tail)
    return json.loads(program.output().splitlines()[-1])


def lend(host, *addresses):
    """Gives a host foreign addresses to send from. It does not answer ARP requests for them."""
    host.ip(*(f"address add {address}/32 dev lo" for address in addresses))
    host.run("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=1")


def place(node):
    """Returns the source address of a node without a NAT."""
    return f"{node.host.ipv4}:{NODE_PORT}"


def count_from(host, source):
    """Counts datagrams of the relay that arrive at a host from this address, and their bytes with IP header."""
    rule = f"add rule ip seen c ip saddr {source} udp sport {PORT} counter name in"
    _nft(host, "add table ip seen", "add counter ip seen in", _chain("seen", "prerouting"), rule)


def counted(host):
    """Returns the datagrams and bytes that `count_from` has counted."""
    listed = json.loads(host.run("nft", "-j", "list", "counter", "ip", "seen", "in").stdout)
    counter = next(one["counter"] for one in listed["nftables"] if "counter" in one)
    return counter["packets"], counter["bytes"]


def _keep_apart(one, two):
    for here, there in ((one, two), (two, one)):
        _nft(here, "add table ip apart", _chain("apart", "input"), f"add rule ip apart c ip saddr {there.ipv4} meta l4proto udp drop")


def _chain(table, hook):
    return f"add chain ip {table} c {{ type filter hook {hook} priority 0; }}"


def _nft(host, *commands):
    host.run("nft", "-f", "-", text="\n".join(commands) + "\n")


def _body(path):
    """Returns the JSON of a state file, which follows a line with its length and checksum."""
    return json.loads(path.read_text(encoding="utf-8").partition("\n")[2])
