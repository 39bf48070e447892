"""The measurements of `make mtu`: each lays out its own hosts, makes the runs, and yields rows."""

import datetime
import json
import statistics
import time

from ..hosts import path_mtu as underlay
from ..hosts.wait import PATIENCE_S, LabError, wait_until
from ..nodes import mtu
from ..nodes.local_api import LocalApi
from ..nodes.mesh import lay_out
from ..traffic.flow import Transfer
from .path_rows import Row, iperf

MIB = 1 << 20
# Bytes of the headers outside a packet over IPv4: IP, UDP, and WireGuard's data message.
OUTER = 60
# What the router carries after a path shrank, in bytes.
SHORT = 1280
# Pause between two looks at the counters of a node, in seconds.
LOOK_S = 0.002
# Time after a path shrank in which a stalled stream is looked for, in seconds.
WATCH_S = 4
# `--mtu` on a link of 9,000 bytes, for comparison.
BY_HAND = 8900
# Underlays of the row of lost pings: arguments of `network`.
UNDERLAYS = [
    {"path": 1124, "ipv6": False},
    {"path": 1280, "ipv6": False},
    {"path": 1280, "ipv4": False},
    {"path": 1400, "ipv6": False},
    {"path": 1492, "ipv4": False},
    {"ipv6": False},
    {"ipv4": False},
    {"link": 9000, "ipv6": False},
    {"link": 9000, "ipv4": False},
    {"one_way": 1400, "ipv6": False},
    {"relayed": True, "ipv4": False},
]


def network(lab, *, link=None, path=None, one_way=None, relayed=False, options=(), **families):
    """Makes two joined nodes with a router between them. `link` is the MTU of all links; the router forwards at most `path` bytes, or `one_way` bytes to the second
    node, without ICMP errors."""
    net = lay_out(lab, nodes=2, routed=True, **families)
    router = lab.nodes["router"]
    if link:
        underlay.set_links(lab, *net.switches, mtu=link)
    if path:
        underlay.narrow(router, *net.switches[1:], mtu=path)
    if one_way:
        underlay.narrow(router, net.switches[2], mtu=one_way)
    if relayed:
        underlay.only_relays(router, *net.switches[1:])
    net.coordinator.start()
    for node in net.nodes:
        node.start(*options)
        node.up(net.coordinator.join_token)
    net.wait_for_maps()
    return net


def again(net):
    """Starts both daemons again: nothing is known of the path any more."""
    for node in net.nodes:
        node.restart()
    net.wait_for_maps()


def fetches(lab, runs, **path):
    """Returns the times of transfers of 1 MiB in milliseconds, each the first traffic of new daemons."""
    with lab() as made:
        net = network(made, **path)
        one, two = net.nodes
        times = []
        for _ in range(runs):
            again(net)
            done = Transfer(one.host, two.host, two.ipv4, size=MIB).finish()
            if not done["equal"]:
                raise LabError("the transfer was not the same at the other end")
            times.append(1000 * done["seconds"])
        return times


def first_flight(lab, runs):
    """1 MiB as the first traffic over a path that swallows long packets, against a path of 1,500 bytes."""
    clean = statistics.median(fetches(lab, runs, ipv6=False))
    for path in (1280, 1124):
        times = fetches(lab, runs, path=path, ipv6=False)
        share = statistics.median(times) / clean
        yield Row(f"r22-{path}", 5000, times, note=f"{share:.2f} × the {clean:.0f} ms of a path of 1,500 bytes")


def found(lab, runs):
    """From the proof of the direct path until its MTU is known, as the log of the daemon tells. New daemons of known peers meet before a test could look."""
    options = ("--log-level", "info,path=debug")
    with lab() as made:
        net = network(made, path=1400, ipv6=False, options=options)
        one, two = net.nodes
        times = []
        for _ in range(runs):
            for node in net.nodes:
                node.stop()
                node.start(*options)
                node.up()
            one.ping_until_direct(two.name)
            times.append(1000 * wait_until(lambda: search_time(one), "the MTU to be known", details=one.process.tail))
    yield Row("found", 1000, times)


