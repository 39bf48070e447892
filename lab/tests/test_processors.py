"""A node with another processor's program joins a network of this machine's programs, has a direct path, and carries bytes whole. Needs `make packages`; qemu-user
emulates the processor, and the kernel is this machine's."""

from pathlib import Path

import pytest

from lab.hosts import emulated
from lab.hosts.emulated import EmulatedHost
from lab.nodes.taut import Coordinator, Node
from lab.tests.test_odd_machines import carries
from lab.traffic import flow

# One with 64 bits, one with 32 bits, and both orders of bytes.
PROCESSORS = ("aarch64", "armv7", "mips", "mipsel")
# Parts of the sandbox for which qemu-user lacks the system calls, seccomp(2) and landlock_restrict_self(2).
NOT_EMULATED = {"files", "system-calls"}
# qemu-user passes the control messages of these offloads on as they are, so the kernel reads the numbers of a processor with the other order of bytes wrongly.
NOT_TRANSLATED = ("--no-udp-gso", "--no-udp-gro")

pytestmark = pytest.mark.programs


class EmulatedNode(Node):
    """A node whose daemon and CLI are programs of its host's processor."""

    tiny = False

    @property
    def program(self):
        return emulated.program(self.host.processor, self.tiny)

    def start(self, *options):
        return super().start(*(NOT_TRANSLATED if emulated.is_big_endian(self.host.processor) else ()), *options)


@pytest.mark.parametrize("tiny", [False, True], ids=["all-features", "tiny"])
@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_node_with_another_processor_joins_is_direct_and_carries_a_stream(lab, processor, tiny):
    reason = emulated.missing_reason(processor)
    if reason:
        pytest.skip(reason)
    switch = lab.switch("internet")
    coordinator = Coordinator(lab.host("coord", switch)).start()
    peer = Node(lab.host("peer", switch)).start()
    other = EmulatedNode(EmulatedHost(lab, "other", [switch], processor))
    other.tiny = tiny
    other.start()
    assert other.host.runs(other.process), "the emulator runs the daemon"
    assert not Path("/etc/resolv.conf").samefile(f"/proc/{other.process.pid}/root/etc/resolv.conf"), "its files are its own"
    for node in (peer, other):
        node.up(coordinator.join_token)
    peer.wait_for_peers("other")
    other.wait_for_peers("peer")
    carries(other, peer)
    assert flow.answers(other.host, peer.ipv6, 30)
    # What the emulator lacks is said, and the node works without.
    missing = {part["part"] for part in other.status()["sandbox"]["missing"]}
    assert missing == NOT_EMULATED
    # Its own files are enough to come back.
    other.restart(kill=True)
    carries(other, peer)
    assert other.stop() == 0
