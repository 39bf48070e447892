"""The interface of all systems, and helpers for their start."""

import itertools
import shutil
from dataclasses import dataclass, field
from typing import Callable

from ...hosts.wait import LabError, wait_until
from ...traffic.flow import answers

# Wait for an answer from a system before its programs are checked again, in seconds.
LOOK_S = 2


@dataclass
class Running:
    """A running system between hosts, with everything that measuring and stopping it needs."""

    # Overlay address (IPv4) of each host, in the order of the hosts.
    addresses: list[str]
    # Interface through which applications of each host send.
    interface: str
    # Programs of the system in each host (`lab.hosts.process.Process`); empty for a bare link.
    processes: list[list] = field(default_factory=list)
    # Returns statistics of the system at the end, as a dict.
    facts: Callable[[], dict] = dict
    # `boot(n)`: starts the programs of host n again as after a boot, when its programs and what they made are gone. Does not wait for reconnection.
    boot: Callable[[int], None] = lambda n: None
    # The largest packet inside, in bytes: the MTU of the interface.
    payload: int | None = None
    # Programs besides the members (a coordinator, a lighthouse): not measured, ended with the others.
    aside: list = field(default_factory=list)

    def memory_kib(self, key):
        """Returns the sum over the programs of each host: `VmRSS` now, `VmHWM` at its peak (proc(5))."""
        return [sum(process.rss_kib(key) for process in own) for own in self.processes]

    def stop(self):
        """Ends the system's programs. Their interfaces and routes are removed with them or with the hosts."""
        for process in sum(self.processes, []) + self.aside:
            process.stop()


class System:
    """A way to join hosts. `name` is for commands and files, `title` for tables."""

    name = title = ""
    # True for a variant of a system or a reference value: measured at the usual MTU only, and once in a quick run.
    variant = False
    # True for a variant that a full run measures at larger MTUs, too.
    every_mtu = False
    # True if a quick run leaves it out, unless it is named.
    only_full = False
    # Command that installs it.
    get = "make peers"

    def lacking(self):
        """Returns why it cannot run here and how to install it, or None."""
        return None

    def version(self):
        """Returns its version, exact enough to install the same one again."""
        raise NotImplementedError

    def start(self, hosts, helper, mtu):
        """Joins `hosts` (at least two), waits until each reaches every other, and returns a `Running`.

        `mtu` is the MTU inside; with None the system chooses it. `helper` is an additional host for servers of the system: a coordinator, a lighthouse.
        """
        raise NotImplementedError


def begun(hosts, begin, addresses, interface, **more):
    """Starts the programs of each host with `begin(n)`, which returns them. Returns a `Running` with the same boot, without waiting for connections."""
    running = Running(addresses, interface, [[] for _ in hosts], **more)

    def boot(n):
        for process in running.processes[n]:
            process.kill()
        if running.processes[n]:
            # The kernel may still be removing the old interface: a new program must not mistake it for its own.
            wait_until(lambda: not _has(hosts[n], interface), f"the old {interface} in {hosts[n].name} to go")
        running.processes[n] = begin(n)

    running.boot = boot
    for n in range(len(hosts)):
        boot(n)
    return running


def ready(hosts, running):
    """Waits until a first packet between every two hosts was answered; returns `running` with its payload set."""
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
    """Raises `LabError` with the last output of a program that has ended."""
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
    """Returns the current MTU."""
    return int(host.run("cat", f"/sys/class/net/{interface}/mtu").stdout)


def fresh(host, name):
    """Returns an empty directory below the state of the host."""
    path = host.state / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def inner(network, number):
    """Returns the address of host `number` in 10.9.`network`.0/24. Each system has its own network, so that leftovers of one cannot be mistaken for
    another's."""
    if number > 252:
        raise LabError(f"more hosts than addresses in 10.9.{network}.0/24")
    return f"10.9.{network}.{number + 1}"
