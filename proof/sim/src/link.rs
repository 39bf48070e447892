//! The wire in one direction, and counts of the datagrams on it.

use std::time::Duration;

use taut_wire::wireguard::{DATA_MIN, Message, classify};

use taut_testkit::{Probability, Seeded};

/// Bytes of the frame header before a datagram that a relay carries.
const FRAME: usize = 8;

/// The delay and faults of one direction of the wire.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The least delay of a datagram.
    pub delay: Duration,
    /// The largest random delay on top of `delay`. Datagrams that are sent within this time of each other may arrive in another order.
    pub jitter: Duration,
    /// The probability that a datagram is lost.
    pub loss: Probability,
    /// The probability that a datagram that is not lost arrives twice. Each copy has its own jitter.
    pub duplication: Probability,
}

impl Link {
    /// Returns a link with this delay and no faults.
    pub const fn clean(delay: Duration) -> Self {
        Self { delay, jitter: Duration::ZERO, loss: Probability::NEVER, duplication: Probability::NEVER }
    }

    /// Returns the same link with this loss.
    pub const fn with_loss(self, loss: Probability) -> Self {
        Self { loss, ..self }
    }

    /// Returns the same link with this jitter.
    pub const fn with_jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    /// Returns the same link with this duplication.
    pub const fn with_duplication(self, duplication: Probability) -> Self {
        Self { duplication, ..self }
    }

    /// Returns the delay of each copy of one datagram; nothing if the datagram is lost.
    pub(crate) fn copies(&self, chance: &mut Seeded) -> impl Iterator<Item = Duration> {
        // The number of draws is always the same, so that the fate of one datagram does not change the fate of the next.
        let arrives = !chance.happens(self.loss);
        let twice = chance.happens(self.duplication);
        let delays = [chance.up_to(self.jitter), chance.up_to(self.jitter)].map(|jitter| self.delay + jitter);
        delays.into_iter().take(usize::from(arrives) + usize::from(arrives && twice))
    }
}

/// Counts of the datagrams that a host sent, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Handshake initiations (type 1).
    pub initiations: u64,
    /// Handshake responses (type 2).
    pub responses: u64,
    /// Cookie replies (type 3).
    pub cookies: u64,
    /// Empty data messages.
    pub keepalives: u64,
    /// Data messages that carry a packet.
    pub data: u64,
    /// Datagrams of any of these kinds to an address without a receiver.
    pub astray: u64,
    /// Datagrams to a station itself: its own frames, and STUN.
    pub to_station: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, datagram: &[u8]) {
        match classify(datagram) {
            Ok(Message::Initiation(_)) => self.initiations += 1,
            Ok(Message::Response(_)) => self.responses += 1,
            Ok(Message::CookieReply(_)) => self.cookies += 1,
            Ok(Message::Data(_)) if datagram.len() == DATA_MIN => self.keepalives += 1,
            Ok(Message::Data(_)) => self.data += 1,
            Err(malformed) => assert!(datagram.is_empty(), "a host sent a malformed message: {malformed}"),
        }
    }

    /// Counts a datagram to a station. A datagram in a relay frame counts as the message inside (docs/spec/relay.md).
    pub(crate) fn add_framed(&mut self, datagram: &[u8]) {
        match datagram.split_at_checked(FRAME) {
            Some(([0x80, ..], carried)) => self.add(carried),
            _ => self.to_station += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_copy_takes_its_own_time() {
        let link = Link::clean(Duration::from_millis(10))
            .with_jitter(Duration::from_millis(5))
            .with_duplication(Probability::ALWAYS);
        let mut chance = Seeded::new(7);
        let copies: Vec<Duration> = (0..100).flat_map(|_| link.copies(&mut chance).collect::<Vec<_>>()).collect();
        assert_eq!(copies.len(), 200);
        assert!(copies.iter().all(|delay| (10..15).contains(&delay.as_millis())));
        assert!(copies.windows(2).any(|pair| pair[0] > pair[1]), "jitter reorders");
        assert_eq!(link.with_loss(Probability::ALWAYS).copies(&mut chance).count(), 0);
    }
}
