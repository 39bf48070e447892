"""The interface of all kinds of work."""

import contextlib

from ...hosts import needs
from ...hosts.wait import LabError
from ...measure.cpu import Reading
from ..flow import answers

# Limit on the wait for the first answer between hosts before a work begins, in seconds.
MEETING_S = 10
# Errors that a program, the kernel or a system may cause in a work; all are reported as `LabError`.
_FAILURES = (LabError, OSError, ValueError, KeyError, IndexError, TypeError)


class Work:
    """A kind of work. `name` is for commands and files, `title` for tables."""

    name = title = ""
    # Name of the figure that tables show; the name ends with its unit.
    main = ""
    # "more" or "less": which is better.
    better = "more"
    # Number of hosts that it needs.
    hosts = 2
    # True if it destroys the state of the system: other work then needs another start.
    alone = False
    # Programs that it runs, of those in `lab.hosts.needs`.
    programs = ()

    def lacking(self):
        """Returns why it cannot run here and how to fix that, or None."""
        return next((needs.lacking(name) for name in self.programs if not needs.found(name)), None)

    def seconds(self, quick):
        """Returns its duration in seconds without losses or slow links."""
        raise NotImplementedError

    def takes(self, quick, link):
        """Returns the approximate duration in seconds on a link (`lab.hosts.profiles.Profile`); for planning only."""
        return self.seconds(quick)

    def run(self, site, running, quick):
        """Runs it over `running`, from the first host of `site`, and returns its figures: flat, with units in their names.

        A `LabError` says why it failed. The end of a program of the system is a failure, whatever the result. Before it begins, each host has had an answer from
        the next one: neighbour discovery and handshakes are in no figure.
        """
        if len(site.hosts) < self.hosts:
            raise LabError(f"{self.title} needs {self.hosts} hosts; there are {len(site.hosts)}")
        try:
            meet(site.hosts[: self.hosts], running)
            figures = self.figures(site, running, quick)
        except _FAILURES as error:
            raise LabError(_with_ended(_told(error), running)) from error
        if any(_ended(running)):
            raise LabError(_with_ended(f"{self.title} was done", running))
        return figures

    def figures(self, site, running, quick):
        """Returns the figures for `run`; errors of programs and files may propagate."""
        raise NotImplementedError


class CpuMeter:
    """CPU time of all hosts from its creation on."""

    def __init__(self, running):
        self._processes = running.processes
        self._start = Reading(self._processes)

    def per_gb(self, moved):
        """Returns CPU seconds per GB for `moved` bytes: of all cores including measuring programs, and of the programs of the system."""
        cpu, moved_gb = Reading(self._processes).since(self._start), max(1, moved) / 1e9
        return {
            "bytes": moved,
            "machine_cpu_s_per_gb": round(cpu["machine_s"] / moved_gb, 3),
            "tunnel_cpu_s_per_gb": round(sum(cpu["tunnel_s"]) / moved_gb, 3),
        }


def meet(hosts, running):
    """Waits until each host has had an answer from the next one."""
    for n, host in enumerate(hosts):
        there = running.addresses[(n + 1) % len(hosts)]
        if not answers(host, there, MEETING_S):
            raise LabError(f"{host.name} has no answer from {there} within {MEETING_S} s")


@contextlib.contextmanager
def program(host, *argv, name, ready=None):
    """Runs a program in `host` during the `with`; the body starts after the program wrote `ready`. Merges standard error into standard output."""
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
    """Returns the programs of the system that have ended."""
    return [process for own in running.processes for process in own if not process.alive]


def _with_ended(words, running):
    """Adds the names of ended programs to the first line of `words`, and their last output after it."""
    gone = _ended(running)
    if not gone:
        return words
    first, _, rest = words.partition("\n")
    names = ", ".join(dict.fromkeys(process.name for process in gone))
    return "\n".join([f"{first}, but {names} of the system has ended", *filter(None, [rest]), *(process.tail() for process in gone)])
