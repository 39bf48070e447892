"""Determines the behaviour of a NAT from outside, with UDP sockets inside the namespaces: mapping, filtering, hairpin, hole punching.

All sockets belong to this process. A thread enters a namespace, makes a socket and ends; a socket stays in its namespace (setns(2)).
"""

import ctypes
import os
import select
import socket
import threading
import time

from ..wait import LabError

_CLONE_NEWNET = 0x40000000
# Wait for a datagram in seconds, after which it counts as lost. In the lab a datagram takes about a millisecond.
QUIET_S = 0.2
# Datagrams sent before a path counts as blocked.
_TRIES = 3


def socket_in(host, port=0, address=None):
    """Returns a bound UDP socket of this process in the namespace of `host`, on `address` or on its first address."""
    made = []

    def make():
        try:
            with open(f"/run/netns/{host.namespace}", "rb") as there:
                if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC))
        except OSError as error:
            made.append(error)

    # A thread of its own: entering a namespace affects one thread only, and this one ends at once.
    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise LabError(f"no socket in {host.name}: {made[0]}")
    made[0].bind((address or host.ipv4, port))
    made[0].setblocking(False)
    return made[0]


def receive(sockets, seconds=QUIET_S):
    """Returns the next datagram on any of the sockets as (socket, bytes, source), or None after `seconds` without one."""
    deadline = time.monotonic() + seconds
    while True:
        ready, _, _ = select.select(sockets, [], [], max(0, deadline - time.monotonic()))
        for one in ready:
            try:
                return one, *one.recvfrom(2048)
            except ConnectionRefusedError:
                # An ICMP error for an earlier datagram; the socket still works.
                continue
        if not ready:
            return None


def passes(source, target, address, seconds=QUIET_S):
    """Sends from `source` to `address` and returns the source address that the socket `target` saw, or None if nothing arrived."""
    word = os.urandom(8)
    send(source, word, address)
    while received := receive([target], seconds):
        if received[1] == word:
            return received[2]
    return None


def send(source, word, address):
    """Sends one datagram. A refusal by the kernel of the host counts as a loss."""
    try:
        source.sendto(word, address)
    except OSError:
        pass


class Servers:
    """Two addresses with two ports each, for questions about mappings (RFC 5780, sections 4.3 and 4.4)."""

    def __init__(self, one, two):
        self.hosts = (one, two)
        self.sockets = [[socket_in(host) for _ in range(2)] for host in self.hosts]

    def mapped(self, source, address=0, port=0):
        """Returns the address of `source` that this server sees, or None if nothing arrives."""
        server = self.sockets[address][port]
        for _ in range(_TRIES):
            if seen := passes(source, server, server.getsockname()):
                return seen
        return None

    def close(self):
        for pair in self.sockets:
            for one in pair:
                one.close()


def mapping(servers, host):
    """Returns the mapping as RFC 4787 names it; "none" without translation, "blocked" if nothing arrives."""
    with socket_in(host) as own:
        seen = [servers.mapped(own, *where) for where in ((0, 0), (0, 1), (1, 0))]
        if None in seen:
            return "blocked"
        if seen[0] == own.getsockname():
            return "none"
        if seen[0] == seen[1] == seen[2]:
            return "endpoint-independent"
        return "address-dependent" if seen[0] == seen[1] else "address-and-port-dependent"


def filtering(servers, host):
    """Returns, as RFC 4787 names it, which hosts can send in after one datagram went to one server; "none" if no datagram is needed, "blocked" if
    nothing arrives."""
    with socket_in(host) as own:
        if passes(servers.sockets[1][0], own, own.getsockname()):
            return "none"
        seen = servers.mapped(own)
        if not seen:
            return "blocked"
        if passes(servers.sockets[1][0], own, seen):
            return "endpoint-independent"
        if passes(servers.sockets[0][1], own, seen):
            return "address-dependent"
        return "address-and-port-dependent" if passes(servers.sockets[0][0], own, seen) else "blocked"


def ports(servers, host, count=6):
    """Returns the external ports of one socket toward a series of new destinations, in order."""
    with socket_in(host) as own:
        found = []
        for number in range(count):
            with socket_in(servers.hosts[number % 2]) as fresh:
                found.append(passes(own, fresh, fresh.getsockname()))
        return [seen and seen[1] for seen in found]


def hairpins(servers, one, two):
    """Returns true if a socket of `one` reaches a socket of `two` by the address that the servers see, with its own external address as source."""
    with socket_in(one) as left, socket_in(two) as right:
        outer_left, outer_right = servers.mapped(left), servers.mapped(right)
        return passes(left, right, outer_right) == outer_left


def punch(servers, one, two, rounds=6):
    """Punches: both hosts learn their addresses from the servers, and send to all known addresses of the other until one round trip succeeds.

    Determines whether two hosts reach each other without port prediction if they keep trying. Returns (address of `two` that `one` uses, the other way round), or None.
    """
    with socket_in(one) as left, socket_in(two) as right:
        ends = {left: [right.getsockname()], right: [left.getsockname()]}
        for own, other in ((left, right), (right, left)):
            ends[other] += [seen for seen in (servers.mapped(own),) if seen]
        received = {left: set(), right: set()}
        for _ in range(rounds):
            for own in (left, right):
                for address in [*ends[own], *received[own]]:
                    # The datagram names its sender, and says whether the sender has received from this address. Hosts of two homes may have equal addresses, so a socket may
                    # receive its own datagrams.
                    word = _word(own is left, address in received[own])
                    send(own, word, address)
            found = _collect(left, right, received)
            if found:
                return found
        return None


def _word(left, received):
    return (b"left" if left else b"rite") + (b"+" if received else b"-")


def _collect(left, right, received):
    """Reads what arrived; returns the two addresses after a datagram that answers one of ours."""
    done = {}
    while got := receive([left, right], 0.05):
        own, word, source = got
        if word[:4] == (b"left" if own is left else b"rite"):
            continue
        received[own].add(source)
        if word[4:] == b"+":
            done[own] = source
    return (done[left], done[right]) if len(done) == 2 else None
