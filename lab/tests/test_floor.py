"""The floor of `make bench-tunnel` carries what it is given: a program that lost or altered bytes would be a wrong reference. Figures are not judged."""

import json
import shutil

import pytest

from lab.compare.tunnel import site
from lab.nodes.systems import FLOORS
from lab.nodes.systems.base import mtu_of
from lab.nodes.systems.floor import INTERFACE
from lab.traffic.flow import Probe, Transfer, ping

pytestmark = pytest.mark.skipif(bool(FLOORS[0].lacking()), reason=f"the program floor is {FLOORS[0].lacking()}")


@pytest.mark.parametrize("mtu", site.LINKS)
@pytest.mark.parametrize("floor", FLOORS, ids=lambda floor: floor.name)
def test_data_over_the_floor_arrives_unchanged(lab, floor, mtu):
    hosts = site.lay_out(lab, mtu, pinned=False, cubic=False).hosts
    running = floor.start(hosts, None, mtu)
    assert [mtu_of(host, INTERFACE) for host in hosts] == [mtu, mtu]
    for source, target, there in zip(hosts, reversed(hosts), reversed(running.addresses)):
        assert ping(source, there, count=3)["received"] == 3
        assert Transfer(source, target, there, size=20_000_000).finish()["equal"]
    running.stop()
    assert INTERFACE not in hosts[0].run("ip", "-brief", "link").stdout


def test_datagrams_come_back_over_the_floor(lab):
    hosts = site.lay_out(lab, 1420, pinned=False, cubic=False).hosts
    running = FLOORS[0].start(hosts, None, 1420)
    probe = Probe(*hosts, running.addresses[1], interval=0.01, burst=4)
    ping(hosts[0], running.addresses[1], count=3)
    answer = probe.finish()
    assert answer["sent"] and not answer["lost"], answer


@pytest.mark.skipif(not shutil.which("iperf3"), reason="needs the program iperf3: apt-get install iperf3")
def test_streams_go_both_ways_at_once(lab):
    hosts = site.lay_out(lab, 1420, pinned=False, cubic=False).hosts
    there = FLOORS[0].start(hosts, None, 1420).addresses[1]
    server = hosts[1].start("iperf3", "--server", "--one-off", "--forceflush", name="iperf3-server")
    server.wait_for_output("Server listening")
    done = json.loads(hosts[0].run("iperf3", "--client", there, "--time", "1", "--parallel", "2", "--bidir", "--json").stdout)
    assert done["end"]["sum_received"]["bytes"] > 0 and done["end"]["sum_received_bidir_reverse"]["bytes"] > 0


def test_the_floor_says_that_it_is_not_a_tunnel(lab):
    hosts = site.lay_out(lab, 1420, pinned=False, cubic=False).hosts
    running = FLOORS[-1].start(hosts, None, 1420)
    assert running.processes[0][0].output().splitlines()[0] == "not a tunnel: a measurement of what one costs at least; nothing is secret"
