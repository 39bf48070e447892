"""What every system answers."""

from dataclasses import dataclass, field
from typing import Callable


@dataclass
class Running:
    """A system that is up between hosts: what is needed to measure it, and to end it."""

    # Where each host is reached through it (IPv4), in the order of the hosts.
    addresses: list[str]
    # The interface that each host's applications send to.
    interface: str
    # Its own programs in each host (`lab.process.Process`); none for a bare link.
    processes: list[list] = field(default_factory=list)
    # What it says of itself at the end: its own counters, as a dict.
    facts: Callable[[], dict] = dict

    def stop(self):
        """Ends its programs; what they made goes with them, or with the hosts."""
        for process in sum(self.processes, []):
            process.stop()


class System:
    """One way to join hosts. `name` is for commands and files, `title` for tables."""

    name = title = ""
    # Another way to run a system, or what one is judged by: measured with the usual MTU only, and in a quick run once.
    variant = False

    def lacking(self):
        """Why it cannot be had here, and how it could be; None when it can."""
        return None

    def version(self):
        """Its version, exact enough to get the same again."""
        raise NotImplementedError

    def start(self, hosts, helper, mtu):
        """Joins `hosts` (at least two) with this MTU inside and waits until the first reaches every other; a `Running`.

        `helper` is one more host, for what a system needs besides its members: a coordinator, a lighthouse.
        """
        raise NotImplementedError