def search_time(node):
    """Returns the seconds from the proof of the direct path to its MTU in the daemon's present run, or None while it is not known."""
    lines = [json.loads(line) for line in node.taut("log", "--json").stdout.splitlines()]
    proven = known = None
    for line in lines:
        if line["event"] == "daemon-started":
            proven = known = None
        elif line.get("path", "relay:").startswith("relay:"):
            continue
        elif line["event"] == "path-proven":
            proven = proven or datetime.datetime.fromisoformat(line["time"])
        elif line["event"] == "packet-limit-changed":
            known = known or datetime.datetime.fromisoformat(line["time"])
    return (known - proven).total_seconds() if proven and known else None


def shrinks(lab, runs):
    """The router carries less in the middle of a TCP stream: the longest time without data, and the time until the MTU is known."""
    stalls, known = [], []
    with lab() as made:
        net = network(made, ipv6=False)
        one, two = net.nodes
        router, sides = made.nodes["router"], net.switches[1:]
        for _ in range(runs):
            underlay.narrow(router, *sides, mtu=1500)
            again(net)
            one.ping_until_direct(two.name)
            stream = Transfer(one.host, two.host, two.ipv4)
            stream.flows_on(4 * MIB)
            underlay.narrow(router, *sides, mtu=SHORT)
            start = time.monotonic()
            with LocalApi(one) as here, LocalApi(two) as there:
                stall, end = watch(here, there, one, two, start)
            stalls.append(1000 * stall)
            known.append(1000 * (end - start))
            stream.finish()
    yield Row("shrinks", 2000, known)
    yield Row("stalled", 2000, stalls)


def watch(here, there, one, two, start):
    """Returns the longest time without data at the receiver, and the time at which the sender knew the shorter MTU."""
    longest, end = 0.0, None
    received, since = None, start
    while time.monotonic() < start + WATCH_S or (end is None and time.monotonic() < start + PATIENCE_S):
        count = there.peer(one.name)["rx_bytes"]
        now = time.monotonic()
        if count != received:
            received, since = count, now
        longest = max(longest, now - since)
        if end is None and (here.peer(two.name)["path"]["mtu"] or SHORT) <= SHORT - OUTER:
            end = now
        time.sleep(LOOK_S)
    if end is None:
        raise LabError("the shorter MTU was not found")
    return longest, end


def jumbo(lab, runs):
    """One TCP stream on a link of 9,000 bytes without settings, in per cent of `--mtu 8900`, in turns."""
    with lab() as made:
        net = network(made, link=9000, ipv6=False)
        shares = []
        for _ in range(runs):
            rates = []
            for options in ((), ("--mtu", BY_HAND)):
                for node in net.nodes:
                    node.stop()
                    node.start(*options)
                    node.up()
                net.wait_for_maps()
                one, two = net.nodes
                one.ping_until_direct(two.name)
                wait_until(lambda one=one, two=two: mtu.packet_mtu(one, two.ipv4) >= BY_HAND, "the device to take jumbo packets")
                rates.append(iperf(one, two))
            shares.append(100 * rates[0] / rates[1])
    yield Row("jumbo", 97, shares, unit="%", by_median=True, of="pairs", note="the median is judged")


def lost(lab, _runs):
    """Pings as long as the kernel sends them, over all underlays and in both directions, after the first second."""
    missing, sent = [], 0
    for words in UNDERLAYS:
        with lab() as made:
            one, two = network(made, **words).nodes
            wait_until(lambda one=one, two=two: one.ping(two.name, "-c", "1", check=False), "an answer")
            time.sleep(1)
            counts = [mtu.full_pings(here, address) for here, there in ((one, two), (two, one)) for address in (there.ipv4, there.ipv6)]
            sent += sum(one for one, _ in counts)
            missing.append(sum(one - other for one, other in counts))
    yield Row("lost", 0, missing, unit="packets", of="underlays", note=f"{sum(missing)} of {sent} in all")


MEASURED = {"r22": first_flight, "found": found, "shrinks": shrinks, "jumbo": jumbo, "lost": lost}
# Measurements with other rows than their own.
SEVERAL = {"r22": ["r22-1280", "r22-1124"], "shrinks": ["shrinks", "stalled"]}
