"""The floor: the least cost of a program with the shape of a tunnel (proof/floor). It is not a tunnel: it does none of a tunnel's work, and sends plaintext."""

from ...hosts.programs import binary
from ...hosts.wait import LabError
from .base import System, begun, ready
from .taut import tree_version

INTERFACE, PORT = "floor0", 5555
INNER = ("10.8.0.1", "10.8.0.2")
# MTU for a system that does not choose one.
USUAL_MTU = 1420


class Floor(System):
    """`cipher` is the argument of the program: aes or none."""

    variant = every_mtu = True
    get = "cargo build --release -p taut-floor"

    def __init__(self, name, title, cipher):
        self.name, self.title, self.cipher = name, title, cipher

    def lacking(self):
        try:
            binary("floor")
        except LabError:
            return "not built: cargo build --release -p taut-floor (`make bench-tunnel` does)"
        return None

    def version(self):
        return tree_version("proof/floor", "core", "sys", "Cargo.lock", "Cargo.toml") or "-"

    def start(self, hosts, helper, mtu):
        if len(hosts) != len(INNER):
            raise LabError(f"the floor joins two hosts, not {len(hosts)}")
        return ready(hosts, begun(hosts, lambda n: self._begin(hosts, n, mtu or USUAL_MTU), list(INNER), INTERFACE))

    def _begin(self, hosts, n, mtu):
        ends = ("--tun", INTERFACE, "--listen", PORT, "--peer", f"{hosts[1 - n].ipv4}:{PORT}")
        process = hosts[n].start(binary("floor"), *ends, "--cipher", self.cipher, name="floor")
        process.wait_for_output("listening on port")
        hosts[n].ip(f"address add {INNER[n]}/24 dev {INTERFACE}", f"link set {INTERFACE} mtu {mtu} up")
        return [process]
