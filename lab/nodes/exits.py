"""Exit nodes: nodes with a way to an "internet", a host with public addresses that reports how it sees its clients."""

import sys

from ..hosts.programs import binary
from ..hosts.wait import wait_until
from .subnets import PORT, serve
from .taut import Coordinator, Node

# Public addresses of a server (documentation prefixes, RFC 5737 and RFC 3849), in networks that only the exit nodes have a way to.
SERVER = ("203.0.113.80", "2001:db8:99::80")
SERVER_NETWORKS = ("203.0.113.0/24", "2001:db8:99::/64")
GATEWAY = ("198.51.100.1", "2001:db8:51::1")

# Answers each datagram to one of these addresses, from that address, with the sender's address and port.
_UDP_WHO = (
    "import select,socket,sys\n"
    "def bound(a):\n"
    " s=socket.socket(socket.AF_INET6 if ':' in a else socket.AF_INET,socket.SOCK_DGRAM); s.bind((a,int(sys.argv[1]))); return s\n"
    "all=[bound(a) for a in sys.argv[2:]]\n"
    "print('ready',flush=True)\n"
    "while True:\n"
    " for s in select.select(all,[],[])[0]:\n"
    "  d,a=s.recvfrom(2048); print('heard',d.decode(),a[0],a[1],flush=True); s.sendto(f'{a[0]} {a[1]}'.encode(),a)\n"
)
# Sends a datagram from a port; prints the answer.
_UDP_ASK = (
    "import socket,sys\n"
    "host,port,own,wait=sys.argv[1],int(sys.argv[2]),int(sys.argv[3]),float(sys.argv[4])\n"
    "f=socket.getaddrinfo(host,port)[0][0]; s=socket.socket(f,socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\n"
    "s.bind(('',own)); s.settimeout(wait); s.sendto(b'hello',(host,port)); print(s.recv(99).decode())\n"
)


class Exits:
    """A coordinator and a client on one network, and `count` nodes there that also have a way to the internet, where one server answers at public addresses.

    `lan`: the exit nodes have a private network behind them, too, with one plain host. `ipv6`: they forward IPv6.
    """

    def __init__(self, lab, count=1, lan=False, ipv6=True):
        self.outside = lab.switch("outside")
        self.coordinator = Coordinator(lab.host("coord", self.outside)).start()
        self.client = Node(lab.host("client", self.outside))
        self.lan = lab.switch("lan") if lan else None
        uplink = lab.switch("uplink", ipv4=False, ipv6=False)
        self.internet = lab.host("internet", uplink)
        self.internet.ip(f"address add {GATEWAY[0]}/24 dev eth0", f"address add {GATEWAY[1]}/64 dev eth0")
        self.internet.ip(f"address add {SERVER[0]}/32 dev lo", f"address add {SERVER[1]}/128 dev lo")
        self.exits = []
        for number in range(1, count + 1):
            host = lab.host(f"exit{number}", self.outside, *([self.lan] if lan else []))
            host.connect(uplink)
            device = f"eth{2 if lan else 1}"
            host.ip(f"address add 198.51.100.{number + 9}/24 dev {device}", f"address add 2001:db8:51::{number + 9:x}/64 dev {device}")
            host.ip(f"route add default via {GATEWAY[0]}", f"route add default via {GATEWAY[1]}")
            # taut switches IPv4 on for its interfaces; IPv6 is one switch of the whole host, which its user decides about.
            host.run("sysctl", "-qw", f"net.ipv6.conf.all.forwarding={int(ipv6)}")
            self.exits.append(Node(host))
        self.plain = lab.host("plain", self.lan) if lan else None
        serve(self.internet)
        self.udp = self.serve_udp(self.internet, PORT, *SERVER)

    def serve_udp(self, host, port, *addresses):
        """Runs a service of UDP at these addresses of a host that answers each datagram with the address and the port of its sender, and prints what it hears."""
        service = host.start(sys.executable, "-I", "-c", _UDP_WHO, port, *addresses, name=f"udp-{port}")
        service.wait_for_output("ready")
        return service

    def start_relay(self):
        """Runs a relay at a public address of the internet. Users of an exit node do not reach its gateway, which is in a network of its own."""
        # Answers have that address as their source.
        self.internet.ip(f"route replace 198.51.100.0/24 dev eth0 src {SERVER[0]}")
        key = self.internet.state / "relay.key"
        trust = self.coordinator.cli("ticket-key").stdout.strip()
        words = ("--listen", 3478, "--stun-port", 3479, "--trust", trust, "--key", key)
        self.internet.start(binary("taut-relay"), "serve", *words, name="relay").wait_for_output("relay ")
        own = self.internet.run(binary("taut-relay"), "key", "--key", key).stdout.strip()
        self.coordinator.cli("relays", "add", "far", own, f"{SERVER[0]}:3478", "--stun-port", 3479)

    def public(self, number=0, ipv6=False):
        """Returns the public address of an exit node."""
        return f"2001:db8:51::{number + 10:x}" if ipv6 else f"198.51.100.{number + 10}"

    def start_exit(self, number=0, *options, approve=True):
        """Starts an exit node and joins it; the operator approves it."""
        node = self.exits[number]
        node.start("--advertise-exit-node", *options)
        node.up(self.coordinator.join_token)
        if approve:
            self.approve(node)
        return node

    def approve(self, node):
        """Approves an exit node; returns when it forwards."""
        wait_until(lambda: node.name in self.coordinator.cli("routes", "list").stdout, f"the coordinator to know {node.name} as an exit node")
        self.coordinator.cli("routes", "approve", node.name, "exit-node")
        node.wait_for(lambda status: status["exit"]["is_exit"], f"{node.name} to forward")

    def start_client(self, choice, *options):
        """Starts the client, joins it, and chooses an exit node."""
        self.client.start(*options)
        self.client.up(self.coordinator.join_token)
        choose(self.client, choice)
        return self.client

    def lead_into_tunnel(self, node):
        """Has the kernel send packets to the server's networks into the overlay."""
        for network in SERVER_NETWORKS:
            node.host.ip(f"route replace {network} dev taut0")

    def wait_for_exit(self, node, name):
        """Waits until a node sends what goes to the internet through this exit node, or through none if `name` is None."""
        return node.wait_for(lambda status: status["exit"]["via"] == name, f"{node.name} to use {name} as its exit node")


def choose(node, choice, *settings):
    """Chooses an exit node once the node's map has it, and makes other settings with it: before that the choice is refused."""
    known = lambda status: choice == "none" or status["exit"]["candidates"] and (choice == "auto" or choice in status["exit"]["candidates"])
    node.wait_for(known, f"{node.name} to know the exit node {choice}")
    node.taut("set", "--exit-node", choice, *settings)


def udp_answer(host, address, port=PORT, own=0, timeout=3):
    """Sends a datagram from port `own` (0: any); returns the address and the port that the service saw, or None without an answer."""
    done = host.run(sys.executable, "-I", "-c", _UDP_ASK, address, port, own, timeout, check=False)
    words = done.stdout.split()
    return (words[0], int(words[1])) if done.returncode == 0 and len(words) == 2 else None
