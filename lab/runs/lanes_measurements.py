"""The measurements of `make lanes`: each lays out its own hosts, makes pairs of runs in turn, and yields rows."""

import os
import statistics
import time

from ..compare.tunnel.measure import counters
from ..hosts import path_mtu as underlay
from ..nodes.mesh import lay_out
from ..traffic.work.iperf import report, tcp_figures
from .path_rows import Row

AUTO, ONE, TWO = ("--lanes", "auto"), ("--lanes", "1"), ("--lanes", "2")
FOUR = ("-P", 4)
# Seconds that count of each run.
COUNTED_S = 6
# Seconds until lanes have opened and their trial is over (docs/lanes.md).
OPEN_S = 8
# Seconds until a stream has its speed.
RAMP_S = 2
# Seconds after its start in which a node does what it does only once.
QUIET_S = 10
# A limit of the coordinator's own relay that no machine reaches.
UNLIMITED = "100G"


def network(lab, routed=False):
    """Makes two joined nodes, with `routed` behind a router that can keep them from each other."""
    net = lay_out(lab, nodes=2, routed=routed, ipv6=False)
    net.coordinator.start("--relay-rate", UNLIMITED)
    for node in net.nodes:
        node.start()
        node.up(net.coordinator.join_token)
    net.wait_for_maps()
    return net


def again(net, options, direct=True):
    """Starts both daemons again with these options, and waits for the path."""
    for node in net.nodes:
        node.stop()
        node.start(*options)
        node.up()
    net.wait_for_maps()
    one, two = net.nodes
    one.ping_until_direct(two.name) if direct else one.ping(two.name)


def rate(net, *options, seconds=COUNTED_S):
    """Returns Mbit/s of streams over the overlay."""
    one, two = net.nodes
    return tcp_figures(report(one.host, two.host, two.ipv4, seconds, *options))["mbps"]


def disordered(net):
    """Returns the segments that arrived at the second node behind a missing one: out of order, or after a loss."""
    text = net.nodes[1].host.run("cat", "/proc/net/netstat").stdout
    return counters(text)["TcpExt.TCPOFOQueue"]


def compare(net, runs, work):
    """Returns what `work` gives with `--lanes auto` in per cent of one lane, in pairs, and `disordered` of each run with `auto`."""
    shares, disorder = [], []
    for number in range(runs):
        rates = {}
        # The order changes, because a machine that grows warm or busy favours the first.
        for options in (AUTO, ONE) if number % 2 == 0 else (ONE, AUTO):
            again(net, options)
            before = disordered(net)
            rates[options] = work(net)
            if options == AUTO:
                disorder.append(disordered(net) - before)
        shares.append(100 * rates[AUTO] / rates[ONE])
    return shares, disorder


def after_four(net):
    """Returns Mbit/s of one stream that starts right after four."""
    rate(net, *FOUR, seconds=OPEN_S + RAMP_S)
    return rate(net)


def streams(lab, runs):
    """Several streams and one, with lanes that open by load and with one lane."""
    disorder = []
    with lab() as made:
        net = network(made)
        for name, limit, work in (
            ("four-cubic", 120, lambda net: rate(net, *FOUR, "-O", OPEN_S, "-C", "cubic")),
            ("four-bbr", 120, lambda net: rate(net, *FOUR, "-O", OPEN_S, "-C", "bbr")),
            ("single", 97, lambda net: rate(net, "-O", RAMP_S)),
            ("single-after", 97, after_four),
        ):
            shares, counts = compare(net, runs, work)
            disorder += counts
            yield Row(name, limit, shares, unit="%", by_median=True, of="pairs", note="the median is judged")
    yield Row("order", 0, disorder, unit="segments")


def relayed(lab, runs):
    """Four streams through the coordinator's relay, which shares the cores, in per cent of the direct path."""
    shares = []
    with lab() as made:
        net = network(made, routed=True)
        router, sides = made.nodes["router"], net.switches[1:]
        for _ in range(runs):
            again(net, TWO)
            direct = rate(net, *FOUR, "-O", RAMP_S)
            underlay.only_relays(router, *sides)
            again(net, TWO, direct=False)
            shares.append(100 * rate(net, *FOUR, "-O", RAMP_S) / direct)
            underlay.allow_direct(router)
    yield Row("relayed", 70, shares, unit="%", by_median=True, of="pairs", note="the median is judged")


def idle(lab, runs):
    """Threads and memory of a node that has nothing to do."""
    threads, memory = [], []
    with lab() as made:
        net = network(made)
        for _ in range(runs):
            seen = {}
            for options in (AUTO, ONE):
                again(net, options)
                time.sleep(QUIET_S)
                daemons = [node.process for node in net.nodes]
                counted = [len(os.listdir(f"/proc/{daemon.pid}/task")) for daemon in daemons]
                seen[options] = (max(counted), statistics.fmean(daemon.rss_kib() for daemon in daemons))
            threads.append(seen[AUTO][0] - seen[ONE][0])
            memory.append(seen[AUTO][1] - seen[ONE][1])
    yield Row("idle-threads", 0, threads, unit="threads")
    yield Row("idle-memory", 50, memory, unit="kB", by_median=True, note="the median is judged")


MEASURED = {"streams": streams, "relayed": relayed, "idle": idle}
# Measurements with other rows than their own.
SEVERAL = {"streams": ["four-cubic", "four-bbr", "single", "single-after", "order"], "idle": ["idle-threads", "idle-memory"]}
