"""Floods a node with handshakes, and measures what honest peers notice (`make flood`; targets R2 to R4).

    python3 -m lab.flood [--seconds S] [--rounds N] [--tries N] [--json] [--output FILE]

Three hosts with `taut wg` (a victim, a peer with a paced flow, a peer that connects anew) and an attacker, in namespaces. Each kind of flood runs
interleaved with the same seconds without it; medians. Prints a table, and writes the figures as JSON. On a machine whose cores attacker, victim
and peers share, the flood also costs what making it costs: `sent` is its real rate.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

from . import needs
from .flow import ping
from .net import Lab
from .taut import ROOT, binary
from .wait import wait_until
from .wireguard import WireGuard, conf

SCHEMA = 1
PORT = 51820
SPOOFED = {4: "172.16.0.0/12", 6: "fd66::/16"}
# Bytes of the headers of IP and UDP, of an initiation, of a cookie reply and of a response.
HEADERS = {4: 28, 6: 48}
INITIATION, COOKIE, RESPONSE = 148, 64, 92
VICTIM, FLOW, CLIENT = "10.9.0.1", "10.9.0.2", "10.9.0.3"
# kind, fault, datagrams a second that are aimed at
FLOODS = (("bad-mac1", "B1", 200_000), ("spoofed", "B2", 20_000), ("spoofed", "B2", 50_000), ("one-source", "B4", 20_000), ("replay", "B6", 20_000))
RATE_MBPS = 200


class Field:
    """The four hosts, all tunnels up."""

    def __init__(self, lab, family=4):
        self.family, self.port = family, PORT
        self.switch = lab.switch("sw")
        self.victim, self.flow, self.client = (
            WireGuard(lab.host(name, self.switch), inner=[f"{inner}/24"])
            for name, inner in (("victim", VICTIM), ("flow", FLOW), ("client", CLIENT))
        )
        self.attacker = lab.host("attacker", self.switch)
        spoofed, gateway = SPOOFED[family], self.attacker.ipv4 if family == 4 else self.attacker.ipv6
        # Without this a program may not speak as an address that is only routed to us.
        self.attacker.run("sysctl", "-qw", "net.ipv6.ip_nonlocal_bind=1")
        self.attacker.ip(f"route add local {spoofed} dev lo")
        self.victim.host.ip(f"route add {spoofed} via {gateway}")
        self.where = f"{self.victim.host.ipv4}:{PORT}" if family == 4 else f"[{self.victim.host.ipv6}]:{PORT}"
        others = ({"PublicKey": peer.public, "AllowedIPs": f"{inner}/32"} for peer, inner in ((self.flow, FLOW), (self.client, CLIENT)))
        self.victim.config = conf(self.victim, *others, port=PORT)
        self.to_victim = {"PublicKey": self.victim.public, "AllowedIPs": f"{VICTIM}/32", "Endpoint": self.where}
        for device in (self.flow, self.client):
            device.config = conf(device, self.to_victim)
        for device in (self.victim, self.flow, self.client):
            device.start()
        for device in (self.flow, self.client):
            device.reaches(VICTIM)

    def program(self, kind, rate):
        """The attacker's program, waiting for its orders."""
        # A replay is of an initiation by the peer that connects anew.
        owner = [self.client.private] if kind == "replay" else []
        return self.attacker.start(binary("examples/flood"), self.where, self.victim.public, kind, rate, *owner, name=f"flood-{kind}-{rate}")

    def connect(self, tries):
        """Connects the client anew, each time from a port that the victim does not know; milliseconds from the first packet to its answer, None where none came."""
        times = []
        for _ in range(tries):
            self.port += 1
            self.client.set("listen-port", self.port, "peer", self.victim.public, "remove")
            endpoint = self.to_victim["Endpoint"]
            self.client.set("peer", self.victim.public, "endpoint", endpoint, "allowed-ips", f"{VICTIM}/32")
            echo = ping(self.client.host, VICTIM, count=100, interval=0.1, first=True)
            times.append(echo["first_ms"])
        return times

    def flood(self, program, seconds):
        """Floods for so long; what the generator says of it, and what came back to it: `answers`, and `back`, their bytes without IP and UDP."""
        lines, heard = len(program.output().splitlines()), self.heard()
        program.write(f"{int(seconds * 1000)}\n")
        return self.ends(program, lines, heard, 60 + seconds)

    def ends(self, program, lines, heard, timeout=60):
        """Waits until a flood ends that was started after `lines` of output, when that was `heard`."""
        wait_until(lambda: len(program.output().splitlines()) > lines, "the flood to end", timeout, program.tail)
        answers, octets = (after - before for before, after in zip(heard, self.heard()))
        return {**json.loads(program.output().splitlines()[-1]), "answers": answers, "back": octets - HEADERS[self.family] * answers}

    def heard(self):
        """Datagrams of IP that came to the attacker's host, whatever port they were for, and their bytes; nobody but the victim sends it any."""
        if self.family == 4:
            return snmp(self.attacker, "snmp", "Ip")["InReceives"], snmp(self.attacker, "netstat", "IpExt")["InOctets"]
        lines = dict(line.split() for line in self.attacker.run("cat", "/proc/net/snmp6").stdout.splitlines())
        # Neighbours are discovered by ICMP.
        return int(lines["Ip6InReceives"]) - int(lines["Icmp6InMsgs"]), int(lines["Ip6InOctets"])

    def arrived(self):
        """UDP datagrams that the lane's socket delivered, and those that the victim's kernel threw away because it was full."""
        udp = snmp(self.victim.host, "snmp", "Udp")
        return udp["InDatagrams"], udp["RcvbufErrors"]

    def flows(self, seconds):
        """A paced UDP flow from the peer to the victim, started; finish with `received`."""
        server = self.victim.host.start("iperf3", "-s", "-1", "-B", VICTIM, name="iperf3-server")
        wait_until(lambda: "5201" in self.victim.host.run("ss", "-ltn").stdout, "iperf3 to listen", story=server.tail)
        words = ("-c", VICTIM, "-u", "-b", f"{RATE_MBPS}M", "-l", 1300, "-t", seconds, "-J")
        return self.flow.host.start("iperf3", *words, name="iperf3-client")

    def cpu(self):
        """Seconds of processor that the victim's threads have used, by thread."""
        used = {}
        for task in Path(f"/proc/{self.pid()}/task").iterdir():
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
            fields = rest.split()
            used[name] = used.get(name, 0) + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return used

    def pid(self):
        return self.victim.process.pid


