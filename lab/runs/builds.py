"""`make builds`: whether the static program is as fast as the one with this host's C library, and what the sandbox costs. Options and output: figures.py."""

import os
import sys
from pathlib import Path

from ..hosts.programs import ROOT
from ..nodes import mesh as meshes
from ..traffic.work import iperf
from .figures import Figures
from .path_rows import Row

# The static program of `make packages`, and the one of `make build`.
STATIC = Path(os.environ.get("TAUT_STATIC_DIR") or ROOT / "target" / "packages-root" / "build" / "target" / "x86_64-unknown-linux-musl" / "release")
DYNAMIC = ROOT / "target" / "release"
# Duration of a stream, in seconds: longer than a processor's turbo, shorter than the disturbances of a shared machine.
STREAM_S = 5
# The least share of the other build's rate, in per cent.
AS_FAST = 97


def pairs(lab, *kinds):
    """Makes a network of two nodes for each kind, which is a folder of programs and options of the daemon; returns the pairs."""
    net = meshes.lay_out(lab, nodes=2 * len(kinds))
    net.coordinator.start()
    for number, node in enumerate(net.nodes):
        node.release, *options = kinds[number // 2]
        node.start(*options)
        node.up(net.coordinator.join_token)
    net.wait_for_maps()
    net.connect()
    return [net.nodes[first : first + 2] for first in range(0, len(net.nodes), 2)]


def rate(nodes, *options):
    """Returns the rate of one TCP stream, or of one in each direction together, in Mbit/s."""
    one, two = nodes
    return iperf.tcp_figures(iperf.report(one.host, two.host, str(two.ipv4), STREAM_S, *options))["mbps"]


def compare(lab, runs, *kinds, options=()):
    """Runs iperf3 through each of two pairs in turn; the one that begins changes. Returns the rates of the first pair in per cent of the second one's."""
    shares = []
    with lab() as made:
        both = pairs(made, *kinds)
        for number in range(runs):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            rates = {place: rate(both[place], *options) for place in order}
            shares.append(100 * rates[0] / rates[1])
    return shares


def static(lab, runs):
    """Compares the static program with the dynamic one."""
    yield Row("static", AS_FAST, compare(lab, runs, (STATIC,), (DYNAMIC,)), unit="%", by_median=True)


def both_ways(lab, runs):
    """Compares them with a stream in each direction at the same time, in which every processor encrypts and decrypts."""
    yield Row("both-ways", AS_FAST, compare(lab, runs, (STATIC,), (DYNAMIC,), options=("--bidir",)), unit="%", by_median=True)


def sandbox(lab, runs):
    """Compares the daemon in its sandbox with one outside of it."""
    yield Row("sandbox", None, compare(lab, runs, (DYNAMIC,), (DYNAMIC, "--no-sandbox")), unit="%", by_median=True)


FIGURES = Figures(
    name="builds",
    summary="compares the speed of the static program with the one of this host's C library, and of the daemon in its sandbox with one outside",
    lines={
        "static": ("one TCP stream: the static program, in per cent of the one with glibc", f"≥ {AS_FAST} %"),
        "both-ways": ("a TCP stream in each direction, together: the static program, in per cent of the one with glibc", f"≥ {AS_FAST} %"),
        "sandbox": ("one TCP stream: in the sandbox, in per cent of without", "–"),
    },
    measured={"static": static, "both-ways": both_ways, "sandbox": sandbox},
    programs=["iperf3"],
    runs=9,
)

if __name__ == "__main__":
    sys.exit(FIGURES.main())
