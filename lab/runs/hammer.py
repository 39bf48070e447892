"""Sends malformed datagrams to the socket of a running node from an unauthenticated host on the same wire (`make hammer`).

    python3 -m lab.runs.hammer [--count N] [--seconds S] [--seed N]

A coordinator, two connected nodes and an attacker in namespaces. The attacker (proof/sim/examples/hammer) sends in rounds until the node has counted N
datagrams. Prints a line for each check and ends with `N passed, N failed`; exit status 1 after a failure.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from ..hosts import needs
from ..hosts.net import Lab
from ..hosts.programs import ROOT, binary
from ..hosts.wait import LabError, wait_until
from ..nodes import mesh as meshes
from ..traffic.flow import ping

COUNT = 10_000_000
# Time limit in seconds. Ten million datagrams take about three minutes on two cores.
LIMIT_S = 1800
ROUND = 100_000
# Datagrams that touch every buffer once, so that later growth of memory depends on the number of datagrams.
WARM_UP = 100_000
MAX_GROWTH_KIB = 1024
SEED = 20


def hammer(lab, count=COUNT, limit=LIMIT_S, seed=SEED, progress=lambda done: None):
    """Runs it; returns [(check, whether it held, what was seen)]."""
    net = meshes.lay_out(lab, nodes=2)
    attacker = lab.host("attacker", net.switches[0])
    net.coordinator.start()
    net.join(*net.nodes)
    net.wait_for_maps()
    net.connect()
    node, peer = net.nodes
    strike = Strike(attacker, node, seed)
    strike.round(WARM_UP)
    before, memory, endpoint = node.status(), node.process.own_kib(), node.peer(peer.name)["path"]
    heard, pid, deadline = strike.heard(), node.process.pid, time.monotonic() + limit
    strike.forget()
    while strike.counted < count:
        if time.monotonic() > deadline:
            raise LabError(f"only {strike.counted} of {count} datagrams were counted within {limit} s\n{node.process.tail()}")
        strike.round(min(ROUND, count))
        if not strike.counted:
            raise LabError(f"the node counted none of {strike.sent} datagrams\n{node.process.tail()}")
        progress(strike.counted)
    grown = node.process.own_kib() - memory
    echoes = ping(node.host, peer.ipv4, count=10)["received"], ping(peer.host, node.ipv6, count=10)["received"]
    # An unused session has expired with its path; the echo requests made a new one.
    after = node.peer(peer.name)
    return [
        ("the node lives", node.process.alive and node.status()["pid"] == pid, f"{strike.counted} datagrams counted"),
        ("not a byte came back", strike.answered == 0, f"{strike.answered} bytes"),
        ("nothing arrived at other ports of the attacker", strike.heard() == heard, f"{strike.heard()} datagrams, {heard} before"),
        (f"own memory grew by less than {MAX_GROWTH_KIB} KiB", grown < MAX_GROWTH_KIB, f"{grown} KiB, from {memory}"),
        ("each datagram was counted once", not strike.odd and strike.exact > 0, strike.arithmetic()),
        ("the peer's endpoint did not move", after["path"]["endpoint"] == endpoint["endpoint"], f"{after['path']}"),
        ("no counter went back", _grows(before["drops"], node.status()["drops"]), f"{strike.by_reason()}"),
        ("the nodes still talk", echoes == (10, 10), f"{echoes[0]} and {echoes[1]} of 10 echoes"),
    ]


class Strike:
    """The program of the attacker, and the counters of the node."""

    def __init__(self, attacker, node, seed):
        self.attacker, self.node = attacker, node
        self.key = node.status()["self"]["node_key"]
        port = _listening_port(node)
        # Alternates between IPv4 and IPv6.
        self.programs = [
            attacker.start(binary("examples/hammer"), where, self.key, seed + number, name=f"hammer{number}")
            for number, where in enumerate((f"{node.host.ipv4}:{port}", f"[{node.host.ipv6}]:{port}"))
        ]
        self.rounds = 0
        self.answers = [0, 0]
        self.forget()

    def forget(self):
        self.sent = self.welcome = self.counted = self.lost_rounds = self.exact = 0
        self.start, self.odd = self._drops(), []

    @property
    def answered(self):
        return sum(self.answers)

    def round(self, count):
        """Sends `count` datagrams and compares the counters of the node."""
        which = self.rounds % 2
        program, self.rounds = self.programs[which], self.rounds + 1
        drops, lost = self._drops(), self._lost()
        lines = len(program.output().splitlines())
        program.write(f"{count}\n")
        wait_until(lambda: len(program.output().splitlines()) > lines, "a round of the hammer", details=program.tail)
        report = json.loads(program.output().splitlines()[-1])
        counted = sum(self._drops().values()) - sum(drops.values())
        self.answers[which] = report["answered"]
        self.sent, self.welcome, self.counted = self.sent + report["sent"], self.welcome + report["welcome"], self.counted + counted
        if self._lost() != lost:
            self.lost_rounds += 1
        elif report["sent"] - report["welcome"] <= counted <= report["sent"]:
            self.exact += 1
        else:
            self.odd.append((report, counted))

    def heard(self):
        """Returns UDP datagrams that arrived at the host of the attacker on any port."""
        counters = _snmp(self.attacker, "Udp")
        return counters["InDatagrams"] + counters["NoPorts"]

    def arithmetic(self):
        return (
            f"{self.sent} sent, {self.welcome} for the agent, {self.counted} counted; {self.exact} rounds exact, "
            f"{self.lost_rounds} with losses in the kernel, odd: {self.odd}"
        )

    def by_reason(self):
        # Lists only reasons that occurred.
        grown = {name: count - self.start.get(name, 0) for name, count in self._drops().items()}
        return {name: count for name, count in grown.items() if count > 0}

    def _drops(self):
        return {name: count for name, count in self.node.status()["drops"].items() if name.startswith("in-")}

    def _lost(self):
        """Returns what the kernel of the host dropped before the node could count it."""
        udp, ip = _snmp(self.node.host, "Udp"), _snmp(self.node.host, "Ip")
        return udp["RcvbufErrors"], udp["InErrors"], ip["ReasmFails"], _snmp6(self.node.host)


def _snmp(host, group):
    lines = [line.split() for line in host.run("cat", "/proc/net/snmp").stdout.splitlines() if line.startswith(group + ":")]
    return dict(zip(lines[0][1:], map(int, lines[1][1:]), strict=True))


def _snmp6(host):
    wanted = ("Udp6RcvbufErrors", "Udp6InErrors", "Ip6ReasmFails")
    return [line.split()[1] for line in host.run("cat", "/proc/net/snmp6").stdout.splitlines() if line.split()[0] in wanted]


def _listening_port(node):
    """Returns the UDP port of the lane of the node."""
    return node.status()["self"]["port"]


def _grows(before, after):
    return all(after[name] >= count for name, count in before.items())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seconds", type=int, default=LIMIT_S)
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    if lacks := needs.missing():
        print(f"hammer: skipped: {lacks[0]}", file=sys.stderr)
        return 1

    def progress(done):
        if sys.stdout.isatty():
            print(f"\r\033[Khammer: {done:,} of {args.count:,} datagrams", end="", flush=True)

    with Lab(Path(ROOT / "target" / "lab" / "hammer")) as lab:
        checks = hammer(lab, args.count, args.seconds, args.seed, progress)
        lab.failed = not all(held for _, held, _ in checks)
    print("\r\033[K" if sys.stdout.isatty() else "", end="")
    for what, held, seen in checks:
        print(f"{'passed' if held else 'FAILED'}: {what} ({seen})")
    passed = sum(held for _, held, _ in checks)
    print(f"hammer: {passed} passed, {len(checks) - passed} failed")
    return 0 if passed == len(checks) else 1


if __name__ == "__main__":
    sys.exit(main())
