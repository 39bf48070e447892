"""Programs of the previous release with current ones, in every combination, and upgrades of state on disk (docs/releases.md)."""

import itertools

import pytest

from lab.hosts import needs
from lab.hosts.nats import Internet
from lab.hosts.programs import binary
from lab.nodes import releases
from lab.nodes.relay import Relay
from lab.nodes.taut import Coordinator, Node
from lab.traffic.flow import Transfer, ping

from .steady_transfer import SOME, flows

OLD = releases.previous()
NEW = None
pytestmark = [
    pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft")),
    pytest.mark.skipif(bool(releases.lacking(OLD)), reason=releases.lacking(OLD)),
]
# Versions of coordinator and relay; each test has nodes of both versions.
SERVERS = pytest.mark.parametrize(
    ("coordinator", "relay"),
    list(itertools.product((OLD, NEW), repeat=2)),
    ids=[f"{one}-coordinator-{two}-relay" for one, two in itertools.product((OLD, "new"), repeat=2)],
)


def serve(lab, coordinator, relay):
    """Makes a small internet with a coordinator and a relay of these versions."""
    internet = Internet(lab)
    controlling = Coordinator(internet.server("coord"), release=coordinator).start("--no-relay")
    relaying = Relay(internet.server("relay"), controlling, release=relay).start()
    return internet, controlling, relaying


def join(coordinator, *nodes):
    for node in nodes:
        node.start()
        node.up(coordinator.join_token)
    for node in nodes:
        node.wait_for_peers(*(other.name for other in nodes if other is not node))
        node.wait_for(lambda status: all(relay["state"] == "bound" for relay in status["relays"]), "the relay to serve it")


def four(internet, kind):
    """Makes two nodes of the release and two current ones, each behind its own NAT of this kind."""
    return [Node(internet.behind(kind, name), release=version) for name, version in (("old1", OLD), ("old2", OLD), ("new1", NEW), ("new2", NEW))]


@SERVERS
def test_nodes_of_both_versions_meet_by_a_relay_of_either(lab, coordinator, relay):
    internet, controlling, _ = serve(lab, coordinator, relay)
    nodes = four(internet, "symmetric")
    join(controlling, *nodes)
    for one, two in itertools.combinations(nodes, 2):
        for here, there in ((one, two), (two, one)):
            assert ping(here.host, there.ipv4, count=3)["received"] == 3, f"{here.name} to {there.name}"
        assert Transfer(one.host, two.host, two.ipv4, size=SOME).finish()["equal"], f"{one.name} to {two.name}"
        assert one.peer(two.name)["path"]["kind"] == "relayed"


@SERVERS
def test_nodes_of_both_versions_meet_directly(lab, coordinator, relay):
    internet, controlling, _ = serve(lab, coordinator, relay)
    nodes = four(internet, "port-restricted")
    join(controlling, *nodes)
    for one, two in itertools.combinations(nodes, 2):
        one.ping_until_direct(two.name)
        two.ping_until_direct(one.name)
        assert Transfer(one.host, two.host, two.ipv4, size=SOME).finish()["equal"], f"{one.name} to {two.name}"
        assert one.peer(two.name)["path"]["kind"] == "direct"


def test_a_node_of_the_release_that_moves_is_reached_by_a_new_relay(lab):
    internet, controlling, _ = serve(lab, NEW, NEW)
    one, two = (Node(internet.behind("symmetric", name), release=version) for name, version in (("old", OLD), ("new", NEW)))
    join(controlling, one, two)
    transfer = flows(one, two)
    gateway = one.host.home.gateway[0]
    one.host.ip(f"address del {one.host.ipv4}/24 dev eth0", "address add 192.168.1.101/24 dev eth0", f"route replace default via {gateway}")
    transfer.flows_on(SOME)
    assert transfer.finish()["equal"]


def test_fault_l3_programs_are_replaced_in_place_without_joining_again(lab):
    internet, controlling, relaying = serve(lab, OLD, OLD)
    one, two = nodes = [Node(internet.behind("symmetric", name), release=OLD) for name in ("one", "two")]
    join(controlling, one, two)
    before = [(node.ipv4, node.ipv6, node.status()["self"]["node_key"]) for node in nodes]

    def replace(program, release):
        program.stop()
        program.release = release
        program.start()

    def meet():
        for node in nodes:
            node.wait_for(lambda status: status["coordinator"]["connected"], "the coordinator")
            node.wait_for(lambda status: all(relay["state"] == "bound" for relay in status["relays"]), "the relay to serve it")
        for here, there in ((one, two), (two, one)):
            assert ping(here.host, there.ipv4, count=3)["received"] == 3
        assert [(node.ipv4, node.ipv6, node.status()["self"]["node_key"]) for node in nodes] == before

    meet()
    # As docs/releases.md describes; one node also goes back to the release.
    for program, release in ((relaying, NEW), (controlling, NEW), (one, NEW), (two, NEW), (one, OLD), (one, NEW)):
        replace(program, release)
        if program in nodes:
            program.up()
        meet()


def test_fault_l2_a_coordinator_of_the_release_leaves_a_newer_database_untouched(lab):
    _, controlling, _ = serve(lab, OLD, OLD)
    controlling.stop()
    controlling.release = NEW
    controlling.start("--no-relay")
    controlling.stop()
    database = controlling.host.state / "coordinator" / "coordinator.db"
    kept = database.read_bytes()
    serve_again = binary("taut-coordinator", OLD), "serve", "--state", database.parent, "--no-relay"
    done = controlling.host.run(*serve_again, check=False)
    assert done.returncode == 1 and "the database does not fit this program" in done.stderr, done
    assert database.read_bytes() == kept
    controlling.start("--no-relay")
