"""Several lanes (`--lanes N`): each is a thread with its own UDP port. A flow keeps its order and loses no packet in each of these situations."""

import time
from pathlib import Path

import pytest

from lab.hosts.wait import wait_until
from lab.traffic.flow import Listener, Interceptor, Probe, Transfer

# Number of flows: enough that each of four lanes has some, because the ports of a flow determine its lane.
_FLOWS = 12
_RATE = 4_000_000
# Longest duration of flows in seconds; tests usually end them earlier.
_WHILE_S = 4


def _start(net, *lanes, options=(), coordinator=()):
    """Starts the network with this number of lanes per node. No node has sent to another yet."""
    net.coordinator.start(*coordinator)
    for node, count in zip(net.nodes, lanes, strict=True):
        node.start("--lanes", count, *options)
        node.up(net.coordinator.join_token)
    net.wait_for_maps()
    return net.nodes


def _open(node, peer, count):
    """Waits until this many lanes of the node's session with the peer carry data."""

    def are_open(status):
        session = node.peer(peer.name, status)["session"]
        return session and (session["lanes_in_use"], session["lanes"]) == (count, count)

    return node.wait_for(are_open, f"{count} lanes to {peer.name} to be open")


def _in_use(node, peer, status=None):
    return node.peer(peer.name, status)["session"]["lanes_in_use"]


