//! The kinds of NAT by name, and the places of two hosts relative to each other.

use std::time::Duration;

/// Whether the external port depends on the destination (RFC 4787, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Addresses are not translated.
    None,
    /// One external port per internal port, for all destinations.
    EndpointIndependent,
    /// A different external port for every destination address and port.
    AddressAndPortDependent,
}

/// The senders whose packets are let in (RFC 4787, section 5), from the most to the least permissive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Filtering {
    /// All senders, at any time.
    None,
    /// All senders, once a mapping exists.
    EndpointIndependent,
    /// Senders whose address the host has sent to.
    AddressDependent,
    /// Senders whose address and port the host has sent to.
    AddressAndPortDependent,
}

/// The order in which external ports are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// Random ports from 1024 up.
    Random,
    /// The next port each time.
    Sequential,
}

/// The behaviour of one kind of NAT towards UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// How addresses are translated.
    pub mapping: Mapping,
    /// The senders whose packets are let in.
    pub filtering: Filtering,
    /// The order in which external ports are allocated.
    pub ports: Ports,
    /// Whether hosts behind the NAT reach each other by their external addresses (RFC 4787, section 6). Hairpinned packets skip the filter.
    pub hairpin: bool,
    /// Time after the last outgoing datagram until a mapping and its permissions expire.
    pub timeout: Duration,
    /// Whether UDP passes at all.
    pub udp: bool,
    /// Whether TCP to ports other than 443 passes. Only the lab's routers use it.
    pub tcp: bool,
    /// Whether UDP comes in from servers only. Packets from other senders are dropped.
    pub one_way: bool,
    /// Whether a second NAT with the same traits is behind the first.
    pub carrier: bool,
}

/// A kind of NAT, or a host without one. docs/nats.md describes each kind to users; `lab/hosts/nats/kinds.py` has the same list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A public address without filter.
    Open,
    /// One port for all destinations, open to all senders.
    FullCone,
    /// One port for all destinations, open to addresses that the host has sent to.
    AddressRestricted,
    /// One port for all destinations, open to addresses and ports that the host has sent to. Linux routers behave most like this.
    PortRestricted,
    /// A random port for every destination.
    Symmetric,
    /// The next port for every destination.
    Predictable,
    /// A port-restricted NAT at home, and another one at the carrier.
    Carrier,
    /// The same, and customers of the carrier do not reach each other by their external addresses.
    CarrierNoHairpin,
    /// Port-restricted, and hosts behind it reach each other by their external addresses.
    Hairpin,
    /// Port-restricted, with a timeout of 30 seconds.
    Timeout30,
    /// No UDP.
    UdpBlocked,
    /// Only TCP to port 443.
    Tcp443,
    /// A public address; only replies come in.
    Firewall,
    /// A public address, and a hole in the path to it: only packets of servers arrive.
    OneWay,
}

impl Kind {
    /// All kinds, in the order of lists and pictures.
    pub const ALL: [Self; 14] = [
        Self::Open,
        Self::FullCone,
        Self::AddressRestricted,
        Self::PortRestricted,
        Self::Symmetric,
        Self::Predictable,
        Self::Carrier,
        Self::CarrierNoHairpin,
        Self::Hairpin,
        Self::Timeout30,
        Self::UdpBlocked,
        Self::Tcp443,
        Self::Firewall,
        Self::OneWay,
    ];

    /// Returns the name in lists, in the lab and in `lab/hosts/nats/matrix.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::FullCone => "full-cone",
            Self::AddressRestricted => "address-restricted",
            Self::PortRestricted => "port-restricted",
            Self::Symmetric => "symmetric",
            Self::Predictable => "predictable",
            Self::Carrier => "carrier",
            Self::CarrierNoHairpin => "carrier-no-hairpin",
            Self::Hairpin => "hairpin",
            Self::Timeout30 => "timeout-30",
            Self::UdpBlocked => "udp-blocked",
            Self::Tcp443 => "tcp-443",
            Self::Firewall => "firewall",
            Self::OneWay => "one-way",
        }
    }

    /// Returns the behaviour towards UDP.
    pub const fn traits(self) -> Traits {
        let usual = Traits::PORT_RESTRICTED;
        match self {
            Self::Open => Traits { mapping: Mapping::None, filtering: Filtering::None, ..usual },
            Self::FullCone => Traits { filtering: Filtering::EndpointIndependent, ..usual },
            Self::AddressRestricted => Traits { filtering: Filtering::AddressDependent, ..usual },
            Self::PortRestricted => usual,
            Self::Symmetric => Traits { mapping: Mapping::AddressAndPortDependent, ..usual },
            Self::Predictable => {
                Traits { mapping: Mapping::AddressAndPortDependent, ports: Ports::Sequential, ..usual }
            }
            Self::Carrier => Traits { hairpin: true, carrier: true, ..usual },
            Self::CarrierNoHairpin => Traits { carrier: true, ..usual },
            Self::Hairpin => Traits { hairpin: true, ..usual },
            Self::Timeout30 => Traits { timeout: Duration::from_secs(30), ..usual },
            Self::UdpBlocked => Traits { udp: false, ..usual },
            Self::Tcp443 => Traits { udp: false, tcp: false, ..usual },
            Self::Firewall => Traits { mapping: Mapping::None, ..usual },
            Self::OneWay => Traits { mapping: Mapping::None, filtering: Filtering::None, one_way: true, ..usual },
        }
    }
}

impl Traits {
    /// The traits of most home NATs. RFC 4787 REQ-5 requires a timeout of at least two minutes and recommends five.
    const PORT_RESTRICTED: Self = Self {
        mapping: Mapping::EndpointIndependent,
        filtering: Filtering::AddressAndPortDependent,
        ports: Ports::Random,
        hairpin: false,
        timeout: Duration::from_secs(300),
        udp: true,
        tcp: true,
        one_way: false,
        carrier: false,
    };

    /// Returns true if the kind translates addresses.
    pub fn translates(&self) -> bool {
        self.mapping != Mapping::None
    }

    /// Returns true if a server cannot learn the port that another host will see.
    pub fn is_hard(&self) -> bool {
        self.mapping == Mapping::AddressAndPortDependent
    }
}

/// The place of two hosts relative to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In different networks, each behind its own NAT.
    Apart,
    /// Behind one NAT, on one network.
    SameLan,
    /// Behind one NAT, on networks that the NAT separates, such as a guest Wi-Fi.
    Isolated,
    /// Behind separate NATs and one common carrier NAT.
    SameCarrier,
}

impl Place {
    /// All places.
    pub const ALL: [Self; 4] = [Self::Apart, Self::SameLan, Self::Isolated, Self::SameCarrier];

    /// Returns the name in lists, in the lab and in `lab/hosts/nats/matrix.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Apart => "apart",
            Self::SameLan => "same-lan",
            Self::Isolated => "isolated",
            Self::SameCarrier => "same-carrier",
        }
    }

    /// Returns true if two hosts of this kind can be in this place.
    pub fn fits(self, kind: Kind) -> bool {
        let traits = kind.traits();
        match self {
            Self::Apart | Self::SameLan => true,
            Self::Isolated => traits.translates() && traits.udp && !traits.carrier,
            Self::SameCarrier => traits.carrier,
        }
    }
}
