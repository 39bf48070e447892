"""The direct path: found without configured endpoints, verified on the wire."""

from lab.traffic.flow import Listener, Transfer, ping


def test_nodes_talk_directly_without_configured_endpoints(mesh):
    one, two = mesh(nodes=2).nodes
    for here, there in ((one, two), (two, one)):
        reply = here.ping_until_direct(there.name)["replies"][-1]
        assert reply["path"] == "direct"
        path = here.peer(there.name)["path"]
        assert path["kind"] == "direct"
        assert path["endpoint"] in (f"{there.host.ipv4}:8288", f"[{there.host.ipv6}]:8288")
        assert here.peer(there.name)["online"]


def test_the_bytes_go_from_host_to_host_and_nowhere_else(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    net.connect()
    size = 8_000_000
    hosts = {"one": one.host, "two": two.host, "coordinator": net.coordinator.host}
    before = {name: host.counters() for name, host in hosts.items()}
    assert Transfer(one.host, two.host, two.ipv4, size=size).finish()["equal"]
    received, sent = {}, {}
    for name, host in hosts.items():
        after = host.counters()
        received[name], sent[name] = after[0] - before[name][0], after[1] - before[name][1]
    assert sent["one"] > size and received["two"] > size
    assert received["coordinator"] + sent["coordinator"] < size / 10


def test_the_wire_carries_wireguard_and_no_plaintext(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    listener = Listener(net.switches[0], two.host)
    net.connect()
    assert Transfer(one.host, two.host, two.ipv6, size=2_000_000).finish()["equal"]
    seen = listener.finish()
    assert seen["plaintext"] == 0
    hosts = {str(a) for node in net.nodes for a in node.host.addresses}
    between = [row for row in seen["udp"] if {row["from"].split()[0], row["to"].split()[0]} <= hosts]
    # Messages of WireGuard: 1 and 2 are the handshake, 3 a cookie, 4 data.
    assert {row["type"] for row in between} <= {1, 2, 3, 4}
    assert {1, 2, 4} <= {row["type"] for row in between}
    assert {row["to"].split()[1] for row in between} == {"8288"}


def test_an_idle_pair_wakes_with_the_first_packet(mesh):
    one, two = mesh(nodes=2).nodes
    result = ping(one.host, two.ipv4, count=100, interval=0.2, first=True)
    assert result["received"]
    print(f"first reply after {result['first_ms']:.1f} ms")
