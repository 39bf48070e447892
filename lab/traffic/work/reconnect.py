"""Connected again: after a host was booted, after its link was away for a second, after its address changed.

Both hosts ping each other all the time, as applications do that wait for each other; a system that hears nothing from a side may have no reason to
look for it. The time runs from the moment when the cause is over until both have had an answer to something that they asked after it.
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
# Between two echo requests of a side: how exact the time is.
BEAT_S = 0.02
# How long a host or a link is away. Longer than any answer may be on its way.
AWAY_S = 1.0
# Once connected, how long until the beats have seen it too.
SETTLE_S = 0.5


class Connected(Work):
    """`cause` brings it about and returns when it was over (CLOCK_MONOTONIC), and where the first host finds the second from then on."""

    main, better = "again_s", "less"
    alone = True

    def tries(self, quick):
        return 1 if quick else 3

    def limit(self, quick):
        """Seconds after which it is a failure. OpenVPN gives up a silent side after 120 s, which is the longest that we know of."""
        return 60 if quick else 180

    def seconds(self, quick):
        return self.tries(quick) * (AWAY_S + SETTLE_S + 2)

    def cause(self, site, running, there):
        raise NotImplementedError

    def addresses(self, site, running, tries):
        """Where the first host finds the second after each try."""
        return [running.addresses[1]] * tries

    def figures(self, site, running, quick):
        tries, took = self.tries(quick), []
        for there in self.addresses(site, running, tries):
            took.append(self._once(site, running, there, self.limit(quick)))
        return {"again_s": round(statistics.median(took), 3), "most_s": max(took), "each_s": took, "tries": len(took)}

    def _once(self, site, running, there, limit):
        ways = list(zip(site.hosts[:2], (there, running.addresses[0])))
        with contextlib.ExitStack() as stack:
            beats = [stack.enter_context(Beat(host, address)) for host, address in ways]
            over = self.cause(site, running, there)
            deadline = over + limit
            for host, address in ways:
                self._wait(host, address, deadline - time.monotonic(), limit)
            time.sleep(SETTLE_S)
            return round(max(beat.first_after(over) for beat in beats) - over, 3)

    def _wait(self, host, address, left, limit):
        # Only to know when to stop; the beats tell the time.
        if not answers(host, address, left):
            raise LabError(f"{self.title}: {host.name} had no answer from {address} within {limit} s")


class Beat:
    """Echo requests from `host` to `address` while the `with` lasts."""

    def __init__(self, host, address):
        self.host, self.address = host, address
        self._process = host.start(*_BEAT, address, "--interval", BEAT_S, name=f"beat-{address}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stop()

    def first_after(self, moment):
        """When the first answer came to what was asked after `moment`; ends the beat."""
        self._process.close_input()
        if self._process.wait() != 0:
            raise LabError(f"the pings to {self.address} broke\n{self._process.tail()}")
        told = json.loads(self._process.output().splitlines()[-1])
        found = [answered for answered, asked in zip(told["answered"], told["asked"]) if asked >= moment]
        if not found:
            raise LabError(f"none of the pings from {self.host.name} to {self.address} was answered")
        return min(found)


class Reboot(Connected):
    """The second host's programs are killed, and what they made is cleared; a second later they are started as a boot would."""

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
    """The second host's cable is out for a second."""

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
    """The second host gets another address of its network, and at the next try its own again. The bare link is found at that address itself."""

    name, title = "move", "connected again after the address changed"

    def tries(self, quick):
        """Even: the host ends where it was."""
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
