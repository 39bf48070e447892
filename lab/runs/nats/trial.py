"""One pair of real nodes behind two NATs: which path carries from the first packet on, since when, and what was lost."""

import json
import os
import select
import time
from dataclasses import dataclass, field

from ...hosts.nats.discovery import socket_in
from ...hosts.nats.internet import Internet
from ...hosts.net import Lab
from ...hosts.wait import LabError
from ...nodes.local_api import LocalApi
from ...nodes.taut import Coordinator, Node

# Port that is open even in networks that allow only web traffic.
WEB_PORT = 443
# Time limits in seconds. A required direct path gets a long limit, so that "never" differs from "late"; a relayed pair is watched as long as port
# prediction may take.
_PATIENCE = {"direct": 30.0, "guess": 15.0, "relay": 6.0}
# Time that traffic continues after the path is direct, in seconds, to see losses at the change.
_AFTER_S = 1.0
_INTERVAL_S = 0.01
# Wait for answers at the end, in seconds.
_STRAGGLERS_S = 1.0
_PORT = 9009


@dataclass
class Outcome:
    """Result of one run. Times are in milliseconds since the first packet; None if it never happened."""

    path: str = "none"
    first_packet_ms: float = None
    direct_ms: float = None
    # Datagrams sent after the first answer, and how many of them got no answer; earlier ones are covered by the time of the first answer.
    sent: int = 0
    lost: int = 0
    # True if the two had no session before.
    cold: bool = True
    why: str = ""
    problem: str = ""
    log: list = field(default_factory=list)


def run(logs, a, b, place, reach):
    """Lays out a new internet, joins two nodes, lets one send to the other, and watches. Errors are recorded, not raised."""
    try:
        with Lab(logs) as lab:
            internet = Internet(lab)
            coordinator = Coordinator(internet.server("coord"), port=WEB_PORT)
            nodes = [Node(host) for host in internet.pair(a, b, place)]
            coordinator.start()
            for node in nodes:
                node.start()
                node.up(coordinator.join_token)
            for node, other in (nodes, nodes[::-1]):
                node.wait_for_peers(other.name)
            outcome = watch(*nodes, reach)
            lab.failed = "TAUT_LAB_KEEP" in os.environ
            return outcome
    except LabError as error:
        return Outcome(problem=str(error).splitlines()[0])


def watch(left, right, reach):
    """`left` sends to `right` every 10 ms, until the expected path was reached or the time limit ends."""
    with LocalApi(left) as here, LocalApi(right) as there:
        outcome = Outcome(cold=here.peer(right.name).get("session") is None)
        with socket_in(left.host, address=left.ipv4) as sender, socket_in(right.host, _PORT, right.ipv4) as echo:
            _talk(sender, echo, (right.ipv4, _PORT), lambda: [_path(here, right), _path(there, left)], outcome, reach)
    outcome.why = _why(left, right)
    return outcome


def _path(api, peer):
    """Returns "direct", "relay" or "none"."""
    kind = api.path(peer.name)
    return "relay" if kind == "relayed" else kind


def _talk(sender, echo, there, paths, outcome, reach):
    start = time.monotonic()
    end, number, answered, sent_at = start + _PATIENCE[reach], 0, set(), {}
    while (now := time.monotonic()) < end:
        if now >= start + number * _INTERVAL_S:
            sent_at[number] = now
            _send(sender, number.to_bytes(4, "big"), there)
            number += 1
        ready, _, _ = select.select([sender, echo], [], [], _INTERVAL_S / 4)
        for one in ready:
            _take(one, echo, answered)
        if answered and outcome.first_packet_ms is None:
            outcome.first_packet_ms = round(1000 * (time.monotonic() - start), 1)
        seen = paths()
        if not outcome.log or outcome.log[-1][1:] != seen:
            outcome.log.append([round(1000 * (time.monotonic() - start), 1), *seen])
        if seen == ["direct", "direct"] and outcome.direct_ms is None:
            outcome.direct_ms = outcome.log[-1][0]
            end = min(end, time.monotonic() + _AFTER_S)
    # Answers still in transit: on a busy machine they take a while.
    last = time.monotonic() + _STRAGGLERS_S
    while len(answered) < number and time.monotonic() < last:
        for one in select.select([sender, echo], [], [], 0.05)[0]:
            _take(one, echo, answered)
    outcome.path = "direct" if outcome.log[-1][1:] == ["direct", "direct"] else ("relay" if answered else "none")
    first = start + (outcome.first_packet_ms or 0) / 1000
    later = {one for one, when in sent_at.items() if when >= first}
    outcome.sent, outcome.lost = len(later), len(later - answered) if answered else 0


def _send(sender, data, there):
    try:
        sender.sendto(data, there)
    except OSError:
        # No route yet, or a full queue: counts as lost.
        pass


def _take(one, echo, answered):
    """Reads one datagram, if there is one: the echo returns it, the sender records it."""
    try:
        data, source = one.recvfrom(2048)
    except (BlockingIOError, ConnectionRefusedError):
        return False
    if one is echo:
        _send(echo, data, source)
    else:
        answered.add(int.from_bytes(data, "big"))
    return True


def _why(left, right):
    """Returns the explanation of the node for this path in one line, or an empty string."""
    done = left.taut("why", right.name, "--json", check=False)
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        return ""
    explanation = report.get("said") or ""
    return explanation if isinstance(explanation, str) else " ".join(explanation)
