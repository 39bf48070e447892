"""The site of `make ha-demo`: a PostgreSQL server, three coordinators behind HAProxy, a relay, and nodes at home and in public networks."""

import dataclasses
import time

from ..hosts.nats import Internet
from ..hosts.programs import binary
from ..hosts.wait import PATIENCE_S, LabError
from ..nodes.balancer import Balancer
from ..nodes.postgres import Postgres
from ..nodes.relay import Relay
from ..nodes.taut import Coordinator, Node
from .flap import pairs

REPLICAS = ("co1", "co2", "co3")
METRICS_PORT = 9480
# Name of the member that is renamed to see how long a change takes. It has no traffic.
MARK = "mark"


@dataclasses.dataclass(frozen=True)
class Shape:
    """The size of a run."""

    # Kind of NAT of each node. Two nodes behind symmetric NATs stay on the relay.
    kinds: tuple
    # Seconds between two pings of a pair; seconds of calm before, between and after the blows; changes per second through the API.
    ping_s: float
    calm_s: float
    rate: float


FULL = Shape(("open", "open", "port-restricted", "port-restricted", "symmetric", "symmetric"), 0.02, 4.0, 10.0)
SMALL = Shape(("open", "symmetric", "symmetric"), 0.05, 1.0, 5.0)


class Site:
    """Everything in one lab, started: the nodes know each other, and every two have the path that their NATs allow."""

    def __init__(self, lab, shape, tell):
        self.lab, self.shape = lab, shape
        self.internet = Internet(lab)
        hosts = {name: self.internet.server(name) for name in ("db", *REPLICAS, "lb", "relay", "operator")}
        self.operator, balancer = hosts["operator"], hosts["lb"]
        self.database = Postgres(hosts["db"]).start()
        tell(f"PostgreSQL listens at {hosts['db'].ipv4}:5432")
        self.replicas = [Coordinator(hosts[name], balancer.ipv4, env={"TAUT_DATABASE": self.database.url}) for name in REPLICAS]
        for replica in self.replicas:
            self.start_replica(replica)
        self.balancer = Balancer(balancer, [replica.host.ipv4 for replica in self.replicas]).start()
        tell(f"{', '.join(REPLICAS)} serve it behind HAProxy at {self.url}")
        self.relay = Relay(hosts["relay"], self.replicas[0]).start()
        self.nodes = [Node(self.internet.behind(kind, f"node{number}")) for number, kind in enumerate(shape.kinds, 1)]
        self.mark = Node(self.internet.behind("open", MARK))
        self._join(tell)

    @property
    def url(self):
        """URL of all coordinators, by the balancer."""
        return self.replicas[0].url

    @property
    def members(self):
        return [*self.nodes, self.mark]

    @property
    def operator_token(self):
        return self.replicas[0].operator_token

    @property
    def metrics(self):
        """Addresses of the figures of the replicas."""
        return [f"{replica.host.ipv4}:{METRICS_PORT}" for replica in self.replicas]

    def start_replica(self, replica):
        """Starts a coordinator; the first one of an empty database has the tokens for all."""
        replica.operator_token = replica.operator_token or self.replicas[0].operator_token
        replica.join_token = self.replicas[0].join_token
        balancer = f"{replica.address}/32"
        replica.start("--trusted-proxy", balancer, "--metrics", f"{replica.host.ipv4}:{METRICS_PORT}")

    def pairs(self):
        """Yields every two nodes with traffic, and whether their NATs allow a direct path."""
        for one, other, reach in pairs(self.nodes):
            yield one, other, reach == "direct"

    def _join(self, tell):
        for node in self.members:
            node.start()
            node.up(self.replicas[0].join_token)
        for node in self.members:
            node.wait_for_peers(*(other.name for other in self.members if other is not node))
        for node in self.nodes:
            node.wait_for(lambda status: any(one["state"] == "bound" for one in status["relays"]), "the relay to bind the node")
        tell(f"{len(self.members)} nodes have joined through HAProxy")
        kinds = {True: 0, False: 0}
        for one, other, direct in self.pairs():
            kinds[direct] += 1
            if direct:
                one.ping_until_direct(other.name)
                other.ping_until_direct(one.name)
            else:
                one.ping(other.name, "-c", 3, "--timeout", "5s")
        tell(f"{kinds[True]} pairs have a direct path, {kinds[False]} use the relay")

    def rename_mark(self, number, name, until):
        """Renames the member `mark` through the balancer, again and again until it is acknowledged; returns (time of the acknowledgement, failed requests)."""
        failed = 0
        while True:
            done = self.operator.run(*self._command("nodes", "rename", number, name), check=False, env={"TAUT_OPERATOR_TOKEN": self.operator_token})
            if done.returncode == 0:
                return time.monotonic(), failed
            failed += 1
            if time.monotonic() > until:
                raise LabError(f"no change was possible for {PATIENCE_S:.0f} s\n{done.stdout}{done.stderr}")
            time.sleep(0.1)

    def _command(self, *words):
        return (binary("taut-coordinator"), *words, "--api", self.url, "--insecure", "--json")
