//! Interoperation with boringtun, another implementation of WireGuard, in both roles.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use boringtun::noise::rate_limiter::RateLimiter;
use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use mock_instant::MockClock;
use taut_base::Time;
use taut_sim::{Host, Link, MAX_PACKET, Party, Probability, Settings, Side, TautHost, World, map_for};

use crate::{assert_complete, for_seeds, minutes, ms, parties, secs, taut_host, took};

/// Interval of boringtun's timers; its own programs use the same.
const TICK: Duration = ms(250);

/// A host that runs boringtun.
pub(crate) struct BoringHost {
    tunnel: Tunn,
    /// Source of the last authentic message.
    peer: SocketAddr,
    next_tick: Time,
    transmits: VecDeque<Vec<u8>>,
    delivered: VecDeque<Vec<u8>>,
    buffer: Vec<u8>,
}

impl BoringHost {
    fn new(me: &Party, peer: &Party) -> Self {
        Self::with_limit(me, peer, None)
    }

    /// Returns a host that asks for a cookie after `limit` handshake messages a second, or after boringtun's own limit.
    fn with_limit(me: &Party, peer: &Party, limit: Option<u64>) -> Self {
        MockClock::set_time(Duration::ZERO);
        let own = PublicKey::from(*me.public().as_bytes());
        let limiter = limit.map(|limit| Arc::new(RateLimiter::new(&own, limit)));
        let secret = StaticSecret::from(*me.key.expose());
        let public = PublicKey::from(*peer.public().as_bytes());
        Self {
            tunnel: Tunn::new(secret, public, None, None, 1, limiter),
            peer: peer.endpoint,
            next_tick: Time::ZERO,
            transmits: VecDeque::new(),
            delivered: VecDeque::new(),
            buffer: vec![0; MAX_PACKET + 200],
        }
    }
}

/// Boringtun's clock is per thread, and a test runs on one thread.
fn set_clock(now: Time) {
    MockClock::set_time(now.since(Time::ZERO));
}

impl Host for BoringHost {
    fn send(&mut self, packet: &[u8], now: Time) {
        set_clock(now);
        if let TunnResult::WriteToNetwork(datagram) = self.tunnel.encapsulate(packet, &mut self.buffer) {
            self.transmits.push_back(datagram.to_vec());
        }
    }

    fn receive(&mut self, source: SocketAddr, datagram: &[u8], now: Time) {
        set_clock(now);
        let mut result = self.tunnel.decapsulate(Some(source.ip()), datagram, &mut self.buffer);
        if !matches!(result, TunnResult::Err(_)) {
            self.peer = source;
        }
        // Packets that waited for the session come out one per call with an empty datagram.
        while let TunnResult::WriteToNetwork(datagram) = result {
            self.transmits.push_back(datagram.to_vec());
            result = self.tunnel.decapsulate(None, &[], &mut self.buffer);
        }
        if let TunnResult::WriteToTunnelV4(packet, _) = result {
            self.delivered.push_back(packet.to_vec());
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        set_clock(now);
        self.next_tick = now + TICK;
        if let TunnResult::WriteToNetwork(datagram) = self.tunnel.update_timers(&mut self.buffer) {
            self.transmits.push_back(datagram.to_vec());
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.next_tick)
    }

    fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        Some((self.peer, self.transmits.pop_front()?))
    }

    fn poll_delivered(&mut self) -> Option<Vec<u8>> {
        self.delivered.pop_front()
    }
}

/// Taut is A, boringtun is B.
pub(crate) fn world(link: Link, seed: u64) -> World<TautHost, BoringHost> {
    let [a, b] = parties();
    let mut map = map_for(&a, &[&b]);
    map.peers.values_mut().for_each(|peer| peer.native = true);
    let hosts = (TautHost::new(&a, map, Settings::default(), seed), BoringHost::new(&b, &a));
    World::new((&a, hosts.0), (&b, hosts.1), link, seed)
}

#[test]
fn a_native_peer_never_hears_anything_but_wireguard() {
    let mut world = world(Link::clean(ms(20)), 1);
    world.send(Side::A);
    world.run(secs(1));
    world.send(Side::B);
    world.run(secs(60));
    for side in Side::BOTH {
        let counts = world.counts(side);
        assert_eq!(counts.data, 1, "one packet was sent, and no probe, offer or receipt: {counts:?}");
    }
}

