//! Control messages between Taut nodes, sealed with a session's control pair (protocol.md 1.3, 5.1).
//!
//! On the wire a control message is a data message with its own keys, counter and index; this module has the content of its packet. Integers are
//! little-endian. Unnamed bytes are zero when sent and ignored when read, and so are bytes that follow: a later version may add fields.
//!
//! ```text
//! offer    1  lanes  suites  abilities  ports        16 bytes, or as many more as the ports need
//! accept   2  lanes  suite   abilities  ports        16, or more
//! probe    3  0 × 7  id (8)  0 × 16                  32: as long as its answer, so that an answer never amplifies
//! answer   4  0  port (2)  0 × 4  id (8)  address    32: source of the probe; IPv4 as ::ffff:a.b.c.d, and 0.0.0.0 through a relay
//! receipt  5  suite  longest (2)  0 × 4  counter (8) 16
//! endpoints 6                                        16 to 160, see [`Endpoints`]
//! search   7  step  port (2)  ports (2)  sockets (2)  0 × 8  address                32, see [`Search`]
//! ```
//! Ports are those of the sender's second and all later lanes, two bytes each. A node with one lane sends none.

mod endpoints;
mod search;

use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

pub use endpoints::{Endpoints, MAX_ENDPOINTS};
pub use search::Search;

use crate::bytes::array;

/// Length of the longest control message, 160 bytes: a list of eight endpoints.
pub const MAX: usize = 160;

/// Limit on the lanes of a session, 16: the receiver index has 4 bits for the lane (protocol.md 1.5).
const MAX_LANES: usize = 16;

/// Offset of the ports.
const PORTS: usize = 4;

const OFFER: u8 = 1;
const ACCEPT: u8 = 2;
const PROBE: u8 = 3;
const ANSWER: u8 = 4;
const RECEIPT: u8 = 5;
const ENDPOINTS: u8 = 6;
const SEARCH: u8 = 7;

/// Length of the shorter messages, 16 bytes. All lengths are multiples of 16, as of all sealed packets.
const SHORT: usize = 16;
/// Length of probes, answers and searches, 32 bytes.
const LONG: usize = 32;

/// An AEAD for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    /// WireGuard's own suite (RFC 8439), which every session has.
    ChaCha20Poly1305,
    /// AES-256-GCM (NIST SP 800-38D), for nodes that both have AES in hardware (protocol.md 1.10).
    Aes256Gcm,
    /// AEGIS-256X4 (RFC 10032), for nodes that both have vector AES instructions (protocol.md 1.10).
    Aegis256X4,
}

impl Suite {
    /// All suites, in the order of preference; WireGuard's own is the last one.
    pub const ALL: [Self; 3] = [Self::Aegis256X4, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// Returns the suite's number, in messages and in the derivation of keys.
    pub const fn number(self) -> u8 {
        match self {
            Self::ChaCha20Poly1305 => 1,
            Self::Aes256Gcm => 2,
            Self::Aegis256X4 => 3,
        }
    }

    /// Returns the suite with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::ChaCha20Poly1305),
            2 => Some(Self::Aes256Gcm),
            3 => Some(Self::Aegis256X4),
            _ => None,
        }
    }

    /// Returns the suite's name for users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChaCha20Poly1305 => "ChaCha20Poly1305",
            Self::Aes256Gcm => "AES256GCM",
            Self::Aegis256X4 => "AEGIS256X4",
        }
    }
}

/// A set of suites: bit *n* − 1 for suite number *n*. Unknown bits are kept and match no suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suites(pub u8);

impl Suites {
    /// The suite of every node: WireGuard's own.
    pub const STOCK: Self = Self(1);
    /// All suites that this version knows.
    pub const ALL: Self = Self::STOCK.with(Suite::Aes256Gcm).with(Suite::Aegis256X4);

    /// Returns the set with `suite` added.
    #[must_use]
    pub const fn with(self, suite: Suite) -> Self {
        Self(self.0 | 1 << (suite.number() - 1))
    }

    /// Returns true if the set has `suite`.
    pub const fn has(self, suite: Suite) -> bool {
        self.0 & 1 << (suite.number() - 1) != 0
    }

    /// Returns the best suite in both sets; `None` if that is WireGuard's own, with which every session begins.
    pub fn better_than_stock(self, other: Self) -> Option<Suite> {
        let common = Suite::ALL.into_iter().find(|suite| self.has(*suite) && other.has(*suite));
        common.filter(|suite| *suite != Suite::ChaCha20Poly1305)
    }
}

/// Optional features that a node supports, one bit each. Unknown bits are kept and have no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities(pub u8);

