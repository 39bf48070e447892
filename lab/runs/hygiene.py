"""`make hygiene`: hosts that use everything of Taut are byte for byte as before, whichever way it ends.

    python3 -m lab.runs.hygiene [--rounds N] [--resolvers NAME,…] [--ends NAME,…] [--json] [--document PAGE]

One host has its names asked by a real resolver, is in two networks, a subnet router, and uses another one's routes, and an exit node with local networks and kill switch; that other host is
exit node and subnet router. A round switches all of that on, ends it in one of the ways that docs describe, and compares both hosts with what they were before the first installation: links, addresses,
routes of all tables, rules, everything of nftables and iptables, all settings below /proc/sys/net, the resolver's answers about itself, and the files in /etc, /run, /tmp, /usr/local/bin and
/var/lib. Writes target/lab/hygiene.json; exit status 1 after a difference.
"""

import argparse
import json
import re
import signal
import sys
from collections import Counter
from pathlib import Path

from ..hosts import file_state
from ..hosts.net import Lab
from ..hosts.programs import ROOT
from ..hosts.wait import LabError, wait_until
from ..nodes.everything import WORK, Everything
from ..nodes.installed import KEPT, PLACES, uninstall
from ..nodes.resolver_host import is_unpacked
from ..nodes.resolvers import ALL_RESOLVERS
from . import command
from .figures import made

SCHEMA = 1
OUT = ROOT / "target" / "lab"
ROUNDS = 100
# How long the host may take to be as before, in seconds: the process that puts the resolver back may have to restart it.
PATIENCE_S = 30
# Lines of a difference that are kept.
SHOWN = 40
# Files that resolvers and the bus write as they like: process ids, sockets, caches, their own state.
MOVING = re.compile(
    r"file (/run/(dbus|dnsmasq\.pid|systemd|NetworkManager|tautlab|resolvconf/(exclusive|run-lock))(/|\b)|/var/lib/(NetworkManager|dbus|systemd|misc)(/|\b))"
)
# Files that resolvconf and NetworkManager write again on their own: the same text, at another time.
WRITTEN_AGAIN = re.compile(r"(file /(?:etc|run/resolvconf)/resolv\.conf file .*) \d+ (\w+)$")
# What a crash leaves until the next start, as docs/routes.md and docs/exit.md say: switches of forwarding and reverse path filters.
UNTIL_NEXT_START = re.compile(r"setting ipv4/conf/eth\d+/(forwarding|rp_filter) = ")


def down(site, name):
    """`taut down`."""
    for node in site.nodes(name):
        node.taut("down")


def terminated(site, name):
    """SIGTERM. The kill switch stays; `taut kill-switch remove` ends it."""
    for node in site.nodes(name):
        node.stop()
    remove_switch(site, name)


def crashed(site, name):
    """SIGKILL, the next start, and `taut down`."""
    for node in site.nodes(name):
        node.kill()
    start_again(site, name)


def crashed_and_removed(site, name):
    """SIGKILL and `taut kill-switch remove`. Some switches are set back at the next start."""
    for node in site.nodes(name):
        node.kill()
    remove_switch(site, name)


def power_cut(site, name):
    """SIGKILL for the daemon and its helper, the next start, and `taut down`."""
    for node in site.nodes(name):
        node.end(signal.SIGKILL, *(pid for pid in node.processes("dns-helper") if parent(pid) == node.daemon()))
    start_again(site, name)


def leave(site, name):
    """`taut leave`."""
    for node in site.nodes(name):
        node.taut("leave")


def uninstalled(site, name):
    """The commands of the README's chapter "Uninstall"."""
    uninstall(site.machines[name], [node.network for node in site.nodes(name) if node.network])


ENDS = {
    "down": down,
    "sigterm": terminated,
    "sigkill": crashed,
    "sigkill-remove": crashed_and_removed,
    "sigkill-both": power_cut,
    "leave": leave,
    "uninstall": uninstalled,
}
TITLES = {
    "down": "`taut down`",
    "sigterm": "SIGTERM, then `taut kill-switch remove`",
    "sigkill": "SIGKILL, the next `taut up`, and `taut down`",
    "sigkill-remove": "SIGKILL, then `taut kill-switch remove`; forwarding switches and reverse path filters after the next start",
    "sigkill-both": "SIGKILL also for the process that puts the resolver back, the next `taut up`, and `taut down`",
    "leave": "`taut leave`",
    "uninstall": "the commands of the README's chapter \"Uninstall\"",
}


def remove_switch(site, name):
    for node in site.nodes(name):
        node.taut("kill-switch", "remove")


def start_again(site, name):
    for node in site.nodes(name):
        node.up()
    down(site, name)