#[test]
fn the_first_packet_arrives_after_one_and_a_half_round_trips_in_both_roles() {
    for_seeds(10, |seed| {
        for (side, delay) in [(Side::A, ms(1)), (Side::A, ms(100)), (Side::B, ms(1)), (Side::B, ms(100))] {
            let mut world = world(Link::clean(delay), seed);
            // Boringtun's first timer call sets its clock.
            world.run(ms(10));
            let sent = world.now();
            world.send(side);
            world.run(secs(3));
            assert_eq!(took(&world, side, 0, sent), 3 * delay, "first packet of {side:?}");
            assert_eq!((world.counts(side).initiations, world.counts(side.other()).responses), (1, 1));
            world.send(side.other());
            world.run(secs(1));
            assert_eq!(world.ledger(side.other()).arrived(), 1);
            assert_eq!(world.counts(side.other()).initiations, 0);
        }
    });
}

#[test]
fn fault_b2_a_peer_under_load_gets_its_cookie_in_both_roles() {
    for_seeds(10, |seed| {
        for side in Side::BOTH {
            let [a, b] = parties();
            let hosts = (taut_host(&a, &b, Settings::default(), seed), BoringHost::with_limit(&b, &a, Some(0)));
            let mut world = World::new((&a, hosts.0), (&b, hosts.1), Link::clean(ms(20)), seed);
            world.run(ms(10));
            world.record();
            let start = world.now();
            world.flow(side, ms(500));
            world.run(minutes(10));
            let history = world.take_history();
            let cookies = history.iter().filter(|recorded| recorded.datagram.len() == 64 && recorded.from == Side::B);
            let cookies = cookies.filter(|recorded| recorded.datagram[0] == 3).count();
            assert!((4..=12).contains(&cookies), "{cookies} cookie replies");
            let silence = world.ledger(side).longest_silence(start + secs(12), world.now());
            assert!(silence < secs(1), "nothing came from {side:?} for {silence:?}");
        }
    });
}

#[test]
fn half_an_hour_of_traffic_loses_nothing_and_rekeys_every_two_minutes_in_both_roles() {
    for_seeds(3, |seed| {
        for first in Side::BOTH {
            let mut world = world(Link::clean(ms(20)), seed);
            world.run(ms(10));
            world.send(first);
            world.run(secs(1));
            let start = world.now();
            world.flow(Side::A, ms(500));
            world.flow(Side::B, ms(700));
            world.run(minutes(30));
            assert_complete(&world, start, world.ago(secs(1)));
            let sessions = world.a().established();
            assert!((14..=16).contains(&sessions), "{sessions} sessions");
            assert_eq!(world.counts(first).initiations, sessions);
            assert_eq!(world.counts(first.other()).initiations, 0);
        }
    });
}

#[test]
fn half_an_hour_with_loss_has_no_stall() {
    for_seeds(5, |seed| {
        let link = Link::clean(ms(20))
            .with_jitter(ms(20))
            .with_loss(Probability::percent(5))
            .with_duplication(Probability::percent(10));
        let mut world = world(link, seed);
        let start = world.now();
        world.flow(Side::A, ms(300));
        world.flow(Side::B, ms(400));
        world.run(minutes(30));
        for side in Side::BOTH {
            let ledger = world.ledger(side);
            let silence = ledger.longest_silence(start + secs(12), world.now());
            assert!(silence < secs(12), "nothing came from {side:?} for {silence:?}");
            let missing = ledger.missing(start, world.now()) as f64 / ledger.sent() as f64;
            assert!((0.03..0.08).contains(&missing), "{missing} of the packets of {side:?} are lost");
        }
    });
}

#[test]
fn crossing_handshakes_end_well() {
    for_seeds(5, |seed| {
        for delay in [ms(1), ms(100), ms(300), ms(600)] {
            let mut world = world(Link::clean(delay), seed);
            world.run(ms(10));
            world.flow(Side::A, secs(1));
            world.flow(Side::B, secs(1));
            world.run(secs(20));
            let start = world.now();
            world.run(secs(80));
            assert_complete(&world, start, world.ago(secs(2)));
            world.run(minutes(20));
            for side in Side::BOTH {
                let silence = world.ledger(side).longest_silence(start, world.now());
                assert!(silence < secs(6), "nothing came from {side:?} for {silence:?} at delay {delay:?}");
            }
            let initiations = world.counts(Side::A).initiations + world.counts(Side::B).initiations;
            assert!(initiations <= 40, "{initiations} initiations at delay {delay:?}");
        }
    });
}
