"""Hosts for `lab.runs.flood`: a victim, a peer with a flow, new peers that connect, and an attacker, in namespaces.

`Plain` has nodes of `taut wg`, `Network` has members of a network with a coordinator.
"""

import json
import os
import shutil
from pathlib import Path

from ..hosts.programs import binary
from ..hosts.wait import wait_until
from ..nodes.taut import Coordinator, Node
from ..nodes.wireguard import WireGuard, conf
from ..traffic.flow import ping

PORT = 51820
# Source addresses that the attacker invents. It owns them, so that its kernel counts the answers.
SPOOFED = {4: "172.16.0.0/12", 6: "fd66::/16"}
# Bytes of the IP and UDP headers.
HEADERS = {4: 28, 6: 48}
VICTIM, FLOW, CLIENT = "10.9.0.1", "10.9.0.2", "10.9.0.3"
RATE_MBPS = 200


class FloodHosts:
    """The common part: the attacker, its floods, the flow, and the counters of the kernel.

    Subclasses set `victim_host`, `flow_host`, `inner` (the victim inside), `where` (ADDRESS:PORT outside), `key`, and `process` (of the victim).
    """

    def __init__(self, lab, family=4):
        self.family = family
        self.switch = lab.switch("sw", ipv4=family == 4, ipv6=family == 6)

    def arm(self, lab):
        """Makes the attacker and the return routes for its invented addresses."""
        self.attacker = lab.host("attacker", self.switch)
        spoofed, gateway = SPOOFED[self.family], self.attacker.ipv4 or self.attacker.ipv6
        # Without this a program may not send from an address that is only routed to its host.
        self.attacker.run("sysctl", "-qw", "net.ipv6.ip_nonlocal_bind=1")
        self.attacker.ip(f"route add local {spoofed} dev lo")
        self.victim_host.ip(f"route add {spoofed} via {gateway}")

    def at(self, port):
        """Returns the outside address of the socket of the victim."""
        return f"{self.victim_host.ipv4}:{port}" if self.family == 4 else f"[{self.victim_host.ipv6}]:{port}"

    def program(self, kind, rate, *private):
        """Starts the program of the attacker, which waits for orders."""
        return self.attacker.start(binary("examples/flood"), self.where, self.key, kind, rate, *private, name=f"flood-{kind}-{rate}")

    def flood(self, program, seconds):
        """Floods for `seconds`. Returns the report of the generator, and the answers: `answers`, and `back`, their bytes without IP and UDP."""
        lines, heard = len(program.output().splitlines()), self.heard()
        program.write(f"{int(seconds * 1000)}\n")
        return self.ends(program, lines, heard, 60 + seconds)

    def ends(self, program, lines, heard, timeout=60):
        """Waits for the end of a flood that was started after `lines` of output, when the counters were `heard`."""
        wait_until(lambda: len(program.output().splitlines()) > lines, "the flood to end", timeout, program.tail)
        answers, octets = (after - before for before, after in zip(heard, self.heard()))
        return {**json.loads(program.output().splitlines()[-1]), "answers": answers, "back": octets - HEADERS[self.family] * answers}

    def heard(self):
        """Returns IP datagrams that arrived at the host of the attacker on any port, and their bytes. Only the victim sends to it."""
        if self.family == 4:
            return snmp(self.attacker, "snmp", "Ip")["InReceives"], snmp(self.attacker, "netstat", "IpExt")["InOctets"]
        lines = dict(line.split() for line in self.attacker.run("cat", "/proc/net/snmp6").stdout.splitlines())
        # ICMP messages are neighbour discovery.
        return int(lines["Ip6InReceives"]) - int(lines["Icmp6InMsgs"]), int(lines["Ip6InOctets"])

    def kernel_dropped(self):
        """Returns UDP datagrams that the kernel of the victim dropped because the socket of the lane was full."""
        return snmp(self.victim_host, "snmp", "Udp")["RcvbufErrors"]

    def flows(self, seconds):
        """Starts a paced UDP flow from the peer to the victim; `flowed` ends it."""
        server = self.victim_host.start("iperf3", "-s", "-1", "-B", self.inner, name="iperf3-server")
        wait_until(lambda: "5201" in self.victim_host.run("ss", "-ltn").stdout, "iperf3 to listen", details=server.tail)
        words = ("-c", self.inner, "-u", "-b", f"{RATE_MBPS}M", "-l", 1300, "-t", seconds, "-J")
        return self.flow_host.start("iperf3", *words, name="iperf3-client")

    def stays(self):
        """Returns true if the peer with the flow still reaches the victim."""
        return ping(self.flow_host, self.inner, count=3)["received"] == 3

    def cpu(self):
        """Returns CPU seconds of the victim by thread."""
        used = {}
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
            fields = rest.split()
            used[name] = used.get(name, 0) + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return used


