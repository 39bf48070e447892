"""Random schedules of everything that could make a host with an exit node send in the clear, under the kill switch.

    python3 -m lab.runs.kill_switch [--schedules N] [--seed N] [--jobs N] [--json]

A host sends to the internet without a pause, over IPv4 and IPv6, with UDP, TCP, ICMP and DNS, also from sockets bound to its network interface. Meanwhile the daemon is killed, stopped,
restarted; its device is removed; the network distributes routes, public local networks and router advertisements; rules and tables are flushed; the cable is pulled; the exit node goes away. A
capture on the cable counts packets in the clear. The seed determines all schedules: `plan` returns them before anything runs. After each schedule the internet must answer through the exit node
again. Writes target/lab/kill_switch.json; exit status 1 after a packet in the clear.
"""

import argparse
import functools
import json
import multiprocessing
import os
import random
import signal
import sys

from ..hosts.net import Lab
from ..hosts.programs import ROOT
from ..hosts.wait import wait_until
from ..nodes.full_tunnel import FullTunnel
from . import command

OUT = ROOT / "target" / "lab"
SCHEDULES = 200
# Faults of one schedule.
LENGTH = (2, 5)
TABLE = "taut0_kill_switch"


def plan(seed, schedules):
    """Returns the schedules: lists of names of faults."""
    dice = random.Random(seed)
    return [[dice.choice(FAULTS).__name__ for _ in range(dice.randint(*LENGTH))] for _ in range(schedules)]


def killed(net, talk):
    """The daemon crashes (J1)."""
    net.client.kill()
    talk.wait()
    net.client.start(*net.options)


def restarted(net, talk):
    """The daemon ends and starts again, as for an upgrade (J1)."""
    net.client.stop()
    talk.wait()
    net.client.start(*net.options)


def stopped(net, talk):
    """The daemon does not run for a while (J1)."""
    os.kill(net.client.process.pid, signal.SIGSTOP)
    talk.wait()
    os.kill(net.client.process.pid, signal.SIGCONT)


def device_removed(net, talk):
    """Another program removes the TUN device (J1)."""
    net.client.host.run("ip", "link", "del", "taut0", check=False)
    talk.wait()


def routes_distributed(net, talk):
    """The network's DHCP server distributes routes (J2, option 121)."""
    four, six = net.rogue.ipv4, net.rogue.ipv6
    for route in ("0.0.0.0/1", "128.0.0.0/1", "203.0.112.0/20", "203.0.113.80/32"):
        net.client.host.run("ip", "route", "replace", route, "via", four, "dev", "eth0")
    for route in ("::/1", "8000::/1", "2001:db8:99::80/128"):
        net.client.host.run("ip", "-6", "route", "replace", route, "via", six, "dev", "eth0")
    talk.wait()
    for route in ("0.0.0.0/1", "128.0.0.0/1", "203.0.112.0/20", "203.0.113.80/32", "::/1", "8000::/1", "2001:db8:99::80/128"):
        net.client.host.run("ip", *(["-6"] if ":" in route else []), "route", "del", route, "dev", "eth0", check=False)


def public_local_network(net, talk):
    """The local network claims to be a part of the internet (J3)."""
    net.client.host.run("ip", "address", "add", "203.0.113.7/24", "dev", "eth0", check=False)
    net.client.host.run("ip", "address", "add", "2001:db8:99::7/64", "dev", "eth0", "nodad", check=False)
    talk.wait()
    net.client.host.run("ip", "address", "del", "203.0.113.7/24", "dev", "eth0", check=False)
    net.client.host.run("ip", "address", "del", "2001:db8:99::7/64", "dev", "eth0", check=False)


def router_advertised(net, talk):
    """A host of the network advertises itself as the router of IPv6 (J5)."""
    host = net.client.host
    host.run("ip", "-6", "route", "add", "default", "via", net.bystander.ipv6, "dev", "eth0", "proto", "ra", "metric", "5", check=False)
    host.run("ip", "-6", "route", "add", "2001:db8:77::/64", "dev", "eth0", "proto", "ra", "metric", "5", check=False)
    talk.wait()
    host.run("ip", "-6", "route", "flush", "proto", "ra", check=False)


def rules_flushed(net, talk):
    """Another program removes all routing rules, and makes the usual ones again (J8)."""
    for family in ("-4", "-6"):
        net.client.host.run("ip", family, "rule", "flush")
        net.client.host.run("ip", family, "rule", "add", "lookup", "main", "pref", "32766")
    net.client.host.run("ip", "-4", "rule", "add", "lookup", "default", "pref", "32767")
    talk.wait()


