//! Rate limits for binds, control frames and replies to unbound senders. Binds are limited as a node limits handshakes (protocol.md 2.4; fault B3).

use std::net::{IpAddr, SocketAddr};

use taut_base::{KeyedHash, Meter, Time, network};
use taut_tunnel::cookie::CookieChecker;
use taut_tunnel::{Bucket, Rate};

use super::{Owner, Refused};
use crate::change::ClientAddress;
use crate::frame::{BIND_LEN, COOKIE_LEN, cookie};

/// Binds per second of one address and port without a cookie, and with one: 5, and 10 at once. A client binds once, and again after a restart of the relay.
const SOURCE: Rate = Rate::new(5, 10);
/// Binds per second without a cookie of one IPv4 address or IPv6 /64, which all hosts behind one NAT share: 50.
const NETWORK: Rate = Rate::new(50, 50);
/// Binds per second from all senders without a cookie: 500. A bind costs 0.2 ms, so this limit costs a tenth of a core, and spoofed senders can use no more.
const UNPROVEN: Rate = Rate::new(500, 500);
/// Binds per second from all senders that proved their address: 2,000, which cost 0.4 of a core.
const PROVEN: Rate = Rate::new(2_000, 500);
/// Binds of one IPv4 address or IPv6 /64 whose senders showed a cookie or came by connections: 100 per second, 200 at once. That is a twentieth of [`PROVEN`],
/// so one address cannot use up the limit of all. The largest honest load comes from the nodes behind one address of a carrier-grade NAT after a restart of the
/// relay: 1,000 of them are bound after 8 s, during which each retries every few seconds. At other times a node binds once in 24 hours.
const PROVEN_ADDRESS: Rate = Rate::new(100, 200);
/// The same for one IPv4 /24 or IPv6 /48, which one customer of a provider often has: 400 per second, a fifth of [`PROVEN`]. That is enough for four busy
/// addresses of a carrier-grade NAT in one prefix.
const PROVEN_SITE: Rate = Rate::new(400, 400);
/// Replies per second to all unbound senders: 5,000. After a restart, all clients of a large relay are told within some seconds that they are not bound.
const TELL: Rate = Rate::new(5_000, 1_000);
/// The same for one IPv4 address or IPv6 /64, 50 per second and 100 at once, so that a flood from one address does not use up [`TELL`]. A node needs one reply.
const TELL_ADDRESS: Rate = Rate::new(50, 100);
/// Bindings that one member begins: one per second, 20 at once. Each one is announced to all peers that opened the member, in up to 4,096 frames. A client
/// that lost its relay binds again after a second or more; 20 at once are more than a minute of changing networks needs.
const CONFIRM: Rate = Rate::new(1, 20);
/// Control frames of one member: 200 per second, and 4,096 at once, because a starting node opens all its peers at once. The count goes on over several
/// bindings, so that a member gains nothing by binding again.
const CONTROL: Rate = Rate::new(200, 4_096);

/// The rate limits of a relay.
pub(super) struct RateLimits {
    checker: CookieChecker,
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

impl RateLimits {
    pub(super) fn new(checker: CookieChecker) -> Self {
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

    /// Decides whether the relay processes a bind. Returns true if its sender has proven to receive at `address`. `from` is the IP address at the other end of a
    /// stream. [`Refused::CookieAsked`] comes with the answer for the sender.
    pub(super) fn check_bind(
        &mut self,
        address: ClientAddress,
        from: Option<IpAddr>,
        bind: &[u8; BIND_LEN],
        now: Time,
    ) -> Result<bool, (Refused, Option<[u8; COOKIE_LEN]>)> {
        if !self.checker.is_for_us(bind) {
            return Err((Refused::BadMac, None));
        }
        let source = match address {
            ClientAddress::Udp(source) if !self.checker.proves_address(bind, source, now) => source,
            // A TCP connection has proven its source address.
            _ => {
                let allowed = self.take_proven(address, from, now);
                return if allowed { Ok(true) } else { Err((Refused::BindRate, None)) };
            }
        };
        if self.take_unproven(source, now) {
            return Ok(false);
        }
        Err(self.ask(address, bind, now))
    }

    /// Returns the cookie for the sender of a bind that has to prove its address first. A stream has proven its address, and gets none.
    pub(super) fn ask(
        &mut self,
        address: ClientAddress,
        bind: &[u8; BIND_LEN],
        now: Time,
    ) -> (Refused, Option<[u8; COOKIE_LEN]>) {
        let reply = match address {
            ClientAddress::Udp(source) => self.checker.reply(bind, source, now),
            ClientAddress::Stream(_) => None,
        };
        match reply {
            Some(reply) => (Refused::CookieAsked, Some(cookie(reply))),
            None => (Refused::BindRate, None),
        }
    }

    /// Returns true if this unbound sender may be told that it is not bound.
    pub(super) fn may_tell(&mut self, address: ClientAddress, from: Option<IpAddr>, now: Time) -> bool {
        let address = self.hash.of(&ip_of(address, from).map(network));
        self.tell_addresses.has(address, now) && self.tell.take(&TELL, now) && self.tell_addresses.take(address, now)
    }

    /// Returns true if another binding of this member may begin.
    pub(super) fn may_bind(&mut self, owner: &Owner, now: Time) -> bool {
        let member = self.hash.of(owner);
        self.confirms.take(member, now)
    }

    /// Returns true if one more control frame of this member may be handled.
    pub(super) fn may_control(&mut self, owner: &Owner, now: Time) -> bool {
        let member = self.hash.of(owner);
        self.controls.take(member, now)
    }

    /// Takes from all buckets that count for a sender that has proven its address, or from none.
    fn take_proven(&mut self, address: ClientAddress, from: Option<IpAddr>, now: Time) -> bool {
        let source = self.hash.of(&address);
        let known = ip_of(address, from).map(|ip| (self.hash.of(&network(ip)), self.hash.of(&site(ip))));
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
        let (address, network) = (self.hash.of(&source), self.hash.of(&network(source.ip())));
        let has =
            self.sources.has(address, now) && self.networks.has(network, now) && self.unproven_all.has(&UNPROVEN, now);
        has && self.sources.take(address, now)
            && self.networks.take(network, now)
            && self.unproven_all.take(&UNPROVEN, now)
    }
}

/// Returns the IP address of a sender, if it is known.
fn ip_of(address: ClientAddress, from: Option<IpAddr>) -> Option<IpAddr> {
    match address {
        ClientAddress::Udp(source) => Some(source.ip()),
        ClientAddress::Stream(_) => from,
    }
}

/// Returns the prefix that one customer of a provider often has: an IPv4 /24, or 48 bits of IPv6.
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
