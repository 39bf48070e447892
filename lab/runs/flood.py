"""Floods a node with handshakes and measures the effect on honest peers (`make flood`; targets R2 to R4).

    python3 -m lab.runs.flood [--quick] [--modes network,wg] [--kinds KIND,…] [--seconds S] [--rounds N] [--tries N]
                         [--json] [--output FILE] [--document FILE] [--add]

A victim, a peer with a paced flow, new peers that connect, and an attacker, in namespaces (lab/runs/flood_network.py): once as members of a network, once as
nodes of `taut wg`. Each kind of flood is interleaved with equal periods without it. Prints the effect of each kind and the verdicts, writes the figures
as JSON, and with --document as a page. --add keeps the figures of the previous run for kinds that this run leaves out.

Attacker, victim and peers share the cores of the machine, so the cost of making the flood also counts. `sent` is its real rate.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

from ..hosts import needs
from ..hosts.net import Lab
from ..hosts.programs import ROOT
from . import flood_report
from .flood_network import Network, Plain, flowed

SCHEMA = 2
# Size of a handshake initiation in bytes.
INITIATION = 148
# Kind, fault, and target rate in datagrams per second, from R3 and R4.
FLOODS = (("bad-mac1", "B1", 200_000), ("spoofed", "B2", 20_000), ("spoofed", "B2", 50_000), ("one-source", "B4", 20_000), ("replay", "B6", 20_000), ("ports", "B12", 20_000))
MODES = {field.name: field for field in (Network, Plain)}
# Limit on connection attempts. Stock WireGuard sends a cookie only with its next attempt, 5 s later, so more attempts would take minutes and show
# nothing new.
MOST_TRIES = {"network": None, "wg": 12}
# Connection attempts without a flood.
QUIET_TRIES = 10


def measure_period(field, program, seconds):
    """Returns the figures of one period, with the flood or (program None) without it."""
    client = field.flows(seconds)
    dropped, cpu, counted, start = field.kernel_dropped(), field.cpu(), field.handshakes(), time.monotonic()
    flood = field.flood(program, seconds) if program else None
    mbps, lost = flowed(client)
    elapsed = time.monotonic() - start
    used = {name: round((total - cpu.get(name, 0)) / elapsed, 3) for name, total in field.cpu().items()}
    handshakes = counted and {name: (count - counted[name]) / elapsed for name, count in field.handshakes().items()}
    return {"mbps": mbps, "lost": lost, "cpu": used, "kernel_dropped": field.kernel_dropped() - dropped, "flood": flood, "handshakes": handshakes}


def measure(field, kind, fault, rate, seconds, rounds, tries):
    """Measures one kind of flood; returns a row of the report."""
    load, memory = os.getloadavg()[0], field.process.rss_kib()
    program = field.program(kind, rate)
    quiet, loud = [], []
    for _ in range(rounds):
        quiet.append(measure_period(field, None, seconds))
        loud.append(measure_period(field, program, seconds))
    sent = sum(run["flood"]["sent"] for run in loud)
    row = {
        "mode": field.name,
        "fault": fault,
        "kind": kind,
        "aimed_pps": rate,
        "sent_pps": round(statistics.median(run["flood"]["sent"] / run["flood"]["seconds"] for run in loud)),
        "sent": sent,
        "answers": sum(run["flood"]["answers"] for run in loud),
        "bytes_back_per_byte": round(sum(run["flood"]["back"] for run in loud) / (INITIATION * max(1, sent)), 4),
        "kernel_dropped": sum(run["kernel_dropped"] for run in loud),
        "kernel_dropped_quiet": sum(run["kernel_dropped"] for run in quiet),
        "mbps_quiet": spread(run["mbps"] for run in quiet),
        "mbps_flooded": spread(run["mbps"] for run in loud),
        "lost_quiet": spread((run["lost"] for run in quiet), 4),
        "lost_flooded": spread((run["lost"] for run in loud), 4),
        "cpu_quiet": median_by_name(run["cpu"] for run in quiet),
        "cpu_flooded": median_by_name(run["cpu"] for run in loud),
        "per_second": median_by_name(run["handshakes"] for run in loud) if loud[0]["handshakes"] else None,
        **connects(field, program, min(tries, MOST_TRIES[field.name] or tries)),
        "flow_stays": field.stays(),
        "memory_kib": field.process.rss_kib(),
        "rounds": rounds,
        "seconds": seconds,
        "load": round(load, 2),
    }
    row["memory_grown_kib"] = row["memory_kib"] - memory
    row["throughput_lost"] = round(1 - row["mbps_flooded"]["median"] / row["mbps_quiet"]["median"], 4)
    row["dh_per_s"] = exchanges(row["per_second"])
    print(f"flood: {field.name}, {kind} at {row['sent_pps']} a second done", file=sys.stderr)
    return row


def connects(field, program, tries):
    """Measures how long new peers take to connect, without the flood and during it."""
    quiet = sorted(took for took in field.connect(min(tries, QUIET_TRIES)) if took is not None)
    program.write("3600000\n")
    times = field.connect(tries)
    program.kill()
    took = sorted(time for time in times if time is not None)
    return {
        "connects": len(times),
        "connects_failed": len(times) - len(took),
        "connect_quiet_p50_ms": share(quiet, 0.5),
        "connect_quiet_max_ms": share(quiet, 1),
        "connect_p50_ms": share(took, 0.5),
        "connect_p99_ms": share(took, 0.99),
        "connect_max_ms": share(took, 1),
    }


def exchanges(per_second):
    """Returns Diffie-Hellman computations per second: one to identify a sender, three more to answer (a fresh key, two with it)."""
    return per_second and round(per_second["computed"] + 3 * per_second["answered"])


def share(values, part):
    """Returns the value below which this share of the sorted `values` lies, or None without values."""
    return round(values[min(len(values) - 1, int(part * len(values)))], 1) if values else None


def spread(values, digits=1):
    values = [round(value, digits) for value in values]
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def median_by_name(rows):
    rows = list(rows)
    return {name: round(statistics.median(row.get(name, 0) for row in rows), 3) for name in rows[0]}


def machine():
    """Returns facts about the machine."""
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {"cpu": models[0] if models else platform.machine(), "cores": os.cpu_count(), "kernel": platform.release()}


def run(modes, kinds, seconds, rounds, tries):
    """Returns all rows."""
    rows = []
    for mode in modes:
        with Lab(ROOT / "target" / "lab" / "flood") as lab:
            field = MODES[mode](lab)
            rows += [measure(field, *flood, seconds, rounds, tries) for flood in FLOODS if flood[0] in kinds]
    return rows


def joined(rows, former):
    """Returns the rows, and the rows of `former` that are not among them, in the order of the floods."""
    name = lambda row: (row["mode"], row["kind"], row["aimed_pps"])  # noqa: E731
    all_of_them = {**{name(row): row for row in former}, **{name(row): row for row in rows}}
    order = [(mode, kind, rate) for mode in MODES for kind, _, rate in FLOODS]
    return [all_of_them[key] for key in order if key in all_of_them]


def main():
    words = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one short round and few connections each")
    parser.add_argument("--modes", type=words, default=list(MODES))
    parser.add_argument("--kinds", type=words, default=[kind for kind, _, _ in FLOODS])
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--tries", type=int)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--output", type=Path, default=ROOT / "target" / "lab" / "flood.json")
    parser.add_argument("--document", type=Path)
    parser.add_argument("--add", action="store_true")
    args = parser.parse_args()
    if lacks := needs.missing("iperf3", *(["wg"] if "wg" in args.modes else [])):
        print(f"flood: skipped: {lacks[0]}", file=sys.stderr)
        return 1
    seconds, rounds, tries = (2, 1, 10) if args.quick else (5, 5, 50)
    rows = run(args.modes, args.kinds, args.seconds or seconds, args.rounds or rounds, args.tries or tries)
    former = json.loads(args.output.read_text())["floods"] if args.add and args.output.exists() else []
    rows = joined(rows, former)
    result = {"schema": SCHEMA, "machine": machine(), "floods": rows, "verdicts": flood_report.verdicts(rows)}
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1) if args.json else flood_report.text(result))
    if args.document:
        args.document.write_text(flood_report.page(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
