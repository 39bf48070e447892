"""Small and odd machines: a node joins there, reaches its peer in both directions, and carries bytes whole. Each test shows that its host is as odd as it says.

A state directory on a full or read-only disk is in test_node_state.py, and a machine with the user's wrong clock and names in test_resolver.py.
"""

import contextlib
import os
import sys
import time
from pathlib import Path

import pytest

from lab.hosts import container_rules, memory_group
from lab.hosts.needs import found
from lab.hosts.private_mounts import OWN_ETC, READ_ONLY_ROOT, READ_ONLY_SYSCTLS, SMALL_DEV, enter
from lab.hosts.programs import ROOT, binary
from lab.hosts.shifted_clock import ShiftedClock
from lab.tests.test_log import log
from lab.traffic.flow import Transfer

SIZE = 4_000_000
MEMORY = 64 << 20
PROFILE = ROOT / "target/containers/usr/share/containers/seccomp.json"
# A minute after a clock without a battery begins.
EARLY = 60
# What podman gives a container, and --cap-add NET_ADMIN.
CAPABILITIES = "CHOWN,DAC_OVERRIDE,FOWNER,FSETID,KILL,NET_BIND_SERVICE,SETFCAP,SETGID,SETPCAP,SETUID,SYS_CHROOT,NET_ADMIN"


def refused(host, *command):
    """Returns the error message of a command that must fail on this host."""
    done = host.run(*command, check=False)
    assert done.returncode != 0, f"{command} must fail on this host"
    return done.stderr


def facts(node):
    """Returns /proc/PID/status of the daemon."""
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{node.process.pid}/status").read_text().splitlines() if ":\t" in line)


@contextlib.contextmanager
def one_core(node):
    core = min(os.sched_getaffinity(0))
    node.host.prefix = ["taskset", "-c", str(core)]
    yield
    assert facts(node)["Cpus_allowed_list"].strip() == str(core)


@contextlib.contextmanager
def little_memory(node):
    with memory_group.MemoryGroup(MEMORY) as group:
        node.host.prefix = group.prefix
        yield
        assert str(node.process.pid) in (group.path / "cgroup.procs").read_text().split()
        assert group.killed() == 0, "nothing was ended"
        print(f"at most {group.peak()} bytes in use, of the node and of the test's own programs")
        refused(node.host, sys.executable, "-Ic", f"bytearray({MEMORY} + 1)")
        assert group.killed() == 1, "the limit is real"
        assert node.status()["state"] == "running"


@contextlib.contextmanager
def read_only_root(node):
    enter(node.host, READ_ONLY_ROOT)
    for place in ("/", "/etc", "/usr", "/var/lib", "/tmp", "/run", "/root"):
        assert "Read-only file system" in refused(node.host, "touch", f"{place}/tautlab-odd")
    yield


@contextlib.contextmanager
def read_only_sysctls(node):
    enter(node.host, READ_ONLY_SYSCTLS)
    for name in ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/core/rmem_max"):
        assert "Read-only file system" in refused(node.host, "sh", "-c", f"cat /proc/sys/{name} > /proc/sys/{name}")
    yield


@contextlib.contextmanager
def container(node):
    rules = [sys.executable, "-I", container_rules.__file__, str(PROFILE), CAPABILITIES]
    # The profile refuses to switch address randomisation off, which needs no right.
    node.host.run("setarch", "-R", "true")
    node.host.prefix = rules
    refused(node.host, "setarch", "-R", "true")
    # As podman does in a network namespace that it makes: `taut ping` needs no right then.
    node.host.run("sh", "-c", "echo 0 0 > /proc/sys/net/ipv4/ping_group_range")
    yield
    node.host.run("sh", "-c", "echo 1 0 > /proc/sys/net/ipv4/ping_group_range")
    ping = node.taut("ping", "node2", "-c", "1", check=False)
    assert ping.returncode == 1 and "net.ipv4.ping_group_range" in ping.stderr, "it says what is missing"
    seen = facts(node)
    # The runtime's filter, and the daemon's own.
    assert int(seen["Seccomp_filters"]) == 2
    bounds = node.host.run("sed", "-n", "s/CapBnd:\t//p", "/proc/self/status").stdout
    assert int(bounds, 16).bit_count() == len(CAPABILITIES.split(","))


@contextlib.contextmanager
def small_dev(node):
    enter(node.host, SMALL_DEV)
    assert "No such file" in refused(node.host, "ls", "/dev/shm")
    assert node.host.run("ls", "/dev").stdout.split() == ["full", "net", "null", "random", "tty", "urandom", "zero"]
    yield


def without(*files):
    """Returns the condition that these files of the host are missing."""

    @contextlib.contextmanager
    def condition(node):
        enter(node.host, OWN_ETC, f"rm -f {' '.join(files)}")
        for file in files:
            assert "No such file" in refused(node.host, "ls", file)
        yield
        assert not any(os.path.lexists(f"/proc/{node.process.pid}/root{file}") for file in files)

    return condition


