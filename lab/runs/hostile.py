"""The effect of a hostile member that sends invalid control messages on a transfer of its peer (fault B11; `make hostile`).

    python3 -m lab.runs.hostile [--rounds N] [--seconds S] [--rate PER_SECOND] [--json]

A victim sends to a bystander at full speed, while a third member of the network attacks the victim (proof/sim/examples/member.rs). Each attack is
interleaved with a control run, in which the same program sends the same bytes to a closed port of the victim. Prints medians and their ratio; exits with 1
if a ratio is below 0.95. Attacker, victim and bystander share the cores of the machine, so only ratios count.
"""

import argparse
import json
import statistics
import sys

from ..hosts import needs
from ..hosts.net import Lab
from ..hosts.programs import ROOT, binary
from ..hosts.wait import LabError, wait_until
from ..nodes.taut import PORT, Coordinator, Node

SCHEMA = 1
REACH = 0.95
KINDS = ("control", "offers")
IPERF_PORT = 5201


class HostileNetwork:
    """Victim, bystander and attacker on one switch. The attacker has joined like the others, and the hostile program uses its keys."""

    def __init__(self, lab, options=()):
        switch = lab.switch("sw", ipv6=False)
        coordinator = Coordinator(lab.host("coord", switch)).start()
        names = ("victim", "bystander", "attacker")
        self.victim, self.bystander, self.attacker = nodes = [Node(lab.host(name, switch)) for name in names]
        for node in nodes:
            node.start(*(options if node is self.victim else ()))
            node.up(coordinator.join_token)
        for node in nodes:
            node.wait_for_peers(*(name for name in names if name != node.name))
        self.inner = self.attacker.ipv4
        self.attacker.stop()
        self.victim.ping_until_direct("bystander")

    def program(self, kind, rate):
        """Starts the program of the attacker with a session; it waits for orders."""
        # A header line precedes the JSON.
        identity = json.loads((self.attacker.state / "identity.json").read_text(encoding="utf-8").partition("\n")[2])
        status = self.victim.status()["self"]
        words = (f"{self.victim.host.ipv4}:{PORT}", status["node_key"], self.victim.ipv4, identity["node_key"], self.inner, PORT, kind, rate)
        return self.attacker.host.start(binary("examples/member"), *words, name=f"member-{kind}")

    def transfer(self, seconds, program=None):
        """Returns Mbit/s from the victim to the bystander during the attack, and the report of the program."""
        target = self.bystander.ipv4
        server = self.bystander.host.start("iperf3", "-s", "-1", "-p", IPERF_PORT, "--forceflush", name="iperf3-server")
        wait_until(lambda: "listening" in server.output(), "iperf3 to listen", details=server.tail)
        lines = len(program.output().splitlines()) if program else 0
        if program:
            program.write(f"{1000 * (seconds + 1)}\n")
        done = self.victim.host.run("iperf3", "-c", target, "-p", IPERF_PORT, "-t", seconds, "-J", timeout=60 + seconds)
        report = {}
        if program:
            wait_until(lambda: len(program.output().splitlines()) > lines, "the attack to end", details=program.tail)
            report = json.loads(program.output().splitlines()[-1])
        server.stop()
        return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e6, report


def measure(field, kind, rate, seconds, rounds):
    """Returns the medians with and without the attack, and their ratio."""
    ways = {"closed": [], kind: []}
    reports = []
    for number in range(rounds):
        order = ("closed", kind) if number % 2 == 0 else (kind, "closed")
        for way in order:
            program = field.program(way, rate)
            mbps, report = field.transfer(seconds, program)
            program.stop()
            ways[way].append(round(mbps))
            if way == kind:
                reports.append(report)
            print(f"  {way}: {mbps:.0f} Mbit/s; {report}", file=sys.stderr)
    control, attacked = (statistics.median(ways[way]) for way in ("closed", kind))
    peer = field.victim.peer("attacker")
    return {
        "kind": kind,
        "per_second": rate,
        "control_mbps": control,
        "attacked_mbps": attacked,
        "ratio": round(attacked / control, 3),
        "runs": ways,
        "said": reports,
        "changes": peer.get("changes"),
        "control_rate_drops": field.victim.status()["drops"].get("in-control-rate"),
    }


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.hostile", description="Measures the effect of a hostile member on other members.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rate", type=int, default=20_000, help="messages per second of the attack `control` (default 20000)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if lacks := needs.missing("iperf3"):
        sys.exit("\n".join(lacks))
    rows = []
    try:
        with Lab(ROOT / "target" / "lab" / "hostile") as lab:
            field = HostileNetwork(lab)
            for kind in KINDS:
                print(f"attack: {kind}", file=sys.stderr)
                rows.append(measure(field, kind, args.rate, args.seconds, args.rounds))
    except LabError as error:
        sys.exit(str(error))
    if args.json:
        print(json.dumps({"schema": SCHEMA, "attacks": rows}, indent=1))
    else:
        for row in rows:
            print(f"{row['kind']}: {row['attacked_mbps']:.0f} of {row['control_mbps']:.0f} Mbit/s, ratio {row['ratio']:.3f}; changes {row['changes']}")
    return 0 if all(row["ratio"] >= REACH for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
