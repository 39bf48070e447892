"""Traffic of full size while a path changes: pings as long as the host sends them, in both directions, beside a transfer."""

import time

from lab.hosts.wait import wait_until
from lab.nodes import mtu
from lab.traffic.flow import PingStream

# Bytes of the headers outside a packet over IPv4: IP, UDP, and WireGuard's data message. A relay adds 8.
OUTER, RELAY = 60, 8
# The search of a path's limit ends at most so far below the exact one.
STEP = 8
# Time within which the last requests are answered, in seconds.
IN_TRANSIT_S = 0.5


class FullPings:
    """Pings of full size in both directions between two nodes; a context manager. At the end of the block it fails if a request was lost after `faults_end`, or any if
    that was not called."""

    def __init__(self, one, two):
        self._nodes = one, two
        self._streams = {here.name: PingStream(here.host, there.ipv4, full=True) for here, there in ((one, two), (two, one))}
        self._since = 0.0

    def faults_end(self):
        """Allows for the requests that were lost until now."""
        self._since = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        if error:
            for stream in self._streams.values():
                stream.__exit__()
            return
        time.sleep(IN_TRANSIT_S)
        lost = {}
        for name, stream in self._streams.items():
            beats = stream.finish()
            assert beats["answered"], f"no request of {name} was answered"
            late = [f"{asked - beats['began']:.2f}" for asked in beats["unanswered"] if self._since < asked < beats["ended"] - IN_TRANSIT_S]
            if late:
                since = max(0.0, self._since - beats["began"])
                lost[name] = f"{len(late)} of {beats['sent']} requests after {since:.2f} s, sent from {late[0]} to {late[-1]} s"
        drops = {node.name: node.status()["drops"] for node in self._nodes}
        assert not lost, f"lost: {lost}; dropped by the nodes: {drops}"


def wait_for_mtu(node, peer, exact):
    """Waits until the MTU of the path from a node to a peer is this (less by the step of the search at most), and until the host sends packets of that length."""

    def follows():
        found = mtu.path_mtu(node, peer) or 0
        return exact - STEP <= found <= exact and mtu.packet_mtu(node, peer.ipv4) == max(found, mtu.LEAST)

    def details():
        return f"{mtu.path_mtu(node, peer)} bytes, the host sends {mtu.packet_mtu(node, peer.ipv4)}\n{node.process.tail()}"

    wait_until(follows, f"{node.name} to use {exact} bytes to {peer.name}", details=details)