@contextlib.contextmanager
def no_environment(node):
    node.host.prefix = ["env", "-i", "PATH=/usr/bin:/bin"]
    yield
    assert Path(f"/proc/{node.process.pid}/environ").read_bytes() == b"PATH=/usr/bin:/bin\0"


def bare(node):
    """All that may be missing in an image from scratch, at once."""
    stack = contextlib.ExitStack()
    enter(node.host, OWN_ETC, "rm -f /etc/resolv.conf /etc/machine-id /etc/hosts /etc/nsswitch.conf /etc/passwd /etc/group", SMALL_DEV, READ_ONLY_SYSCTLS, READ_ONLY_ROOT)
    node.host.prefix += ["env", "-i", "PATH=/usr/bin:/bin"]
    assert "cannot find name" in refused(node.host, "whoami")
    assert "Read-only file system" in refused(node.host, "touch", "/run/tautlab-odd")
    return stack


MACHINES = {
    "one-core": one_core,
    "64-MB": little_memory,
    "read-only-root": read_only_root,
    "read-only-sysctls": read_only_sysctls,
    "container": container,
    "no-dev-shm": small_dev,
    "no-resolv-conf": without("/etc/resolv.conf"),
    "no-machine-id": without("/etc/machine-id"),
    "no-environment": no_environment,
    "bare": bare,
}
NEEDS = {
    "64-MB": pytest.mark.skipif(bool(memory_group.missing()), reason=memory_group.missing()),
    "container": pytest.mark.skipif(not PROFILE.exists(), reason="the seccomp profile of containers is missing: run tools/setup test"),
}


def carries(one, two):
    """Checks that both nodes reach each other, and that a TCP connection in each direction carries its bytes whole."""
    one.ping_until_direct(two.name)
    two.ping_until_direct(one.name)
    for source, target in ((one, two), (two, one)):
        done = Transfer(source.host, target.host, target.ipv4, size=SIZE).finish()
        assert done["equal"] and done["bytes"] == SIZE


@pytest.mark.parametrize("machine", [pytest.param(name, marks=NEEDS.get(name, ())) for name in MACHINES])
def test_a_node_joins_and_carries_on_an_odd_machine(layout, machine):
    net = layout(nodes=2)
    net.coordinator.start()
    odd, peer = net.nodes
    with MACHINES[machine](odd):
        net.join(peer, odd)
        net.wait_for_maps()
        carries(odd, peer)
        # The state that it kept is enough to come back.
        odd.restart(kill=True)
        carries(odd, peer)
    print(odd.status()["sandbox"])
    assert odd.stop() == 0


@pytest.mark.skipif(not found("cc"), reason="the program cc is missing: apt-get install gcc")
def test_fault_m1_m2_a_clock_that_stands_at_1970_and_jumps_to_today(layout):
    net = layout(nodes=2)
    net.coordinator.start()
    odd, peer = net.nodes
    clock = ShiftedClock(odd.host)
    assert clock.year() == time.gmtime().tm_year
    clock.set(EARLY)
    assert clock.year() == 1970
    net.join(peer, odd)
    net.wait_for_maps()
    carries(odd, peer)
    assert years(odd) == {1970}, "the daemon reads this clock"
    transfer = Transfer(odd.host, peer.host, peer.ipv4)
    transfer.flows_on(SIZE)
    made = odd.sessions_made(peer.name)
    clock.set(time.time())
    transfer.flows_on(SIZE)
    assert transfer.finish()["equal"]
    assert odd.sessions_made(peer.name) == made, "the session outlives the jump"
    # A handshake of a time before the last one would be a replay for the peer: without its battery a router begins in 1970 again.
    odd.restart()
    carries(odd, peer)
    assert years(odd) == {1970, time.gmtime().tm_year}
    clock.set(EARLY)
    odd.restart(kill=True)
    carries(odd, peer)
    assert clock.year() == 1970


@pytest.mark.skipif(not found("cc"), reason="the program cc is missing: apt-get install gcc")
def test_coordinator_and_relay_warn_of_a_clock_before_2020(lab):
    host = lab.host("coord", lab.switch("internet"))
    clock = ShiftedClock(host)
    clock.set(EARLY)

    def started(name, *command):
        process = host.start(*command, name=name)
        process.wait_for_output("relay " if name.startswith("relay") else "listening on")
        warned = [line for line in process.tail().splitlines() if "event=clock-wrong" in line]
        process.stop()
        return warned

    coordinator = (binary("taut-coordinator"), "serve", "--state", host.state / "coordinator", "--listen", "127.0.0.1:8288", "--no-relay")
    relay = (binary("taut-relay"), "serve", "--key", host.state / "relay.key")
    for name, command in (("coordinator", coordinator), ("relay", relay)):
        (line,) = started(name, *command)
        assert "clock=1970-01-01T00:0" in line and "wrong clock" in line and "timedatectl" in line, line
    clock.set(time.time())
    assert [started(name, *command) for name, command in (("coordinator-now", coordinator), ("relay-now", relay))] == [[], []]


def years(node):
    """Returns the years of the events in the node's log."""
    return {int(event["time"][:4]) for event in log(node)[0]}