impl Abilities {
    /// Features of this version.
    pub const OURS: Self = Self(Self::PARTIAL_CHECKSUMS | Self::PIECES | Self::RELAYED_LANES);

    /// The node accepts packets with [partial checksums](crate::partial_checksum) on all data pairs except WireGuard's own.
    const PARTIAL_CHECKSUMS: u8 = 1;

    /// The node takes packets in pieces, and tells in its receipts which lengths arrive.
    const PIECES: u8 = 2;

    /// The node uses the lanes beyond the first also through a relay.
    const RELAYED_LANES: u8 = 4;

    /// Returns true if the node takes packets in pieces, and tells in its receipts which lengths arrive.
    pub const fn takes_pieces(self) -> bool {
        self.0 & Self::PIECES != 0
    }

    /// Returns true if the node uses the lanes beyond the first also through a relay.
    pub const fn has_relayed_lanes(self) -> bool {
        self.0 & Self::RELAYED_LANES != 0
    }

    /// Returns true if the node accepts packets with partial checksums.
    pub const fn accepts_partial_checksums(self) -> bool {
        self.0 & Self::PARTIAL_CHECKSUMS != 0
    }
}

/// A node's lanes: their number, and the UDP ports of all but the first, whose port is that of the node's endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    count: u8,
    ports: [u16; MAX_LANES - 1],
}

impl Lanes {
    /// A single lane.
    pub const ONE: Self = Self { count: 1, ports: [0; MAX_LANES - 1] };

    /// Returns one lane, and one more for each of these ports, up to 16 lanes.
    pub fn with_ports(extra: &[u16]) -> Self {
        let mut lanes = Self::ONE;
        for (place, port) in lanes.ports.iter_mut().zip(extra) {
            *place = *port;
            lanes.count += 1;
        }
        lanes
    }

    /// Returns the number of lanes, 1 to 16.
    pub const fn count(&self) -> u8 {
        self.count
    }

    /// Returns the port of the lane that serves `lane` of a session; `None` if the first lane serves it.
    pub fn port(&self, lane: u8) -> Option<u16> {
        let own = usize::from(lane % self.count);
        self.ports.get(own.checked_sub(1)?).copied()
    }

    /// Returns the length of a message with these lanes, a multiple of 16 as of all sealed packets.
    fn message_len(&self) -> usize {
        (PORTS + 2 * (usize::from(self.count) - 1)).next_multiple_of(SHORT)
    }

    fn write(&self, out: &mut [u8; MAX]) -> usize {
        let ports = self.ports.iter().take(usize::from(self.count) - 1);
        for (place, port) in out[PORTS..].chunks_exact_mut(2).zip(ports) {
            place.copy_from_slice(&port.to_le_bytes());
        }
        self.message_len()
    }

    fn parse(count: u8, bytes: &[u8]) -> Result<Self, BadControl> {
        if !(1..=16).contains(&count) {
            return Err(BadControl);
        }
        let mut lanes = Self { count, ..Self::ONE };
        let named = bytes.get(PORTS..lanes.message_len()).ok_or(BadControl)?;
        let named = named.get(..2 * (usize::from(count) - 1)).ok_or(BadControl)?;
        for (place, port) in lanes.ports.iter_mut().zip(named.as_chunks::<2>().0) {
            *place = u16::from_le_bytes(*port);
        }
        Ok(lanes)
    }
}

/// A control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlMessage {
    /// Offers what the sender accepts in this session.
    Offer {
        /// Its lanes.
        lanes: Lanes,
        /// Its suites.
        suites: Suites,
        /// Its optional features.
        abilities: Abilities,
    },
    /// Accepts an offer: what the sender of this message uses from now on.
    Accept {
        /// Its own lanes.
        lanes: Lanes,
        /// The suite with which it seals data.
        suite: Suite,
        /// Its optional features.
        abilities: Abilities,
    },
    /// Asks for an [`Self::Answer`] on the same path.
    Probe {
        /// Random number of this probe. An answer that repeats it proves that its sender received the probe.
        id: u64,
    },
    /// Answers a probe.
    Answer {
        /// Number of the probe.
        id: u64,
        /// Source of the probe, as its receiver saw it; unspecified if it came through a relay.
        seen: SocketAddr,
    },
    /// Acknowledges data.
    Receipt {
        /// Suite of the data's key pair.
        suite: Suite,
        /// Highest counter of authentic data.
        counter: u64,
        /// Padded length of the longest packet that came on the pair since the receipt before the last one. Zero from a node that
        /// [takes no pieces](Abilities::takes_pieces).
        longest: u16,
    },
    /// Endpoints at which the sender may be reachable.
    Endpoints(Endpoints),
    /// Ports that the sender's NAT may use.
    Search(Search),
}