def parent(pid):
    """Returns the id of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def plan(rounds, resolvers, ends):
    """Returns (resolver, its ends) so that all pairs come equally often."""
    pairs = [(resolvers[n % len(resolvers)], ends[(n // len(resolvers) + n % len(resolvers)) % len(ends)]) for n in range(rounds)]
    return [(one, [end for resolver, end in pairs if resolver == one]) for one in resolvers if any(resolver == one for resolver, _ in pairs)]


def state(site, name):
    """Returns everything of a host that is compared, as a set of lines."""
    machine = site.machines[name]
    host = machine.host
    files = host.run(sys.executable, "-I", Path(file_state.__file__), *PLACES).stdout.splitlines()
    lines = [line for line in files if not MOVING.match(line)]
    if machine.rewrites or site.back_end == "resolvconf":
        lines = [WRITTEN_AGAIN.sub(r"\1 \2", line) for line in lines]
    if name == "own" and site.back_end == "systemd-resolved":
        lines += host.run("resolvectl", "dns").stdout.splitlines() + host.run("resolvectl", "domain").stdout.splitlines()
    return {*host.network_state(), *host.hidden_state(), *lines}


def is_kept(line):
    """Returns true for a line about a file that an installed node keeps."""
    return line.startswith("file ") and KEPT.match(line.split()[1]) is not None


def compare(site, before, name, allowed):
    """Waits until a host is as before but for the lines that are `allowed`; returns the lines that differ."""
    left = lambda: {line for line in state(site, name) ^ before[name] if not allowed(line)}
    try:
        wait_until(lambda: not left(), f"{name} to be as before", timeout=PATIENCE_S)
    except LabError:
        return [("+ " if line not in before[name] else "- ") + line for line in sorted(left(), key=lambda line: line[::-1])]
    return []


def end(site, before, name, how):
    """Ends everything on a host; returns the lines that differ from before."""
    ENDS[how](site, name)
    kept = (lambda line: False) if how == "uninstall" else is_kept
    if how != "sigkill-remove":
        return compare(site, before, name, kept)
    differs = compare(site, before, name, lambda line: is_kept(line) or UNTIL_NEXT_START.match(line))
    start_again(site, name)
    return differs + compare(site, before, name, is_kept)


def rounds_with(lab, resolver, ends, tell):
    """Makes the rounds of one resolver; yields a record for each round and host."""
    site = Everything(lab, resolver)
    before = {name: state(site, name) for name in site.machines}
    for how in ends:
        tell(f"{resolver}: {how}")
        site.switch_on()
        on = {name: len(state(site, name) ^ before[name]) for name in site.machines}
        # The user of the exit node first: its packets go nowhere without it.
        for name in site.machines:
            lines = end(site, before, name, how)
            if lines:
                tell("\n".join([f"  {name} differs in {len(lines)} lines:", *lines[:SHOWN]]))
            yield {"resolver": resolver, "end": how, "host": name, "changed": on[name], "lines": lines[:SHOWN], "left": len(lines)}


def measure(make_lab, rounds, resolvers, ends, tell=lambda text: None):
    """Makes all rounds; returns the figures."""
    records = []
    for resolver, its in plan(rounds, resolvers, ends):
        with make_lab(resolver) as lab:
            records += rounds_with(lab, resolver, its, tell)
    return {
        "schema": SCHEMA,
        "rounds": rounds,
        "resolvers": list(resolvers),
        "hosts": len(records),
        "ends": dict(Counter(one["end"] for one in records)),
        "least_changed_lines": min((one["changed"] for one in records), default=0),
        "differences": [one for one in records if one["left"]],
    }


def table(figures):
    """Returns the table for people."""
    lines = ["| the end | times | differences |", "|---|---|---|"]
    for how, times in figures["ends"].items():
        left = sum(one["left"] for one in figures["differences"] if one["end"] == how)
        lines.append(f"| {TITLES[how]} | {times} | {f'{left} lines' if left else 'none'} |")
    return "\n".join(lines)


def fill(page, figures):
    """Puts the table into a page, between its two marks."""
    begin, close = (f"<!-- made by make hygiene: {mark} -->" for mark in ("begin", "end"))
    before, rest = page.read_text().split(begin)
    page.write_text(f"{before}{begin}\n\n{made(figures['rounds']).replace(' runs each', ' rounds')}\n\n{table(figures)}\n\n{close}{rest.split(close)[1]}")


def run(args, resolvers, ends):
    """Makes the rounds, writes and prints the figures; returns the exit status."""
    tell = lambda text: print(text, file=sys.stderr, flush=True)
    figures = measure(lambda resolver: Lab(OUT / f"hygiene-{resolver}"), args.rounds, resolvers, ends, tell)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "hygiene.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures) if args.json else table(figures))
    if args.document:
        fill(ROOT / args.document, figures)
    return 1 if figures["differences"] else 0


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.hygiene", description=__doc__.splitlines()[0])
    there = [name for name, (_, programs, _) in ALL_RESOLVERS.items() if all(is_unpacked(one) for one in programs)]
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how many (default {ROUNDS})")
    parser.add_argument("--resolvers", default=",".join(there), help=f"of the first host (default: those that tools/resolvers has unpacked, {', '.join(there)})")
    parser.add_argument("--ends", default=",".join(ENDS), help=f"ways to end it: {', '.join(ENDS)}")
    parser.add_argument("--json", action="store_true", help="print an object with a schema version")
    parser.add_argument("--document", help="fill the table of this page")
    args = parser.parse_args()
    resolvers, ends = args.resolvers.split(","), args.ends.split(",")
    for wrong in [name for name in resolvers if name not in there] + [name for name in ends if name not in ENDS]:
        parser.error(f"there is no {wrong}")
    if args.rounds < 1:
        parser.error("--rounds is at least 1")
    sys.exit(command.run("hygiene", ["nft"], lambda: run(args, resolvers, ends)))


if __name__ == "__main__":
    main()
