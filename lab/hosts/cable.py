"""Cables with a link emulator in them: hosts are plugged into a switch by linkbox (proof/linkbox).

    cables = Cables(lab, switch, profile, seed=1)
    one, two = lab.host("one", cables), lab.host("two", cables)
    helper = lab.host("helper", switch)          # on the switch itself: what leaves it meets no emulator

What leaves a host passes one linkbox on its way to the switch; what comes to it goes by the kernel (a redirect by tc), so that every packet between two
hosts meets one linkbox and not two:

    host eth0 ══ name.w ──linkbox──▶ name.s ══ switch
                      ◀────tc────────
"""

import json
import os
import signal

from .namespace import Namespace
from .programs import binary
from .wait import LabError, wait_until

# No address, no neighbour, no router: nothing in there answers to what passes.
_SETTINGS = ("net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
# What a wire packet must not have been left to: then the kernel hands over what a card would put on the wire.
_OFFLOADS = ("tx", "sg", "tso", "gso", "gro")
# Between two looks for a report: the emulator writes it at once, between two frames.
_LOOK_S = 0.005


class Emulator:
    """A linkbox between two interfaces of the namespace `wire`, which moves frames from now on."""

    def __init__(self, wire, near, far, *options, name):
        self.file = wire.logs / f"{name}.json"
        self.process = wire.start(binary("linkbox"), near, far, *options, "--report", self.file, name=name)
        self.process.wait_for_output("are joined")

    def report(self):
        """What happened since this was asked last (docs/linkbox.md)."""
        self._look()
        self.file.unlink(missing_ok=True)
        os.kill(self.process.pid, signal.SIGUSR1)
        wait_until(lambda: self._look() or self.file.exists(), f"a report of {self.process.name}", story=self.process.tail, pause=_LOOK_S)
        return json.loads(self.file.read_text(encoding="utf-8"))

    def _look(self):
        if not self.process.alive:
            raise LabError(f"{self.process.name} ended with {self.process.returncode}\n{self.process.tail()}")


class Cables(Namespace):
    """A namespace with a linkbox per host. To hosts it is the switch that it leads to."""

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
        """As a switch does; linkbox is there from the first packet on."""
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
        """Off everywhere, so that each frame is a wire packet; on where superpackets are wanted, which is how veth comes."""
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
