//! The reasons to drop a packet, each with a name and a counter (law 11).

use std::sync::atomic::Ordering;

use taut_base::AtomicU64;

/// The reason to drop a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Out: no IP packet, or one with wrong lengths, or a superpacket that cannot be split.
    BadInner,
    /// Out: no peer has the destination address. Multicast and broadcast packets are dropped for this reason, too.
    NoRoute,
    /// Out: to the internet, while no exit node can be used although the user chose one.
    NoExit,
    /// Out: the peer did not answer the handshakes, and packets that waited for a session were given up.
    NoHandshake,
    /// Out: more packets wait for a session than are kept; the oldest was dropped.
    StagedOverflow,
    /// Out: the kernel refused the datagram: destination unreachable, forbidden, or datagram too large for the path.
    SendFailed,
    /// Out: longer than the path carries, and the peer takes no pieces. Its sender was told by ICMP.
    TooLong,
    /// Out: a datagram of the tunnel itself to the peer's endpoint, which a route of the host leads back into the tunnel.
    Loop,
    /// Out: to the stub, and no question that it takes: another port or protocol, a source that is not this host, or too many at once.
    Names,
    /// In: no WireGuard message, and no frame of a relay.
    NotWireGuard,
    /// In: more frames of one relay than its limit.
    RelayRate,
    /// In: a handshake message whose mac1 was not made for this node.
    BadMac1,
    /// In: a handshake message from a source that exceeds its limit without a cookie. It was sent a cookie.
    CookieAsked,
    /// In: a handshake message from a source that exceeds its limit with a cookie, or without one while there is no room to send it one.
    HandshakeRate,
    /// In: more messages for the agent than its queue holds, most of them handshakes.
    AgentBusy,
    /// In: no session has this receiver index. A peer that has not noticed our restart sends such packets for a while.
    UnknownIndex,
    /// In: received before, or older than the replay window.
    Replayed,
    /// In: the copy of a packet that already came on another path. The sender sends on two paths while one is in doubt.
    Duplicate,
    /// In: not sealed by the peer whose session it names.
    NotAuthentic,
    /// In: an authentic control message that this version does not know, or that cannot be true.
    BadControl,
    /// In: more control messages of one peer than its limit.
    ControlRate,
    /// In: the peer sealed something else than an IP packet.
    BadOuter,
    /// In: a packet in pieces that was not complete within a second, or one of more such packets than are kept.
    Incomplete,
    /// In: the peer may not send from the inner source address.
    SourceNotAllowed,
    /// In: the inner destination is not an address of this node, or the packet names further destinations (source routing).
    DestinationNotOurs,
    /// In: an ICMP error about a packet that does not go to the peer that sent the error, or that the error does not show.
    ForeignError,
    /// In: no rule of the packet filter allows it, and it answers nothing that this node began.
    Policy,
    /// In: a fragment whose first part the filter did not allow, or that hides the ports.
    PolicyFragment,
    /// In: an ICMP error about a flow that this node did not begin and that the filter does not allow.
    PolicyError,
    /// In: a router marked the packet instead of dropping it, and the inner flow does not support such marks (RFC 6040, section 4.2).
    CongestionMet,
    /// In: the TUN did not take the packet.
    TunWrite,
}

impl DropReason {
    const ALL: [(Self, &'static str); 31] = [
        (Self::BadInner, "out-bad-packet"),
        (Self::NoRoute, "out-no-route"),
        (Self::NoExit, "out-no-exit"),
        (Self::NoHandshake, "out-no-handshake"),
        (Self::StagedOverflow, "out-waiting-overflow"),
        (Self::SendFailed, "out-send-failed"),
        (Self::TooLong, "out-too-long"),
        (Self::Loop, "out-loop"),
        (Self::Names, "out-names"),
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
        (Self::Incomplete, "in-incomplete"),
        (Self::SourceNotAllowed, "in-source-not-allowed"),
        (Self::DestinationNotOurs, "in-destination-not-ours"),
        (Self::ForeignError, "in-foreign-error"),
        (Self::Policy, "in-policy"),
        (Self::PolicyFragment, "in-policy-fragment"),
        (Self::PolicyError, "in-policy-error"),
        (Self::CongestionMet, "in-congestion-met"),
        (Self::TunWrite, "in-tun-write"),
    ];
}

/// One counter per reason. The lane writes them, any thread may read them.
#[derive(Debug, Default)]
pub struct DropCounts {
    counts: [AtomicU64; DropReason::ALL.len()],
}

impl DropCounts {
    /// Counts `packets` more dropped packets.
    pub fn add(&self, reason: DropReason, packets: u64) {
        if let Some(count) = self.counts.get(reason as usize) {
            count.fetch_add(packets, Ordering::Relaxed);
        }
    }

    /// Returns the number of packets that were dropped for `reason`.
    pub fn count(&self, reason: DropReason) -> u64 {
        self.counts.get(reason as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Returns all reasons by name, with their counts.
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
