//! Control messages of a session: measuring the round trip, agreeing on a suite, receipts for data.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{LaneId, SessionId, Time};
use taut_node::{Clocks, FromLane, Node, Output, ToLane};
use taut_sim::{Host, Link, Probability, Recorded, Seeded, Settings, Side, TautHost, World, map_for};
use taut_tunnel::Limits;
use taut_wire::control::{Abilities, ControlMessage, Lanes, Suite, Suites};
use taut_wire::relay;
use taut_wire::wireguard::{Message, classify};

use crate::{
    TautWorld, assert_complete, for_seeds, minutes, ms, parties, secs, taut_host, taut_world, taut_world_with,
};

/// The suites of a node with AES in hardware.
pub(crate) const AES: Suites = Suites::STOCK.with(Suite::Aes256Gcm);

const LINK: Link = Link::clean(ms(20));

/// Checks that no nonce was used twice, and returns the number of messages. One index belongs to one key, so index and counter stand for key and nonce. A
/// host sends each datagram once by each path, and the copies are the same bytes; two different datagrams with one index and counter used a nonce twice.
#[track_caller]
pub(crate) fn nonces_used_once(history: &[Recorded]) -> usize {
    let mut sealed: BTreeMap<_, (&[u8], Vec<SocketAddr>)> = BTreeMap::new();
    for recorded in history {
        // Relayed messages have a relay header in front.
        let relayed = relay::id(&recorded.datagram).is_some();
        let datagram = &recorded.datagram[if relayed { relay::HEADER } else { 0 }..];
        if let Ok(Message::Data(data)) = classify(datagram) {
            let place = (recorded.from == Side::A, data.receiver, data.counter);
            let (bytes, ways) = sealed.entry(place).or_insert((datagram, Vec::new()));
            assert_eq!(*bytes, datagram, "{place:?} was sealed twice");
            assert!(!ways.contains(&recorded.destination), "{place:?} was sent twice the same way");
            ways.push(recorded.destination);
        }
    }
    sealed.len()
}

fn suites(world: &TautWorld) -> [Option<Suite>; 2] {
    [world.a(), world.b()].map(|host| host.node().peers().next().and_then(|peer| peer.suite))
}

fn marks(world: &TautWorld) -> [bool; 2] {
    [world.a(), world.b()].map(TautHost::marks)
}

fn mixed(ours: Suites, theirs: Suites) -> TautWorld {
    let [a, b] = parties();
    let host = |me, peer, suites, seed| taut_host(me, peer, Settings { suites, ..Settings::default() }, seed);
    World::new((&a, host(&a, &b, ours, 1)), (&b, host(&b, &a, theirs, 2)), LINK, 3)
}

#[test]
fn both_ends_know_the_round_trip_after_the_first_packet() {
    let mut world = taut_world(LINK, 1);
    world.send(Side::A);
    world.run(ms(200));
    for host in [world.a(), world.b()] {
        assert_eq!(host.node().peers().next().unwrap().round_trip, Some(ms(40)));
    }
}

#[test]
fn data_goes_by_the_better_suite_within_a_round_trip_where_both_can() {
    let mut world = mixed(AES, AES);
    world.send(Side::A);
    world.run(ms(20 + 20 + 20));
    assert_eq!(suites(&world), [Some(Suite::ChaCha20Poly1305), Some(Suite::Aes256Gcm)], "the offer has arrived");
    assert_eq!(marks(&world), [false, true]);
    world.run(ms(20));
    assert_eq!(suites(&world), [Some(Suite::Aes256Gcm); 2]);
    assert_eq!(marks(&world), [true; 2], "each knows by now that the other takes marks");
}

/// An older version sends zero in the field in which this version says that it accepts partial checksums.
#[test]
fn an_older_peer_is_sent_no_marks() {
    let [a, b] = parties();
    for abilities in [Abilities::default(), Abilities(0xfe), Abilities::OURS] {
        let mut node = Node::new(a.key.clone(), Limits::WIREGUARD, Seeded::new(1));
        node.set_suites(AES);
        node.set_map(&map_for(&a, &[&b]));
        while node.poll_output().is_some() {}
        let peer = node.peers().next().unwrap().id;
        let session = SessionId(1);
        let message = ControlMessage::Offer { lanes: Lanes::ONE, suites: AES, abilities };
        let said = FromLane::Control { peer, session, lane: LaneId::FIRST, source: b.endpoint.into(), message };
        node.handle_lane(said, Clocks { now: Time::ZERO, wall: secs(1) });
        let mut commands =
            std::iter::from_fn(|| node.poll_output()).filter(|output| matches!(output, Output::Lane(..)));
        let Some(Output::Lane(_, ToLane::UseSuite { abilities: told, suite: Suite::Aes256Gcm, .. })) = commands.next()
        else {
            panic!("the lane is told of an offer");
        };
        assert_eq!(told, abilities, "what the peer said, not what we can");
        let accept = commands.next();
        let Some(Output::Lane(_, ToLane::Control { message: ControlMessage::Accept { abilities: said, .. }, .. })) =
            accept
        else {
            panic!("an offer is accepted");
        };
        assert_eq!(said, Abilities::OURS);
    }
}

