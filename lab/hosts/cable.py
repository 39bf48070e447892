"""Cables with a link emulator: linkbox (proof/linkbox) connects hosts to a switch.

    cables = Cables(lab, switch, profile, seed=1)
    one, two = lab.host("one", cables), lab.host("two", cables)
    helper = lab.host("helper", switch)          # on the switch itself: its packets pass no emulator

Packets that leave a host pass one linkbox on their way to the switch. Packets to a host are redirected by tc in the kernel. A packet between two hosts
therefore passes one linkbox, not two:

    host eth0 ══ name.w ──linkbox──▶ name.s ══ switch
                      ◀────tc────────
"""

import json
import os
import signal

from .namespace import Namespace
from .programs import binary
from .wait import LabError, wait_until

# The namespace of the cables has no addresses, so that nothing in it answers to passing packets.
_SETTINGS = ("net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
# Offloads that must be off for the kernel to send packets as a network card would put them on the wire.
_OFFLOADS = ("tx", "sg", "tso", "gso", "gro")
# Pause between two looks for a report, in seconds. The emulator writes a report at once, between two frames.
_LOOK_S = 0.005


class Emulator:
    """A linkbox between two interfaces of the namespace `wire`; it forwards frames from its creation on."""

    def __init__(self, wire, near, far, *options, name):
        self.file = wire.logs / f"{name}.json"
        self.process = wire.start(binary("linkbox"), near, far, *options, "--report", self.file, name=name)
        self.process.wait_for_output("are joined")

    def report(self):
        """Returns what happened since the previous call (docs/linkbox.md)."""
        self._look()
        self.file.unlink(missing_ok=True)
        os.kill(self.process.pid, signal.SIGUSR1)
        wait_until(lambda: self._look() or self.file.exists(), f"a report of {self.process.name}", details=self.process.tail, pause=_LOOK_S)
        return json.loads(self.file.read_text(encoding="utf-8"))

    def _look(self):
        if not self.process.alive:
            raise LabError(f"{self.process.name} ended with {self.process.returncode}\n{self.process.tail()}")


class Cables(Namespace):
    """A namespace with one linkbox per host. Hosts use it like the switch behind it."""

    def __init__(self, lab, switch, profile, seed=1, superpackets=False):
        super().__init__(lab, "wire", _SETTINGS)
        self.switch, self.profile, self.seed, self.superpackets = switch, profile, seed, superpackets
        self.emulators = []

    @property
    def subnets(self):
        return self.switch.subnets

    @property
    def gateway(self):
        return self.switch.gateway

    @gateway.setter
    def gateway(self, addresses):
        self.switch.gateway = addresses

    @property
    def hosts(self):
        return self.switch.hosts

    def next_addresses(self):
        return self.switch.next_addresses()

    def plug(self, host, interface, port):
        """Connects a host as a switch does. The linkbox runs before the first packet."""
        near, far = f"{host.name}.w", f"{host.name}.s"
        mtu = self.profile.mtu
        self.ip(
            f"link add {near} mtu {mtu} type veth peer name {interface} mtu {mtu} netns {host.namespace}",
            f"link add {far} mtu {mtu} type veth peer name {port} mtu {mtu} netns {self.switch.namespace}",
            f"link set {near} up",
            f"link set {far} up",
        )
        self.switch.ip(f"link set br0 mtu {mtu}", f"link set {port} master br0 up")
        self._offloads(host, interface, near, far)
        self.run("tc", "qdisc", "add", "dev", far, "clsact")
        everything = ("protocol", "all", "u32", "match", "u32", 0, 0)
        self.run("tc", "filter", "add", "dev", far, "ingress", *everything, "action", "mirred", "egress", "redirect", "dev", near)
        self._start(host, near, far)

    def _offloads(self, host, interface, near, far):
        """Turns offloads off everywhere, so that each frame is a wire packet. With superpackets they stay on, which is the default of veth."""
        if self.superpackets:
            return
        off = [word for name in _OFFLOADS for word in (name, "off")]
        host.run("ethtool", "-K", interface, *off)
        for end in (near, far):
            self.run("ethtool", "-K", end, *off)

    def _start(self, host, near, far):
        number = len(self.emulators)
        words = self.profile.words("right" if number == 0 else "left")
        options = ["--one-way", "--first", "--to-right", words, "--seed", self.seed * 16 + number, *(["--superpackets"] if self.superpackets else [])]
        self.emulators.append(Emulator(self, near, far, *options, name=f"linkbox-{host.name}"))
