"""Taut in network mode: a coordinator in the helper, a daemon in each host."""

import functools
import subprocess

from ...hosts.programs import ROOT, binary
from ...hosts.wait import LabError, wait_until
from ...measure import machine
from ..mesh import Mesh
from ..taut import Coordinator, Node
from .base import Running, System, mtu_of, ready

INTERFACE = "taut0"
# Flags of /proc/cpuinfo without which a node does not use a suite.
NEEDS = {"AES256GCM": "aes", "AEGIS256X4": "vaes"}


class Network(System):
    """`flags` are arguments of the daemons; a flag that `taut daemon` does not know makes the system unavailable. `suite` must seal the data: the daemons
    get no other one, and a processor without it makes the system unavailable. With `finds_mtu` the nodes find the MTU themselves; it must become at least
    that of the configuration, whose link has room for 40 bytes more."""

    get = "make build"

    def __init__(self, name, title, suite, *flags, variant=False, every_mtu=False, finds_mtu=False):
        self.name, self.title, self.suite, self.variant = name, title, suite, variant
        self.flags = ("--suites", suite, *flags)
        # A quick run of ten minutes has no time for variants at every MTU.
        self.every_mtu = self.only_full = every_mtu
        self.finds_mtu = finds_mtu

    def lacking(self):
        try:
            known = _help()
        except LabError as error:
            return str(error)
        unknown = [flag for flag in self.flags if flag.startswith("--") and f"{flag} " not in known]
        if unknown:
            return f"not available: this taut has no {unknown[0]}"
        needed = NEEDS.get(self.suite)
        return f"not available: {self.suite} is not fast on this processor (no {needed})" if needed and needed not in machine.facts()["cpu_flags"] else None

    def version(self):
        return taut_version()

    def start(self, hosts, helper, mtu):
        mtu = mtu or 1420
        options = ["--mtu", "auto" if self.finds_mtu else mtu, *self.flags]
        net = Mesh(helper.lab, [], Coordinator(helper).start(), [Node(host) for host in hosts])
        for node in net.nodes:
            node.start(*options)
            node.up(net.coordinator.join_token)
        net.wait_for_maps()
        running = Running(
            addresses=[node.ipv4 for node in net.nodes],
            interface=INTERFACE,
            processes=[[node.process] for node in net.nodes],
            facts=lambda: {node.name: _told(node.status()) for node in net.nodes},
            aside=[net.coordinator.process],
        )
        ready(hosts, running)
        for node in net.nodes:
            node.wait_for(self._sealed, f"data to be sealed by {self.suite}")
        if self.finds_mtu:
            wait_until(lambda: min(mtu_of(host, INTERFACE) for host in hosts) >= mtu, f"an MTU of {mtu} to be found")
            running.payload = mtu_of(hosts[0], INTERFACE)

        def boot(n):
            node = net.nodes[n]
            node.kill()
            node.start(*options)
            # The state directory already contains the network's membership.
            node.up()
            running.processes[n] = [node.process]

        running.boot = boot
        return running

    def _sealed(self, status):
        return all((peer["session"] or {}).get("suite") == self.suite for peer in status["peers"])


# Paths that the programs are built from.
SOURCES = ("Cargo.lock", "Cargo.toml", "apps", "core", "engine", "sys")


def taut_version():
    """Returns the version that the program prints, and the last commit that touched its sources."""
    version_line, tree = _output(binary("taut"), "version").split("\n")[0], tree_version(*SOURCES)
    return f"{version_line} ({tree})" if tree else version_line


def tree_version(*sources):
    """Returns the last commit that touched these paths, and whether they have uncommitted changes; empty outside a git tree."""
    commit = _output("git", "-C", ROOT, "log", "-1", "--format=%h", "--", *sources).strip()
    changed = " and changes" if _output("git", "-C", ROOT, "status", "--porcelain", "--", *sources) else ""
    return f"{commit}{changed}" if commit else ""


def _output(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False).stdout


def _told(status):
    return {"drops": status["drops"], "sessions": [peer["session"] for peer in status["peers"]]}


@functools.cache
def _help():
    return _output(binary("taut"), "daemon", "--help")