#[test]
fn whoever_cannot_stays_with_the_stock_suite_and_loses_nothing() {
    for (ours, theirs) in [(AES, Suites::STOCK), (Suites::STOCK, AES), (Suites::STOCK, Suites::STOCK)] {
        let mut world = mixed(ours, theirs);
        let start = world.now();
        world.flow(Side::A, ms(50));
        world.flow(Side::B, ms(50));
        world.run(minutes(5));
        assert_eq!(suites(&world), [Some(Suite::ChaCha20Poly1305); 2]);
        assert_eq!(marks(&world), [false; 2]);
        assert_complete(&world, start, world.ago(secs(1)));
    }
}

#[test]
fn changing_the_suite_at_each_renewal_loses_nothing() {
    for_seeds(10, |seed| {
        let settings = Settings { suites: AES, ..Settings::default() };
        let link = if seed % 2 == 0 { LINK } else { LINK.with_jitter(ms(30)) };
        let mut world = taut_world_with(settings, link, seed);
        world.record();
        let start = world.now();
        world.flow(Side::A, ms(7));
        // Crossing handshakes are another scenario.
        world.run(secs(1));
        world.flow(Side::B, ms(11));
        world.run(minutes(7));
        assert_complete(&world, start, world.ago(secs(1)));
        assert_eq!(suites(&world), [Some(Suite::Aes256Gcm); 2]);
        assert!(nonces_used_once(&world.take_history()) > 100_000);
    });
}

#[test]
fn who_only_receives_says_so_in_receipts() {
    let mut world = taut_world(LINK, 1);
    world.flow(Side::A, ms(10));
    world.run(secs(60));
    let sent = world.counts(Side::B).data;
    // After 20 ms the next packet, 10 ms apart, arms the next receipt.
    assert!((60 * 30..=60 * 50).contains(&sent), "{sent} receipts in a minute");
    let received = world.a().acknowledged();
    // Besides data this counts probes of paths and their answers: up to twenty messages in the first minute, half of them at its beginning, and at most fifty of the two searches
    // for the packet limit.
    let all = world.counts(Side::A).data;
    assert!(received.is_some_and(|counter| counter + 70 > all), "{received:?} of {all} are acknowledged");
    world.stop(Side::A);
    world.run(secs(5));
    let quiet = world.counts(Side::B).data;
    world.run(minutes(2));
    // Each side probes the path every 20 s and answers the other side's probe.
    assert!(world.counts(Side::B).data <= quiet + 2 * 7, "nothing more to acknowledge");
}

#[test]
fn control_messages_keep_no_idle_session_alive() {
    let mut world = taut_world_with(Settings { suites: AES, ..Settings::default() }, LINK, 1);
    world.send(Side::A);
    world.run(minutes(4));
    assert_eq!([world.a().sessions(), world.b().sessions()], [0, 0]);
    let counts = Side::BOTH.map(|side| world.counts(side));
    world.run(minutes(60));
    assert_eq!(Side::BOTH.map(|side| world.counts(side)), counts, "and it is quiet");
}

/// A host that receives no control message: an attacker on the path recognises them by their lengths.
struct Deaf {
    host: TautHost,
    until: Time,
    swallowed: u64,
}

impl Host for Deaf {
    fn send(&mut self, packet: &[u8], now: Time) {
        self.host.send(packet, now);
    }

    fn receive(&mut self, source: SocketAddr, datagram: &[u8], now: Time) {
        // Packets of the world are longer than any control message.
        if now < self.until && datagram[0] == 4 && [48, 64].contains(&datagram.len()) {
            self.swallowed += 1;
        } else {
            self.host.receive(source, datagram, now);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.host.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.host.poll_timeout()
    }

    fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.host.poll_transmit()
    }

    fn poll_delivered(&mut self) -> Option<Vec<u8>> {
        self.host.poll_delivered()
    }

    fn check(&self) {
        self.host.check();
    }
}

