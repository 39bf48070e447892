"""Ways to join hosts, each behind the same few words, so that what compares them need not know them.

One module per system, one class per way of running it; `base.System` says what a class answers. The tuples list them in the order of tables.
A new system is a class with `lacking`, `version` and `start`, and a line here. What there is beside them, without a class: `lab.nodes.systems.catalog`.
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

# As `taut status` names them.
AES, CHACHA = "AES256GCM", "ChaCha20Poly1305"

# No tunnels: what one of this shape costs at least, between two hosts.
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

# What `make bench-tunnel` compares: tunnels that run at any MTU, and what they are judged by.
ALL = (Bare(), *FLOORS, *_TUNNELS)
# What the comparison of networks has (`make bench`): all that joins hosts, be they three or more.
FIELD = (Bare(), *_TUNNELS, Nebula(), Tinc(), OpenVpn(), EasyTier())

__all__ = ["ALL", "FIELD", "FLOORS", "Bare", "Device", "EasyTier", "Floor", "Nebula", "Network", "OpenVpn", "Running", "System", "Tailscale", "Tinc"]
