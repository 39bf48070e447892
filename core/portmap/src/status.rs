//! The answers of one gateway in one protocol, as data and in words.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use crate::http::HttpError;
use crate::{nat_pmp, pcp, soap};

/// A protocol that maps ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Port Control Protocol.
    Pcp,
    /// NAT Port Mapping Protocol.
    NatPmp,
    /// UPnP Internet Gateway Device.
    Upnp,
}

impl Protocol {
    /// All protocols, in the order in which they are preferred.
    pub const ALL: [Self; 3] = [Self::Pcp, Self::NatPmp, Self::Upnp];

    /// The protocol's name, for people and for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pcp => "pcp",
            Self::NatPmp => "nat-pmp",
            Self::Upnp => "upnp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The state of one protocol at the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// The protocol was not tried: another one served first, or there is no gateway.
    #[default]
    NotAsked,
    /// A request was sent a moment ago.
    Asked,
    /// No answer came.
    Silent,
    /// The gateway's port is closed, as ICMP says.
    Closed,
    /// The gateway refuses.
    Refused(Refusal),
    /// The gateway's answer is useless.
    Unusable(Defect),
    /// The gateway maps ports.
    Serves,
}

impl ProtocolStatus {
    /// The status in one word, for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotAsked => "not-asked",
            Self::Asked => "asked",
            Self::Silent => "silent",
            Self::Closed => "closed",
            Self::Refused(_) => "refused",
            Self::Unusable(_) => "unusable",
            Self::Serves => "serves",
        }
    }
}

impl fmt::Display for ProtocolStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("not asked"),
            Self::Asked => f.write_str("asked, no answer yet"),
            Self::Silent => f.write_str("no answer"),
            Self::Closed => f.write_str("the port is closed"),
            Self::Refused(refusal) => write!(f, "refused: {refusal}"),
            Self::Unusable(defect) => write!(f, "useless answer: {defect}"),
            Self::Serves => f.write_str("maps ports"),
        }
    }
}

/// The reason that a gateway gives for not mapping a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A result code of PCP.
    Pcp(pcp::ResultCode),
    /// A result code of NAT-PMP.
    NatPmp(nat_pmp::ResultCode),
    /// A refused call of UPnP.
    Upnp(soap::CallRefusal),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pcp(code) => code.fmt(f),
            Self::NatPmp(code) => code.fmt(f),
            Self::Upnp(refusal) => refusal.fmt(f),
        }
    }
}

/// The reason why a gateway's answer is useless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// It maps a port to an endpoint where no packet may be sent.
    OuterEndpoint(SocketAddr),
    /// It has an outer address where no packet may be sent.
    OuterAddress(Ipv4Addr),
    /// It maps for too few seconds.
    ShortLease(u64),
    /// It refers to a host that is not the gateway.
    OtherHost(SocketAddrV4),
    /// Its description lists no service that maps ports.
    NoService,
    /// Its description cannot be fetched.
    Description(soap::CallRefusal),
    /// There was no answer to an HTTP request.
    Http(FetchError),
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OuterEndpoint(outside) => write!(f, "it maps to {outside}, where no packet may be sent"),
            Self::OuterAddress(address) => write!(f, "its outer address is {address}, where no packet may be sent"),
            Self::ShortLease(seconds) => write!(f, "its leases are only {seconds} s long"),
            Self::OtherHost(place) => write!(f, "it refers to {place}, which is not the gateway"),
            Self::NoService => f.write_str("it has no service that maps ports"),
            Self::Description(refusal) => refusal.fmt(f),
            Self::Http(failure) => failure.fmt(f),
        }
    }
}

/// The reason why an HTTP request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// No connection could be made.
    NoConnection,
    /// The answer took too long.
    TooSlow,
    /// What came is not an answer.
    Http(HttpError),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConnection => f.write_str("no connection to the URL that it names"),
            Self::TooSlow => f.write_str("its answer took too long"),
            Self::Http(error) => error.fmt(f),
        }
    }
}
