"""A flow that keeps a queue of a lane long is told to slow down by congestion marks (docs/internals/queues.md)."""

import sys

import pytest

from lab.hosts.wait import wait_until
from lab.traffic.flow import Probe

# Sends zeros over TCP as fast as possible, until its input ends.
_SEND = """
import socket, sys, threading
address, port = sys.argv[1], int(sys.argv[2])
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
with socket.create_connection((address, port)) as stream:
    print("connected", flush=True)
    data = bytes(1 << 20)
    while not stop.is_set():
        stream.sendall(data)
"""

# Reads a TCP connection to its end.
_RECEIVE = """
import socket, sys
address, port = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
with socket.create_server((address, port), family=family) as server:
    print("ready", flush=True)
    stream, _ = server.accept()
    into = bytearray(1 << 20)
    while stream.recv_into(into):
        pass
print("done", flush=True)
"""


class Stream:
    """A TCP connection at full speed from a node to an address of another one, until `finish()`."""

    def __init__(self, source, target, address):
        port = source.host.lab.free_port()
        self._source, self._port = source.host, port
        self._receiver = target.host.start(sys.executable, "-I", "-c", _RECEIVE, address, port, name=f"sink-{port}")
        self._receiver.wait_for_output("ready")
        self._sender = source.host.start(sys.executable, "-I", "-c", _SEND, address, port, name=f"source-{port}")
        self._sender.wait_for_output("connected")

    def is_ecn(self):
        """Returns true if the sender's kernel says that the connection negotiated ECN."""
        return " ecn " in self._source.run("ss", "-tionH", f"dport = :{self._port}").stdout

    def finish(self):
        self._sender.close_input()
        assert self._sender.wait() == 0, self._sender.tail()
        assert self._receiver.wait() == 0, self._receiver.tail()


def kernel_counter(node, name):
    """Returns a counter of the node's kernel, in its namespace."""
    lines = node.host.run("cat", "/proc/net/netstat", "/proc/net/snmp6").stdout.splitlines()
    for names, values in zip(lines, lines[1:]):
        if name in names.split():
            return int(values.split()[names.split().index(name)]) if not names.startswith(name) else int(names.split()[1])
    return 0


def marks(node):
    return sum(sum(peer["congestion_marks"].values()) for peer in node.status()["peers"])


def test_a_flow_that_fills_a_queue_is_marked_and_nothing_is_reordered(mesh):
    one, two = (net := mesh(nodes=2)).nodes
    net.connect()
    probe = Probe(one.host, two.host, two.ipv4, interval=0.01, burst=4)
    streams = [Stream(one, two, address) for address in (two.ipv4, two.ipv6)]
    assert all(stream.is_ecn() for stream in streams), "connections over the overlay negotiate ECN"
    wait_until(lambda: marks(one) + marks(two) > 0, "a stream at full speed to be marked", details=lambda: str((one.status(), two.status())))
    # The receiver's kernel saw the marks, and the sender's kernel heard of them.
    wait_until(lambda: kernel_counter(two, "InCEPkts") + kernel_counter(two, "Ip6InCEPkts") > 0, "a mark to reach the receiver")
    wait_until(lambda: kernel_counter(one, "TCPDeliveredCE") > 0, "an echo of a mark to reach the sender")
    for stream in streams:
        stream.finish()
    counted = probe.finish()
    assert (counted["reordered"], counted["doubled"]) == (0, 0), counted


def test_without_ecn_nothing_is_negotiated_and_nothing_is_marked(layout):
    net = layout(nodes=2)
    net.coordinator.start()
    for node in net.nodes:
        node.start("--no-ecn")
        node.up(net.coordinator.join_token)
    net.wait_for_maps()
    net.connect()
    one, two = net.nodes
    stream = Stream(one, two, two.ipv4)
    assert not stream.is_ecn()
    assert "ecn" not in one.host.run("ip", "route", "show", "dev", "taut0").stdout
    stream.finish()
    assert (marks(one), marks(two)) == (0, 0)


@pytest.mark.parametrize("family", ["-4", "-6"])
def test_routes_to_peers_have_the_feature_also_after_they_were_removed(mesh, family):
    one, two = mesh(nodes=2).nodes
    address = two.ipv4 if family == "-4" else two.ipv6

    def route():
        return one.host.run("ip", family, "route", "show", address).stdout

    assert "features ecn" in route()
    one.host.run("ip", family, "route", "del", address)
    wait_until(lambda: "features ecn" in route(), "the removed route to come back with the feature", details=route)
