//! The wire in one direction, and counts of the datagrams on it.

use std::net::SocketAddr;
use std::time::Duration;

use taut_wire::wireguard::{DATA_MIN, Message, classify};

use taut_testkit::{Probability, Seeded};

/// Bytes of the frame header before a datagram that a relay carries.
const FRAME: usize = 8;

/// Bytes of the UDP header, and of the IP headers of both families.
const UDP: usize = 8;
const IPV4: usize = 20;
const IPV6: usize = 40;

/// MTU of Ethernet.
const ETHERNET: usize = 1_500;

/// Length from which [`Link::with_long_loss`] loses packets: shorter ones pass any link that is seen in the wild (fault I2).
const LONG: usize = 1_124;

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
    /// Bytes of the longest IP packet. A longer one is lost without an error message, as where ICMP is filtered (fault I1).
    pub mtu: usize,
    /// The probability that a packet of more than 1,124 bytes is lost.
    pub long_loss: Probability,
}

impl Link {
    /// Returns a link with this delay, Ethernet's MTU and no faults.
    pub const fn clean(delay: Duration) -> Self {
        Self {
            delay,
            jitter: Duration::ZERO,
            loss: Probability::NEVER,
            duplication: Probability::NEVER,
            mtu: ETHERNET,
            long_loss: Probability::NEVER,
        }
    }

    /// Returns the same link with this MTU.
    pub const fn with_mtu(self, mtu: usize) -> Self {
        Self { mtu, ..self }
    }

    /// Returns the same link with this loss of packets of more than 1,124 bytes.
    pub const fn with_long_loss(self, long_loss: Probability) -> Self {
        Self { long_loss, ..self }
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

    /// Returns the delay of each copy of one datagram in an IP packet of `length` bytes; nothing if the datagram is lost.
    pub(crate) fn copies(&self, length: usize, chance: &mut Seeded) -> impl Iterator<Item = Duration> {
        // The number of draws on a link is always the same, so that the fate of one datagram does not change the fate of the next.
        let drawn = self.long_loss != Probability::NEVER && chance.happens(self.long_loss);
        let too_long = length > self.mtu || drawn && length > LONG;
        let arrives = !chance.happens(self.loss) && !too_long;
        let twice = chance.happens(self.duplication);
        let delays = [chance.up_to(self.jitter), chance.up_to(self.jitter)].map(|jitter| self.delay + jitter);
        delays.into_iter().take(usize::from(arrives) + usize::from(arrives && twice))
    }
}

/// Returns the bytes of the IP packet with a datagram of this length.
pub(crate) fn packet_len(destination: SocketAddr, datagram: usize) -> usize {
    datagram + UDP + if destination.is_ipv4() { IPV4 } else { IPV6 }
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
        let copies: Vec<Duration> = (0..100).flat_map(|_| link.copies(100, &mut chance).collect::<Vec<_>>()).collect();
        assert_eq!(copies.len(), 200);
        assert!(copies.iter().all(|delay| (10..15).contains(&delay.as_millis())));
        assert!(copies.windows(2).any(|pair| pair[0] > pair[1]), "jitter reorders");
        assert_eq!(link.with_loss(Probability::ALWAYS).copies(100, &mut chance).count(), 0);
    }

    #[test]
    fn a_packet_that_is_too_long_is_lost() {
        let link = Link::clean(Duration::from_millis(10)).with_mtu(1_280);
        let mut chance = Seeded::new(7);
        assert_eq!([1_280, 1_281].map(|length| link.copies(length, &mut chance).count()), [1, 0]);
        let link = Link::clean(Duration::from_millis(10)).with_long_loss(Probability::percent(50));
        let arrived =
            |length, chance: &mut Seeded| (0..1_000).map(|_| link.copies(length, chance).count()).sum::<usize>();
        assert_eq!(arrived(1_124, &mut chance), 1_000);
        assert!((400..600).contains(&arrived(1_125, &mut chance)));
        let [v4, v6] = ["192.0.2.1:1", "[2001:db8::1]:1"].map(|endpoint| endpoint.parse().unwrap());
        assert_eq!((packet_len(v4, 100), packet_len(v6, 100)), (128, 148));
    }
}