impl ControlMessage {
    /// Writes the message and returns its length, a multiple of 16.
    pub fn write(&self, out: &mut [u8; MAX]) -> usize {
        out.fill(0);
        match *self {
            Self::Offer { lanes, suites, abilities } => {
                out[..PORTS].copy_from_slice(&[OFFER, lanes.count, suites.0, abilities.0]);
                lanes.write(out)
            }
            Self::Accept { lanes, suite, abilities } => {
                out[..PORTS].copy_from_slice(&[ACCEPT, lanes.count, suite.number(), abilities.0]);
                lanes.write(out)
            }
            Self::Probe { id } => {
                out[0] = PROBE;
                out[8..16].copy_from_slice(&id.to_le_bytes());
                LONG
            }
            Self::Answer { id, seen } => {
                out[0] = ANSWER;
                out[8..16].copy_from_slice(&id.to_le_bytes());
                write_endpoint(seen, out);
                LONG
            }
            Self::Receipt { suite, counter, longest } => {
                out[..2].copy_from_slice(&[RECEIPT, suite.number()]);
                out[2..4].copy_from_slice(&longest.to_le_bytes());
                out[8..16].copy_from_slice(&counter.to_le_bytes());
                SHORT
            }
            Self::Endpoints(endpoints) => endpoints.write(out),
            Self::Search(search) => search.write(out),
        }
    }

    /// Reads an authentic message. Bytes after it are ignored.
    ///
    /// # Errors
    /// [`BadControl`] if this version does not know the message. A newer peer may send such messages; the caller counts and ignores them.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadControl> {
        let (kind, first, second, abilities) = match bytes {
            [kind, first, second, third, ..] if bytes.len() >= SHORT => (*kind, *first, *second, Abilities(*third)),
            _ => return Err(BadControl),
        };
        match kind {
            OFFER => Ok(Self::Offer { lanes: Lanes::parse(first, bytes)?, suites: Suites(second), abilities }),
            ACCEPT => Ok(Self::Accept { lanes: Lanes::parse(first, bytes)?, suite: suite(second)?, abilities }),
            PROBE if bytes.len() >= LONG => Ok(Self::Probe { id: number(bytes)? }),
            ANSWER => {
                let seen = read_endpoint(bytes)?;
                Ok(Self::Answer { id: number(bytes)?, seen })
            }
            RECEIPT => {
                let longest = array(bytes, 2).map(|field| u16::from_le_bytes(*field)).ok_or(BadControl)?;
                Ok(Self::Receipt { suite: suite(first)?, counter: number(bytes)?, longest })
            }
            ENDPOINTS => Endpoints::parse(bytes).map(Self::Endpoints),
            SEARCH => Search::parse(bytes).map(Self::Search),
            _ => Err(BadControl),
        }
    }
}

/// Writes an endpoint: the port at offset 2, the address at 16.
fn write_endpoint(endpoint: SocketAddr, out: &mut [u8; MAX]) {
    let address = match endpoint.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    out[2..4].copy_from_slice(&endpoint.port().to_le_bytes());
    out[16..32].copy_from_slice(&address.octets());
}

fn read_endpoint(bytes: &[u8]) -> Result<SocketAddr, BadControl> {
    let address = Ipv6Addr::from(*array::<16>(bytes, 16).ok_or(BadControl)?);
    let port = u16::from_le_bytes(*array(bytes, 2).ok_or(BadControl)?);
    Ok(SocketAddr::new(address.to_canonical(), port))
}

/// Returns the 64-bit field at offset 8.
fn number(bytes: &[u8]) -> Result<u64, BadControl> {
    array(bytes, 8).map(|field| u64::from_le_bytes(*field)).ok_or(BadControl)
}

fn suite(number: u8) -> Result<Suite, BadControl> {
    Suite::from_number(number).ok_or(BadControl)
}

/// Not a control message of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadControl;

impl fmt::Display for BadControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a control message that this version of taut does not know; it is ignored")
    }
}

impl core::error::Error for BadControl {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `count` lanes on different ports.
    fn many(count: u16) -> Lanes {
        Lanes::with_ports(&(1..count).map(|lane| 0x2060 + lane).collect::<Vec<_>>())
    }

