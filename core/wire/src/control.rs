//! ControlMessage messages: what Taut nodes say to each other on a session's control pair (protocol.md 1.3, 5.1).
//!
//! On the wire a control message is a data message under keys, counter and index of its own; this is what its packet holds. Integers are
//! little-endian, bytes that are not named are zero when sent and ignored when read, and so is whatever follows: a later version may say more.
//!
//! ```text
//! offer    1  lanes  suites  abilities  ports        16 bytes, or as many more as the ports need
//! accept   2  lanes  suite   abilities  ports        16, or more
//! probe    3  0 × 7  id (8)  0 × 16                  32: as long as its answer, so that nobody is sent more than was asked for
//! answer   4  0  port (2)  0 × 4  id (8)  address    32: where the probe came from; IPv4 as ::ffff:a.b.c.d, and 0.0.0.0 if by a relay
//! receipt  5  suite  0 × 6  counter (8)              16
//! endpoints 6                                        16 to 160, see [`Endpoints`]
//! search   7  step  port (2)  ports (2)  sockets (2)  0 × 8  address                32, see [`Search`]
//! ```
//! Ports are those of the sender's second lane and of all that follow, two bytes each: with one lane there are none.

mod endpoints;
mod search;

use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

pub use endpoints::{Endpoints, MAX_ENDPOINTS};
pub use search::Search;

use crate::bytes::array;

/// Bytes of the longest control message: eight endpoints.
pub const MAX: usize = 160;

/// Lanes of one session: the receiver index has 4 bits for them (protocol.md 1.5).
const MAX_LANES: usize = 16;

/// Where the ports begin.
const PORTS: usize = 4;

const OFFER: u8 = 1;
const ACCEPT: u8 = 2;
const PROBE: u8 = 3;
const ANSWER: u8 = 4;
const RECEIPT: u8 = 5;
const ENDPOINTS: u8 = 6;
const SEARCH: u8 = 7;

/// The shorter messages; both lengths are multiples of 16, as everything sealed is.
const SHORT: usize = 16;
/// Probes and their answers.
const LONG: usize = 32;

/// An AEAD that data may be sealed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    /// WireGuard's own (RFC 8439); every session has it.
    ChaCha20Poly1305,
    /// AES-256-GCM (NIST SP 800-38D), where both ends have it in hardware (protocol.md 1.10).
    Aes256Gcm,
}

impl Suite {
    /// Its number, in messages and in the derivation of keys.
    pub const fn number(self) -> u8 {
        match self {
            Self::ChaCha20Poly1305 => 1,
            Self::Aes256Gcm => 2,
        }
    }

    /// The suite of that number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::ChaCha20Poly1305),
            2 => Some(Self::Aes256Gcm),
            _ => None,
        }
    }

    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChaCha20Poly1305 => "ChaCha20Poly1305",
            Self::Aes256Gcm => "AES256GCM",
        }
    }
}

/// A set of suites: bit *n* − 1 for suite number *n*. Bits that have no suite yet are kept, and match nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suites(pub u8);

impl Suites {
    /// What every node can.
    pub const STOCK: Self = Self(1);

    /// The set with `suite` in it.
    #[must_use]
    pub const fn with(self, suite: Suite) -> Self {
        Self(self.0 | 1 << (suite.number() - 1))
    }

    /// Whether `suite` is in it.
    pub const fn has(self, suite: Suite) -> bool {
        self.0 & 1 << (suite.number() - 1) != 0
    }

    /// The best suite that is in both sets, if that is not the one that every session begins with.
    pub fn better_than_stock(self, other: Self) -> Option<Suite> {
        Some(Suite::Aes256Gcm).filter(|suite| self.has(*suite) && other.has(*suite))
    }
}

/// What a node understands beside its suites: one bit each. Bits that nobody knows yet are kept, and mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities(pub u8);

impl Abilities {
    /// What a node of this version says of itself.
    pub const OURS: Self = Self(Self::PARTIAL_CHECKSUMS);

    /// It takes [marked packets](crate::partial_checksum) on the data pairs beside WireGuard's own.
    const PARTIAL_CHECKSUMS: u8 = 1;

    /// Whether it takes marked packets.
    pub const fn accepts_partial_checksums(self) -> bool {
        self.0 & Self::PARTIAL_CHECKSUMS != 0
    }
}

/// A node's lanes, and the UDP ports of all but the first: that one's is known from where the node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    count: u8,
    ports: [u16; MAX_LANES - 1],
}

impl Lanes {
    /// One lane.
    pub const ONE: Self = Self { count: 1, ports: [0; MAX_LANES - 1] };

    /// One lane, and one more for each of these ports; those beyond 16 lanes are left out.
    pub fn with_ports(further: &[u16]) -> Self {
        let mut lanes = Self::ONE;
        for (place, port) in lanes.ports.iter_mut().zip(further) {
            *place = *port;
            lanes.count += 1;
        }
        lanes
    }