def snmp(host, file, group):
    """One group of counters of a host's kernel, /proc/net/FILE."""
    lines = [line.split() for line in host.run("cat", f"/proc/net/{file}").stdout.splitlines() if line.startswith(group + ":")]
    return dict(zip(lines[0][1:], map(int, lines[1][1:]), strict=True))


def received_mbps(client):
    client.wait(60)
    text = client.output()
    report = json.loads(text[text.index("{") :])
    total = report["end"]["sum_received"]
    return total["bits_per_second"] / 1e6


def strike(field, program, seconds):
    """One stretch with the flood, or (program None) without: figures."""
    client = field.flows(seconds)
    arrived, cpu, start = field.arrived(), field.cpu(), time.monotonic()
    flood = field.flood(program, seconds) if program else None
    mbps = received_mbps(client)
    elapsed = time.monotonic() - start
    used = {name: round((total - cpu.get(name, 0)) / elapsed, 3) for name, total in field.cpu().items()}
    delivered, lost = (after - before for before, after in zip(arrived, field.arrived()))
    return {"mbps": round(mbps, 2), "cpu": used, "delivered": delivered, "kernel_dropped": lost, "flood": flood}


def measure(field, kind, fault, rate, seconds=5, rounds=3, tries=50):
    """One kind of flood; a row of the table."""
    program = field.program(kind, rate)
    quiet, loud = [], []
    for _ in range(rounds):
        quiet.append(strike(field, None, seconds))
        loud.append(strike(field, program, seconds))
    calm = statistics.median(run["mbps"] for run in quiet)
    under = statistics.median(run["mbps"] for run in loud)
    sent = sum(run["flood"]["sent"] for run in loud)
    row = {
        "fault": fault,
        "kind": kind,
        "aimed_pps": rate,
        "sent_pps": round(statistics.median(run["flood"]["sent"] / run["flood"]["seconds"] for run in loud)),
        "mbps_quiet": calm,
        "mbps_flooded": under,
        "loss_ratio": round(1 - under / calm, 4),
        "bytes_back_per_byte": round(sum(run["flood"]["back"] for run in loud) / (INITIATION * max(1, sent)), 4),
        "answers": sum(run["flood"]["answers"] for run in loud),
        "sent": sent,
        # The flow's packets are among them.
        "delivered": sum(run["delivered"] for run in loud),
        "kernel_dropped": sum(run["kernel_dropped"] for run in loud),
        "kernel_dropped_quiet": sum(run["kernel_dropped"] for run in quiet),
        "cpu_quiet": quiet[-1]["cpu"],
        "cpu_flooded": loud[-1]["cpu"],
        **connects(field, program, tries),
        "flow_tunnel_stayed": ping(field.flow.host, VICTIM, count=3)["received"] == 3,
    }
    print(f"flood: {kind} at {row['sent_pps']} a second done", file=sys.stderr)
    return row


