"""Finds out from outside what a NAT does, by real UDP sockets inside the lab's namespaces: mapping, filtering, hairpin, holes that are punched.

All sockets belong to this process: a thread enters a namespace, makes a socket, and leaves; a socket stays where it was made (setns(2)).
"""

import ctypes
import os
import select
import socket
import threading
import time

from ..wait import LabError

_CLONE_NEWNET = 0x40000000
# How long silence is waited for. It proves nothing but "not within this"; what comes, comes within a millisecond here.
QUIET_S = 0.2
# Tries in which a datagram has to arrive before the wire is called closed.
_TRIES = 3


def socket_in(host, port=0, address=None):
    """A bound UDP socket in the namespace of `host`, owned by this process; on its first address, or on this one."""
    made = []

    def make():
        try:
            with open(f"/run/netns/{host.namespace}", "rb") as there:
                if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC))
        except OSError as error:
            made.append(error)

    # A thread of its own: entering a namespace holds for one thread only, and this one ends at once.
    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise LabError(f"no socket in {host.name}: {made[0]}")
    made[0].bind((address or host.ipv4, port))
    made[0].setblocking(False)
    return made[0]


def hear(sockets, seconds=QUIET_S):
    """The next datagram on any of the sockets as (socket, bytes, source), or None after that long without one."""
    deadline = time.monotonic() + seconds
    while True:
        ready, _, _ = select.select(sockets, [], [], max(0, deadline - time.monotonic()))
        for one in ready:
            try:
                return one, *one.recvfrom(2048)
            except ConnectionRefusedError:
                # An ICMP error of an earlier datagram; the socket is as good as before.
                continue
        if not ready:
            return None


def passes(source, target, address, seconds=QUIET_S):
    """Sends from one socket to `address` and returns where it seemed to come from at the socket `target`, or None when it did not arrive."""
    word = os.urandom(8)
    send(source, word, address)
    while heard := hear([target], seconds):
        if heard[1] == word:
            return heard[2]
    return None


def send(source, word, address):
    """Sends one datagram; that the host's own kernel refuses is as if it were lost."""
    try:
        source.sendto(word, address)
    except OSError:
        pass


class Servers:
    """Two addresses with two ports each, to ask about mappings (RFC 5780, sections 4.3 and 4.4)."""

    def __init__(self, one, two):
        self.hosts = (one, two)
        self.sockets = [[socket_in(host) for _ in range(2)] for host in self.hosts]

    def mapped(self, source, address=0, port=0):
        """How `source` looks from this server, or None where nothing arrives."""
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
    """The mapping as RFC 4787 names it, "none" where nothing is translated, "blocked" where nothing arrives."""
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
    """Who may send in after one datagram went to one server: as RFC 4787 names it, "none" where it needs none before, "blocked" where nothing arrives."""
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
    """External ports of one socket toward ever new destinations, in order."""
    with socket_in(host) as own:
        found = []
        for number in range(count):
            with socket_in(servers.hosts[number % 2]) as fresh:
                found.append(passes(own, fresh, fresh.getsockname()))
        return [seen and seen[1] for seen in found]


def hairpins(servers, one, two):
    """Whether a socket of `one` reaches a socket of `two` by the address that the servers see, and sees the sender's external address, too."""
    with socket_in(one) as left, socket_in(two) as right:
        outer_left, outer_right = servers.mapped(left), servers.mapped(right)
        return passes(left, right, outer_right) == outer_left


def punch(servers, one, two, rounds=6):
    """Both hosts learn each other's addresses and send to all of them, and to whatever address they hear from, until one round trip was made.

    What a perfect, patient pair without guesses reaches: (address of `two` that `one` uses, the other way round), or None.
    """
    with socket_in(one) as left, socket_in(two) as right:
        ends = {left: [right.getsockname()], right: [left.getsockname()]}
        for own, other in ((left, right), (right, left)):
            ends[other] += [seen for seen in (servers.mapped(own),) if seen]
        heard = {left: set(), right: set()}
        for _ in range(rounds):
            for own in (left, right):
                for address in [*ends[own], *heard[own]]:
                    # The word says whose it is, and from whom it has heard: hosts of two homes may have one address, and hear themselves.
                    word = _word(own is left, address in heard[own])
                    send(own, word, address)
            found = _collect(left, right, heard)
            if found:
                return found
        return None


def _word(left, heard):
    return (b"left" if left else b"rite") + (b"+" if heard else b"-")


def _collect(left, right, heard):
    """Takes what arrived; returns the two addresses once a datagram came that answers one of ours."""
    done = {}
    while got := hear([left, right], 0.05):
        own, word, source = got
        if word[:4] == (b"left" if own is left else b"rite"):
            continue
        heard[own].add(source)
        if word[4:] == b"+":
            done[own] = source
    return (done[left], done[right]) if len(done) == 2 else None