    /// How many: 1 to 16.
    pub const fn count(&self) -> u8 {
        self.count
    }

    /// The port of the lane that serves `lane` of a session, if that is another than the first one's.
    pub fn port(&self, lane: u8) -> Option<u16> {
        let own = usize::from(lane % self.count);
        self.ports.get(own.checked_sub(1)?).copied()
    }

    /// Bytes of a message that names them: a multiple of 16, as everything sealed is.
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

/// One control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlMessage {
    /// What the sender is ready to receive in this session.
    Offer {
        /// Its lanes.
        lanes: Lanes,
        /// Its suites.
        suites: Suites,
        /// What else it understands.
        abilities: Abilities,
    },
    /// What of an offer its receiver uses from now on.
    Accept {
        /// Its own lanes.
        lanes: Lanes,
        /// The suite that it seals data with.
        suite: Suite,
        /// What else it understands.
        abilities: Abilities,
    },
    /// Asks for an [`Self::Answer`] on the same path.
    Probe {
        /// Drawn at random for this probe; whoever repeats it in an answer has read the probe.
        id: u64,
    },
    /// Answers a probe.
    Answer {
        /// The probe's.
        id: u64,
        /// Where the probe came from, as its receiver saw it; unspecified if it came by a relay.
        seen: SocketAddr,
    },
    /// Data arrived.
    Receipt {
        /// Of which key pair of the session.
        suite: Suite,
        /// The highest counter that was authentic.
        counter: u64,
    },
    /// Where the sender may be reached.
    Endpoints(Endpoints),
    /// Which ports the sender may be behind.
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
                write_place(seen, out);
                LONG
            }
            Self::Receipt { suite, counter } => {
                out[..2].copy_from_slice(&[RECEIPT, suite.number()]);
                out[8..16].copy_from_slice(&counter.to_le_bytes());
                SHORT
            }
            Self::Endpoints(endpoints) => endpoints.write(out),
            Self::Search(search) => search.write(out),
        }
    }

    /// Reads a message that was authentic; bytes behind it are ignored.
    ///
    /// # Errors
    /// [`BadControl`] when it is none that this version knows. A newer peer may send such; it is counted and ignored.
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
                let seen = place(bytes)?;
                Ok(Self::Answer { id: number(bytes)?, seen })
            }
            RECEIPT => Ok(Self::Receipt { suite: suite(first)?, counter: number(bytes)? }),
            ENDPOINTS => Endpoints::parse(bytes).map(Self::Endpoints),
            SEARCH => Search::parse(bytes).map(Self::Search),
            _ => Err(BadControl),
        }
    }
}

/// Where something is: the port at offset 2, the address at 16.
fn write_place(place: SocketAddr, out: &mut [u8; MAX]) {
    let address = match place.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    out[2..4].copy_from_slice(&place.port().to_le_bytes());
    out[16..32].copy_from_slice(&address.octets());
}

fn place(bytes: &[u8]) -> Result<SocketAddr, BadControl> {
    let address = Ipv6Addr::from(*array::<16>(bytes, 16).ok_or(BadControl)?);
    let port = u16::from_le_bytes(*array(bytes, 2).ok_or(BadControl)?);
    Ok(SocketAddr::new(address.to_canonical(), port))
}

/// The 64-bit field at offset 8.
fn number(bytes: &[u8]) -> Result<u64, BadControl> {
    array(bytes, 8).map(|field| u64::from_le_bytes(*field)).ok_or(BadControl)
}

fn suite(number: u8) -> Result<Suite, BadControl> {
    Suite::from_number(number).ok_or(BadControl)
}

/// No control message of this version.
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

    /// So many lanes, on ports of which each differs from all.
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
            ControlMessage::Receipt { suite: Suite::ChaCha20Poly1305, counter: u64::MAX - 8192 },
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
    fn fault_a14_cut_or_unknown_messages_are_refused() {
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
    fn ports_are_those_of_further_lanes() {
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
        assert_eq!(bytes[..8], [1, 3, 1, 1, 0x61, 0x20, 0xa0, 0x0f]);
        let lengths = [7, 8, 15, 16].map(|count| many(count).message_len());
        assert_eq!(lengths, [16, 32, 32, 48]);
    }

    #[test]
    fn the_better_suite_needs_both() {
        let both = Suites::STOCK.with(Suite::Aes256Gcm);
        assert_eq!(both.better_than_stock(both), Some(Suite::Aes256Gcm));
        assert_eq!(both.better_than_stock(Suites::STOCK), None);
        assert_eq!(Suites(0xfd).better_than_stock(both), None, "unknown bits match nothing");
    }
}
