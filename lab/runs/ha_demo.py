"""The demo of high availability: three coordinators on one PostgreSQL database behind HAProxy, and nodes that talk all the time. Breaks one part after the other and tells what the nodes noticed.

    python3 -m lab.runs.ha_demo [--small] [--json] [--document FILE]

Needs root, /dev/net/tun, iproute2, nft, haproxy, PostgreSQL, and the programs `taut`, `taut-coordinator` and `taut-relay`. Writes target/ha-demo/result.json and timeline.svg. HOLD=1 keeps it
running until Ctrl-C. Exit status 1 if something that must hold does not (ha_report.verdicts).
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

from ..hosts.net import Lab
from ..hosts.programs import ROOT, binary
from ..measure import machine
from ..nodes import postgres
from . import command, ha_picture, ha_report
from .ha_events import BLOWS, strike
from .ha_load import Load, acknowledged
from .ha_site import FULL, SMALL, Site
from .ha_watch import Traffic, Watch

OUT = ROOT / "target" / "ha-demo"
BEGIN, END = "<!-- made by make ha-demo -->", "<!-- end -->"
PROGRAMS = ("nft", "haproxy", "ss")


def say(text):
    """Prints progress; standard output may be wanted for JSON."""
    print(f"ha-demo: {text}", file=sys.stderr, flush=True)


def main(words=None):
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.ha_demo")
    parser.add_argument("--small", action="store_true", help="three nodes and short pauses")
    parser.add_argument("--json", action="store_true", help="print the result as JSON to standard output")
    parser.add_argument("--output", metavar="DIRECTORY", type=Path, default=OUT, help="where to write (default target/ha-demo)")
    parser.add_argument("--document", metavar="FILE", type=Path, help="write the table into this page, between its marks, and the picture beside it")
    args = parser.parse_args(words)
    lack = postgres.missing()
    if lack:
        print(f"ha-demo: {lack}", file=sys.stderr)
        return 1
    return command.run("ha-demo", PROGRAMS, lambda: demonstrate(args), f"\nAll logs are in {args.output / 'logs'}")


def demonstrate(args):
    """Runs everything, writes and prints the result; returns the exit status."""
    with Lab(args.output / "logs") as lab:
        site = Site(lab, SMALL if args.small else FULL, say)
        result, lines = run(site)
        held = all(one["held"] for one in result["verdicts"])
        lab.failed = not held or "TAUT_LAB_KEEP" in os.environ
        write(result, lines, args)
        if os.environ.get("HOLD"):
            hold(site)
    return 0 if held else 1


def run(site):
    """Starts the traffic, strikes, and returns (the result, the channels of each replica over time)."""
    watch, load, traffic = Watch(site), Load(site), Traffic(site)
    watch.wait_until_whole(time.monotonic())
    start, blows = time.monotonic(), []
    say(f"{len(traffic.streams)} pairs ping each other every {1000 * site.shape.ping_s:.0f} ms, {len(traffic.flows)} TCP connections, {site.shape.rate:.0f} changes a second by the API")
    time.sleep(site.shape.calm_s)
    for number, (key, title, work) in enumerate(BLOWS):
        say(f"{time.monotonic() - start:5.1f} s  {title}")
        blows.append(strike(site, watch, number, key, title, work))
    requests, database = load.finish()
    pings, flows = traffic.finish()
    differing = maps_differing(site)
    watch.end()
    rows = [ha_report.row(blow, start, watch, pings, requests) for blow in blows]
    result = {
        "schema": 1,
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine.facts(),
        "nodes": len(site.members),
        "kinds": list(site.shape.kinds),
        "replicas": len(site.replicas),
        "pairs": len(pings),
        "pairs_relayed": sum(not one["direct"] for one in pings),
        "ping_interval_s": site.shape.ping_s,
        "changes_per_s": site.shape.rate,
        "seconds": round(blows[-1].ended - start, 1),
        "pings_sent": sum(len(one["asked"]) for one in pings),
        "pings_lost": sum(len(one["unanswered"]) for one in pings),
        "lost": [{"pair": one["pair"], "at_s": [round(at - start, 2) for at in one["unanswered"]]} for one in pings if one["unanswered"]],
        "flows": flows,
        "database": database,
        "maps_differing": differing,
        "outages": ha_report.outages(watch, start),
        "changes_failed_at_s": [round(one["at"] - start, 2) for one in requests if not acknowledged(one)],
        "blows": rows,
    }
    result["verdicts"], result["targets"] = ha_report.verdicts(result), ha_report.targets(result)
    return result, [{**row, "at": row["at"] - start} for row in watch.replicas.rows()]


def maps_differing(site):
    """Returns how many nodes have other members than the database."""
    listed = {int(line) for line in site.database.sql("SELECT id FROM nodes WHERE removed_at IS NULL").splitlines()}
    return sum({peer["id"] for peer in status["peers"]} | {status["self"]["id"]} != listed for status in (node.status() for node in site.members))


def write(result, lines, args):
    """Writes the files, and prints the table or the JSON."""
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    picture = ha_picture.svg(result, lines)
    (args.output / "timeline.svg").write_text(picture)
    print(json.dumps(result, indent=1) if args.json else f"\n{ha_report.text(result)}\n", flush=True)
    say(f"written: result.json and timeline.svg in {args.output}")
    if args.document:
        before, _, rest = args.document.read_text().partition(BEGIN)
        args.document.write_text(f"{before}{BEGIN}\n{ha_report.table(result)}\n{END}{rest.partition(END)[2]}")
        args.document.with_suffix(".svg").write_text(picture)


def hold(site):
    """Keeps everything running and prints how to explore it."""
    print(
        f"""The site keeps running until Ctrl-C. Look around from another terminal, in {ROOT}:
  python3 -m lab list                     the hosts and their namespaces
  python3 -m lab shell co1                a shell in the host of a coordinator; lb has HAProxy, db has PostgreSQL
  python3 -m lab shell node1 {binary("taut")} status --socket {site.nodes[0].socket}
Logs: {site.lab.logs}""",
        file=sys.stderr,
        flush=True,
    )
    try:
        signal.pause()
    except KeyboardInterrupt:
        say("removing everything")


if __name__ == "__main__":
    sys.exit(main())
