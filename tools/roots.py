#!/usr/bin/env python3
"""Makes roots of Debian for tests of services, once each, below target/.

    tools/roots.py [NAME ...]      debian13: systemd 257, and the busybox of the stand-in for OpenWrt; openrc: OpenRC (default: all)

Needs root, mmdebstrap and the network.
"""

import shutil
import subprocess
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "target"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
NODE = ("iproute2", "nftables", "iputils-ping", "procps")
ROOTS = {"debian13": ("systemd", "systemd-sysv", "dbus", "busybox-static", *NODE), "openrc": ("openrc", *NODE)}


def mirror():
    """Returns the address of the mirror that this host uses."""
    lines = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, text=True, check=True).stdout.split()
    found = next((line for line in lines if line.endswith("/debian/")), None)
    return found or sys.exit("roots: apt of this host names no mirror of Debian")


def make(name):
    """Returns the folder of a root, and makes it if it is missing."""
    folder = TARGET / name
    if folder.exists():
        return folder
    if not shutil.which("mmdebstrap"):
        sys.exit("roots: the program mmdebstrap is missing: apt-get install mmdebstrap")
    new = folder.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    print("roots: making a root of Debian 13 in", folder, file=sys.stderr)
    source = f"deb [signed-by={KEYS}] {mirror()} trixie main"
    subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--skip=check/qemu", f"--include={','.join(ROOTS[name])}", "trixie", new, source], check=True)
    new.rename(folder)
    return folder


if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - set(ROOTS)
    if unknown:
        sys.exit(__doc__)
    for wanted in sys.argv[1:] or ROOTS:
        print(make(wanted))
