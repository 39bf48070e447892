"""The coordinator restarts or stays away; traffic continues."""

from lab.traffic.flow import Probe, Transfer, ping

# Rate in bytes per second, low enough for short queues, so that the transfer causes no lost probes.
CALM = 4_000_000
REKEY_AFTER_S = 5


def connected(wanted):
    return lambda status: status["coordinator"]["connected"] == wanted


def test_a_restart_does_not_affect_traffic_and_the_map_stays_right(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    net.connect()
    transfer = Transfer(one.host, two.host, two.ipv4, rate=CALM)
    probe = Probe(one.host, two.host, two.ipv6)
    transfer.flows_on(CALM)
    addresses = {node.name: node.status()["self"]["addresses"] for node in net.nodes}

    net.coordinator.kill()
    for node in net.nodes:
        node.wait_for(connected(False), "the coordinator's absence to be noticed", timeout=180)
    transfer.flows_on(CALM)
    net.coordinator.start()
    for node in net.nodes:
        node.wait_for(connected(True), "the coordinator to be back", timeout=180)
    net.wait_for_maps()
    transfer.flows_on(CALM)

    assert transfer.finish()["equal"]
    assert probe.finish()["lost"] == []
    for node in net.nodes:
        assert node.status()["self"]["addresses"] == addresses[node.name]


def test_a_restarted_coordinator_takes_new_members(layout):
    net = layout(nodes=2)
    net.coordinator.start()
    one, two = net.nodes
    net.join(one)
    net.coordinator.stop()
    net.coordinator.start()
    net.join(two)
    net.wait_for_maps()
    net.connect()


def test_fault_n1_sessions_renew_without_the_coordinator_and_nothing_is_lost(mesh):
    net = mesh(nodes=2, env={"TAUT_TEST_REKEY_AFTER_S": REKEY_AFTER_S})
    one, two = net.nodes
    net.connect()
    transfer = Transfer(one.host, two.host, two.ipv4, rate=CALM)
    probe = Probe(two.host, one.host, one.ipv6)
    transfer.flows_on(CALM)
    net.coordinator.kill()

    before = one.sessions_made(two.name, one.wait_for(lambda s: one.sessions_made(two.name, s), "a session"))
    one.wait_for(lambda s: one.sessions_made(two.name, s) >= before + 2, "two new sessions")
    transfer.flows_on(CALM)
    assert transfer.finish()["equal"]
    result = probe.finish()
    assert result["lost"] == [] and result["doubled"] == 0
    print(f"{result['sent']} probes, none lost")


def test_fault_n2_two_nodes_that_both_restart_find_each_other_from_the_saved_map(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    net.connect()
    addresses = [two.ipv4, two.ipv6]
    net.coordinator.kill()
    for node in net.nodes:
        node.kill()
    for node in net.nodes:
        node.start()
        node.up()
    net.wait_for_maps()
    net.connect()
    for address in addresses:
        assert ping(one.host, address, count=3)["received"] == 3
    assert not one.status()["coordinator"]["connected"]
    assert one.status()["coordinator"]["last_error"]
