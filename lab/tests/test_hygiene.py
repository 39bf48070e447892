"""The host has its original configuration after `taut down`, after SIGTERM and after a crash."""

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.resolver_host import is_unpacked
from lab.runs import hygiene

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


def test_fault_j9_with_everything_on_the_host_is_as_before(lab):
    resolver = "systemd-resolved" if is_unpacked("resolved") else "file"
    records = list(hygiene.rounds_with(lab, resolver, ["sigkill-remove", "uninstall"], print))
    assert len(records) == 4
    for one in records:
        # The witness: the comparison sees what is switched on.
        assert one["changed"] > 50 and one["left"] == 0, one


def test_the_rounds_of_the_comparison_pair_each_resolver_with_each_end():
    for resolvers, ends in ((list("abcdefg"), list("1234567")), (list("abc"), list("12")), (list("ab"), list("1234567"))):
        pairs = [(resolver, end) for resolver, its in hygiene.plan(len(resolvers) * len(ends), resolvers, ends) for end in its]
        assert len(set(pairs)) == len(pairs) == len(resolvers) * len(ends)


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
