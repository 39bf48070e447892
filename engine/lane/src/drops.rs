//! Named reasons for dropping a packet, each with a counter (law 11).

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Out: not an IP packet, or one whose lengths lie, or a superpacket that cannot be cut.
    BadInner,
    /// Out: no peer has this address (multicast and broadcast end here, too).
    NoRoute,
    /// Out: nobody answered the handshakes; what waited was given up.
    NoHandshake,
    /// Out: more packets wait for a handshake than are kept; the oldest went.
    StagedOverflow,
    /// Out: the kernel refused the datagram (unreachable, forbidden, too large for the way).
    SendFailed,
    /// In: no WireGuard message.
    NotWireGuard,
    /// In: more frames of one relay than anybody needs.
    RelayRate,
    /// In: a handshake message whose first MAC was not made for us.
    BadMac1,
    /// In: a handshake message from a source that sends too many and has not shown a cookie; it was told one.
    CookieAsked,
    /// In: a handshake message from a source that sends too many, cookie or not; or it would be told one, and there is no room to.
    HandshakeRate,
    /// In: the agent has more handshakes to look at than its queue holds.
    AgentBusy,
    /// In: no session has this index; a peer that did not notice our restart sends such packets for a while.
    UnknownIndex,
    /// In: seen before, or older than the replay window.
    Replayed,
    /// In: the copy of a packet that came by another way already: its sender had doubts about one of them.
    Duplicate,
    /// In: not sealed by the peer whose session it names.
    NotAuthentic,
    /// In: an authentic control message that this version does not know, or that cannot be true.
    BadControl,
    /// In: more control messages of one peer than anybody needs.
    ControlRate,
    /// In: what the peer sealed is no IP packet.
    BadOuter,
    /// In: the peer may not send from this address.
    SourceNotAllowed,
    /// In: the inner destination is none of this node's own addresses, or the packet names a further one (source routing).
    DestinationNotOurs,
    /// In: a router marked it instead of dropping it, and the flow inside does not know such marks (RFC 6040, section 4.2).
    CongestionMet,
    /// In: the TUN did not take it.
    TunWrite,
}

impl DropReason {
    const ALL: [(Self, &'static str); 22] = [
        (Self::BadInner, "out-bad-packet"),
        (Self::NoRoute, "out-no-route"),
        (Self::NoHandshake, "out-no-handshake"),
        (Self::StagedOverflow, "out-waiting-overflow"),
        (Self::SendFailed, "out-send-failed"),
        (Self::NotWireGuard, "in-not-wireguard"),
        (Self::RelayRate, "in-relay-rate"),
        (Self::BadMac1, "in-bad-mac1"),
        (Self::CookieAsked, "in-cookie-asked"),
        (Self::HandshakeRate, "in-handshake-rate"),
        (Self::AgentBusy, "in-agent-busy"),
        (Self::UnknownIndex, "in-unknown-index"),
        (Self::Replayed, "in-replayed"),
        (Self::Duplicate, "in-duplicate"),
        (Self::NotAuthentic, "in-not-authentic"),
        (Self::BadControl, "in-bad-control"),
        (Self::ControlRate, "in-control-rate"),
        (Self::BadOuter, "in-bad-packet"),
        (Self::SourceNotAllowed, "in-source-not-allowed"),
        (Self::DestinationNotOurs, "in-destination-not-ours"),
        (Self::CongestionMet, "in-congestion-met"),
        (Self::TunWrite, "in-tun-write"),
    ];
}

/// One counter per reason. Written by the lane, read by anybody.
#[derive(Debug, Default)]
pub struct DropCounts {
    counts: [AtomicU64; DropReason::ALL.len()],
}

impl DropCounts {
    /// Counts `packets` more.
    pub fn add(&self, reason: DropReason, packets: u64) {
        if let Some(count) = self.counts.get(reason as usize) {
            count.fetch_add(packets, Ordering::Relaxed);
        }
    }

    /// How many packets were dropped for `reason`.
    pub fn count(&self, reason: DropReason) -> u64 {
        self.counts.get(reason as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// All reasons by name, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        DropReason::ALL.iter().map(|(reason, name)| (*name, self.count(*reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_name_and_a_counter_of_its_own() {
        let counts = DropCounts::default();
        for (place, (reason, _)) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, place);
            counts.add(*reason, 1 + place as u64);
        }
        let seen: Vec<u64> = counts.iter().map(|(_, count)| count).collect();
        assert_eq!(seen, (1..=DropReason::ALL.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn each_reason_is_explained_to_users() {
        let page = include_str!("../../../docs/drops.md");
        for (_, name) in DropReason::ALL {
            assert!(page.contains(&format!("\n| `{name}` |")), "docs/drops.md does not explain {name}");
        }
    }
}
