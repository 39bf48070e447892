//! The kinds of NAT by name, and where two hosts are to each other.

use std::time::Duration;

/// Whether another destination gets another external port (RFC 4787, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Addresses are not translated.
    None,
    /// One external port per internal one, whatever the destination.
    EndpointIndependent,
    /// Another external port for every destination address and port.
    AddressAndPortDependent,
}

/// Who may send in (RFC 4787, section 5). Ordered: a later one lets in fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Filtering {
    /// Everybody, whether something went out before or not.
    None,
    /// Everybody, once a mapping is there.
    EndpointIndependent,
    /// Whose address was sent to.
    AddressDependent,
    /// Whose address and port were sent to.
    AddressAndPortDependent,
}

/// How external ports are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// By chance, from 1024 up.
    Random,
    /// The next one.
    Sequential,
}

/// What one kind does to UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// How addresses are translated.
    pub mapping: Mapping,
    /// Who may send in.
    pub filtering: Filtering,
    /// How external ports are given out.
    pub ports: Ports,
    /// Whether hosts behind it reach each other by their external addresses (RFC 4787, section 6). Its filter does not judge what turns round there.
    pub hairpin: bool,
    /// How long a mapping, and a permission to send in, outlives the last datagram that went out.
    pub timeout: Duration,
    /// Whether UDP passes at all.
    pub udp: bool,
    /// Whether TCP to other ports than 443 passes. Nothing here reads it; the lab's routers do.
    pub tcp: bool,
    /// Whether UDP comes in from servers only; what others send vanishes.
    pub one_way: bool,
    /// Whether a second NAT of the same traits stands behind the first.
    pub carrier: bool,
}

/// A kind of NAT, or what a host has instead of one. docs/nats.md tells each to users; `lab/hosts/nats/kinds.py` has the same list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A public address, and nothing in the way.
    Open,
    /// One port for all, and everybody may send to it.
    FullCone,
    /// One port for all; addresses that were sent to may send to it.
    AddressRestricted,
    /// One port for all; addresses and ports that were sent to may send to it. What Linux routers come nearest to.
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
    /// Port-restricted, and it forgets after 30 seconds.
    Timeout30,
    /// No UDP.
    UdpBlocked,
    /// Only TCP to port 443.
    Tcp443,
    /// A public address; only answers come in.
    Firewall,
    /// A public address, and a hole in the way to it: only what servers send arrives.
    OneWay,
}

impl Kind {
    /// All of them, in the order of lists and pictures.
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

    /// Its name in lists, in the lab and in `lab/hosts/nats/matrix.json`.
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

    /// What it does to UDP.
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
    /// What most NATs at home are. RFC 4787 REQ-5 asks for two minutes at least and recommends five.
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

    /// Whether it is a NAT at all.
    pub fn translates(&self) -> bool {
        self.mapping != Mapping::None
    }

    /// Whether a server cannot tell the port that another host will see.
    pub fn is_hard(&self) -> bool {
        self.mapping == Mapping::AddressAndPortDependent
    }
}

/// Where two hosts are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In different networks, each behind its own NAT.
    Apart,
    /// Behind one NAT, on one network.
    SameLan,
    /// Behind one NAT, on networks that it keeps apart, like a guest Wi-Fi.
    Isolated,
    /// Behind NATs of their own, and one carrier's NAT.
    SameCarrier,
}

impl Place {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Apart, Self::SameLan, Self::Isolated, Self::SameCarrier];

    /// Its name in lists, in the lab and in `lab/hosts/nats/matrix.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Apart => "apart",
            Self::SameLan => "same-lan",
            Self::Isolated => "isolated",
            Self::SameCarrier => "same-carrier",
        }
    }

    /// Whether two hosts of this one kind can be placed so.
    pub fn fits(self, kind: Kind) -> bool {
        let traits = kind.traits();
        match self {
            Self::Apart | Self::SameLan => true,
            Self::Isolated => traits.translates() && traits.udp && !traits.carrier,
            Self::SameCarrier => traits.carrier,
        }
    }
}
