"""A compromised coordinator tries to use the addresses of the local network for the overlay (fault E24)."""

import ipaddress
import sqlite3

import pytest

from lab.traffic.flow import ping

LAN = "192.168.0.0/16"


def rewrite(coordinator, prefix):
    """Gives the network another prefix, and each member the address with its host number in it, like an attacker with access to the coordinator's
    disk."""
    coordinator.stop()
    first = int(ipaddress.ip_network(prefix)[0])
    with sqlite3.connect(coordinator.host.state / "coordinator" / "coordinator.db") as database:
        for number, ipv4 in database.execute("SELECT id, ipv4 FROM nodes").fetchall():
            host = int.from_bytes(ipv4, "big") & 0xFFFF
            database.execute("UPDATE nodes SET ipv4 = ? WHERE id = ?", ((first + host).to_bytes(4, "big"), number))
        # Nodes that know an earlier version get a full map, as after a restored backup.
        database.execute("UPDATE networks SET ipv4 = ?, version = version + (1 << 20)", (prefix,))
        database.execute("DELETE FROM history")
        database.execute("INSERT INTO history (network, version) SELECT id, version FROM networks")
    database.close()
    coordinator.start()


@pytest.fixture
def attacked(mesh):
    """Two nodes; a host of their LAN has an address that the coordinator now assigns to a member."""
    net = mesh(nodes=2)
    net.connect()
    one, two = net.nodes
    former = one.ipv4, two.ipv4
    rewrite(net.coordinator, LAN)
    return net, one, two, former


def assert_old_prefix(node, peer, address):
    status = node.wait_for(lambda status: status["problem"], "the other prefix to be reported")
    message, hint = status["problem"]["message"], status["problem"]["hint"]
    assert LAN in message and "100.64.0.0/10" in message and f"taut accept {LAN}" in hint, status["problem"]
    assert status["state"] == "running" and status["coordinator"]["connected"]
    assert "192.168." not in node.host.run("ip", "route").stdout + node.host.run("ip", "address").stdout
    assert ping(node.host, address, count=3)["received"] == 3


def test_fault_e24_a_map_with_other_prefixes_waits_for_roots_consent(attacked):
    net, one, two, (_, address) = attacked
    assert_old_prefix(one, two, address)
    # Also after a restart of both sides.
    one.restart()
    two.kill()
    two.start()
    two.up()
    one.ping_until_direct(two.name)
    assert_old_prefix(one, two, address)

    for wrong in (["10.0.0.0/8"], [LAN, "10.0.0.0/8"]):
        done = one.taut("accept", *wrong, check=False)
        assert done.returncode == 1 and LAN in done.stderr, done
    outsider = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    one.host.prefix, former = [*outsider], one.host.prefix
    done = one.taut("accept", LAN, check=False)
    one.host.prefix = former
    assert done.returncode == 1, done
    assert_old_prefix(one, two, address)

    for node in (one, two):
        node.wait_for(lambda status: status["problem"], "the other prefix to be reported")
        assert "accepted" in node.taut("accept", LAN).stdout
        status = node.wait_for(lambda status: status["problem"] is None and status["self"]["addresses"][0].startswith("192.168."), "the new address")
        assert status["state"] == "running"
    fresh = two.status()["self"]["addresses"][0]
    one.ping_until_direct(two.name)
    assert ping(one.host, fresh, count=3)["received"] == 3
    assert address not in one.host.run("ip", "route").stdout
    # Now these are pinned.
    one.restart()
    one.ping_until_direct(two.name)
    assert one.status()["problem"] is None
    done = one.taut("accept", LAN, check=False)
    assert done.returncode == 1 and "does not ask" in done.stderr


def test_fault_e24_the_problem_ends_when_the_coordinator_is_repaired(attacked):
    net, one, two, (_, address) = attacked
    assert_old_prefix(one, two, address)
    rewrite(net.coordinator, "100.64.0.0/10")
    for node in (one, two):
        node.wait_for(lambda status: status["problem"] is None, "the problem to be over")
    assert ping(one.host, address, count=3)["received"] == 3


def test_fault_e24_a_node_of_an_earlier_release_pins_what_its_last_good_map_has(mesh):
    net = mesh(nodes=2)
    net.connect()
    one, two = net.nodes
    address = two.ipv4
    one.stop()
    # Release 0.1.0 has no pins, and drops unknown fields when it saves.
    _rewrite_identity(one)
    rewrite(net.coordinator, LAN)
    one.start()
    one.up()
    assert_old_prefix(one, two, address)


def _rewrite_identity(node):
    """Removes the pins from the identity, with a matching checksum."""
    import hashlib
    import json

    for name in ("identity.json", "identity.json.prev"):
        file = node.state / name
        if not file.exists():
            continue
        body = json.loads(file.read_bytes().partition(b"\n")[2])
        body.pop("pinned", None)
        text = json.dumps(body).encode()
        digest = hashlib.blake2s(b"taut-state 1\n" + text).hexdigest()
        file.write_bytes(f"taut-state 1 {digest}\n".encode() + text)
