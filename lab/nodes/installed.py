"""A node in the usual places of a host: installed, used and removed by the commands of the README. The directories that it uses are the host's own."""

import os
import re
import signal
import subprocess

from ..hosts.leftovers import start_time
from ..hosts.programs import ROOT, binary
from ..hosts.wait import PATIENCE_S, LabError, wait_until
from .taut import Node

# Directories below which a host's settings are, and the program.
PLACES = ("/etc", "/run", "/tmp", "/usr/local/bin", "/var/lib")
# What an installed node keeps when it is not up: the README's chapter "Uninstall" names these.
KEPT = re.compile(r"/var/lib/taut(-\w+)?(/|$)|/run/taut(-\w+)?(/|$)|/usr/local/bin/taut$")
_README = ROOT / "README.md"


class InstalledNode(Node):
    """The node of `machine`, a `ResolverHost`, in the network that the host calls `network`, or in the usual one."""

    def __init__(self, machine, network=None):
        super().__init__(machine.host)
        self.machine = machine
        self.network = network
        self.suffix = f"-{network}" if network else ""

    @property
    def socket(self):
        return self.machine.root / f"run/taut{self.suffix}/taut.sock"

    @property
    def state(self):
        return self.machine.root / f"var/lib/taut{self.suffix}"

    def install(self):
        """Copies the program to where the README says."""
        self.machine.sh(f"install {binary('taut')} /usr/local/bin/")

    def is_member(self):
        return (self.state / "identity.json").exists()

    def up(self, join=None, check=True):
        """Runs `taut up`, which starts the daemon; with a join token if this host is no member."""
        words = ["--join", join, "--hostname", self.name] if join and not self.is_member() else []
        return self.taut("up", *words, check=check, timeout=2 * PATIENCE_S)

    def taut(self, verb, *words, check=True, timeout=PATIENCE_S):
        network = ("--network", self.network) if self.network else ()
        return self.host.run("taut", *network, verb, *words, check=check, timeout=timeout)

    def processes(self, word):
        """Returns the ids of the processes of this host with this word on their command line, behind the program's name."""
        listed = subprocess.run(["ip", "netns", "pids", self.host.namespace], capture_output=True, text=True, check=True).stdout.split()
        return [int(pid) for pid in listed if word in _words(pid)[1:]]

    def daemon(self):
        """Returns the id of the daemon."""
        found = self.processes(f"/run/taut{self.suffix}/taut.sock")
        if len(found) != 1:
            raise LabError(f"{self.name} has {len(found)} daemons")
        return found[0]

    def end(self, number, *more):
        """Sends a signal to the daemon, and to `more` processes, and waits until all have ended."""
        pids = [self.daemon(), *more]
        for pid in pids:
            os.kill(pid, number)
        wait_until(lambda: all(_has_ended(pid) for pid in pids), f"the daemon of {self.name} to end")

    def stop(self):
        self.end(signal.SIGTERM)

    def kill(self):
        self.end(signal.SIGKILL)


def uninstall(machine, networks):
    """Runs the commands of the README's chapter: for the usual network, and for `networks` those that it says."""
    [block] = re.findall(r"^## Uninstall\n[^#]*?^```sh\n(.*?)^```$", _README.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for line in block.splitlines() if line]
    if len(lines) != 4 or "taut leave --network NAME" not in lines[1] or "/var/lib/taut-NAME" not in lines[2]:
        raise LabError(f"the README's commands to uninstall are others than these:\n{block}")
    for name in networks:
        # Behind each command the README has what it is for a further network.
        of_network = re.findall(r"\(([^()]*NAME[^()]*)\)", f"{lines[1]}\n{lines[2]}")
        leave, remove = (words.replace("NAME", name) for words in of_network)
        machine.sh(f"{leave}\nrm -rf {remove}")
    machine.sh("\n".join(lines))


def _has_ended(pid):
    """Returns true if a process has ended with all its threads, of which the last one closes its sockets."""
    try:
        return start_time(pid) is None and os.listdir(f"/proc/{pid}/task") == [str(pid)]
    except FileNotFoundError:
        return True


def _words(pid):
    """Returns the command line of a process; nothing if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []
