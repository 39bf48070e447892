"""What every system answers, and what their starts have in common."""

import itertools
import shutil
from dataclasses import dataclass, field
from typing import Callable

from ...hosts.wait import LabError, wait_until
from ...traffic.flow import answers

# How long (seconds) a system is asked for an answer before its programs are looked at again.
LOOK_S = 2


@dataclass
class Running:
    """A system that is up between hosts: what is needed to measure it, and to end it."""

    # Where each host is reached through it (IPv4), in the order of the hosts.
    addresses: list[str]
    # The interface that each host's applications send to.
    interface: str
    # Its own programs in each host (`lab.hosts.process.Process`); none for a bare link.
    processes: list[list] = field(default_factory=list)
    # What it says of itself at the end: its own counters, as a dict.
    facts: Callable[[], dict] = dict
    # `boot(n)`: host n lost its programs and what they made; starts them again as a boot would. Whether they meet again is not waited for.
    boot: Callable[[int], None] = lambda n: None
    # The largest packet inside, in bytes: what the interface's MTU says.
    payload: int | None = None
    # Programs beside the members (a coordinator, a lighthouse): not measured, ended with the rest.
    aside: list = field(default_factory=list)

    def memory_kib(self, key):
        """Of each host's programs together: `VmRSS` now, `VmHWM` at its highest (proc(5))."""
        return [sum(process.rss_kib(key) for process in own) for own in self.processes]

    def stop(self):
        """Ends its programs; what they made goes with them, or with the hosts."""
        for process in sum(self.processes, []) + self.aside:
            process.stop()


class System:
    """One way to join hosts. `name` is for commands and files, `title` for tables."""

    name = title = ""
    # Another way to run a system, or what one is judged by: measured with the usual MTU only, and in a quick run once.
    variant = False
    # How it is had where it is lacking.
    get = "make peers"

    def lacking(self):
        """Why it cannot be had here, and how it could be; None when it can."""
        return None

    def version(self):
        """Its version, exact enough to get the same again."""
        raise NotImplementedError

    def start(self, hosts, helper, mtu):
        """Joins `hosts` (at least two) and waits until each reaches every other; a `Running`.

        `mtu` is the one inside; None leaves it to the system. `helper` is one more host, for what a system needs besides its members: a
        coordinator, a lighthouse.
        """
        raise NotImplementedError


def begun(hosts, begin, addresses, interface, **more):
    """Starts each host's programs by `begin(n)`, which returns them; a `Running` whose boot does the same, and that nobody waited for."""
    running = Running(addresses, interface, [[] for _ in hosts], **more)

    def boot(n):
        for process in running.processes[n]:
            process.kill()
        if running.processes[n]:
            # The kernel may still be taking it away: whoever starts now must not take the old one for its own.
            wait_until(lambda: not _has(hosts[n], interface), f"the old {interface} in {hosts[n].name} to go")
        running.processes[n] = begin(n)

    running.boot = boot
    for n in range(len(hosts)):
        boot(n)
    return running


def ready(hosts, running):
    """Waits until a first packet between every two hosts was answered; returns `running`, its payload known."""
    for one, other in itertools.combinations(range(len(hosts)), 2):
        _wait_for_pair(hosts, running, one, other)
    running.payload = mtu_of(hosts[0], running.interface)
    return running


def _wait_for_pair(hosts, running, one, other):
    programs = sum(running.processes, []) + running.aside

    def answered():
        for process in programs:
            check_alive(process)
        return answers(hosts[one], running.addresses[other], LOOK_S)

    def details():
        return "\n".join(process.tail() for process in programs)

    wait_until(answered, f"{hosts[one].name} to reach {hosts[other].name} ({running.addresses[other]})", details=details)


def check_alive(process):
    """An early end of a program is an error, told at once and with its last words."""
    if not process.alive:
        raise LabError(f"{process.name} ended with {process.returncode}\n{process.tail()}")


def wait_for_interface(host, interface, process):
    """Waits until `process` has made its interface."""

    def there():
        check_alive(process)
        return _has(host, interface)

    wait_until(there, f"{process.name} in {host.name} to make {interface}", details=process.tail)


def _has(host, interface):
    return host.run("test", "-e", f"/sys/class/net/{interface}", check=False).returncode == 0


def mtu_of(host, interface):
    """The MTU that is in force."""
    return int(host.run("cat", f"/sys/class/net/{interface}/mtu").stdout)


def fresh(host, name):
    """An empty directory below the host's state."""
    path = host.state / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def inner(network, number):
    """The address of host `number` in 10.9.`network`.0/24. Each system has a network of its own, so that a leftover is never taken for another's."""
    if number > 252:
        raise LabError(f"more hosts than 10.9.{network}.0/24 has addresses")
    return f"10.9.{network}.{number + 1}"
