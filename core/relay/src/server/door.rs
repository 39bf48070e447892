//! Which binds are computed for: as a node judges handshakes (protocol.md 2.4), because they are the same thing (fault B3).

use std::net::SocketAddr;

use taut_base::{KeyedHash, Meter, Time, network};
use taut_tunnel::cookie::Checker;
use taut_tunnel::{Bucket, Rate};

use super::{Place, Refused};
use crate::frame::{BIND_LEN, COOKIE_LEN, cookie};

/// Of one address and port: a client binds once, and again when its relay was started again.
const SOURCE: Rate = Rate::new(5, 10);
/// Of one IPv4 address or IPv6 /64: the hosts behind one NAT together.
const NETWORK: Rate = Rate::new(50, 50);
/// Of all who showed no cookie. A bind costs 0.2 ms, so this is a tenth of a core, and spoofed senders can use up no more.
const UNPROVEN: Rate = Rate::new(500, 500);
/// Of all who showed one.
const PROVEN: Rate = Rate::new(2_000, 500);
/// How often strangers are told that they are not bound. After a start, all clients of a large relay hear it within some seconds.
const TELL: Rate = Rate::new(5_000, 1_000);
pub(super) struct Door {
    checker: Checker,
    hash: KeyedHash,
    sources: Meter,
    networks: Meter,
    proven: Meter,
    unproven_all: Bucket,
    proven_all: Bucket,
    tell: Bucket,
}

impl Door {
    pub(super) fn new(checker: Checker) -> Self {
        Self {
            hash: KeyedHash::new(checker.hash_key()),
            checker,
            sources: Meter::new(SOURCE),
            networks: Meter::new(NETWORK),
            proven: Meter::new(SOURCE),
            unproven_all: Bucket::default(),
            proven_all: Bucket::default(),
            tell: Bucket::default(),
        }
    }

    /// Whether a bind is computed for. With [`Refused::CookieAsked`] comes what the sender is answered by.
    pub(super) fn judge(
        &mut self,
        place: Place,
        bind: &[u8; BIND_LEN],
        now: Time,
    ) -> Result<(), (Refused, Option<[u8; COOKIE_LEN]>)> {
        if !self.checker.is_for_us(bind) {
            return Err((Refused::BadMac, None));
        }
        let source = match place {
            Place::Udp(source) if !self.checker.proves_address(bind, source, now) => source,
            // A connection proves where it comes from by itself.
            _ => {
                let hash = self.hash.of(&place);
                let allowed = self.proven.has(hash, now) && self.proven_all.take(&PROVEN, now);
                let allowed = allowed && self.proven.take(hash, now);
                return if allowed { Ok(()) } else { Err((Refused::BindRate, None)) };
            }
        };
        if self.take_unproven(source, now) {
            return Ok(());
        }
        match self.checker.reply(bind, source, now) {
            Some(reply) => Err((Refused::CookieAsked, Some(cookie(reply)))),
            None => Err((Refused::BindRate, None)),
        }
    }

    /// Whether a stranger may be told that it is not bound.
    pub(super) fn may_tell(&mut self, now: Time) -> bool {
        self.tell.take(&TELL, now)
    }

    /// Takes from all buckets that count for `source`, or from none.
    fn take_unproven(&mut self, source: SocketAddr, now: Time) -> bool {
        let (place, network) = (self.hash.of(&source), self.hash.of(&network(source.ip())));
        let has =
            self.sources.has(place, now) && self.networks.has(network, now) && self.unproven_all.has(&UNPROVEN, now);
        has && self.sources.take(place, now)
            && self.networks.take(network, now)
            && self.unproven_all.take(&UNPROVEN, now)
    }
}
