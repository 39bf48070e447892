"""A host whose programs are those of another processor: the kernel has qemu-user run them, also those that a program starts.

Which emulator runs which programs is a setting of binfmt_misc, which a user namespace has for itself since Linux 6.7: the machine's own stays as it is. So the host's
network namespace belongs to a user namespace, in which root is the machine's, and its /etc is its own. Programs and emulator are those of `make packages`.
"""

import functools
import os
import shlex
import sys
from pathlib import Path

from .namespace import call
from .net import SETTINGS, Host
from .private_mounts import OWN_ETC
from .process import Process
from .programs import ROOT

_REGISTER = """
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
printf %s {registration} > /proc/sys/fs/binfmt_misc/register
echo ready
# The lab closes standard input.
exec cat
"""
_ALONE = ("unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "--net")


@functools.cache
def _shipping():
    """Returns the modules of `make packages` that know where its programs are."""
    sys.path.insert(0, str(ROOT / "tools"))
    from shipping import handshake, programs, root, targets  # noqa: PLC0415

    return handshake, programs, root, targets


def _emulator(target):
    return _shipping()[2].SYSTEM / "usr/bin" / target.qemu


def program(processor):
    """Returns the path of the node's program for a processor of tools/shipping/targets.py."""
    _, programs, _, targets = _shipping()
    return programs.binary(targets.named(processor), targets.NODE)


def missing_reason(processor):
    """Returns why no host runs programs of this processor here, or an empty string."""
    needed = (program(processor), _emulator(_shipping()[3].named(processor)))
    lacking = next((path for path in needed if not path.exists()), None)
    if lacking:
        return f"there is no {lacking.name} of {processor}: make packages TARGETS={processor}"
    mounted = call("unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "binfmt_misc", "binfmt_misc", "/proc/sys/fs/binfmt_misc", check=False)
    return f"binfmt_misc of a user namespace needs Linux 6.7: {mounted.stderr.strip()}" if mounted.returncode else ""


class EmulatedHost(Host):
    """A host that runs programs of `processor` besides the machine's own."""

    def __init__(self, lab, name, switches, processor, settings=SETTINGS):
        self.processor = processor
        super().__init__(lab, name, switches, settings)

    def make_namespace(self):
        handshake, _, _, targets = _shipping()
        target = targets.named(self.processor)
        registration = handshake.registration(program(self.processor), _emulator(target))
        script = (OWN_ETC + _REGISTER).format(registration=shlex.quote(registration), state=shlex.quote(str(self.state)))
        owner = Process([*_ALONE, "sh", "-ec", script], "emulator", self.logs, dict(os.environ))
        self.processes.append(owner)
        owner.wait_for_output("ready")
        call("ip", "netns", "attach", self.namespace, str(owner.pid))
        self.prefix = ["nsenter", f"--user=/proc/{owner.pid}/ns/user", f"--mount=/proc/{owner.pid}/ns/mnt"]

    def runs(self, process):
        """Returns true if the emulator runs this process."""
        return Path(f"/proc/{process.pid}/exe").readlink().name == _emulator(_shipping()[3].named(self.processor)).name