class Plain(FloodHosts):
    """Three hosts with `taut wg`; all tunnels are up."""

    name = "wg"

    def __init__(self, lab, family=4):
        super().__init__(lab, family)
        self.port, self.inner = PORT, VICTIM
        self.victim, self.flow, self.client = (
            WireGuard(lab.host(name, self.switch), inner=[f"{inner}/24"])
            for name, inner in (("victim", VICTIM), ("flow", FLOW), ("client", CLIENT))
        )
        self.victim_host, self.flow_host = self.victim.host, self.flow.host
        self.arm(lab)
        self.where, self.key = self.at(PORT), self.victim.public
        others = ({"PublicKey": peer.public, "AllowedIPs": f"{inner}/32"} for peer, inner in ((self.flow, FLOW), (self.client, CLIENT)))
        self.victim.config = conf(self.victim, *others, port=PORT)
        self.to_victim = {"PublicKey": self.victim.public, "AllowedIPs": f"{VICTIM}/32", "Endpoint": self.where}
        for device in (self.flow, self.client):
            device.config = conf(device, self.to_victim)
        for device in (self.victim, self.flow, self.client):
            device.start()
        for device in (self.flow, self.client):
            device.reaches(VICTIM)

    @property
    def process(self):
        return self.victim.process

    def program(self, kind, rate, *private):
        # Replays an initiation of the peer that reconnects.
        return super().program(kind, rate, *([self.client.private] if kind == "replay" else private))

    def connect(self, tries):
        """Reconnects the client `tries` times, each time from a new port. Yields milliseconds from the first packet to its answer, or None without an
        answer."""
        times = []
        for _ in range(tries):
            self.port += 1
            self.client.set("listen-port", self.port, "peer", self.victim.public, "remove")
            self.client.set("peer", self.victim.public, "endpoint", self.where, "allowed-ips", f"{VICTIM}/32")
            times.append(first_answer(self.client.host, VICTIM))
        return times

    def handshakes(self):
        """`wg` has no such counters."""
        return None


class Network(FloodHosts):
    """A coordinator and two connected members. Each connecting node has just joined, with new keys."""

    name = "network"

    def __init__(self, lab, family=4):
        super().__init__(lab, family)
        self.port = PORT
        self.coordinator = Coordinator(lab.host("coord", self.switch)).start()
        self.victim, self.flow, self.client = (Node(lab.host(name, self.switch)) for name in ("victim", "flow", "client"))
        self.victim_host, self.flow_host = self.victim.host, self.flow.host
        self.arm(lab)
        for node in (self.victim, self.flow):
            node.start()
            node.up(self.coordinator.join_token)
        for node, other in ((self.victim, self.flow), (self.flow, self.victim)):
            node.wait_for_peers(other.name)
        self.flow.ping_until_direct("victim")
        me = self.victim.status()["self"]
        self.inner, self.where, self.key = self.victim.ipv4, self.at(me["port"]), me["node_key"]

    @property
    def process(self):
        return self.victim.process

    def connect(self, tries):
        """Lets `tries` nodes join and connect for the first time, each from a new port. Returns milliseconds from the first packet to its answer, or
        None without an answer."""
        return [self._newcomer() for _ in range(tries)]

    def handshakes(self):
        """Returns counters of the handshakes that peers began."""
        return self.victim.status()["handshakes"]

    def _newcomer(self):
        self.port += 1
        self.client.start("--port", self.port)
        self.client.up(self.coordinator.join_token)
        status = self.client.wait_for(lambda status: any(peer["name"] == "victim" for peer in status["peers"]), "to know the victim")
        key = status["self"]["node_key"]
        self.victim.wait_for(lambda status: any(peer["node_key"] == key for peer in status["peers"]), "to know the newcomer")
        took = first_answer(self.client.host, self.inner)
        self.client.kill()
        shutil.rmtree(self.client.state)
        self.coordinator.cli("nodes", "remove", status["self"]["name"])
        return took


def first_answer(host, address):
    """Returns milliseconds from the first of several packets to the first answer, within ten seconds."""
    return ping(host, address, count=100, interval=0.1, first=True)["first_ms"]


def flowed(client):
    """Waits for the end of a flow; returns its throughput in Mbit/s and the share of lost packets."""
    client.wait(60)
    text = client.output()
    total = json.loads(text[text.index("{") :])["end"]["sum_received"]
    return total["bits_per_second"] / 1e6, total["lost_packets"] / max(1, total["packets"])


def snmp(host, file, group):
    """Returns one group of counters of the kernel of a host, from /proc/net/FILE."""
    lines = [line.split() for line in host.run("cat", f"/proc/net/{file}").stdout.splitlines() if line.startswith(group + ":")]
    return dict(zip(lines[0][1:], map(int, lines[1][1:]), strict=True))
