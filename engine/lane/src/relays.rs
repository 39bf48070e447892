//! Datagrams from relays and STUN servers. They are taken only from addresses that the agent named.
//!
//! | from a named address | becomes |
//! |---|---|
//! | a datagram behind a relay's header | what the datagram is, on the way of that relay and number |
//! | a frame with the index of a bind that was sent to that address | [`FromLane::Datagram`](taut_node::FromLane), 200 per second |
//! | another frame of a relay | [`FromLane::Datagram`](taut_node::FromLane), 200 of these per second |
//! | the answer to a STUN request that was sent to that address | [`FromLane::Datagram`](taut_node::FromLane), within the limit of the first frames |
//!
//! Anything else, and everything from other addresses, counts as no WireGuard message. A source address can be forged, so nothing is believed here: the
//! peer's session and the keys of the bind decide. But a forger that has not seen a bind or a request has a limit of its own, and so keeps none of the
//! relay's frames from the agent.

use std::net::SocketAddr;

use taut_base::Time;
use taut_node::Datagram;
use taut_tunnel::{Bucket, Rate};
use taut_wire::relay::{AGAIN, BIND};

use crate::drops::DropReason;

/// Frames and answers of one address that go to the agent, of each kind: 200 per second, burst 200. A node that starts with a thousand peers is told a
/// thousand relay numbers, within some seconds.
const FRAMES: Rate = Rate::new(200, 200);

/// Binds to one address whose indices are remembered, 4: the bind in force, the next bind, and some that were not answered.
const BINDS: usize = 4;

/// STUN requests to one address that are remembered, 8: a round sends three, and one is sent between rounds.
const REQUESTS: usize = 8;

/// Named addresses at most: 32 relays of a map with 8 endpoints each, as many STUN ports, and a bridge for each relay.
const MAX_LINKS: usize = 32 * (8 + 8 + 1);

/// Offset and value of a STUN message's magic cookie (RFC 8489, section 5).
const STUN_COOKIE: (usize, [u8; 4]) = (4, [0x21, 0x12, 0xa4, 0x42]);
/// Offset of a STUN message's transaction id (RFC 8489, section 5).
const STUN_TRANSACTION: usize = 8;
/// Bytes of a STUN message's header.
const STUN_HEADER: usize = 20;

/// Offset of the index in a bind and in its answer (docs/spec/relay.md).
const INDEX: usize = 4;

/// The last `N` different values.
#[derive(Clone, Copy)]
struct Recent<T, const N: usize> {
    values: [Option<T>; N],
    next: usize,
}

impl<T: Copy + PartialEq, const N: usize> Recent<T, N> {
    const NONE: Self = Self { values: [None; N], next: 0 };

    fn add(&mut self, value: T) {
        if !self.has(value) {
            self.values[self.next] = Some(value);
            self.next = (self.next + 1) % N;
        }
    }

    fn has(&self, value: T) -> bool {
        self.values.contains(&Some(value))
    }
}

/// One named address, with the binds and requests that were sent to it.
#[derive(Clone, Copy)]
struct RelayLink {
    address: SocketAddr,
    /// Limit on answers to what was sent.
    answers: Bucket,
    /// Limit on other frames.
    others: Bucket,
    binds: Recent<u32, BINDS>,
    requests: Recent<[u8; 12], REQUESTS>,
}

impl RelayLink {
    /// Returns the link to an address to which nothing was sent yet.
    fn new(address: SocketAddr) -> Self {
        let (answers, others) = (Bucket::default(), Bucket::default());
        Self { address, answers, others, binds: Recent::NONE, requests: Recent::NONE }
    }
}

/// The addresses of relays and STUN servers that the agent named, in ascending order: the source of each received run is looked up here.
#[derive(Default)]
pub(crate) struct RelayLinks(Vec<RelayLink>);

impl RelayLinks {
    /// Takes datagrams from these addresses and no others from now on. An address that was named before keeps its state.
    pub(crate) fn set(&mut self, addresses: &[SocketAddr]) {
        let mut named = Self::default();
        for address in addresses.iter().copied().take(MAX_LINKS) {
            if let Err(place) = named.find(address) {
                let known = self.find(address).ok().and_then(|former| self.0.get(former)).copied();
                named.0.insert(place, known.unwrap_or_else(|| RelayLink::new(address)));
            }
        }
        *self = named;
    }

    /// Returns the position of an address, or as an error the position where it would be inserted.
    fn find(&self, address: SocketAddr) -> Result<usize, usize> {
        self.0.binary_search_by(|link| link.address.cmp(&address))
    }

    /// Returns true if the agent named this address.
    pub(crate) fn has(&self, address: SocketAddr) -> bool {
        self.find(address).is_ok()
    }

    /// Notes that a frame or a STUN request is sent to an address.
    pub(crate) fn sent(&mut self, to: SocketAddr, bytes: &[u8]) {
        let Some(link) = self.find(to).ok().and_then(|place| self.0.get_mut(place)) else { return };
        if let Some(transaction) = transaction(bytes) {
            link.requests.add(transaction);
        } else if bytes.first() == Some(&BIND)
            && let Some(index) = index(bytes)
        {
            link.binds.add(index);
        }
    }

    /// Judges a datagram that is no WireGuard message: a frame or an answer that the agent should see, or the reason to drop it.
    pub(crate) fn receive(&mut self, source: SocketAddr, bytes: &[u8], now: Time) -> Result<Datagram, DropReason> {
        let place = self.find(source).ok().filter(|_| bytes.len() <= Datagram::MAX && is_frame_or_stun(bytes));
        let Some(link) = place.and_then(|place| self.0.get_mut(place)) else { return Err(DropReason::NotWireGuard) };
        if link.take(bytes, now) {
            Datagram::new(bytes).ok_or(DropReason::RelayRate)
        } else {
            Err(DropReason::RelayRate)
        }
    }
}

impl RelayLink {
    /// Returns true if a frame or an answer from this address may go to the agent, and counts it.
    fn take(&mut self, bytes: &[u8], now: Time) -> bool {
        let answers = match transaction(bytes) {
            Some(transaction) if self.requests.has(transaction) => true,
            // No request of ours has this transaction.
            Some(_) => return false,
            None => index(bytes).is_some_and(|index| self.binds.has(index)),
        };
        let bucket = if answers { &mut self.answers } else { &mut self.others };
        bucket.take(&FRAMES, now)
    }
}

/// Returns true for a frame of a relay that carries no datagram, and for a STUN message.
fn is_frame_or_stun(bytes: &[u8]) -> bool {
    transaction(bytes).is_some() || bytes.first().is_some_and(|first| (BIND..=AGAIN).contains(first))
}

/// Returns the transaction id of a STUN message, `None` for any other datagram.
fn transaction(bytes: &[u8]) -> Option<[u8; 12]> {
    let (offset, cookie) = STUN_COOKIE;
    let stun = bytes.len() >= STUN_HEADER && bytes[0] & 0xc0 == 0 && bytes[offset..].starts_with(&cookie);
    bytes.get(STUN_TRANSACTION..STUN_HEADER).filter(|_| stun)?.try_into().ok()
}

/// Returns the index in a bind, or in a frame that names a bind's index.
fn index(bytes: &[u8]) -> Option<u32> {
    bytes.get(INDEX..)?.first_chunk().map(|index| u32::from_le_bytes(*index))
}
