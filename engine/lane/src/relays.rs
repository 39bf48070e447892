//! What comes from relays and STUN servers, told from what comes from anybody: only the places that the agent named are heard.
//!
//! | from a known place | becomes |
//! |---|---|
//! | a datagram behind a relay's header | what it is, by the way of that relay and number |
//! | a frame that names an index which a bind to that place had | [`FromLane::Datagram`], 200 a second |
//! | another frame of a relay | [`FromLane::Datagram`], 200 a second of these |
//! | an answer to a STUN request that left for that place | [`FromLane::Datagram`], as the first frames |
//!
//! Anything else, and all of it from elsewhere, is no WireGuard message. A place can be forged: nothing here is believed, the peer's session and the keys of
//! the bind decide. But a forger that has not seen a bind or a request has a limit of its own, and keeps none of the relay's frames from the agent.

use std::net::SocketAddr;

use taut_base::Time;
use taut_node::{Datagram, FromLane};
use taut_tunnel::{Bucket, Rate};
use taut_wire::relay::{AGAIN, BIND};

use crate::drops::Drop;
use crate::lane_core::LaneCore;

/// Frames and answers of one place that go up, of each kind: a node that begins with a thousand peers is told a thousand numbers, and that in some seconds.
const FRAMES: Rate = Rate::new(200, 200);

/// Binds to one place whose indices are remembered: the one that holds, the next one, and some that were not answered.
const BINDS: usize = 4;

/// STUN requests to one place that are remembered: a round asks three times, and between rounds there is one.
const REQUESTS: usize = 8;

/// Places that are heard at most: 32 relays of a map with 8 endpoints each, as many STUN ports, and a bridge for each relay.
const MAX_PLACES: usize = 32 * (8 + 8 + 1);

/// Where a STUN message's magic cookie and its transaction stand, and what the first is (RFC 8489, section 5).
const STUN_COOKIE: (usize, [u8; 4]) = (4, [0x21, 0x12, 0xa4, 0x42]);
const STUN_TRANSACTION: usize = 8;
/// Bytes of a STUN message's header.
const STUN_HEADER: usize = 20;

/// Where the index of a bind stands, in it and in what answers it (docs/spec/relay.md).
const INDEX: usize = 4;

/// The last few of something.
#[derive(Clone, Copy)]
struct Last<T, const N: usize> {
    all: [Option<T>; N],
    next: usize,
}

impl<T: Copy + PartialEq, const N: usize> Last<T, N> {
    const NONE: Self = Self { all: [None; N], next: 0 };

    fn add(&mut self, one: T) {
        if !self.has(one) {
            self.all[self.next] = Some(one);
            self.next = (self.next + 1) % N;
        }
    }

    fn has(&self, one: T) -> bool {
        self.all.contains(&Some(one))
    }
}

/// One place that is heard, with the binds and requests that left for it.
#[derive(Clone, Copy)]
struct Place {
    at: SocketAddr,
    named: Bucket,
    others: Bucket,
    binds: Last<u32, BINDS>,
    requests: Last<[u8; 12], REQUESTS>,
}

impl Place {
    /// A place to which nothing was sent yet.
    fn new(at: SocketAddr) -> Self {
        let (named, others) = (Bucket::default(), Bucket::default());
        Self { at, named, others, binds: Last::NONE, requests: Last::NONE }
    }
}

/// The places that are heard, in ascending order: each run of datagrams is looked up here.
#[derive(Default)]
pub(crate) struct Relays(Vec<Place>);

impl Relays {
    /// Hears these places and no others. A place that was heard before keeps its state.
    pub(crate) fn set(&mut self, places: &[SocketAddr]) {
        let mut heard = Self::default();
        for at in places.iter().copied().take(MAX_PLACES) {
            if let Err(place) = heard.find(at) {
                let known = self.find(at).ok().and_then(|former| self.0.get(former)).copied();
                heard.0.insert(place, known.unwrap_or_else(|| Place::new(at)));
            }
        }
        *self = heard;
    }

    /// Returns where a place is, or where it would be.
    fn find(&self, at: SocketAddr) -> Result<usize, usize> {
        self.0.binary_search_by(|place| place.at.cmp(&at))
    }

    /// Whether this is one of them.
    pub(crate) fn has(&self, at: SocketAddr) -> bool {
        self.find(at).is_ok()
    }

    /// A frame or a STUN request leaves.
    pub(crate) fn sent(&mut self, to: SocketAddr, bytes: &[u8]) {
        let Some(place) = self.find(to).ok().and_then(|place| self.0.get_mut(place)) else { return };
        if let Some(transaction) = transaction(bytes) {
            place.requests.add(transaction);
        } else if bytes.first() == Some(&BIND)
            && let Some(index) = index(bytes)
        {
            place.binds.add(index);
        }
    }

    /// Returns true if a frame or an answer of this place may go up.
    fn take(&mut self, place: usize, bytes: &[u8], now: Time) -> bool {
        let Some(place) = self.0.get_mut(place) else { return false };
        let named = match transaction(bytes) {
            Some(transaction) if place.requests.has(transaction) => true,
            // An answer to nothing.
            Some(_) => return false,
            None => index(bytes).is_some_and(|index| place.binds.has(index)),
        };
        let bucket = if named { &mut place.named } else { &mut place.others };
        bucket.take(&FRAMES, now)
    }
}

impl LaneCore {
    /// No WireGuard message came: perhaps a relay or a STUN server speaks.
    pub(crate) fn foreign(&mut self, source: SocketAddr, bytes: &[u8], now: Time) {
        let place = self.relays.find(source).ok().filter(|_| bytes.len() <= Datagram::MAX && is_answer(bytes));
        let Some(place) = place else { return self.drops.add(Drop::NotWireGuard, 1) };
        match self.relays.take(place, bytes, now).then(|| Datagram::new(bytes)).flatten() {
            Some(bytes) => self.say(FromLane::Datagram { source, bytes }),
            None => self.drops.add(Drop::RelayRate, 1),
        }
    }
}

/// A frame of a relay that carries no datagram, or a STUN message.
fn is_answer(bytes: &[u8]) -> bool {
    transaction(bytes).is_some() || bytes.first().is_some_and(|first| (BIND..=AGAIN).contains(first))
}

/// The transaction of a STUN message; `None` for anything else.
fn transaction(bytes: &[u8]) -> Option<[u8; 12]> {
    let (at, cookie) = STUN_COOKIE;
    let stun = bytes.len() >= STUN_HEADER && bytes[0] & 0xc0 == 0 && bytes[at..].starts_with(&cookie);
    bytes.get(STUN_TRANSACTION..STUN_HEADER).filter(|_| stun)?.try_into().ok()
}

/// The index in a bind, or in a frame that names one.
fn index(bytes: &[u8]) -> Option<u32> {
    bytes.get(INDEX..)?.first_chunk().map(|index| u32::from_le_bytes(*index))
}
