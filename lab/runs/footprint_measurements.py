"""The measurements of `make footprint`: each lays out its own hosts, makes the runs, and yields rows."""

import contextlib
import os
import re
import sqlite3
import time
from pathlib import Path

from ..nodes import mesh as meshes
from ..traffic.work import iperf
from .path_rows import Row

# Limits of the table, in units of 1,000,000 bytes.
JOINED_MB, PEAK_MB, THOUSAND_MB = 3.0, 6.0, 8.0
# What two lanes hold at most for a peer whose flows change lanes (PER_MOVE, engine/lane/src/held.rs), in MB: it comes on top of the peak where a second lane opens.
HELD_MB = 2 * 2 * 1.048576
# Time after which a node is idle: its path is found, its MTU too, and the map is on the disk, in seconds.
IDLE_S = 10
# Duration of the load, in seconds.
LOAD_S = 10
# Peers in the map, and those among them that run.
MEMBERS, ACTIVE = 1_000, 10
KIB_PER_MB = 1e6 / 1024


def memory(pid):
    """Returns the memory of a process, in MB: all in RAM, the most so far, and its own."""
    found = dict(re.findall(r"^(VmRSS|VmHWM|RssAnon):\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE))
    return tuple(int(found[name]) / KIB_PER_MB for name in ("VmRSS", "VmHWM", "RssAnon"))


def beside(pid):
    """Returns the own memory of the processes that a daemon started, in MB."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(memory(child)[2] for child in children)


def joined(lab, runs):
    """Measures nodes that know each other and are idle."""
    with lab() as made:
        net = meshes.build(made, nodes=4)
        all_rss, own, others = [], [], []
        for _ in range(runs):
            net.connect()
            time.sleep(IDLE_S)
            rss, _, anonymous = memory(net.nodes[0].process.pid)
            all_rss.append(rss)
            own.append(anonymous)
            others.append(beside(net.nodes[0].process.pid))
            net.nodes[0].stop()
            net.nodes[0].start()
            net.wait_for_maps()
    yield Row("joined", JOINED_MB, all_rss, unit="MB")
    yield Row("joined-own", None, own, unit="MB")
    yield Row("outside", None, others, unit="MB")


def peak(lab, runs):
    """Measures a node under load: by itself runs in which a second lane opened, because packets of flows that change lanes are held meanwhile."""
    one_lane, more_lanes, own = [], [], []
    for _ in range(runs):
        with lab() as made:
            net = meshes.build(made, nodes=2)
            net.connect()
            one, two = net.nodes
            iperf.report(one.host, two.host, str(two.ipv4), LOAD_S, "--bidir")
            most, anonymous = zip(*((memory(node.process.pid)[1], memory(node.process.pid)[2]) for node in net.nodes), strict=True)
            opened = any("event=lanes-started" in node.taut("log").stdout for node in net.nodes)
        (more_lanes if opened else one_lane).append(max(most))
        own.append(max(anonymous))
    if one_lane:
        yield Row("peak", PEAK_MB, one_lane, unit="MB")
    if more_lanes:
        yield Row("peak-lanes", PEAK_MB + HELD_MB, more_lanes, unit="MB")
    yield Row("peak-own", None, own, unit="MB")


def add_members(coordinator, count):
    """Writes members that never run into the database of a coordinator that does not run: only rows, as if they had joined."""
    database = sqlite3.connect(coordinator.host.state / "coordinator" / "coordinator.db")
    with contextlib.closing(database), database:
        network, version, prefix6 = database.execute("SELECT id, version, ipv6 FROM networks").fetchone()
        first = bytes(int(part, 16) for group in prefix6.partition("::")[0].split(":") for part in (group.zfill(4)[:2], group.zfill(4)[2:]))
        now = int(time.time())
        # A node asks for what is newer than its map.
        version += 1
        database.execute("UPDATE networks SET version = ?", (version,))
        for number in range(count):
            host = 20_000 + number
            four, six = (0x6440_0000 + host).to_bytes(4), first.ljust(8, b"\0") + host.to_bytes(8)
            endpoints = f'["10.77.9.{number % 250 + 1}:{8_000 + number}","[fd77:9::{number:x}]:8288"]'
            database.execute(
                "INSERT INTO nodes (network, machine_key, node_key, name, ipv4, ipv6, endpoints, program, version, created_at, last_seen_at, relays)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, '0.2.0', ?, ?, ?, '[0]')",
                (network, os.urandom(32), os.urandom(32), f"silent-{number}", four, six, endpoints, version, now, now),
            )


def thousand(lab, runs):
    """Measures a node whose network has many members, a few of which are active."""
    all_rss, own = [], []
    with lab() as made:
        net = meshes.build(made, nodes=ACTIVE + 1)
        node, peers = net.nodes[0], net.nodes[1:]
        net.coordinator.stop()
        add_members(net.coordinator, MEMBERS - ACTIVE)
        net.coordinator.start()
        for _ in range(runs):
            node.stop()
            node.start()
            node.wait_for(lambda status: len(status["peers"]) == MEMBERS, f"{MEMBERS} peers in the map")
            for peer in peers:
                node.ping_until_direct(peer.name)
            time.sleep(IDLE_S)
            rss, _, anonymous = memory(node.process.pid)
            all_rss.append(rss)
            own.append(anonymous)
    yield Row("thousand", THOUSAND_MB, all_rss, unit="MB")
    yield Row("thousand-own", None, own, unit="MB")


MEASURED = {"joined": joined, "peak": peak, "thousand": thousand}