def connects(field, program, tries):
    """How long a peer takes to get in while the flood runs."""
    quiet = [time for time in field.connect(min(tries, 10)) if time is not None]
    program.write("3600000\n")
    times = field.connect(tries)
    program.kill()
    times_in = sorted(time for time in times if time is not None)
    at = lambda share: times_in[min(len(times_in) - 1, int(share * len(times_in)))] if times_in else None  # noqa: E731
    return {
        "connects": len(times),
        "connects_failed": len(times) - len(times_in),
        "connect_quiet_p50_ms": statistics.median(quiet) if quiet else None,
        "connect_p50_ms": at(0.5),
        "connect_p99_ms": at(0.99),
    }


def table(rows):
    heads = ("fault", "kind", "pps sent/aimed", "Mbit/s quiet→flooded", "lost", "bytes back/sent", "lost by the kernel", "connect p50/p99 ms", "failed", "CPU of the victim's threads")
    lines = [heads]
    for row in rows:
        cpu = ", ".join(f"{name} {100 * share:.0f} %" for name, share in sorted(row["cpu_flooded"].items()) if share >= 0.01)
        times = "/".join("-" if row[f"connect_{name}_ms"] is None else f"{row[f'connect_{name}_ms']:.0f}" for name in ("p50", "p99"))
        lines.append((row["fault"], row["kind"], f"{row['sent_pps']}/{row['aimed_pps']}", f"{row['mbps_quiet']:.0f}→{row['mbps_flooded']:.0f}",
            f"{100 * row['loss_ratio']:.1f} %", f"{row['bytes_back_per_byte']:.3f}", f"{row['kernel_dropped']}/{row['sent']}", times, f"{row['connects_failed']}/{row['connects']}", cpu))  # fmt: skip
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tries", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--output", type=Path, default=ROOT / "target" / "lab" / "flood.json")
    args = parser.parse_args()
    if lacks := needs.missing():
        print(f"flood: skipped: {lacks[0]}", file=sys.stderr)
        return 1
    with Lab(ROOT / "target" / "lab" / "flood") as lab:
        field = Field(lab)
        rows = [measure(field, *flood, args.seconds, args.rounds, args.tries) for flood in FLOODS]
    result = {"schema": SCHEMA, "cores": os.cpu_count(), "load": os.getloadavg(), "floods": rows}
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1) if args.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
