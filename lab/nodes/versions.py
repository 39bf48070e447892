"""Names, versions and paths of the systems that Taut is compared with, and of others that tests run; the only place for them. tools/peers installs them.

    python3 -m lab.nodes.versions NAME     prints the version

Packages of the distribution (tinc, OpenVPN) have the version of the distribution, which their program prints.
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
    # v1.11.2 needs an unavailable module, v1.12.0 a newer Go.
    "nebula": "v1.11.1",
    # The last version for this Go; lab/nodes/systems/tailscale_control/go.mod names the same.
    "tailscale": "v1.102.5",
    # The newest version in the registry, of October 2024; its authors publish elsewhere since.
    "easytier": "2.0.3",
    # Replicates a coordinator's SQLite database (docs/backup.md).
    "litestream": "v0.5.18",
    # An ACME server for tests of --acme, and the DNS server for its checks.
    "pebble": "v2.8.0",
    # A coordinator for Tailscale's clients; `make policy-headscale` compares our compiler of policies with its own. A commit, because the comparison needs its sources.
    "headscale": "f20f1f127842c74dd5f6e10254307b65b1aee936",
    # An OpenID provider for the night (docs/people.md).
    "keycloak": "26.7.3",
}


def peer(name, program):
    """Returns the path of a program that tools/peers installed; raises `LabError` if it is missing."""
    path = PEERS / f"{name}-{VERSIONS[name]}" / program
    if not os.access(path, os.X_OK):
        raise LabError(f"{name} {VERSIONS[name]} is not installed: make peers")
    return path


def lacking(name, *programs):
    """Returns why these programs of `name` cannot be run, or None."""
    try:
        for program in programs:
            peer(name, program)
    except LabError as error:
        return str(error)
    return None


def lacking_package(program, package):
    """Returns why a program of a Debian package cannot be run, or None."""
    return None if shutil.which(program) else f"the program {program} is missing: make peers (Debian's package {package})"


def printed_version(*command):
    """Returns the version that a program prints, such as 1.0.36."""
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"\d+(\.\d+)+", text)
    return found[0] if found else "unknown"


if __name__ == "__main__":
    print(VERSIONS[sys.argv[1]])
