"""Packets with a partial checksum from the kernel of the sender (docs/spec, "Marked packets") arrive whole at every receiver.

Both nodes seal with AES here, if the machine has it: stock suites carry no such packets.
"""

import sys
from pathlib import Path

import pytest

from lab.hosts.wait import wait_until
from lab.traffic.flow import Transfer, ping

# ETHTOOL_STXCSUM of SIOCETHTOOL (include/uapi/linux/ethtool.h): the kernel has to complete checksums before `eth1` sends.
_NO_CHECKSUM_OFFLOAD = """
import ctypes, fcntl, socket, struct
for command in (0x17, 0x1F):  # checksums, and TSO, which cannot be without
    value = ctypes.create_string_buffer(struct.pack("=II", command, 0))
    request = struct.pack("16sQ16x", b"eth1", ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8946, request)
value = ctypes.create_string_buffer(struct.pack("=II", 0x16, 1))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, 0x8946, struct.pack("16sQ16x", b"eth1", ctypes.addressof(value)))
assert struct.unpack("=II", value.raw[:8])[1] == 0, "eth1 still computes checksums"
"""

_SIZE = 30_000_000


def _start(net, *options):
    """Starts the network with these options for the daemons, one tuple per node."""
    net.coordinator.start()
    for node, words in zip(net.nodes, options, strict=True):
        node.start(*words)
        node.up(net.coordinator.join_token)
    net.wait_for_maps()
    net.connect()
    if not all(_uses_aes(node, net) for node in net.nodes):
        pytest.skip("this machine has no AES in hardware")
    return net.nodes


def _uses_aes(node, net):
    """Returns true if AES is available on this machine, after waiting until it is agreed on."""
    if "aes" not in Path("/proc/cpuinfo").read_text(encoding="utf-8").split():
        return False
    others = [other.name for other in net.nodes if other is not node]

    def agreed(status):
        return all(node.peer(name, status)["session"]["suite"] in ("AES256GCM", "AEGIS256X4") for name in others)

    return node.wait_for(agreed, "AES to be agreed on")


def _bad_checksums(host):
    """Returns the TCP and UDP packets that the kernel of the host rejected for their checksum so far."""
    counters = ("TcpInCsumErrors", "UdpInCsumErrors", "Udp6InCsumErrors")
    lines = host.run("nstat", "-asz", *counters).stdout.splitlines()
    found = {words[0]: int(words[1]) for words in map(str.split, lines) if words and words[0] in counters}
    assert set(found) == set(counters)
    return sum(found.values())


def _both_ways(one, two, address):
    """Makes a transfer in each direction at once, in one family each."""
    there = Transfer(one.host, two.host, getattr(two, address), size=_SIZE)
    back = Transfer(two.host, one.host, getattr(one, address), size=_SIZE)
    for transfer in (there, back):
        result = transfer.finish()
        assert result["equal"] and result["bytes"] == _SIZE


@pytest.mark.parametrize("options", [((), ()), ((), ("--no-tun-offload",)), (("--no-tun-offload",), ())])
def test_transfers_are_whole_with_and_without_offloads(layout, options):
    one, two = _start(layout(nodes=2), *options)
    for address in ("ipv4", "ipv6"):
        _both_ways(one, two, address)
    assert _bad_checksums(one.host) == _bad_checksums(two.host) == 0


@pytest.mark.parametrize("offload", [True, False], ids=["offload", "no-offload"])
def test_the_kernel_completes_what_it_forwards(layout, offload):
    net = layout(nodes=2)
    one, two = _start(net, (), ())
    # A host in a network behind node2, which hides no addresses.
    back = net.lab.switch("back")
    behind = net.lab.host("behind", back)
    two.host.connect(back)
    gate = [str(address) for address in two.host.addresses if any(address in subnet for subnet in back.subnets)]
    behind.use_gateway(gate)
    two.host.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
    routes = ",".join(str(subnet) for subnet in back.subnets)
    two.taut("set", "--advertise-routes", routes, "--snat=off")
    wait_until(lambda: two.name in net.coordinator.cli("routes", "list").stdout, "the routes to be proposed")
    net.coordinator.cli("routes", "approve", two.name, routes)
    one.taut("set", "--accept-routes")
    one.wait_for(lambda status: all(route["via"] for route in status["routes"]["peers"]) and len(status["routes"]["peers"]) == 2, "the routes to be used")
    if not offload:
        two.host.run(sys.executable, "-I", "-c", _NO_CHECKSUM_OFFLOAD)
    for address in (behind.ipv4, behind.ipv6):
        wait_until(lambda address=address: ping(one.host, address, count=1)["received"], "packets to be forwarded")
        there = Transfer(one.host, behind, address, size=_SIZE)
        result = there.finish()
        assert result["equal"] and result["bytes"] == _SIZE
    for host in (one.host, two.host, behind):
        assert _bad_checksums(host) == 0
    wait_until(lambda: two.host.counters("eth1")[1] > 2 * _SIZE, "the transfers to be forwarded over eth1")

