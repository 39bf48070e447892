"""Joining: nodes get addresses of both families and see each other; an invalid token is refused with an explanation."""

import ipaddress
import json


def test_three_nodes_get_distinct_addresses_and_see_each_other(mesh):
    nodes = mesh(nodes=3).nodes
    statuses = {node.name: node.status() for node in nodes}
    addresses = set()
    for name, status in statuses.items():
        assert status["schema"] == 1
        assert status["state"] == "running"
        assert status["self"]["name"] == name
        four, six = (ipaddress.ip_interface(a).ip for a in status["self"]["addresses"])
        assert four in ipaddress.ip_network("100.64.0.0/10")
        assert six in ipaddress.ip_network("fc00::/7")
        addresses |= {four, six}
    assert len(addresses) == 6
    for name, status in statuses.items():
        for peer in status["peers"]:
            assert peer["addresses"] == statuses[peer["name"]]["self"]["addresses"]
            assert peer["name"] != name


def test_the_addresses_are_on_the_tun(mesh):
    node = mesh(nodes=1).nodes[0]
    tun = node.status()["self"]["tun"]
    text = node.host.run("ip", "-o", "address", "show", "dev", tun["name"]).stdout
    assert f" {node.ipv4}/" in text or f" {node.ipv4} " in text
    assert f" {node.ipv6}/" in text
    assert f"mtu {tun['mtu']} " in node.host.run("ip", "-o", "link", "show", "dev", tun["name"]).stdout


def test_up_starts_a_missing_daemon(layout):
    net = layout(nodes=1)
    net.coordinator.start()
    node = net.nodes[0]
    node.up(net.coordinator.join_token)
    assert node.status()["state"] == "running"
    node.taut("down")


def test_up_again_without_a_token_succeeds(mesh):
    node = mesh(nodes=1).nodes[0]
    before = node.status()["self"]
    node.up()
    after = node.status()["self"]
    assert (after["id"], after["addresses"]) == (before["id"], before["addresses"])


def test_a_one_off_key_lets_one_node_in(layout):
    net = layout(nodes=2)
    net.coordinator.start()
    first, second = net.nodes
    _, token = net.coordinator.create_key("--one-off")
    first.start().up(token)
    answer = second.start().up(token, check=False)
    assert answer.returncode == 1
    assert "used" in answer.stderr
    # After the refusal the node can join with another key.
    second.up(net.coordinator.join_token)
    net.wait_for_maps()


def test_a_revoked_key_admits_no_node(layout):
    net = layout(nodes=1)
    net.coordinator.start()
    key, token = net.coordinator.create_key()
    net.coordinator.cli("keys", "revoke", key["id"])
    answer = net.nodes[0].start().up(token, check=False)
    assert answer.returncode == 1
    assert "key" in answer.stderr.lower()


def test_a_garbled_token_is_refused_with_advice(layout):
    net = layout(nodes=1)
    net.coordinator.start()
    answer = net.nodes[0].start().up("taut1-this-is-no-token", check=False)
    assert answer.returncode == 1
    assert "token" in answer.stderr.lower()
    assert net.nodes[0].status()["state"] == "needs-join"


def test_two_hosts_of_the_same_name_become_two_nodes(layout):
    net = layout(nodes=2)
    net.coordinator.start()
    first, second = net.nodes
    first.start().up(net.coordinator.join_token)
    second.name = first.name
    second.start().up(net.coordinator.join_token)
    names = {node.status()["self"]["name"] for node in net.nodes}
    assert len(names) == 2


def test_a_wrong_key_and_a_wrong_scheme_are_named(layout):
    net = layout(nodes=1)
    net.coordinator.start()
    node = net.nodes[0]
    node.start()
    url = net.coordinator.url
    key = json.loads(node.host.run("curl", "-fsS", "--noproxy", "*", f"{url}/key").stdout)["key"]
    other = "A" * 42 + "E="

    def refused(*words):
        done = node.taut("up", *words, "--timeout", "5s", check=False)
        assert done.returncode == 1, done
        return done.stderr

    why = refused("--coordinator", url, "--coordinator-key", other)
    assert f"it shows {key}, and expected is {other}" in why and "taut-coordinator devices invite" in why, why
    assert "somebody in between" in why and f"it shows {key}" in node.taut("status", check=False).stdout, why
    https = url.replace("http://", "https://")
    assert "does not speak TLS at this port: write http://" in refused("--coordinator", https, "--coordinator-key", key)
    # Without the key only the certificate vouches for it, so plain HTTP is no advice.
    assert "does not speak TLS at this port: check the port" in refused("--coordinator", https)
