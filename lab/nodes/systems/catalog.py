"""Every known system: whether the lab can run it here, its version, why it cannot be run, and how to install it (`lab peers`).

A system with an adapter in lab/nodes/systems answers for itself. For the others this file gives the reason: adapters are only written for systems that
have run. JSON, schema 1:

    {"schema": 1, "systems": [{"name", "title", "adapter", "here", "version", "why", "get"}]}

`adapter`: the lab has a class for it. `here`: it can be run now; then `why` is null. `version`: of the installed program, or null.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from . import FIELD

SCHEMA = 1


@dataclass(frozen=True)
class Entry:
    name: str
    title: str
    adapter: bool
    here: bool
    version: str | None
    why: str | None
    get: str


@dataclass(frozen=True)
class Other:
    """A system without an adapter. `program`: program to look for on this machine, for a reason."""

    name: str
    title: str
    why: str
    get: str
    program: str = ""

    def entry(self):
        found = shutil.which(self.program) if self.program else None
        why = f"{self.why}; {found} is here, an adapter is not written" if found else self.why
        return Entry(self.name, self.title, adapter=False, here=False, version=None, why=why, get=self.get)


# As tried on Debian 12 with the Cargo registry and the Go module proxy, in 2026.
OTHERS = (
    Other(
        "zerotier",
        "ZeroTier",
        "no package in Debian 12, and never built by us",
        "its authors' Debian repository (download.zerotier.com), and an own controller",
        "zerotier-one",
    ),
    Other(
        "zerotier-8",
        "ZeroTier, eight instances and ECMP",
        "as ZeroTier",
        "eight zerotier-one with a directory and a port each, one route over all eight interfaces with a hash over ports",
        "zerotier-one",
    ),
    Other(
        "yggdrasil",
        "Yggdrasil",
        "Debian's 0.4.7 speaks a protocol that its successors left; of v0.5.14 a dependency cannot be had (suah.dev/protect)",
        "its authors' Debian repository, from v0.5 on",
        "yggdrasil",
    ),
    Other(
        "vpncloud",
        "VpnCloud",
        "never built by us: 2.3.0 is of 2021 and needs an old ring",
        "cargo install vpncloud --version 2.3.0 --locked",
        "vpncloud",
    ),
    Other(
        "mycelium",
        "Mycelium",
        "the crate of that name is another project; the overlay is in no registry",
        "releases of github.com/threefoldtech/mycelium",
        "mycelium",
    ),
    Other("hyprspace", "Hyprspace", "its Go module cannot be had from the proxy", "github.com/hyprspace/hyprspace, by Nix", "hyprspace"),
    Other(
        "strongswan",
        "strongSwan (IPsec)",
        "needs ESP in the kernel, which the reference kernel lacks; its userspace ESP was not tried",
        "apt-get install strongswan-swanctl libcharon-extra-plugins (plugin kernel-libipsec where the kernel has no ESP)",
        "swanctl",
    ),
    Other(
        "headscale",
        "Headscale",
        "not in Debian 12, its Go module cannot be had; tailscaled runs here under the test control server",
        "releases of github.com/juanfont/headscale",
        "headscale",
    ),
    Other("netbird", "NetBird", "its Go module cannot be had from the proxy", "pkgs.netbird.io, and an own management server", "netbird"),
    Other("fastd", "fastd", "no adapter yet", "apt-get install fastd (22 in Debian 12)", "fastd"),
    Other("n2n", "n2n", "no adapter yet", "apt-get install n2n (1.3.1 in Debian 12; 3.x from github.com/ntop/n2n)", "edge"),
    Other("vtun", "vtun", "no adapter yet", "apt-get install vtun (3.0.4 in Debian 12)", "vtund"),
)


def entries():
    """Returns all entries: systems with an adapter first."""
    return [_known(system) for system in FIELD] + [_kernel_wireguard()] + [other.entry() for other in OTHERS]


def _known(system):
    why = system.lacking()
    return Entry(system.name, system.title, True, not why, None if why else system.version(), why, system.get)


def _kernel_wireguard():
    """Returns the entry of WireGuard in the kernel, after a look at the loaded modules."""
    there = Path("/sys/module/wireguard").exists()
    why = "this kernel has it, an adapter is not written" if there else "not in this kernel (no module wireguard is loaded)"
    return Entry("wireguard", "WireGuard in the kernel", False, False, None, why, "modprobe wireguard (any usual kernel from 5.6 on)")


def document():
    """Returns the JSON document."""
    return json.dumps({"schema": SCHEMA, "systems": [asdict(entry) for entry in entries()]}, indent=1)


def table():
    """Returns the table: a line per system, and a second line with the reason if it cannot be run."""
    all_of_them = entries()
    wide = max(len(entry.name) for entry in all_of_them)
    lines = []
    for entry in all_of_them:
        state = entry.version if entry.here else ("not here" if entry.adapter else "no adapter")
        lines.append(f"{entry.name:{wide}}  {entry.title}: {state}")
        if not entry.here:
            lines += [f"{'':{wide}}    why: {entry.why}", f"{'':{wide}}    get: {entry.get}"]
    here = sum(entry.here for entry in all_of_them)
    return "\n".join([*lines, "", f"{here} of {len(all_of_them)} can be run here"])
