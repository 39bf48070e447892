//! The wire in one direction, and what went over it.

use std::time::Duration;

use taut_wire::wireguard::{DATA_MIN, Message, classify};

use taut_testkit::{Probability, Seeded};

/// What stands before a datagram that a relay carries.
const FRAME: usize = 8;

/// How one direction of the wire treats datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// How long every datagram takes at least.
    pub delay: Duration,
    /// A random part on top, up to this. What leaves within it may arrive in another order.
    pub jitter: Duration,
    /// How often a datagram is lost.
    pub loss: Probability,
    /// How often a datagram that is not lost arrives twice, each with a jitter of its own.
    pub duplication: Probability,
}

impl Link {
    /// A wire that only takes time.
    pub const fn clean(delay: Duration) -> Self {
        Self { delay, jitter: Duration::ZERO, loss: Probability::NEVER, duplication: Probability::NEVER }
    }

    /// The same wire with this loss.
    pub const fn with_loss(self, loss: Probability) -> Self {
        Self { loss, ..self }
    }

    /// The same wire with this jitter.
    pub const fn with_jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    /// The same wire with this duplication.
    pub const fn with_duplication(self, duplication: Probability) -> Self {
        Self { duplication, ..self }
    }

    /// How long each copy of one datagram takes; none when it is lost.
    pub(crate) fn copies(&self, chance: &mut Seeded) -> impl Iterator<Item = Duration> {
        // The same draws whatever happens, so that one fate does not change the next one's.
        let arrives = !chance.happens(self.loss);
        let twice = chance.happens(self.duplication);
        let delays = [chance.up_to(self.jitter), chance.up_to(self.jitter)].map(|jitter| self.delay + jitter);
        delays.into_iter().take(usize::from(arrives) + usize::from(arrives && twice))
    }
}

/// Datagrams that a host sent, by kind.
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
    /// Data messages with a packet in them.
    pub data: u64,
    /// Of all these, sent to an address where nobody is.
    pub astray: u64,
    /// Sent to a station for itself: its own frames, and STUN.
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
            Err(malformed) => assert!(datagram.is_empty(), "a host sent what no WireGuard takes: {malformed}"),
        }
    }

    /// The same for what goes to a station: a datagram that it carries counts as what is in the frame (docs/spec/relay.md).
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
