"""The time until hosts are connected again: after a boot, after a link was away for a second, after a change of address.

Both hosts ping each other continuously, like applications that wait for each other. Without traffic from both sides, a system may have no reason to search
for the other host. The time runs from the end of the fault until both hosts have had an answer to a request sent after it.
"""

import contextlib
import json
import statistics
import sys
import time
from pathlib import Path

from ...hosts.wait import LabError
from ..flow import answers
from . import network_changes
from .base import Work

_BEAT = (sys.executable, "-I", str(Path(__file__).parent.with_name("generator.py")), "beat")
# Interval of the echo requests of each side, in seconds: the resolution of the result.
BEAT_S = 0.02
# Time that a host or a link is away, in seconds: longer than any answer may be in transit.
AWAY_S = 1.0
# Wait after reconnection until the ping streams have seen it too, in seconds.
SETTLE_S = 0.5


class Connected(Work):
    """`cause` causes the fault and returns the time of its end (CLOCK_MONOTONIC) and the address of the second host from then on."""

    main, better = "again_s", "less"
    alone = True

    def tries(self, quick):
        return 1 if quick else 3

    def limit(self, quick):
        """Returns the seconds after which a try counts as failed. OpenVPN gives up a silent side after 120 s, the longest known timeout."""
        return 60 if quick else 180

    def seconds(self, quick):
        return self.tries(quick) * (AWAY_S + SETTLE_S + 2)

    def cause(self, site, running, there):
        raise NotImplementedError

    def addresses(self, site, running, tries):
        """Returns the addresses of the second host after each try."""
        return [running.addresses[1]] * tries

    def figures(self, site, running, quick):
        tries, took = self.tries(quick), []
        for there in self.addresses(site, running, tries):
            took.append(self._once(site, running, there, self.limit(quick)))
        return {"again_s": round(statistics.median(took), 3), "most_s": max(took), "each_s": took, "tries": len(took)}

    def _once(self, site, running, there, limit):
        ways = list(zip(site.hosts[:2], (there, running.addresses[0])))
        with contextlib.ExitStack() as stack:
            beats = [stack.enter_context(PingStream(host, address)) for host, address in ways]
            over = self.cause(site, running, there)
            deadline = over + limit
            for host, address in ways:
                self._wait(host, address, deadline - time.monotonic(), limit)
            time.sleep(SETTLE_S)
            return round(max(beat.first_after(over) for beat in beats) - over, 3)

    def _wait(self, host, address, left, limit):
        # Determines only when to stop; the ping streams measure the time.
        if not answers(host, address, left):
            raise LabError(f"{self.title}: {host.name} had no answer from {address} within {limit} s")


class PingStream:
    """Echo requests from `host` to `address` during the `with`."""

    def __init__(self, host, address):
        self.host, self.address = host, address
        self._process = host.start(*_BEAT, address, "--interval", BEAT_S, name=f"beat-{address}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stop()

    def first_after(self, moment):
        """Ends the stream and returns the time of the first answer to a request sent after `moment`."""
        self._process.close_input()
        if self._process.wait() != 0:
            raise LabError(f"the pings to {self.address} failed\n{self._process.tail()}")
        report = json.loads(self._process.output().splitlines()[-1])
        found = [answered for answered, asked in zip(report["answered"], report["asked"]) if asked >= moment]
        if not found:
            raise LabError(f"none of the pings from {self.host.name} to {self.address} was answered")
        return min(found)


class Reboot(Connected):
    """Kills the programs of the second host and removes their interfaces and routes. A second later the programs start as after a boot."""

    name, title = "reboot", "connected again after a boot"

    def cause(self, site, running, there):
        host = site.hosts[1]
        for process in running.processes[1]:
            process.kill()
        network_changes.forget(host)
        time.sleep(AWAY_S)
        over = time.monotonic()
        running.boot(1)
        return over


class Flap(Connected):
    """Takes the second host's link down for a second."""

    name, title = "flap", "connected again after the link was away for 1 s"

    def tries(self, quick):
        return 1 if quick else 5

    def cause(self, site, running, there):
        host = site.hosts[1]
        before = network_changes.lost_with_the_link(host)
        host.ip("link set eth0 down")
        time.sleep(AWAY_S)
        over = time.monotonic()
        host.ip("link set eth0 up", *before)
        return over


class Move(Connected):
    """Gives the second host another address of its network, and its original one at the next try. The bare link is reached at that address itself."""

    name, title = "move", "connected again after the address changed"

    def tries(self, quick):
        """An even number: the host ends with its original address."""
        return 2 if quick else 4

    def addresses(self, site, running, tries):
        if running.interface != "eth0":
            return super().addresses(site, running, tries)
        own, other = network_changes.own_and_other(site.hosts[1])
        return [str((own, other)[n % 2 == 0].ip) for n in range(tries)]

    def figures(self, site, running, quick):
        own, _ = network_changes.own_and_other(site.hosts[1])
        try:
            return super().figures(site, running, quick)
        finally:
            network_changes.move(site.hosts[1], own)

    def cause(self, site, running, there):
        own, other = network_changes.own_and_other(site.hosts[1])
        return network_changes.move(site.hosts[1], other)
