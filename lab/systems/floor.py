"""The floor: what a tunnel of this shape costs at least (proof/floor). No tunnel: it has no duties, and nothing is secret."""

from ..flow import ping
from ..taut import binary
from ..wait import LabError, wait_until
from .base import Running, System
from .taut import tree_version

INTERFACE, PORT = "floor0", 5555
INNER = ("10.8.0.1", "10.8.0.2")


class Floor(System):
    """`cipher` is the program's word for what seals: aes or none."""

    variant = True

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
            raise LabError(f"the floor has two ends, not {len(hosts)}")
        processes = [self._start(host, peer) for host, peer in zip(hosts, reversed(hosts))]
        for host, process, inner in zip(hosts, processes, INNER):
            process.wait_for_output("listening on port")
            host.ip(f"address add {inner}/24 dev {INTERFACE}", f"link set {INTERFACE} mtu {mtu} up")

        def story():
            return "\n".join(process.tail() for process in processes)

        wait_until(lambda: ping(hosts[0], INNER[1], count=1)["received"] == 1, "the floor to carry a ping", story=story)
        return Running(addresses=list(INNER), interface=INTERFACE, processes=[[process] for process in processes])

    def _start(self, host, peer):
        ends = ("--tun", INTERFACE, "--listen", PORT, "--peer", f"{peer.ipv4}:{PORT}")
        return host.start(binary("floor"), *ends, "--cipher", self.cipher, name="floor")
