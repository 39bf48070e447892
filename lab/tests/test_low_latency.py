"""Low-latency mode: packets pass as in normal mode, and an idle lane sleeps."""

import time
from pathlib import Path

import pytest

from lab.hosts.wait import wait_until
from lab.traffic.flow import Transfer, ping

_PAUSE_S = 0.5
_SIZE = 30_000_000


def _lane_ticks(process):
    """Returns the CPU time of the lane threads of a daemon, in clock ticks."""
    tasks = [task for task in Path(f"/proc/{process.pid}/task").iterdir() if "lane" in (task / "comm").read_text()]
    assert tasks, "a daemon that is up has a lane"
    stats = [(task / "stat").read_text().rpartition(")")[2].split() for task in tasks]
    return sum(int(fields[11]) + int(fields[12]) for fields in stats)


@pytest.mark.parametrize("lanes", [1, 2])
def test_packets_go_and_lanes_sleep_when_there_are_none(layout, lanes):
    net = layout(nodes=2)
    net.coordinator.start()
    for node in net.nodes:
        node.start("--low-latency", "--lanes", lanes)
        node.up(net.coordinator.join_token)
    net.wait_for_maps()
    net.connect()
    one, two = net.nodes
    assert ping(one.host, two.ipv4, count=20, interval=0.01)["received"] == 20
    result = Transfer(one.host, two.host, two.ipv4, size=_SIZE).finish()
    assert result["equal"] and result["bytes"] == _SIZE
    for node in net.nodes:
        wait_until(lambda node=node: _sleeps(node.process), f"{node.name}'s lanes to sleep", timeout=10)


def _sleeps(process):
    """Returns true if its lanes use no CPU time for a while."""
    before = _lane_ticks(process)
    time.sleep(_PAUSE_S)
    return _lane_ticks(process) == before