/// Two nodes that support AES; one receives no control message for the given time.
fn attacked(silence: Duration) -> World<TautHost, Deaf> {
    let [a, b] = parties();
    let settings = Settings { suites: AES, ..Settings::default() };
    let [here, there] =
        [(&a, &b, 1), (&b, &a, 2)].map(|(me, peer, seed)| TautHost::new(me, map_for(me, &[peer]), settings, seed));
    let start = World::new((&a, taut_host(&a, &b, settings, 1)), (&b, taut_host(&b, &a, settings, 2)), LINK, 1).now();
    World::new((&a, here), (&b, Deaf { host: there, until: start + silence, swallowed: 0 }), LINK, 1)
}

#[test]
fn whoever_suppresses_offers_delays_the_better_suite_and_nothing_else() {
    let mut world = attacked(secs(10));
    let start = world.now();
    world.flow(Side::A, ms(100));
    world.flow(Side::B, ms(100));
    world.run(secs(10));
    assert!(world.b().swallowed > 5, "{} were swallowed", world.b().swallowed);
    let suite = |world: &World<TautHost, Deaf>| world.a().node().peers().next().unwrap().suite;
    assert_eq!(suite(&world), Some(Suite::ChaCha20Poly1305));
    world.run(secs(20));
    assert_eq!(suite(&world), Some(Suite::Aes256Gcm));
    assert_complete(&world, start, world.ago(secs(1)));
}

/// Each end offers the suite in the session that it began, and both use one of the two sessions: they have to agree in that one.
#[test]
fn ends_that_begin_at_the_same_moment_agree_in_the_session_that_they_use() {
    for_seeds(20, |seed| {
        let [a, b] = parties();
        let settings = Settings { suites: AES, ..Settings::default() };
        let link = Link::clean(ms(5 + seed % 20));
        let until = taut_world_with(settings, link, seed).now() + secs(3);
        let deaf = |me, peer, seed| Deaf { host: taut_host(me, peer, settings, seed), until, swallowed: 0 };
        let mut world = World::new((&a, deaf(&a, &b, 2 * seed)), (&b, deaf(&b, &a, 2 * seed + 1)), link, seed);
        world.flow(Side::A, ms(50));
        world.flow(Side::B, ms(50));
        world.run(secs(30));
        let ends = [&world.a().host, &world.b().host];
        assert_eq!(ends[0].session_name(), ends[1].session_name());
        assert_eq!(
            ends.map(|host| host.node().peers().next().and_then(|peer| peer.suite)),
            [Some(Suite::Aes256Gcm); 2]
        );
        assert_eq!(ends.map(TautHost::marks), [true; 2], "the lane says the same of the session that it seals with");
    });
}

#[test]
fn whoever_suppresses_them_for_ever_has_ever_fewer_to_suppress() {
    let mut world = attacked(minutes(1_000));
    let start = world.now();
    world.send(Side::A);
    world.flow(Side::B, ms(100));
    world.run(minutes(60));
    // B receives neither answers nor accepts. Thirty sessions: in each, eight probes of A and its answers to eight probes and ten offers of B; besides
    // these the receipts for B's data, and the probes of the path by both: at most five a second, and mostly far fewer.
    let receipts = 60 * 60 * 10;
    let ways = 60 * 60 * 5;
    assert!(world.b().swallowed < receipts + ways + 31 * (8 + 8 + 10), "{} were swallowed", world.b().swallowed);
    assert_complete(&world, start, world.ago(secs(1)));
}

#[test]
fn altered_control_messages_are_counted_and_change_nothing() {
    let mut world = taut_world_with(Settings { suites: AES, ..Settings::default() }, LINK, 1);
    world.record();
    world.send(Side::A);
    world.run(secs(1));
    let history = world.take_history();
    let control: Vec<_> = history.iter().filter(|sent| [48, 64].contains(&sent.datagram.len())).collect();
    assert!(control.len() >= 5, "two probes, two answers, an offer, an accept");
    for recorded in control {
        for byte in 8..recorded.datagram.len() {
            let mut altered = recorded.datagram.clone();
            altered[byte] ^= 1;
            world.inject(recorded.from.other(), SocketAddr::from(([198, 51, 100, 66], 666)), &altered);
        }
        world.inject(recorded.from.other(), SocketAddr::from(([198, 51, 100, 66], 666)), &recorded.datagram);
    }
    let before = Side::BOTH.map(|side| world.counts(side));
    world.run(secs(1));
    assert_eq!(Side::BOTH.map(|side| world.counts(side)), before, "nothing was answered, nobody moved");
    let start = world.now();
    world.set_links(LINK.with_loss(Probability::percent(0)));
    world.send(Side::A);
    world.run(secs(1));
    assert_complete(&world, start, world.ago(ms(500)));
}
