"""The host has its original configuration after `taut down`, after SIGTERM and after a crash."""

import pytest

from lab.hosts.wait import wait_until

ENDS = {
    "down": lambda node: node.taut("down"),
    "sigterm": lambda node: node.stop(),
    "sigkill": lambda node: node.kill(),
}


@pytest.mark.parametrize("how", ENDS)
def test_links_addresses_routes_rules_filters_and_settings_are_as_before(layout, how):
    net = layout(nodes=2)
    net.coordinator.start()
    one, two = net.nodes

    def state():
        return one.host.network_state() + one.host.hidden_state()

    before = state()
    net.join(one, two)
    net.wait_for_maps()
    net.connect()
    assert state() != before
    ENDS[how](one)

    def difference():
        return sorted(set(state()) ^ set(before))

    wait_until(lambda: not difference(), "the host to be as before", timeout=20, details=lambda: "\n".join(difference()))


def test_sigterm_ends_the_daemon_in_order_and_frees_its_socket(mesh):
    node = mesh(nodes=1).nodes[0]
    assert node.stop() == 0
    assert not node.socket.exists()


def test_a_stale_socket_of_a_killed_daemon_is_no_obstacle(mesh):
    node = mesh(nodes=1).nodes[0]
    node.kill()
    assert node.socket.exists()
    node.start()
    node.up()


def test_the_state_is_for_its_owner_only(mesh):
    node = mesh(nodes=1).nodes[0]
    files = [path for path in node.state.rglob("*") if path.is_file()]
    assert files
    secret = [path for path in files if path.suffix != ".log"]
    assert [path for path in secret if path.stat().st_mode & 0o077] == []
