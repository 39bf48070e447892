"""Names: every member's name leads to its addresses."""

import ipaddress


def test_hosts_lists_every_member_in_the_format_of_etc_hosts(mesh):
    nodes = mesh(nodes=3).nodes
    wanted = {(address, node.name) for node in nodes for address in (node.ipv4, node.ipv6)}
    for node in nodes:
        lines = [line.split() for line in node.taut("hosts").stdout.splitlines() if line and not line.startswith("#")]
        listed = {(str(ipaddress.ip_address(words[0])), name) for words in lines for name in words[1:]}
        assert wanted <= listed


def test_status_leads_from_a_name_to_addresses(mesh):
    one, two = mesh(nodes=2).nodes
    assert one.ipv4 in one.taut("status").stdout
    assert one.peer(two.name)["addresses"] == two.status()["self"]["addresses"]
    assert two.name in one.taut("status").stdout


def test_ping_takes_a_name_and_both_addresses(mesh):
    one, two = mesh(nodes=2).nodes
    one.reach(two.name)
    for peer in (two.name, two.ipv4, two.ipv6):
        assert one.ping(peer, "-c", "1")["peer"] == two.name


def test_rename_reaches_the_peers(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    address = two.ipv4
    net.coordinator.cli("nodes", "rename", two.name, "attic")
    one.wait_for_peers("attic")
    two.wait_for(lambda s: s["self"]["name"] == "attic", "its own name to be attic")
    assert one.reach("attic")["address"] in (address, two.ipv6)
