"""What node, coordinator and relay tell the service manager: that they are ready, that they work, and that they end."""

import ctypes
import os
import time

import pytest

from lab.hosts.programs import binary
from lab.hosts.wait import PATIENCE_S
from lab.nodes.notify import NotifySocket
from lab.nodes.relay import Relay
from lab.nodes.taut import LocalApi
from lab.traffic.flow import ping

# Watchdogs of these tests in seconds: signs of life come twice in them. Threads of a relay take a turn once a second, so theirs is longer.
WATCHDOG_S = 1.0
RELAY_WATCHDOG_S = 3.0
# ptrace(2) and waitpid(2).
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 17, 0x4206, 0x4207, 0x40000000


class Stopped:
    """One thread that does not run for a while, as if it were stuck."""

    def __init__(self, thread):
        self.thread = thread
        self.libc = ctypes.CDLL(None, use_errno=True)

    def ask(self, request):
        if self.libc.ptrace(request, self.thread, None, None) < 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def __enter__(self):
        self.ask(PTRACE_SEIZE)
        self.ask(PTRACE_INTERRUPT)
        os.waitpid(self.thread, WALL)
        return self

    def __exit__(self, *_):
        self.ask(PTRACE_DETACH)


def thread(process, name):
    """Returns the id of the thread of this name."""
    for task in os.listdir(f"/proc/{process.pid}/task"):
        with open(f"/proc/{process.pid}/task/{task}/comm", encoding="ascii") as comm:
            if comm.read().strip() == name:
                return int(task)
    raise AssertionError(f"{process.name} has no thread {name}")


def signs(manager, watchdog_s):
    """Forgets what was read, and returns the signs of life in twice the time of the watchdog."""
    manager.read().clear()
    time.sleep(2 * watchdog_s)
    return manager.read().count("WATCHDOG=1")


def test_a_node_is_ready_when_it_answers_and_a_stuck_agent_is_silent_while_packets_flow(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    two.stop()
    with NotifySocket(two.host.state / "notify") as manager:
        two.env |= manager.environment(WATCHDOG_S)
        flags = ("--state", two.state, "--socket", two.socket)
        two.process = two.host.start(binary("taut"), "daemon", *flags, name="daemon", env=two.env)
        manager.wait_for("READY=1")
        with LocalApi(two) as api:
            assert api.ask("status")["pid"] == two.process.pid
        assert "connected to" in manager.wait_for("STATUS=connected")
        manager.wait_for("WATCHDOG=1")
        manager.wait_for("WATCHDOG=1")
        net.connect()
        address = two.ipv4
        # The agent is the first thread; the lanes are others.
        with Stopped(two.process.pid):
            assert signs(manager, WATCHDOG_S) == 0
            assert ping(one.host, address, count=3)["received"] == 3
        manager.wait_for("WATCHDOG=1")
        two.taut("down")
        manager.wait_for("STATUS=disconnected")
        two.stop()
        manager.wait_for("STOPPING=1")


def test_a_daemon_that_up_starts_tells_the_manager_of_its_parent_nothing(layout):
    [node] = layout(nodes=1).nodes
    with NotifySocket(node.host.state / "notify") as manager:
        node.env |= manager.environment(WATCHDOG_S)
        flags = ("--state", node.state, "--socket", node.socket)
        process = node.host.start(binary("taut"), "daemon", *flags, "--ephemeral", name="daemon", env=node.env)
        wait_until_answering(node)
        assert signs(manager, WATCHDOG_S) == 0 and not manager.read()
        process.stop()


def wait_until_answering(node):
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            with LocalApi(node) as api:
                return api.ask("status")
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the daemon does not answer")


def test_a_coordinator_is_ready_when_it_serves_and_a_stuck_relay_thread_silences_it(layout):
    net = layout(nodes=1)
    with NotifySocket(net.coordinator.host.state / "notify") as manager:
        net.coordinator.env |= manager.environment(RELAY_WATCHDOG_S)
        net.coordinator.start()
        manager.wait_for("STATUS=opens the database")
        manager.wait_for("READY=1")
        manager.wait_for("WATCHDOG=1")
        with Stopped(thread(net.coordinator.process, "relay-0")):
            assert signs(manager, RELAY_WATCHDOG_S) <= 1, "the thread may have worked just before"
        manager.wait_for("WATCHDOG=1")
        net.coordinator.stop()
        manager.wait_for("STOPPING=1")


@pytest.mark.parametrize("stuck", ["relay-0", "relay-web"])
def test_a_relay_is_silent_while_one_of_its_threads_is_stuck(layout, stuck):
    net = layout(nodes=1)
    net.coordinator.start()
    host = net.nodes[0].host
    relay = Relay(host, net.coordinator, web=True)
    with NotifySocket(host.state / "notify") as manager:
        relay.env = manager.environment(RELAY_WATCHDOG_S)
        relay.start()
        manager.wait_for("READY=1")
        manager.wait_for("WATCHDOG=1")
        with Stopped(thread(relay.process, stuck)):
            assert signs(manager, RELAY_WATCHDOG_S) <= 1, "the thread may have worked just before"
        manager.wait_for("WATCHDOG=1")
        relay.stop()
        manager.wait_for("STOPPING=1")
