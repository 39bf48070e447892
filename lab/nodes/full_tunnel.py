"""A host that sends everything through an exit node, on a network whose gateway is not to be trusted, and programs on it that send without a pause."""

import json
import sys
from pathlib import Path

from ..hosts.wait import wait_until
from .exits import SERVER, Exits, choose
from .subnets import seen_as

_TRAFFIC = Path(__file__).parents[1] / "traffic"
# Where the programs send: the server behind the exit node, and hosts that exist nowhere.
TARGETS = (*SERVER, "198.18.0.9", "2001:db8:77::9")


class FullTunnel(Exits):
    """The client of `Exits`, which uses an exit node. `rogue` is the gateway of its network, which forwards nothing, and `bystander` a host of it."""

    def __init__(self, lab, *options, count=1):
        super().__init__(lab, count)
        self.rogue = lab.host("rogue", self.outside)
        self.bystander = lab.host("bystander", self.outside)
        self.before = None
        self.default_routes()
        for number in range(count):
            self.start_exit(number)
        self.options = options
        self.sealed = [str(address) for host in (self.coordinator.host, *(node.host for node in self.exits)) for address in host.addresses]
        self.sealed += [self.public(number, ipv6) for number in range(count) for ipv6 in (False, True)]
        self.client.start(*options)
        self.client.up(self.coordinator.join_token)

    def default_routes(self):
        """Leads the client to the gateway, as its network does."""
        self.client.host.ip(*(f"route replace default via {address} dev eth0" for address in self.rogue.addresses))

    def choose(self, choice="exit1", *settings):
        """Chooses an exit node and other settings, and waits until packets take it."""
        choose(self.client, choice, *settings)
        self.wait_for_tunnel()

    def wait_for_tunnel(self):
        """Waits until the server answers through the exit node."""
        wait_until(lambda: seen_as(self.client.host, SERVER[0], timeout=0.5) == self.public(), "the internet to answer through the exit node")

    def listen(self):
        """Starts to count what the client sends in the clear."""
        return ClearCapture(self)

    def talk(self, *more):
        """Starts the programs that send without a pause, also to `more` addresses."""
        return Talk(self.client.host, (*TARGETS, *more))


class Talk:
    """Programs on a host that send without a pause, some of them from sockets that are bound to `interface`."""

    def __init__(self, host, targets, interface="eth0"):
        self._process = host.start(sys.executable, "-I", _TRAFFIC / "leaks.py", interface, *targets, name="leaks")
        self._process.wait_for_output("ready")

    def wait(self):
        """Waits for some more rounds."""
        count = self._process.output().count("done")
        self._process.write("\n")
        wait_until(lambda: self._process.output().count("done") > count, "the programs to send", details=self._process.tail)

    def end(self):
        self._process.close_input()
        self._process.wait()


class ClearCapture:
    """Counts packets in the clear at the cable of the client."""

    def __init__(self, net):
        links = json.loads(net.client.host.run("ip", "-j", "link", "show", "dev", "eth0").stdout)
        command = (sys.executable, "-I", _TRAFFIC / "clear_capture.py", f"{net.client.name}.0", links[0]["address"], *net.sealed)
        self._process = net.outside.start(*command, name="clear")
        self._process.wait_for_output("ready")

    def count(self):
        """Returns the number of packets in the clear so far."""
        before = self._process.output().count("clear ")
        self._process.write("\n")
        wait_until(lambda: self._process.output().count("clear ") > before, "the capture to answer", details=self._process.tail)
        return int(self._process.output().rpartition("clear ")[2].split()[0])

    def finish(self):
        """Returns {"frames", "sealed", "clear", "shown"}."""
        self._process.close_input()
        self._process.wait()
        return json.loads(self._process.output().splitlines()[-1])
