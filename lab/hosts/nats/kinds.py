"""The kinds of NAT by name: their behaviour for UDP in the terms of RFC 4787, and the names that home users know.

proof/sim/src/nat/kind.rs has the same list; lab/tests/test_nats.py and proof/sim compare both with matrix.json.
"""

from dataclasses import dataclass
from pathlib import Path

# Kinds and verdicts of the simulator.
VERDICTS = Path(__file__).with_name("matrix.json")
# RFC 4787, section 4.1: whether another destination gets another external port. "none": addresses are not translated.
MAPPINGS = ("none", "endpoint-independent", "address-and-port-dependent")
# RFC 4787, section 5: which senders can send in through a mapping. "none": any sender, also without a mapping.
FILTERINGS = ("none", "endpoint-independent", "address-dependent", "address-and-port-dependent")
# Lifetime of a mapping, in seconds. RFC 4787 REQ-5 asks for two minutes at least and recommends five.
TIMEOUT_S = 300


@dataclass(frozen=True)
class Kind:
    """A kind of NAT. `words` is the name that a home user knows."""

    name: str
    words: str
    mapping: str = "endpoint-independent"
    filtering: str = "address-and-port-dependent"
    # External ports of address-dependent mappings: "random", or the next free port ("sequential").
    ports: str = "random"
    # True if hosts behind it reach each other by their external addresses (RFC 4787, section 6).
    hairpin: bool = False
    timeout_s: int = TIMEOUT_S
    # True if UDP passes; and true if TCP to ports other than 443 passes.
    udp: bool = True
    tcp: bool = True
    # True if UDP comes in from the servers only: datagrams of other hosts are lost, outgoing ones arrive.
    one_way: bool = False
    # True if a carrier-grade NAT is behind the NAT at home.
    carrier: bool = False

    @property
    def translates(self):
        """Returns true if it translates addresses."""
        return self.mapping != "none"


_PORT_RESTRICTED = "usual home router"
_ALL = (
    Kind("open", "a server, or a home without a firewall", mapping="none", filtering="none"),
    Kind("full-cone", "“NAT type open”: the best for game consoles", filtering="endpoint-independent"),
    Kind("address-restricted", "“NAT type moderate”, the friendlier half", filtering="address-dependent"),
    Kind("port-restricted", f"“NAT type moderate”: a {_PORT_RESTRICTED}"),
    Kind("symmetric", "“NAT type strict”: office firewalls, some mobile networks", mapping="address-and-port-dependent"),
    Kind("predictable", "“NAT type strict”, but ports are counted up: older routers", mapping="address-and-port-dependent", ports="sequential"),
    Kind("carrier", "no public address: the provider translates once more (DS-Lite, mobile, 100.64.x.x outside)", hairpin=True, carrier=True),
    Kind("carrier-no-hairpin", "the same, and customers of this provider do not reach each other by their public addresses", carrier=True),
    Kind("hairpin", f"a {_PORT_RESTRICTED}, with “NAT loopback”", hairpin=True),
    Kind("timeout-30", f"a {_PORT_RESTRICTED}, which forgets mappings after half a minute", timeout_s=30),
    Kind("udp-blocked", "a guest or company network without UDP", udp=False),
    Kind("tcp-443", "hotel Wi-Fi: only web pages work", udp=False, tcp=False),
    Kind("firewall", "a public address (IPv6 at home) behind a firewall that lets only outgoing connections through", mapping="none"),
    Kind("one-way", "a broken route: packets of some senders never arrive", mapping="none", filtering="none", one_way=True),
)
KINDS = {kind.name: kind for kind in _ALL}

# Positions of the two hosts of a pair relative to each other.
PLACES = {
    "apart": "in different networks, each behind its own",
    "same-lan": "behind one NAT, on one network",
    "isolated": "behind one NAT, on networks that it keeps apart, like a guest Wi-Fi",
    "same-carrier": "behind NATs of their own, and one carrier's NAT",
}


def pairs():
    """Returns every possible pair once, as (a, b, place)."""
    names = list(KINDS)
    for number, a in enumerate(names):
        for b in names[number:]:
            yield a, b, "apart"
    for name, kind in KINDS.items():
        yield name, name, "same-lan"
        if kind.translates and kind.udp and not kind.carrier:
            yield name, name, "isolated"
        if kind.carrier:
            yield name, name, "same-carrier"
