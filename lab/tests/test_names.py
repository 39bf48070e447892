"""Names: every member's name leads to its addresses."""

import ipaddress
import json
import socket
import sqlite3


def test_hosts_lists_every_member_in_the_format_of_etc_hosts(mesh):
    nodes = mesh(nodes=3).nodes
    for options, ending in ([], ".default"), (["--short"], ""):
        wanted = {(address, node.name + ending) for node in nodes for address in (node.ipv4, node.ipv6)}
        for node in nodes:
            lines = [line.split() for line in node.taut("hosts", *options).stdout.splitlines()]
            assert {(str(ipaddress.ip_address(address)), name) for address, name in lines} == wanted
    listing = json.loads(nodes[0].taut("hosts", "--json").stdout)
    assert [(host["name"], host["full_name"]) for host in listing["hosts"]] == [(n.name, f"{n.name}.default") for n in nodes]


def test_fault_e20_a_host_called_localhost_gets_another_name_and_its_peers_print_no_such_name(layout):
    net = layout(nodes=3)
    net.coordinator.start()
    one, two, three = net.nodes
    refused = one.taut("up", "--join", net.coordinator.join_token, "--hostname", "localhost", check=False)
    assert refused.returncode == 2 and "reserved" in refused.stderr
    net.join(one)
    # The request of a node of release 0.1.0 on a host with that name.
    ask(two.start(), {"command": "up", "join": net.coordinator.join_token, "name": "localhost"})
    two.wait_for(lambda status: status["state"] == "running", "it to be a member")
    assert two.status()["self"]["name"] == "node"
    # One member with an earlier map, and one that joins with an earlier map.
    net.join(three)
    net.coordinator.stop()
    edit(net.coordinator, f"UPDATE nodes SET name = 'wpad' WHERE name = '{three.name}'")
    net.coordinator.start()
    renamed = three.wait_for(lambda status: status["self"]["name"].startswith("node-"), "another name")["self"]["name"]
    one.wait_for_peers("node", renamed)
    assert "event=renamed" in net.coordinator.process.err.read_text() and "from=wpad" in net.coordinator.process.err.read_text()
    for node in net.nodes:
        # Each node learns the new name from its own map.
        node.wait_for_peers(*{one.name, "node", renamed} - {node.status()["self"]["name"]})
        names = {line.split()[1] for line in node.taut("hosts", "--short").stdout.splitlines()}
        assert names == {one.name, "node", renamed}
    assert one.ping_until_direct(renamed)


def test_status_leads_from_a_name_to_addresses(mesh):
    one, two = mesh(nodes=2).nodes
    assert one.ipv4 in one.taut("status").stdout
    assert one.peer(two.name)["addresses"] == two.status()["self"]["addresses"]
    assert two.name in one.taut("status").stdout


def test_ping_takes_a_name_and_both_addresses(mesh):
    one, two = mesh(nodes=2).nodes
    one.ping_until_direct(two.name)
    for peer in (two.name, two.ipv4, two.ipv6):
        assert one.ping(peer, "-c", "1")["peer"] == two.name


def test_rename_reaches_the_peers(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    address = two.ipv4
    net.coordinator.cli("nodes", "rename", two.name, "attic")
    one.wait_for_peers("attic")
    two.wait_for(lambda s: s["self"]["name"] == "attic", "its own name to be attic")
    assert one.ping_until_direct("attic")["address"] in (address, two.ipv6)


def ask(node, request):
    """Returns the answer of the daemon to one request of the local API."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(node.socket))
        client.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(client.makefile().readline())
    assert answer["answer"] == "done", answer


def edit(coordinator, sql):
    """Edits the database of a stopped coordinator."""
    database = sqlite3.connect(coordinator.host.state / "coordinator" / "coordinator.db")
    with database:
        assert database.execute(sql).rowcount == 1
    database.close()
