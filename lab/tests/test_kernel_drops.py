"""Packets that the kernel drops because a lane is busy are shown with all other drops."""

import os
import signal
import sys
from contextlib import contextmanager

from lab.compare.tunnel.measure import socket_drops

# Sends datagrams of the given size to an address and port, as fast as one program can.
FLOOD = """
import socket, sys
address, port, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for _ in range(count):
        sender.sendto(bytes(size), (address, port))
"""
# More packets than wait at a TUN (500, unless its queue is longer) and at a socket (its buffer is 16 MiB at most).
BEFORE_TUN, AT_SOCKET = 2_000, 40_000


@contextmanager
def standing_still(node):
    os.kill(node.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(node.process.pid, signal.SIGCONT)


def flood(host, address, port, count, size):
    host.run(sys.executable, "-I", "-c", FLOOD, address, port, count, size)


def test_drops_at_a_full_tun_and_a_full_socket_are_reported(mesh):
    net = mesh(nodes=2)
    net.connect()
    one, two = net.nodes
    assert not {"out-tun-full", "in-socket-full"} & set(one.status()["drops"])
    port = one.status()["self"]["port"]
    with standing_still(one):
        flood(one.host, two.ipv4, 9, BEFORE_TUN, 100)
        flood(two.host, one.host.ipv4, port, AT_SOCKET, 1_400)
    interface = one.status()["self"]["tun"]["name"]

    def counted():
        before_tun = int(one.host.run("cat", f"/sys/class/net/{interface}/statistics/tx_dropped").stdout)
        at_socket = sum(socket_drops(one.host.run("cat", f"/proc/net/{table}").stdout) for table in ("udp", "udp6"))
        return before_tun, at_socket

    def reported_drops():
        drops = one.status()["drops"]
        return drops["out-tun-full"], drops["in-socket-full"]

    # The kernel may still be dropping packets of its backlog, and its counters only grow: so they are read before and after.
    before, reported, after = counted(), reported_drops(), counted()
    assert all(least <= seen <= most for least, seen, most in zip(before, reported, after)), (before, reported, after)
    before_tun, at_socket = reported
    assert BEFORE_TUN / 2 < before_tun < BEFORE_TUN
    assert 0 < at_socket < AT_SOCKET
    # The tunnel still works.
    net.connect()