class Flows:
    """UDP flows with every datagram counted, and TCP connections beside them, in both directions and families."""

    def __init__(self, one, two):
        self._nodes = one, two
        self._before = _no_room(self._nodes)
        ends = ((one, two), (two, one))
        self._probes = [
            Probe(source.host, target.host, target.ipv6 if number % 4 == 3 else target.ipv4, interval=0.03, burst=8)
            for number in range(_FLOWS // 2)
            for source, target in ends
        ]
        self._transfers = [
            Transfer(source.host, target.host, address, rate=_RATE)
            for source, target in ends
            for address in (target.ipv4, target.ipv6)
        ]

    def finish(self):
        """Ends all flows. Checks that every transfer arrived whole; returns the results of the probes."""
        results = _counted(self._probes)
        for transfer in self._transfers:
            assert transfer.finish()["equal"]
        assert all(result["sent"] > 100 for result in results), results
        return results

    def whole(self):
        """Ends all flows. Checks that every flow kept its order, and that packets were lost only because the kernel's queue of the TUN was full: the
        nodes count these, and they occur only on a busy host.
        """
        _whole(self.finish(), *self._nodes, spare=_no_room(self._nodes) - self._before)


def _counted(probes):
    for probe in probes:
        probe.end()
    return [probe.finish() for probe in probes]


def _in_order(results, *nodes):
    assert not any(result["reordered"] or result["doubled"] for result in results), _description(results, nodes)


def _whole(results, *nodes, spare=0):
    """Checks that the results are in order, with at most `spare` losses."""
    _in_order(results, *nodes)
    assert sum(result["sent"] - result["received"] for result in results) <= spare, _description(results, nodes)


def _no_room(nodes):
    """Returns the packets that the kernel dropped in front of the nodes' TUN devices so far."""
    return sum(node.status()["drops"].get("out-tun-full", 0) for node in nodes)


def _description(results, nodes):
    """Returns the wrong results as text, with the state of the nodes."""
    bad = [result for result in results if result["reordered"] or result["doubled"] or result["lost"]]
    dropped = {node.name: {reason: count for reason, count in node.status()["drops"].items() if count} for node in nodes}
    return "\n".join(map(str, [*bad, dropped]))


def _ports(heard, host):
    """Returns {port: frames} of the ports at which `host` received a large share of the data."""
    addresses = {str(address) for address in host.addresses}
    found = {}
    for udp in heard["udp"]:
        address, port = udp["to"].split()
        if address in addresses and udp["type"] == 4:
            found[int(port)] = found.get(int(port), 0) + udp["frames"]
    return {port: frames for port, frames in found.items() if frames > 0.05 * sum(found.values())}


@pytest.mark.parametrize(
    ("lanes", "options"),
    [((2, 2), ()), ((2, 1), ()), ((4, 2), ()), ((2, 2), ("--no-tun-steering",)), ((3, 4), ("--no-tun-offload",))],
    ids=["2-2", "2-1", "4-2", "2-2-first-lane-steers", "3-4-no-offload"],
)
def test_flows_keep_their_order_and_lose_nothing_while_lanes_open(layout, lanes, options):
    net = layout(nodes=2)
    one, two = _start(net, *lanes, options=options)
    listener = Listener(net.switches[0], two.host)
    # The first packet starts the handshake: everything opens during these flows.
    flows = Flows(one, two)
    _open(one, two, max(lanes))
    status = _open(two, one, max(lanes))
    assert status["self"]["lanes"]["steering"] == ("first-lane" if options == ("--no-tun-steering",) and lanes[1] > 1 else "kernel")
    time.sleep(_WHILE_S)
    flows.whole()
    heard = listener.finish()
    assert heard["plaintext"] == 0
    for node, own in zip((one, two), lanes, strict=True):
        ports = node.status()["self"]["lanes"]["ports"]
        assert len(ports) == own
        carrying = _ports(heard, node.host)
        # The kernel chose the ports, which determine the lanes: of four lanes, one may have no flow.
        assert set(carrying) <= set(ports) and len(carrying) >= min(own, 2), f"lanes carry their parts: {carrying}"


def test_flows_keep_their_order_and_lose_nothing_over_renewals_of_the_keys(layout):
    one, two = _start(layout(nodes=2, env={"TAUT_TEST_REKEY_AFTER_S": "2"}), 2, 2)
    flows = Flows(one, two)
    _open(one, two, 2)
    one.wait_for(lambda status: one.sessions_made(two.name, status) >= 6, "five renewals")
    assert _in_use(one, two) == 2, "open lanes stay open"
    flows.whole()


def test_a_third_node_of_one_lane_is_served_beside_one_of_two(layout):
    net = layout(nodes=3)
    one, two, three = _start(net, 2, 2, 1)
    both = [Flows(one, two), Flows(one, three)]
    _open(one, two, 2)
    _open(one, three, 2)
    _open(three, one, 2)
    time.sleep(_WHILE_S)
    for flows in both:
        flows.whole()


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("after", [2, 1, 4])
def test_lanes_open_again_after_a_restart(layout, kill, after):
    one, two = _start(layout(nodes=2), 2, 2)
    probes = [Probe(one.host, two.host, two.ipv4, interval=0.03, burst=8) for _ in range(_FLOWS)]
    _open(one, two, 2)
    _open(two, one, 2)
    two.kill() if kill else two.stop()
    two.start("--lanes", after)
    two.up()
    for node, peer in ((one, two), (two, one)):
        _open(node, peer, max(2, after))
    _in_order(_counted(probes), one, two)
    flows = Flows(one, two)
    time.sleep(_WHILE_S)
    flows.whole()


def test_a_lane_with_a_blocked_port_costs_a_moment_and_opens_again(layout):
    net = layout(nodes=2)
    one, two = _start(net, 2, 2)
    net.connect()
    _open(one, two, 2)
    status = _open(two, one, 2)
    port = status["self"]["lanes"]["ports"][1]
    probes = [Probe(one.host, two.host, two.ipv4, interval=0.03, burst=8) for _ in range(_FLOWS)]
    # The first routing rule is the one for addresses of the host: this rule must precede it.
    cut = f"rule add pref 5 ipproto udp dport {port} blackhole"
    for family in ("-4", "-6"):
        for words in ("rule add pref 10 table local", "rule del pref 0", cut):
            two.host.run("ip", family, *words.split())
    for node, peer in ((one, two), (two, one)):
        node.wait_for(lambda status, node=node, peer=peer: _in_use(node, peer, status) == 1, "the lane to be given up")
    # All flows use the first lane now, and the lane stays closed as long as its port is blocked.
    reached = Flows(one, two)
    time.sleep(_WHILE_S)
    reached.whole()
    assert _in_use(one, two) == _in_use(two, one) == 1
    for family in ("-4", "-6"):
        two.host.run("ip", family, *"rule del pref 5".split())
    _open(one, two, 2)
    _open(two, one, 2)
    _in_order(_counted(probes), one, two)


@pytest.mark.parametrize("how", ["drop", "alter"])
def test_an_interceptor_of_offers_delays_only_lanes_and_aes(layout, how):
    net = layout(nodes=2)
    middle = Interceptor(net.switches[0], net.nodes[1].host, how)
    # Without GSO, messages stay separate on the wire. Without a relay the handshake determines the path: probes are held back like offers.
    one, two = _start(net, 2, 2, options=("--no-udp-gso",), coordinator=("--no-relay",))
    probes = [Probe(one.host, two.host, two.ipv4, interval=0.02) for _ in range(4)]
    transfer = Transfer(one.host, two.host, two.ipv6, rate=200_000)
    # A path without an answered probe is not reported as direct.
    one.ping(two.name, "-c", 3)
    time.sleep(_WHILE_S)
    for node, peer in ((one, two), (two, one)):
        session = node.peer(peer.name)["session"]
        assert (session["suite"], session["lanes_in_use"]) == ("ChaCha20Poly1305", 1)
    if how == "alter":
        assert one.status()["drops"]["in-not-authentic"] > 5
    middle.release()
    for node, peer in ((one, two), (two, one)):
        _open(node, peer, 2)
        if "aes" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split():
            assert node.peer(peer.name)["session"]["suite"] in ("AES256GCM", "AEGIS256X4")
    time.sleep(1)
    assert transfer.finish()["equal"]
    _whole(_counted(probes), one, two)
    assert middle.finish()["held"] > 20


def _threads(pid):
    return sorted(name.read_text(encoding="utf-8").strip() for name in Path(f"/proc/{pid}/task").glob("*/comm"))


def _programs(pid):
    """Returns BPF programs and TUN queues that the process has open."""
    names = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    return sum("bpf" in name for name in names), sum(name == "/dev/net/tun" for name in names)


@pytest.mark.parametrize("how", ["down", "sigterm", "sigkill"])
def test_nothing_is_left_of_lanes(layout, how):
    net = layout(nodes=2)
    net.coordinator.start()
    one, two = net.nodes

    def state():
        return one.host.network_state() + one.host.hidden_state()

    before = state()
    for node in net.nodes:
        node.start("--lanes", 3)
        node.up(net.coordinator.join_token)
    net.wait_for_maps()
    net.connect()
    _open(one, two, 3)
    pid = one.process.pid
    assert [name for name in _threads(pid) if name.startswith("taut-lane")] == ["taut-lane-0", "taut-lane-1", "taut-lane-2"]
    bpf, _ = _programs(pid)
    assert bpf == 0, "the device keeps the program, and nobody else"
    {"down": lambda: one.taut("down"), "sigterm": one.stop, "sigkill": one.kill}[how]()
    if one.process.alive:
        wait_until(lambda: not any(name.startswith("taut-lane") for name in _threads(pid)), "lanes to end")
        assert _programs(pid) == (0, 0)

    def difference():
        return sorted(set(state()) ^ set(before))

    wait_until(lambda: not difference(), "the host to be as before", timeout=20, details=lambda: "\n".join(difference()))