def tables_flushed(net, talk):
    """Another program removes all tables of nftables (J8): the daemon puts its own back."""
    net.client.host.run("nft", "flush", "ruleset")
    talk.wait()
    wait_until(lambda: in_force(net), "the kill switch to be back")


def cable_pulled(net, talk):
    """The network goes away and comes back, without the routes that it distributed."""
    host = net.client.host
    host.ip("link set eth0 down")
    talk.wait()
    host.ip("link set eth0 up", *(f"address replace {address}/{24 if address.version == 4 else 64} dev eth0" for address in host.addresses))
    net.default_routes()


def exit_away(net, talk):
    """The exit node goes away and comes back."""
    gate = net.exits[0]
    gate.stop()
    talk.wait()
    gate.start("--advertise-exit-node")


FAULTS = (killed, restarted, stopped, device_removed, routes_distributed, public_local_network, router_advertised, rules_flushed, tables_flushed, cable_pulled, exit_away)


def in_force(net):
    """Returns true if the kill switch is in force at the client."""
    return net.client.host.run("nft", "list", "table", "inet", TABLE, check=False).returncode == 0


def measure(lab, schedules, tell=lambda text: None):
    """Runs schedules; returns the figures."""
    net = FullTunnel(lab)
    net.choose("exit1", "--kill-switch")
    capture, talk = net.listen(), net.talk()
    leaks, faults = [], 0
    for number, schedule in enumerate(schedules):
        tell(f"{number}: {' '.join(schedule)}")
        before = capture.count()
        for name in schedule:
            next(fault for fault in FAULTS if fault.__name__ == name)(net, talk)
            faults += 1
        net.wait_for_tunnel()
        if (count := capture.count() - before) > 0:
            leaks.append({"schedule": number, "faults": schedule, "clear": count})
    talk.end()
    found = capture.finish()
    return {
        "schema": 1,
        "schedules": len(schedules),
        "faults": faults,
        "frames": found["frames"],
        "sealed_frames": found["sealed"],
        "clear_packets": found["clear"],
        "leaks": leaks,
        "shown": found["shown"],
    }


def main():
    parser = argparse.ArgumentParser(prog="python3 -m lab.runs.kill_switch", description=__doc__.splitlines()[0])
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help=f"how many (default {SCHEDULES})")
    parser.add_argument("--seed", type=int, default=None, help="of the schedules (default: drawn, and printed)")
    parser.add_argument("--jobs", type=int, default=1, help="how many labs run side by side, each with a share of the schedules (default 1)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    if args.schedules < 1 or args.jobs < 1:
        parser.error("--schedules and --jobs are at least 1")
    seed = args.seed if args.seed is not None else random.randrange(1 << 32)
    print(f"seed {seed}", file=sys.stderr, flush=True)
    sys.exit(command.run("kill-switch", ["nft"], lambda: run(seed, args.schedules, min(args.jobs, args.schedules), args.json)))


def share(schedules, jobs, number):
    """Runs every `jobs`-th schedule from `number` on in a lab of its own; returns the figures."""
    own = schedules[number::jobs]
    tell = lambda text: print(f"[{number}] {text}", file=sys.stderr, flush=True)
    with Lab(OUT / f"kill_switch-{number}") as lab:
        figures = measure(lab, own, tell)
    leaks = [{**leak, "schedule": number + jobs * leak["schedule"]} for leak in figures["leaks"]]
    return {**figures, "leaks": leaks}


def together(parts):
    """Returns the figures of all labs as one."""
    summed = {name: sum(part[name] for part in parts) for name in ("schedules", "faults", "frames", "sealed_frames", "clear_packets")}
    listed = {name: [one for part in parts for one in part[name]] for name in ("leaks", "shown")}
    return {"schema": 1, **summed, **listed}


def run(seed, schedules, jobs, as_json):
    """Makes the labs, runs the schedules, and writes and prints the figures; returns the exit status."""
    # Each lab belongs to a process of its own, which removes it at the end.
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        parts = pool.map(functools.partial(share, plan(seed, schedules), jobs), range(jobs), chunksize=1)
        pool.close()
        pool.join()
    figures = {**together(parts), "seed": seed}
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "kill_switch.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures) if as_json else f"{figures['schedules']} schedules, {figures['faults']} faults: {figures['clear_packets']} packets in the clear")
    return 1 if figures["clear_packets"] else 0


if __name__ == "__main__":
    main()
