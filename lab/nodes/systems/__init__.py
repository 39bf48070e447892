"""Systems that join hosts. All have the same interface, so that the comparison needs to know none of them.

One module per system, one class per variant; `base.System` defines the interface. The tuples list them in the order of tables. A new system is a class
with `lacking`, `version` and `start`, and a line here. `lab.nodes.systems.catalog` also lists systems without a class.
"""

from .bare import Bare
from .base import Running, System
from .easytier import EasyTier
from .floor import Floor
from .nebula import Nebula
from .openvpn import OpenVpn
from .tailscale import Tailscale
from .taut import Network
from .tinc import Tinc
from .wireguard import Device

# Names of the suites in `taut status`.
AEGIS, AES, CHACHA = "AEGIS256X4", "AES256GCM", "ChaCha20Poly1305"

# Reference values that are not tunnels: the least cost of a program with the structure of a tunnel, between two hosts.
FLOORS = (
    Floor("floor-aes", "floor: AES-256-GCM, no duties", "aes"),
    Floor("floor-none", "floor: no cipher, no duties", "none"),
)
_TUNNELS = (
    Network("taut-aes", "Taut, AES-256-GCM", AES),
    Network("taut-chacha", "Taut, ChaCha20-Poly1305", CHACHA),
    Network("taut-lanes-1", "Taut, AES-256-GCM, one lane", AES, "--lanes", "1", variant=True),
    Network("taut-aegis", "Taut, AEGIS-256X4", AEGIS, variant=True, every_mtu=True),
    Network("taut-lanes-2", "Taut, AES-256-GCM, two lanes", AES, "--lanes", "2", variant=True),
    Network("taut-low-latency", "Taut, AES-256-GCM, low-latency mode", AES, "--low-latency", variant=True),
    Device("taut-wg", "taut-wg"),
    Device("wireguard-go", "wireguard-go"),
    Device("boringtun", "boringtun"),
    Device("gotatun", "gotatun"),
    Tailscale(),
)

# Nodes that find the MTU of the link, as they do without `--mtu`.
_AUTO = Network("taut-auto", "Taut, AES-256-GCM, MTU found", AES, variant=True, every_mtu=True, finds_mtu=True)

# Systems of `make bench-tunnel`: tunnels that run at any MTU, and their reference values.
ALL = (Bare(), *FLOORS, *_TUNNELS, _AUTO)
# Systems of the comparison of networks (`make bench`): all that join two or more hosts.
FIELD = (Bare(), *_TUNNELS, Nebula(), Tinc(), OpenVpn(), EasyTier())

__all__ = ["ALL", "FIELD", "FLOORS", "Bare", "Device", "EasyTier", "Floor", "Nebula", "Network", "OpenVpn", "Running", "System", "Tailscale", "Tinc"]
