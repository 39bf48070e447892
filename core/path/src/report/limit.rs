//! The packet limit of one candidate, and what limits it.

use core::fmt;

use taut_base::MAX_MTU;

use super::LocalNetwork;
use crate::packet_limit::{Finding, PRECISION, PacketLimit, longest_on, overhead};
use crate::way::Way;

/// The packet limit of one candidate, and what limits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WayLimit {
    /// Bytes of the longest inner packet that is sent in one datagram now.
    pub bytes: u16,
    /// The reason why longer packets are not sent.
    pub cause: LimitCause,
}

/// Reasons why no longer packets are sent on a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitCause {
    /// The path is not in use, so nothing longer was tried; what is shown passes any path.
    Untried,
    /// The limit is being searched for; what is shown is known to pass so far.
    Searching,
    /// Probes of this size are answered, and longer ones are lost.
    Probes,
    /// No sized probe was answered, although short ones were.
    Unanswered,
    /// This host's interface carries no longer packets.
    Interface,
    /// The user's `--mtu`.
    Setting,
    /// No longer packet exists.
    Largest,
    /// A WebSocket leads to the relay: longer packets would delay all others on it.
    WebSocket,
}

impl WayLimit {
    pub(crate) fn of(way: Way, limit: &PacketLimit, here: &LocalNetwork<'_>) -> Self {
        let bytes = limit.momentary();
        let outer = bytes.saturating_add(overhead(way));
        let by_interface = here.interface_mtu.is_some_and(|mtu| outer <= mtu && mtu - outer < PRECISION);
        let longest = longest_on(way, here.longest);
        let cause = match limit.finding() {
            _ if limit.is_unknown() => LimitCause::Untried,
            _ if limit.settled() != Some(bytes) => LimitCause::Searching,
            Finding::None => LimitCause::Searching,
            Finding::Unanswered => LimitCause::Unanswered,
            Finding::Answered if bytes >= here.longest && here.longest < MAX_MTU => LimitCause::Setting,
            Finding::Answered if bytes >= longest && longest < here.longest => LimitCause::WebSocket,
            Finding::Answered if by_interface => LimitCause::Interface,
            Finding::Answered if bytes >= here.longest => LimitCause::Largest,
            Finding::Answered => LimitCause::Probes,
        };
        Self { bytes, cause }
    }
}

impl LimitCause {
    /// Returns the name for JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Untried => "untried",
            Self::Searching => "searching",
            Self::Probes => "probes",
            Self::Unanswered => "unanswered",
            Self::Interface => "interface",
            Self::Setting => "mtu",
            Self::Largest => "largest",
            Self::WebSocket => "websocket",
        }
    }
}

impl fmt::Display for WayLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.cause {
            LimitCause::Untried => "more is tried once this path is in use",
            LimitCause::Searching => "the search for more goes on",
            LimitCause::Probes => "found by probes: longer ones are lost",
            LimitCause::Unanswered => "assumed: no probe of the length of a packet is answered",
            LimitCause::Interface => "this host's interface carries no longer ones",
            LimitCause::Setting => "the limit that `--mtu` sets",
            LimitCause::Largest => "the longest that exist",
            LimitCause::WebSocket => "longer ones would delay all others on the WebSocket",
        };
        write!(f, "packets up to {} bytes ({cause})", self.bytes)
    }
}
