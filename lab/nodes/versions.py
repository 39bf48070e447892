"""What Taut is compared with, in which version, and where tools/peers puts it: the one place.

    python3 -m lab.nodes.versions NAME     prints the version

What a distribution brings (tinc, OpenVPN) has the distribution's version; its program is asked for it.
"""

import os
import re
import shutil
import subprocess
import sys

from ..hosts.programs import ROOT
from ..hosts.wait import LabError

PEERS = ROOT / "target" / "peers"
VERSIONS = {
    "boringtun": "0.7.1",
    "gotatun": "0.10.2",
    "wireguard-go": "v0.0.0-20260522210424-ecfc5a8d5446",
    # v1.11.2 needs a module that cannot be had, v1.12.0 a newer Go.
    "nebula": "v1.11.1",
    # The last one for this Go; lab/nodes/systems/tailscale_control/go.mod names the same.
    "tailscale": "v1.102.5",
    # The newest in the registry, of October 2024: its authors publish elsewhere since.
    "easytier": "2.0.3",
}


def peer(name, program):
    """The path of a program that tools/peers installed; raises when it is not there."""
    path = PEERS / f"{name}-{VERSIONS[name]}" / program
    if not os.access(path, os.X_OK):
        raise LabError(f"{name} {VERSIONS[name]} is not installed: make peers")
    return path


def lacking(name, *programs):
    """Why these programs of `name` cannot be had, or None."""
    try:
        for program in programs:
            peer(name, program)
    except LabError as error:
        return str(error)
    return None


def lacking_package(program, package):
    """Why a program of a Debian package cannot be had, or None."""
    return None if shutil.which(program) else f"the program {program} is missing: make peers (Debian's package {package})"


def said_version(*command):
    """The version in what a program says of itself, such as 1.0.36."""
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"\d+(\.\d+)+", text)
    return found[0] if found else "unknown"


if __name__ == "__main__":
    print(VERSIONS[sys.argv[1]])
