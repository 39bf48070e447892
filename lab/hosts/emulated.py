"""A host whose programs are those of another processor: the kernel has qemu-user run them, also those that a program starts.

Which emulator runs which programs is a setting of binfmt_misc, which a user namespace has for itself since Linux 6.7: the machine's own stays as it is. Programs and
emulator are those of `make packages`.
"""

import functools
import shlex
import sys
from pathlib import Path

from .namespace import call
from .private_mounts import OWN_ETC
from .programs import ROOT
from .user_namespace import UserNamespaceHost

_MOUNT = ("mount", "-t", "binfmt_misc", "binfmt_misc", "/proc/sys/fs/binfmt_misc")


@functools.cache
def _shipping():
    """Returns the modules of `make packages` that know where its programs are."""
    sys.path.insert(0, str(ROOT / "tools"))
    from shipping import handshake, programs, root, targets  # noqa: PLC0415

    return handshake, programs, root, targets


def program(processor, tiny=False):
    """Returns the path of the node's program for a processor of tools/shipping/targets.py, or that of the *tiny* node."""
    _, programs, _, targets = _shipping()
    return programs.binary(targets.named(processor), targets.TINY if tiny else targets.NODE)


def emulator(processor):
    """Returns the path of the program of qemu that runs this processor's programs."""
    _, _, root, targets = _shipping()
    return root.SYSTEM / "usr/bin" / targets.named(processor).qemu


def is_big_endian(processor):
    """Returns true if the processor stores the most significant byte of a number first, which no machine of the lab does."""
    with program(processor).open("rb") as file:
        # e_ident[EI_DATA] of an ELF file is 2 then.
        return file.read(6)[5] == 2


def missing_reason(processor):
    """Returns why no host runs nodes of this processor here, or an empty string."""
    wanted = (program(processor), program(processor, tiny=True), emulator(processor))
    lacking = next((path for path in wanted if not path.exists()), None)
    if lacking:
        return f"there is no {lacking.name} for {processor}: make packages TARGETS={processor}"
    mounted = call("unshare", "--user", "--map-root-user", "--mount", *_MOUNT, check=False)
    return f"a user namespace has no binfmt_misc of its own before Linux 6.7: {mounted.stderr.strip()}" if mounted.returncode else ""


class EmulatedHost(UserNamespaceHost):
    """A host that runs programs of `processor` besides the machine's own. Its /etc is its own."""

    def __init__(self, lab, name, switches, processor):
        self.processor = processor
        line = _shipping()[0].registration(program(processor), emulator(processor))
        register = f"printf %s {shlex.quote(line)} > /proc/sys/fs/binfmt_misc/register"
        super().__init__(lab, name, switches, OWN_ETC, f"{' '.join(_MOUNT)}\n{register}")

    def runs(self, process):
        """Returns true if the emulator runs this process."""
        return Path(f"/proc/{process.pid}/exe").readlink().name == emulator(self.processor).name
