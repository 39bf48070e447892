"""What every kind of work answers."""

import contextlib

from ...hosts import needs
from ...hosts.wait import LabError
from ...measure.cpu import Reading
from ..flow import answers

# How long (seconds) hosts ask for each other before a work begins.
MEETING_S = 10
# What a program, the kernel or a system may do to a work; all of it is told as a `LabError`.
_FAILURES = (LabError, OSError, ValueError, KeyError, IndexError, TypeError)


class Work:
    """One kind of work. `name` is for commands and files, `title` for tables."""

    name = title = ""
    # The figure that stands in tables; its unit is the end of its name.
    main = ""
    # Whether "more" or "less" of it is better.
    better = "more"
    # How many hosts it takes.
    hosts = 2
    # It breaks what the system has built up: other work is not done with the same start.
    alone = False
    # Programs that it runs, of those in `lab.hosts.needs`.
    programs = ()

    def lacking(self):
        """Why it cannot be done here, and how it could be; None when it can."""
        return next((needs.lacking(name) for name in self.programs if not needs.found(name)), None)

    def seconds(self, quick):
        """How long it takes where nothing is slow or lost."""
        raise NotImplementedError

    def takes(self, quick, link):
        """About how many seconds it takes on a link (`lab.hosts.profiles.Profile`): only to plan by."""
        return self.seconds(quick)

    def run(self, site, running, quick):
        """Does it over `running`, from the first host of `site` on; its figures, flat, with their units in their names.

        A `LabError` says that it did not succeed, and why. A program of the system that ends meanwhile is such a reason, whatever came out.
        Each host has been answered by the next one when it begins: neighbours and handshakes are in no figure.
        """
        if len(site.hosts) < self.hosts:
            raise LabError(f"{self.title} takes {self.hosts} hosts; there are {len(site.hosts)}")
        try:
            meet(site.hosts[: self.hosts], running)
            figures = self.figures(site, running, quick)
        except _FAILURES as error:
            raise LabError(_with_ended(_told(error), running)) from error
        if any(_ended(running)):
            raise LabError(_with_ended(f"{self.title} was done", running))
        return figures

    def figures(self, site, running, quick):
        """What `run` returns; it may let the errors of programs and files through."""
        raise NotImplementedError


class Spent:
    """Processor time from here on, at all hosts."""

    def __init__(self, running):
        self._processes = running.processes
        self._start = Reading(self._processes)

    def per_gb(self, moved):
        """Seconds per GB when `moved` bytes were: of all cores, measuring programs included, and of the system's own programs."""
        cpu, moved_gb = Reading(self._processes).since(self._start), max(1, moved) / 1e9
        return {
            "bytes": moved,
            "machine_cpu_s_per_gb": round(cpu["machine_s"] / moved_gb, 3),
            "tunnel_cpu_s_per_gb": round(sum(cpu["tunnel_s"]) / moved_gb, 3),
        }


def meet(hosts, running):
    """Waits until each host has had an answer from the next."""
    for n, host in enumerate(hosts):
        there = running.addresses[(n + 1) % len(hosts)]
        if not answers(host, there, MEETING_S):
            raise LabError(f"{host.name} has no answer from {there} within {MEETING_S} s")


@contextlib.contextmanager
def program(host, *argv, name, ready=None):
    """A program that runs in `host` while the `with` lasts; entered once it has written `ready`. Both of its outputs are in one."""
    process = host.start("sh", "-c", 'exec "$@" 2>&1', "sh", *argv, name=name)
    try:
        if ready:
            process.wait_for_output(ready)
        yield process
    finally:
        process.stop()


def _told(error):
    return str(error) if isinstance(error, LabError) else f"{type(error).__name__}: {error}"


def _ended(running):
    """The system's programs that are not there any more."""
    return [process for own in running.processes for process in own if not process.alive]


def _with_ended(words, running):
    """`words`, in their first line the names of the programs that have ended, and after them what those wrote last."""
    gone = _ended(running)
    if not gone:
        return words
    first, _, rest = words.partition("\n")
    names = ", ".join(dict.fromkeys(process.name for process in gone))
    return "\n".join([f"{first}, but {names} of the system has ended", *filter(None, [rest]), *(process.tail() for process in gone)])