    fn all() -> [ControlMessage; 10] {
        let suite = Suite::Aes256Gcm;
        [
            ControlMessage::Offer { lanes: Lanes::ONE, suites: Suites::STOCK.with(suite), abilities: Abilities(0xa4) },
            ControlMessage::Accept { lanes: Lanes::ONE, suite, abilities: Abilities::OURS },
            ControlMessage::Offer { lanes: many(7), suites: Suites::STOCK, abilities: Abilities::OURS },
            ControlMessage::Accept { lanes: many(16), suite, abilities: Abilities::OURS },
            ControlMessage::Probe { id: u64::MAX },
            ControlMessage::Answer { id: 1, seen: SocketAddr::from(([192, 0, 2, 1], 8288)) },
            ControlMessage::Answer { id: 1 << 63, seen: SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 1], 65535)) },
            ControlMessage::Receipt { suite: Suite::ChaCha20Poly1305, counter: u64::MAX - 8192, longest: 0x0201 },
            ControlMessage::Endpoints(Endpoints::new(1, 2, 3, [SocketAddr::from(([192, 0, 2, 1], 8288))])),
            ControlMessage::Search(Search {
                from: SocketAddr::from(([192, 0, 2, 1], 65535)),
                step: 2,
                ports: 64,
                sockets: 0,
            }),
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        for message in all() {
            let mut bytes = [0xee; MAX];
            let length = message.write(&mut bytes);
            assert_eq!(length % 16, 0);
            assert_eq!(ControlMessage::parse(&bytes[..length]), Ok(message));
            let longer = [&bytes[..length], &[0xab; 64]].concat();
            assert_eq!(ControlMessage::parse(&longer), Ok(message), "what a later version adds is ignored");
        }
    }

    #[test]
    fn fault_a14_truncated_or_unknown_messages_are_refused() {
        for message in all() {
            let mut bytes = [0; MAX];
            let length = message.write(&mut bytes);
            for cut in 0..length {
                assert_eq!(ControlMessage::parse(&bytes[..cut]), Err(BadControl), "{message:?} cut to {cut}");
            }
        }
        for kind in (0..=255).filter(|kind| !(1..=7).contains(kind)) {
            let mut bytes = [0; 64];
            bytes[0] = kind;
            assert_eq!(ControlMessage::parse(&bytes), Err(BadControl));
        }
        assert_eq!(
            ControlMessage::parse(&[OFFER, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            Err(BadControl),
            "no lane"
        );
        assert_eq!(
            ControlMessage::parse(&[OFFER, 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            Err(BadControl),
            "too many"
        );
        assert_eq!(
            ControlMessage::parse(&[ACCEPT, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            Err(BadControl),
            "no suite"
        );
    }

    #[test]
    fn an_older_version_has_no_abilities_and_a_later_one_perhaps_more() {
        let offer = [OFFER, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let Ok(ControlMessage::Offer { abilities, .. }) = ControlMessage::parse(&offer) else { panic!("an offer") };
        assert!(!abilities.accepts_partial_checksums());
        assert!(Abilities(0xff).accepts_partial_checksums() && !Abilities(0xfe).accepts_partial_checksums());
        assert!(Abilities::OURS.accepts_partial_checksums());
    }

    #[test]
    fn ports_are_those_of_extra_lanes() {
        assert_eq!(Lanes::with_ports(&[]), Lanes::ONE);
        assert_eq!(Lanes::with_ports(&[7; 40]).count(), 16);
        let three = Lanes::with_ports(&[8289, 4000]);
        let ports = (0..6).map(|lane| three.port(lane)).collect::<Vec<_>>();
        assert_eq!(
            ports,
            [None, Some(8289), Some(4000), None, Some(8289), Some(4000)],
            "a session may have more lanes"
        );
        assert!((0..16).all(|lane| Lanes::ONE.port(lane).is_none()));
        let mut bytes = [0; MAX];
        let offer = ControlMessage::Offer { lanes: three, suites: Suites::STOCK, abilities: Abilities::OURS };
        assert_eq!(offer.write(&mut bytes), 16, "as before lanes had ports");
        assert_eq!(bytes[..8], [1, 3, 1, Abilities::OURS.0, 0x61, 0x20, 0xa0, 0x0f]);
        let lengths = [7, 8, 15, 16].map(|count| many(count).message_len());
        assert_eq!(lengths, [16, 32, 32, 48]);
    }

    #[test]
    fn the_better_suite_needs_both() {
        let both = Suites::STOCK.with(Suite::Aes256Gcm);
        assert_eq!(both.better_than_stock(both), Some(Suite::Aes256Gcm));
        assert_eq!(both.better_than_stock(Suites::STOCK), None);
        let all = Suites::ALL;
        assert!(Suite::ALL.iter().all(|suite| all.has(*suite)));
        assert_eq!(all.better_than_stock(all), Some(Suite::Aegis256X4));
        assert_eq!(all.better_than_stock(both), Some(Suite::Aes256Gcm), "a peer of release 0.1.0");
        assert_eq!(Suites(0xfd).better_than_stock(both), None, "AES is missing");
        assert_eq!(Suites(0xf9).better_than_stock(Suites(0xf9)), None, "unknown bits match nothing");
    }
}
