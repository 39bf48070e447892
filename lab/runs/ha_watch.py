"""Observers of `make ha-demo`: what nodes see of their control channel and of a change, the channels of each replica, and the traffic between nodes."""

import json
import sys
import threading
import time

from ..hosts.programs import ROOT
from ..hosts.wait import LabError, wait_until
from ..nodes.local_api import LocalApi
from ..traffic.flow import PingStream, Transfer

# Pauses between two looks, in seconds: short against the half second within which a node tries again, and cheap.
NODE_S, REPLICA_S = 0.05, 0.1
# Rate of each transfer in bytes per second: low enough to keep all queues short.
RATE = 300_000
# Time within which the last requests are answered, in seconds.
IN_TRANSIT_S = 0.5
_FIGURES = (sys.executable, "-I", str(ROOT / "lab" / "traffic" / "channel_figures.py"))


class NodeWatch:
    """Looks at the status of one node without a pause. `channel` and `names` are lists of (time, value): each change of "has a control channel", and each new name of the member `number`."""

    def __init__(self, node, number):
        self.node, self.channel, self.names, self.problem = node, [], [], None
        self._number, self._ended = number, threading.Event()
        self._thread = threading.Thread(target=self._look, name=f"watch-{node.name}", daemon=True)
        self._thread.start()

    def end(self):
        self._ended.set()
        self._thread.join()

    def outages(self, since, until):
        """Returns the times without a control channel that began in this period, each as (began, ended or None)."""
        ends = [at for at, _ in self.channel[1:]] + [None]
        return [(at, end) for (at, connected), end in zip(self.channel, ends, strict=True) if not connected and since <= at < until]

    @property
    def connected(self):
        return bool(self.channel) and self.channel[-1][1]

    def knows(self, name):
        """Returns when the node had the member under this name, or None."""
        return next((at for at, seen in self.names if seen == name), None)

    def _look(self):
        try:
            with LocalApi(self.node) as api:
                while not self._ended.wait(NODE_S):
                    self._take(api.ask("status"), time.monotonic())
        except (OSError, ValueError) as error:
            self.problem = f"{self.node.name} does not answer any more: {error}"

    def _take(self, status, now):
        connected = status["coordinator"]["connected"]
        if not self.channel or self.channel[-1][1] != connected:
            self.channel.append((now, connected))
        name = next((peer["name"] for peer in status["peers"] if peer["id"] == self._number), None)
        if name and (not self.names or self.names[-1][1] != name):
            self.names.append((now, name))


class ReplicaWatch:
    """The open control channels of each replica over time, by their figures."""

    def __init__(self, site):
        self._process = site.operator.start(*_FIGURES, REPLICA_S, *site.metrics, name="channels")

    def rows(self):
        """Returns all looks so far: `at`, `channels`, `opened`."""
        return [json.loads(line) for line in self._process.output().splitlines() if line.endswith("}")]

    def channels(self):
        """Returns the open channels of each replica now; 0 of one that does not answer."""
        rows = self.rows()
        return [count or 0 for count in rows[-1]["channels"]] if rows else []

    def end(self):
        self._process.close_input()
        self._process.wait()


class Watch:
    """All observers of channels and of the member `mark`."""

    def __init__(self, site):
        self._site = site
        self.mark = next(peer["id"] for peer in site.nodes[0].status()["peers"] if peer["name"] == site.mark.name)
        self.replicas = ReplicaWatch(site)
        self.nodes = [NodeWatch(node, self.mark) for node in site.members]

    def wait_until_whole(self, since):
        """Waits until every node has a control channel, as the nodes and the replicas see it later than `since`."""

        def whole():
            self.raise_problem()
            rows = self.replicas.rows()
            channels = rows[-1]["channels"] if rows and rows[-1]["at"] > since else []
            return all(node.connected for node in self.nodes) and sum(count or 0 for count in channels) == len(self.nodes)

        wait_until(whole, "every node to have a control channel", details=self.details, pause=REPLICA_S)

    def wait_for_name(self, name):
        """Waits until every other member knows the member `mark` under this name; returns when the last one learned of it."""
        others = [node for node in self.nodes if node.node is not self._site.mark]
        wait_until(lambda: all(node.knows(name) for node in others), f"every node to know {name}", details=self.details, pause=NODE_S)
        return max(node.knows(name) for node in others)

    def raise_problem(self):
        for node in self.nodes:
            if node.problem:
                raise LabError(node.problem)

    def details(self):
        seen = [f"{node.node.name}: channel {node.channel[-3:]}, names {node.names[-2:]}" for node in self.nodes]
        return "\n".join([f"channels of the replicas: {self.replicas.channels()}", *seen])

    def end(self):
        for node in self.nodes:
            node.end()
        self.replicas.end()


def opened(rows, since, until):
    """Returns the channels that were opened in this period. A replica that starts again counts from 0."""
    total, before = 0, [0] * len(rows[0]["opened"]) if rows else []
    for row in rows:
        for number, count in enumerate(row["opened"]):
            if count is not None:
                more = count - before[number] if count >= before[number] else count
                total += more if since <= row["at"] < until else 0
                before[number] = count
    return total


class Traffic:
    """Pings of every pair of nodes, and TCP connections between each node and the next: all through the overlay, until `finish`."""

    def __init__(self, site):
        self.streams = [(f"{one.name} → {other.name}", direct, PingStream(one.host, other.ipv4, site.shape.ping_s)) for one, other, direct in site.pairs()]
        following = zip(site.nodes, [*site.nodes[1:], site.nodes[0]], strict=True)
        self.flows = [(f"{one.name} → {other.name}", Transfer(one.host, other.host, other.ipv6, rate=RATE)) for one, other in following]

    def finish(self):
        """Returns (pings, flows): a list of {"pair", "direct", "sent", "asked", "unanswered"} with times, and a list of {"pair", "bytes", "equal"}."""
        time.sleep(IN_TRANSIT_S)
        flows = [{"pair": pair, **_whole(transfer)} for pair, transfer in self.flows]
        pings = []
        for pair, direct, stream in self.streams:
            seen = stream.finish()
            late = seen["ended"] - IN_TRANSIT_S
            lost = [at for at in seen["unanswered"] if at < late]
            pings.append({"pair": pair, "direct": direct, "asked": sorted(seen["asked"] + lost), "unanswered": lost})
        return pings, flows


def _whole(transfer):
    done = transfer.finish()
    return {"bytes": done["bytes"], "equal": done["equal"]}
