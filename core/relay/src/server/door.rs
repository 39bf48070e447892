//! Which binds are computed for: as a node judges handshakes (protocol.md 2.4), because they are the same thing (fault B3).

use std::net::{IpAddr, SocketAddr};

use taut_base::{KeyedHash, Meter, Time, network};
use taut_tunnel::cookie::Checker;
use taut_tunnel::{Bucket, Rate};

use super::{Owner, Place, Refused};
use crate::frame::{BIND_LEN, COOKIE_LEN, cookie};

/// Of one address and port: a client binds once, and again when its relay was started again.
const SOURCE: Rate = Rate::new(5, 10);
/// Of one IPv4 address or IPv6 /64: the hosts behind one NAT together.
const NETWORK: Rate = Rate::new(50, 50);
/// Of all who showed no cookie. A bind costs 0.2 ms, so this is a tenth of a core, and spoofed senders can use up no more.
const UNPROVEN: Rate = Rate::new(500, 500);
/// Of all who showed one.
const PROVEN: Rate = Rate::new(2_000, 500);
/// Binds per second, and at once, of one IPv4 address or IPv6 /64 whose senders showed a cookie, or came by connections. A twentieth of [`PROVEN`] keeps
/// thousands of ports of one address from the share of the others. The largest honest crowd is the nodes behind one address of a carrier's NAT after a
/// restart of the relay: 1,000 of them are bound after 8 s, in which each tries again every few seconds by itself. Otherwise a node binds once in 24 hours.
const PROVEN_ADDRESS: Rate = Rate::new(100, 200);
/// The same for one IPv4 /24 or IPv6 /48, which is what one customer of a provider often has: a fifth of [`PROVEN`], four crowded addresses of a carrier's NAT.
const PROVEN_SITE: Rate = Rate::new(400, 400);
/// How often strangers are told that they are not bound. After a start, all clients of a large relay hear it within some seconds.
const TELL: Rate = Rate::new(5_000, 1_000);
/// The same for one IPv4 address or IPv6 /64, so that one flood of frames does not use up [`TELL`]: a node needs to be told once.
const TELL_ADDRESS: Rate = Rate::new(50, 100);
/// Bindings of one member that begin per second, and at once. Each tells all peers that have opened the member, up to 4,096 frames; a client that lost its
/// relay binds again after one second or more, and 20 at once are more than it does in a minute of changing networks.
const CONFIRM: Rate = Rate::new(1, 20);
/// Control frames of one member per second, and at once: a node that comes up opens all its peers at once. Counted over bindings, so that binding again gives
/// no more.
const CONTROL: Rate = Rate::new(200, 4_096);

pub(super) struct Door {
    checker: Checker,
    hash: KeyedHash,
    sources: Meter,
    networks: Meter,
    proven: Meter,
    proven_addresses: Meter,
    proven_sites: Meter,
    unproven_all: Bucket,
    proven_all: Bucket,
    tell: Bucket,
    tell_addresses: Meter,
    confirms: Meter,
    controls: Meter,
}

impl Door {
    pub(super) fn new(checker: Checker) -> Self {
        Self {
            hash: KeyedHash::new(checker.hash_key()),
            checker,
            sources: Meter::new(SOURCE),
            networks: Meter::new(NETWORK),
            proven: Meter::new(SOURCE),
            proven_addresses: Meter::new(PROVEN_ADDRESS),
            proven_sites: Meter::new(PROVEN_SITE),
            unproven_all: Bucket::default(),
            proven_all: Bucket::default(),
            tell: Bucket::default(),
            tell_addresses: Meter::new(TELL_ADDRESS),
            confirms: Meter::new(CONFIRM),
            controls: Meter::new(CONTROL),
        }
    }

    /// Whether a bind is computed for, and whether its sender has proven to receive at `place`. `from` is the address at the other end of a stream.
    /// With [`Refused::CookieAsked`] comes what the sender is answered by.
    pub(super) fn judge(
        &mut self,
        place: Place,
        from: Option<IpAddr>,
        bind: &[u8; BIND_LEN],
        now: Time,
    ) -> Result<bool, (Refused, Option<[u8; COOKIE_LEN]>)> {
        if !self.checker.is_for_us(bind) {
            return Err((Refused::BadMac, None));
        }
        let source = match place {
            Place::Udp(source) if !self.checker.proves_address(bind, source, now) => source,
            // A connection proves where it comes from by itself.
            _ => {
                let allowed = self.take_proven(place, from, now);
                return if allowed { Ok(true) } else { Err((Refused::BindRate, None)) };
            }
        };
        if self.take_unproven(source, now) {
            return Ok(false);
        }
        Err(self.ask(place, bind, now))
    }

    /// What the sender of a bind is answered by that has to prove its address first; nothing where it has, or cannot.
    pub(super) fn ask(
        &mut self,
        place: Place,
        bind: &[u8; BIND_LEN],
        now: Time,
    ) -> (Refused, Option<[u8; COOKIE_LEN]>) {
        let reply = match place {
            Place::Udp(source) => self.checker.reply(bind, source, now),
            Place::Stream(_) => None,
        };
        match reply {
            Some(reply) => (Refused::CookieAsked, Some(cookie(reply))),
            None => (Refused::BindRate, None),
        }
    }

    /// Whether a stranger may be told that it is not bound.
    pub(super) fn may_tell(&mut self, place: Place, from: Option<IpAddr>, now: Time) -> bool {
        let address = self.hash.of(&address(place, from).map(network));
        self.tell_addresses.has(address, now) && self.tell.take(&TELL, now) && self.tell_addresses.take(address, now)
    }

    /// Whether another binding of this member may begin.
    pub(super) fn may_begin(&mut self, owner: &Owner, now: Time) -> bool {
        let member = self.hash.of(owner);
        self.confirms.take(member, now)
    }

    /// Whether this member may say one thing more.
    pub(super) fn may_say(&mut self, owner: &Owner, now: Time) -> bool {
        let member = self.hash.of(owner);
        self.controls.take(member, now)
    }

    /// Takes from all buckets that count for a sender that has proven its address, or from none.
    fn take_proven(&mut self, place: Place, from: Option<IpAddr>, now: Time) -> bool {
        let source = self.hash.of(&place);
        let known = address(place, from).map(|ip| (self.hash.of(&network(ip)), self.hash.of(&site(ip))));
        let has = self.proven.has(source, now)
            && known.is_none_or(|(address, site)| {
                self.proven_addresses.has(address, now) && self.proven_sites.has(site, now)
            })
            && self.proven_all.has(&PROVEN, now);
        has && self.proven.take(source, now)
            && known.is_none_or(|(address, site)| {
                self.proven_addresses.take(address, now) && self.proven_sites.take(site, now)
            })
            && self.proven_all.take(&PROVEN, now)
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

/// Where a sender is, as far as that is known.
fn address(place: Place, from: Option<IpAddr>) -> Option<IpAddr> {
    match place {
        Place::Udp(source) => Some(source.ip()),
        Place::Stream(_) => from,
    }
}

/// What one customer of a provider often has: an IPv4 /24, or 48 bits of IPv6.
fn site(address: IpAddr) -> [u8; 7] {
    let mut site = [0; 7];
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            site[0] = 4;
            site[1..4].copy_from_slice(&v4.octets()[..3]);
        }
        IpAddr::V6(v6) => {
            site[0] = 6;
            site[1..].copy_from_slice(&v6.octets()[..6]);
        }
    }
    site
}
