//! Malformed datagrams: messages of WireGuard's shape with an error, other protocols, noise. No datagram deserves a reply.

use std::time::{Duration, Instant};

use taut_base::{Entropy, PublicKey};
use taut_noise::{hash, keyed_mac};
use taut_testkit::Seeded;
use taut_wire::wireguard::{
    DATA_MIN, Message, TYPE_COOKIE_REPLY, TYPE_DATA, classify, cookie_reply, initiation, response,
};

/// Least time between two handshakes with a correct mac1, 500 ms: protocol.md 2.3 lets a node ask a more frequent sender for a cookie.
const WELCOME_EVERY: Duration = Duration::from_millis(500);
/// Bytes of the largest datagram that fits an MTU of 1500 bytes without fragments, over IPv6.
const WHOLE: u32 = 1452;
/// Bytes of the largest UDP payload over IPv4.
const LARGEST: usize = 65_507;
/// Counters around each end of their range.
const COUNTERS: [u64; 6] = [0, 1, u32::MAX as u64, u64::MAX - (1 << 13) - 1, u64::MAX - 1, u64::MAX];

/// Datagrams to send as one run.
pub(crate) struct Run {
    pub(crate) contents: Vec<u8>,
    /// Bytes of each datagram; the last may be shorter.
    pub(crate) segment_size: usize,
    pub(crate) datagrams: u64,
    /// Number of the datagrams that a lane passes on to the agent.
    pub(crate) welcome: u64,
}

/// The generator.
pub(crate) struct Malformed {
    random: Seeded,
    mac1_key: [u8; 32],
    next_welcome: Instant,
}

impl Malformed {
    /// Creates a generator of datagrams for the node with this key.
    pub(crate) fn new(key: PublicKey, seed: u64) -> Self {
        Self {
            random: Seeded::new(seed),
            // Paper, section 5.4.4.
            mac1_key: hash(&[b"mac1----", key.as_bytes()]),
            next_welcome: Instant::now(),
        }
    }

    /// Returns the next run, of at most `limit` datagrams: mostly many of one size, which arrive together (fault A5), and sometimes a single one
    /// of any size, in fragments if necessary (faults A1, A4).
    pub(crate) fn next_run(&mut self, limit: u64) -> Run {
        let (length, count) = match self.random.below(2000) {
            0 => (LARGEST, 1),
            1..150 => (self.random.below(2001) as usize, 1),
            150..300 => (1 + self.random.below(WHOLE) as usize, 1 + self.random.below(40)),
            _ => (self.near_a_message(), 1 + self.random.below(60)),
        };
        let mut run =
            Run { contents: Vec::new(), segment_size: length, datagrams: u64::from(count).min(limit), welcome: 0 };
        for _ in 0..run.datagrams {
            let mut datagram = self.datagram(length);
            if let Ok(message) = classify(&datagram)
                && self.is_welcome(&message)
            {
                let is_handshake = !matches!(message, Message::CookieReply(_));
                if is_handshake && Instant::now() < self.next_welcome {
                    datagram[20] ^= 1;
                } else {
                    run.welcome += 1;
                    self.next_welcome = if is_handshake { Instant::now() + WELCOME_EVERY } else { self.next_welcome };
                }
            }
            run.contents.extend_from_slice(&datagram);
        }
        run
    }

    /// Returns the length of one of the messages, or one byte more or less (fault A2), or any length for data, valid or not (fault A18).
    fn near_a_message(&mut self) -> usize {
        let exact = match self.random.below(5) {
            0 => initiation::LEN,
            1 => response::LEN,
            2 => cookie_reply::LEN,
            3 => DATA_MIN,
            _ => DATA_MIN + self.random.below(WHOLE - DATA_MIN as u32) as usize,
        };
        match self.random.below(4) {
            0 => exact - 1,
            1 => exact + 1,
            _ => exact,
        }
    }

    /// Returns one datagram of `length` bytes.
    fn datagram(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.random.fill(&mut bytes);
        match self.random.below(16) {
            // Noise, any type byte (fault A1).
            0 => {}
            // A type with a bit set in its reserved bytes (fault A3), around an otherwise valid handshake.
            1 | 2 => {
                let kind = 1 + self.random.below(4);
                let reserved = 1 << (8 + self.random.below(24));
                self.sign(&mut bytes, kind | reserved);
            }
            // STUN (RFC 8489): a binding request whose attributes are longer than the request (faults A14, A15).
            3 => {
                put(&mut bytes, 0, &[0, 1]);
                put(&mut bytes, 2, &(length as u16).wrapping_sub(20).to_be_bytes());
                put(&mut bytes, 4, &0x2112_a442_u32.to_be_bytes());
                put(&mut bytes, 20, &[0x80, 0x22, 0xff, 0xff]);
            }
            // Data for an unknown session, with a counter at the end of the range (faults A10, A12).
            4..8 => {
                put(&mut bytes, 0, &TYPE_DATA.to_le_bytes());
                let counter = COUNTERS[self.random.below(COUNTERS.len() as u32) as usize];
                put(&mut bytes, 8, &counter.to_le_bytes());
            }
            // A handshake or cookie with a correct mac1, or (in the next arm) with one bit flipped somewhere.
            8..12 => {
                let kind = 1 + self.random.below(TYPE_COOKIE_REPLY);
                self.sign(&mut bytes, kind);
            }
            _ => {
                let kind = 1 + self.random.below(TYPE_DATA);
                self.sign(&mut bytes, kind);
                let bit = self.random.below(8 * length as u32) as usize;
                if let Some(byte) = bytes.get_mut(bit / 8) {
                    *byte ^= 1 << (bit % 8);
                }
            }
        }
        bytes
    }

    /// Makes the bytes a message of the type in the lowest byte of `word`. A handshake gets a mac1 over all bytes, which requires the node's public key.
    fn sign(&self, bytes: &mut [u8], word: u32) {
        put(bytes, 0, &word.to_le_bytes());
        let field = match word & 0xff {
            1 => initiation::MAC1,
            2 => response::MAC1,
            _ => return,
        };
        if let Some(covered) = bytes.get(..field.start) {
            let mac = keyed_mac(&self.mac1_key, covered);
            put(bytes, field.start, &mac);
        }
    }

    /// Returns true if the message's mac1 was made with the node's key. Both MACs are at the end of both handshake messages.
    fn has_mac1(&self, message: &[u8], mac1: &[u8; 16]) -> bool {
        message
            .len()
            .checked_sub(32)
            .and_then(|end| message.get(..end))
            .is_some_and(|covered| keyed_mac(&self.mac1_key, covered) == *mac1)
    }

    /// Returns true if a lane passes the message on to the agent.
    fn is_welcome(&self, message: &Message<'_>) -> bool {
        match message {
            Message::Initiation(initiation) => self.has_mac1(initiation.bytes, initiation.mac1),
            Message::Response(response) => self.has_mac1(response.bytes, response.mac1),
            Message::CookieReply(_) => true,
            Message::Data(_) => false,
        }
    }
}

/// Writes as much of `value` as fits.
fn put(bytes: &mut [u8], start: usize, value: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(start).zip(value) {
        *to = *from;
    }
}
