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
AES, CHACHA = "AES256GCM", "ChaCha20Poly1305"

# Reference values that are not tunnels: the least cost of a program with the structure of a tunnel, between two hosts.
FLOORS = (
    Floor("floor-aes", "floor: AES-256-GCM, no duties", "aes"),
    Floor("floor-none", "floor: no cipher, no duties", "none"),
)
_TUNNELS = (
    Network("taut-aes", "Taut, AES-256-GCM", AES),
    Network("taut-chacha", "Taut, ChaCha20-Poly1305", CHACHA, "--no-aes"),
    Network("taut-lanes-2", "Taut, AES-256-GCM, two lanes", AES, "--lanes", "2", variant=True),
    Network("taut-low-latency", "Taut, AES-256-GCM, low-latency mode", AES, "--low-latency", variant=True),
    Device("taut-wg", "taut-wg"),
    Device("wireguard-go", "wireguard-go"),
    Device("boringtun", "boringtun"),
    Device("gotatun", "gotatun"),
    Tailscale(),
)

# Systems of `make bench-tunnel`: tunnels that run at any MTU, and their reference values.
ALL = (Bare(), *FLOORS, *_TUNNELS)
# Systems of the comparison of networks (`make bench`): all that join two or more hosts.
FIELD = (Bare(), *_TUNNELS, Nebula(), Tinc(), OpenVpn(), EasyTier())

__all__ = ["ALL", "FIELD", "FLOORS", "Bare", "Device", "EasyTier", "Floor", "Nebula", "Network", "OpenVpn", "Running", "System", "Tailscale", "Tinc"]
