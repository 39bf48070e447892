"""Every system of the comparison starts, is reached, carries bytes unchanged, reconnects after a boot, and leaves nothing behind. Figures are not checked."""

import json
import re
import subprocess
import sys

import pytest

from lab.hosts import leftovers
from lab.hosts.programs import ROOT
from lab.hosts.wait import LabError, wait_until
from lab.nodes import versions
from lab.nodes.systems import catalog
from lab.nodes.systems import FIELD, Bare, System
from lab.nodes.systems.base import begun, mtu_of, ready
from lab.traffic.flow import Transfer, answers, ping

# The bare link has no programs, so a boot does not affect it.
TUNNELS = [system for system in FIELD if not isinstance(system, Bare)]
# Variants differ in how they handle packets, not in their connections.
NETWORKS = [system for system in TUNNELS if not system.variant]


def lay_out(lab, count):
    """Makes the hosts, and a helper beside them."""
    switch = lab.switch("wire", ipv6=False)
    helper = lab.host("helper", switch)
    return [lab.host(f"host-{n}", switch) for n in range(count)], helper


def started(system, hosts, helper, mtu=None):
    if why := system.lacking():
        pytest.skip(f"{system.name}: {why}")
    return system.start(hosts, helper, mtu)


def by_name(systems):
    return pytest.mark.parametrize("system", systems, ids=lambda system: system.name)


@by_name(FIELD)
def test_it_is_reached_carries_bytes_whole_and_ends(lab, system):
    hosts, helper = lay_out(lab, 2)
    running = started(system, hosts, helper)
    assert running.payload == mtu_of(hosts[0], running.interface) == mtu_of(hosts[1], running.interface)
    assert len(running.processes) == len(running.addresses) == 2
    for source, target, address in zip(hosts, reversed(hosts), reversed(running.addresses)):
        assert Transfer(source, target, address, size=1_000_000).finish()["equal"]
    running.stop()
    wait_until(lambda: not any(programs(host) for host in (*hosts, helper)), "all programs to end", details=lab.tails)
    if running.interface != "eth0":
        assert not any(running.interface in host.run("ip", "-brief", "link").stdout for host in hosts)
    lab.close()
    assert not [name for name, _, _ in leftovers.namespaces() if f"-{leftovers.owner()}-" in name]


def programs(host):
    """Returns the ids of all processes in a host."""
    return subprocess.run(["ip", "netns", "pids", host.namespace], capture_output=True, text=True, check=True).stdout.split()


@by_name(NETWORKS)
def test_a_host_that_booted_reaches_the_other_again(lab, system):
    hosts, helper = lay_out(lab, 2)
    running = started(system, hosts, helper)
    before = list(running.processes[1])
    for process in before:
        process.kill()
    wait_until(lambda: running.interface not in hosts[1].run("ip", "-brief", "link").stdout, "its interface to go")
    assert ping(hosts[0], running.addresses[1], count=1)["received"] == 0
    running.boot(1)
    assert not any(process in before for process in running.processes[1])
    assert all(process.alive for process in running.processes[1])
    # The booted host sends first: how long the other host keeps sending to a host without state is measured by `Reboot`.
    wait_until(lambda: answers(hosts[1], running.addresses[0], 2), "the host that booted to have an answer", 120, lab.tails)
    assert answers(hosts[0], running.addresses[1], 2)
    assert mtu_of(hosts[1], running.interface) == running.payload


@by_name(NETWORKS)
def test_three_hosts_reach_each_other_around_with_the_mtu_that_is_asked_for(lab, system):
    hosts, helper = lay_out(lab, 3)
    # An MTU that is at most the default of each system, and at least the minimum of IPv6.
    running = started(system, hosts, helper, mtu=1280)
    for n, host in enumerate(hosts):
        assert answers(host, running.addresses[(n + 1) % 3], 2)
        assert mtu_of(host, running.interface) == running.payload == 1280


class Broken(System):
    """Its program ends before it is usable."""

    name = title = "broken"

    def start(self, hosts, helper, mtu):
        words = ("sh", "-c", "echo 'no such key' >&2; exit 3")
        return ready(hosts, begun(hosts, lambda n: [hosts[n].start(*words, name="broken")], ["10.9.9.1", "10.9.9.2"], "eth0"))


def test_a_program_that_ends_is_one_clear_error(lab):
    hosts, helper = lay_out(lab, 2)
    with pytest.raises(LabError) as caught:
        Broken().start(hosts, helper, None)
    lines = str(caught.value).splitlines()
    assert lines[0] == "broken ended with 3"
    assert "no such key" in lines


def test_a_missing_program_is_named_with_its_installation(tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "PEERS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    ours = ("bare", "taut")
    lacks = {system.name: system.lacking() for system in FIELD if not system.name.startswith(ours)}
    assert all("make peers" in (why or "") for why in lacks.values()), lacks


def test_the_control_server_is_built_from_the_same_version_as_the_programs():
    text = (ROOT / "lab" / "nodes" / "systems" / "tailscale_control" / "go.mod").read_text()
    assert re.search(r"tailscale\.com (\S+)", text)[1] == versions.VERSIONS["tailscale"]


def test_the_field_has_every_system_once_and_says_why_another_is_not_here():
    answer = json.loads(subprocess.run([sys.executable, "-m", "lab", "peers", "--json"], cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert answer["schema"] == catalog.SCHEMA
    names = [entry["name"] for entry in answer["systems"]]
    assert len(names) == len(set(names))
    assert {system.name for system in FIELD} < set(names)
    for entry in answer["systems"]:
        assert set(entry) == {"name", "title", "adapter", "here", "version", "why", "get"}
        assert entry["here"] == (entry["why"] is None) == (entry["version"] is not None)
        assert entry["get"] and entry["title"]


def test_the_table_of_the_field_names_them_all():
    text = subprocess.run([sys.executable, "-m", "lab", "peers"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for entry in catalog.entries():
        assert f"{entry.title}: " in text
        assert entry.here or entry.why in text
