//! The parts of the world: its hosts, the wires between them, and the next event.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::Time;

use crate::ledger::Ledger;
use crate::link::{Counts, Link};
use crate::side::Side;
use crate::station::StationId;

/// The state of one side.
pub(crate) struct End {
    pub(crate) address: SocketAddr,
    pub(crate) link: Link,
    pub(crate) counts: Counts,
    pub(crate) ledger: Ledger,
    pub(crate) flow: Option<SteadyFlow>,
    /// The flows that send on their own, by number.
    pub(crate) flows: BTreeMap<u16, SteadyFlow>,
}

/// Applications that send at even intervals.
pub(crate) struct SteadyFlow {
    pub(crate) interval: Duration,
    pub(crate) next: Time,
}

/// A datagram on its way. The order of the fields is the order of arrival; the number makes it unambiguous.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InFlight {
    pub(crate) due: Time,
    pub(crate) number: u64,
    pub(crate) to: Place,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) datagram: Vec<u8>,
}

/// The receiver of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Host(Side),
    Station(StationId),
}

/// A datagram that a host sent once.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The sender.
    pub from: Side,
    /// The destination address.
    pub destination: SocketAddr,
    /// The datagram's bytes.
    pub datagram: Vec<u8>,
}

/// The next event. At the same moment datagrams arrive before timers run and applications send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WorldEvent {
    Arrival,
    Timeout(Place),
    /// A packet of an application; of this flow, if it sends on its own.
    Send(Side, Option<u16>),
}
