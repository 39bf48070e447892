"""Law 8 observed from outside: the system calls for a gigabyte of one TCP stream.

A superpacket has 64 KB, so a gigabyte is 15,300 of them: one read and at most one send each at the sender, one write each at the receiver, and a receive call
takes several runs. One call per packet would be 730,000. The limits are in between: a machine that is often paused finds less data at each wake-up, and
needed two and a half times the calls of an idle one.
"""

import pytest

from lab.measure import system_calls
from lab.traffic.flow import Transfer

SIZE = 500_000_000
# Limits per gigabyte; measured values in brackets, on two cores that only sender and receiver share.
SENDER = {"read": 80_000, "sendmmsg": 80_000, "writev": 40_000, "all": 220_000}  # (20,000  19,000  7,400  53,000)
RECEIVER = {"writev": 88_000, "recvmmsg": 32_000, "read": 48_000, "all": 200_000}  # (21,500  6,600  9,900  47,000)
# Futex calls: a contended lock or a channel that wakes a thread is a futex. The whole transfer needs a few, for `status` and timers.
FUTEXES = 200


def test_a_gigabyte_costs_few_reads_and_writes(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    net.connect()
    before = [system_calls.reads_and_writes(node.process) for node in net.nodes]
    assert Transfer(one.host, two.host, two.ipv4, size=SIZE).finish()["equal"]
    after = [system_calls.reads_and_writes(node.process) for node in net.nodes]
    (reads, _), (_, writes) = ([to - since for since, to in zip(*pair, strict=True)] for pair in zip(before, after, strict=True))
    print(f"{reads * 1e9 / SIZE:.0f} reads at the sender, {writes * 1e9 / SIZE:.0f} writes at the receiver per gigabyte")
    assert 0 < reads < SENDER["read"] * SIZE / 1e9
    assert 0 < writes < RECEIVER["writev"] * SIZE / 1e9


@pytest.mark.skipif(system_calls.lacking() is not None, reason=f"needs a perf that counts system calls: {system_calls.lacking()}")
def test_a_gigabyte_costs_few_system_calls_of_each_kind(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    net.connect()
    counts = [system_calls.Count(node.process) for node in net.nodes]
    assert Transfer(one.host, two.host, two.ipv4, size=SIZE).finish()["equal"]
    for node, count, bounds in zip(net.nodes, counts, (SENDER, RECEIVER), strict=True):
        found = count.finish()
        print(node.name, {name: round(number * 1e9 / SIZE) for name, number in found.items() if number})
        for name, bound in bounds.items():
            assert 0 < found[name] < bound * SIZE / 1e9, f"{name} at {node.name}: {found}"
        assert found["futex"] < FUTEXES
