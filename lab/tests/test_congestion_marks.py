"""Congestion marks and priorities through the tunnel (RFC 6040): on the inner packet and on the outer one."""

import json
import sys

import pytest

from lab.hosts.wait import wait_until

_COUNT = 20

# Sends datagrams with each of the four marks and priority 46.
_SEND = """
import socket, sys
address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
six = ":" in address
with socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for ecn in range(4):
        level, option = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if six else (socket.IPPROTO_IP, socket.IP_TOS)
        sender.setsockopt(level, option, 46 << 2 | ecn)
        for _ in range(count):
            sender.sendto(bytes(100 + ecn), (address, port))
"""

# Prints the traffic class of each received datagram as JSON.
_RECEIVE = """
import json, socket, sys
address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
six = ":" in address
with socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM) as receiver:
    level, option = (socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS) if six else (socket.IPPROTO_IP, socket.IP_RECVTOS)
    receiver.setsockopt(level, option, 1)
    receiver.bind((address, port))
    receiver.settimeout(20)
    print("ready", flush=True)
    found = []
    while len(found) < 4 * count:
        data, said, *_ = receiver.recvmsg(2048, 64)
        found.append((len(data) - 100, said[0][2][0]))
    print(json.dumps(found), flush=True)
"""

# Prints the size and the traffic class of each WireGuard data message that leaves through eth0, until it is ended.
_WATCH = """
import socket, struct
with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)) as wire:
    wire.bind(("eth0", 3))
    print("ready", flush=True)
    while True:
        frame, (_, _, kind, *_) = wire.recvfrom(65536)
        if kind != 4:  # PACKET_OUTGOING
            continue
        six = frame[0] >> 4 == 6
        protocol, header = (frame[6], 40) if six else (frame[9], 20)
        classed = (frame[0] << 4 | frame[1] >> 4) & 255 if six else frame[1]
        if protocol == 17 and frame[header + 8] == 4:
            print("data", classed, flush=True)
"""


@pytest.mark.parametrize("families", [{"ipv6": False}, {"ipv4": False}], ids=["over IPv4", "over IPv6"])
def test_fault_i6_marks_go_through_and_show_outside_while_priorities_stay_inside(mesh, families):
    one, two = mesh(nodes=2, **families).nodes
    watch = one.host.start(sys.executable, "-I", "-c", _WATCH, name="watch")
    watch.wait_for_output("ready")
    for address in (two.ipv4, two.ipv6):
        port = one.host.lab.free_port()
        receiver = two.host.start(sys.executable, "-I", "-c", _RECEIVE, address, port, _COUNT, name=f"receive-{port}")
        receiver.wait_for_output("ready")
        one.host.run(sys.executable, "-I", "-c", _SEND, address, str(port), str(_COUNT))
        receiver.wait(30)
        found = json.loads(receiver.output().splitlines()[-1])
        assert found == [[ecn, 46 << 2 | ecn] for ecn in range(4) for _ in range(_COUNT)]
        # The first run may go through the relay from end to end; the second one goes directly.
        one.ping_until_direct(two.name)

    def outside():
        lines = [line.split() for line in watch.output().splitlines() if line.startswith("data")]
        return [int(words[1]) for words in lines if len(words) == 2]

    # One run is one frame here. Keepalives and control messages have no marks.
    wait_until(lambda: set(outside()) >= {0, 1, 2, 3}, "all four marks to show outside", details=watch.tail)
    assert set(outside()) == {0, 1, 2, 3}, "a priority of 46 was to be seen on the wire"
