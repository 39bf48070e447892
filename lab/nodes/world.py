"""Nodes behind NATs, with a coordinator and relays among the servers of a small internet: the setting for tests and measurements of paths."""

from ..hosts.nats import Internet
from .relay import Relay
from .taut import Coordinator, Node


class World:
    """Joined nodes behind NATs of these kinds. They know each other, and all relays serve them; a node uses two relays at most.

    Two nodes may have a `place` relative to each other (kinds.PLACES). `link` is the link of every home to the rest, see `Internet`; `env` is the environment of
    the daemons, and `options` are their options. The relays are of this `release`.
    """

    def __init__(self, lab, kinds, relays=1, link=None, place="apart", env=None, options=(), release=None):
        self.internet = Internet(lab, link)
        self.servers = [self.internet.server(f"server{number}") for number in range(1, relays + 2)]
        self.coordinator = Coordinator(self.servers[0]).start("--no-relay")
        self.relays = [Relay(host, self.coordinator, release=release).start() for host in self.servers[1:]]
        self.nodes = [Node(host, env) for host in self._hosts(kinds, place)]
        for node in self.nodes:
            node.start(*options)
            node.up(self.coordinator.join_token)
        names = {node.name for node in self.nodes}
        for node in self.nodes:
            node.wait_for_peers(*names - {node.name})
        for node in self.nodes:
            self.serve(node)

    def serve(self, node):
        """Waits until all relays serve this node."""
        node.wait_for(lambda status: sum(one["state"] == "bound" for one in status["relays"]) == len(self.relays), "the relays to serve it")

    def using(self, node, peer):
        """Returns the relay through which `node` sends to `peer` now."""
        name = node.peer(peer.name)["path"]["relay"]
        return next(relay for relay in self.relays if relay.host.name == name)

    def _hosts(self, kinds, place):
        names = [f"node{number}" for number in range(1, len(kinds) + 1)]
        if place != "apart":
            return self.internet.pair(*kinds, place, names)
        return [self.internet.behind(kind, name) for kind, name in zip(kinds, names, strict=True)]
