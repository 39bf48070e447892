"""Ways to join hosts, each behind the same few words, so that what compares them need not know them.

One module per system, one class per way of running it; `base.System` says what a class answers. `ALL` lists them in the order of the tables.
A new system is a class with `lacking`, `version` and `start`, and a line here.
"""

from .bare import Bare
from .base import Running, System
from .floor import Floor
from .tailscale import Tailscale
from .taut import Network
from .wireguard import Device

# As `taut status` names them.
AES, CHACHA = "AES256GCM", "ChaCha20Poly1305"

ALL = (
    Bare(),
    Floor("floor-aes", "floor: AES-256-GCM, no duties", "aes"),
    Floor("floor-none", "floor: no cipher, no duties", "none"),
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

__all__ = ["ALL", "Bare", "Device", "Floor", "Network", "Running", "System", "Tailscale"]
