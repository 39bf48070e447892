//! What comes from relays and STUN servers, told from what comes from anybody: only the places that the keeper named are heard.
//!
//! | from a known place | becomes |
//! |---|---|
//! | a datagram behind a relay's header | what it is, by the way of that relay and number |
//! | another frame of a relay, a STUN answer | [`FromLane::Datagram`], as many as the place's rate allows |
//!
//! Anything else, and all of it from elsewhere, is no WireGuard message. A place can be spoofed: nothing here is believed, the peer's session and the keys of
//! the bind decide.

use std::net::SocketAddr;

use taut_base::Time;
use taut_node::{Datagram, FromLane};
use taut_tunnel::{Bucket, Rate};
use taut_wire::relay::{AGAIN, BIND};

use crate::drops::Drop;
use crate::heart::Heart;

/// Frames and answers of one place that go up: a node that begins with a thousand peers is told a thousand numbers, and that in some seconds.
const FRAMES: Rate = Rate::new(200, 200);

/// Places that are heard at most: 32 relays of a map with 8 endpoints each, as many STUN ports, and a bridge for each relay.
const MAX_PLACES: usize = 32 * (8 + 8 + 1);

/// Where a STUN message's magic cookie stands, and what it is (RFC 8489, section 5).
const STUN_COOKIE: (usize, [u8; 4]) = (4, [0x21, 0x12, 0xa4, 0x42]);
/// Bytes of a STUN message's header.
const STUN_HEADER: usize = 20;

/// The places that are heard, in ascending order: each run of datagrams is looked up here.
#[derive(Default)]
pub(crate) struct Relays(Vec<(SocketAddr, Bucket)>);

impl Relays {
    /// Hears these and no others. Who was heard before keeps its rate.
    pub(crate) fn set(&mut self, places: &[SocketAddr]) {
        let former = |place: &SocketAddr| {
            self.find(*place).and_then(|at| self.0.get(at)).map_or(Bucket::default(), |known| known.1)
        };
        let mut heard: Vec<_> = places.iter().take(MAX_PLACES).map(|place| (*place, former(place))).collect();
        heard.sort_by_key(|(place, _)| *place);
        heard.dedup_by_key(|(place, _)| *place);
        self.0 = heard;
    }

    fn find(&self, place: SocketAddr) -> Option<usize> {
        self.0.binary_search_by_key(&place, |(known, _)| *known).ok()
    }

    /// Whether this is one of them.
    pub(crate) fn has(&self, place: SocketAddr) -> bool {
        self.find(place).is_some()
    }
}

impl Heart {
    /// No WireGuard message came: perhaps a relay or a STUN server speaks.
    pub(crate) fn foreign(&mut self, source: SocketAddr, bytes: &[u8], now: Time) {
        let known = self.relays.find(source).and_then(|at| self.relays.0.get_mut(at));
        let Some((_, bucket)) = known.filter(|_| bytes.len() <= Datagram::MAX && is_answer(bytes)) else {
            return self.drops.add(Drop::NotWireGuard, 1);
        };
        match bucket.take(&FRAMES, now).then(|| Datagram::new(bytes)).flatten() {
            Some(bytes) => self.say(FromLane::Datagram { source, bytes }),
            None => self.drops.add(Drop::RelayRate, 1),
        }
    }
}

/// A frame of a relay that carries no datagram, or a STUN message.
fn is_answer(bytes: &[u8]) -> bool {
    let (at, cookie) = STUN_COOKIE;
    let stun = bytes.len() >= STUN_HEADER && bytes[0] & 0xc0 == 0 && bytes[at..].starts_with(&cookie);
    stun || bytes.first().is_some_and(|first| (BIND..=AGAIN).contains(first))
}
