//! Floods of handshakes from unauthenticated senders and from members (faults B1 to B10).

use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{LaneId, PresharedKey, PrivateKey, ReceiverIndex};
use taut_lane::DropReason;
use taut_netmap::NetworkMap;
use taut_node::{Clocks, FromLane, HandshakeCounts, HandshakeMessage, Node, Output, ToLane};
use taut_sim::{Link, Party, Side, map_for};
use taut_tunnel::Limits;
use taut_tunnel::handshake::{Identity, Remote, SentInitiation, Timestamp};

use crate::{TautWorld, assert_complete, for_seeds, ms, parties, secs, taut_world, took};

/// An attacker that floods: the source of datagram `number`.
type From = fn(u32) -> SocketAddr;

fn anywhere(number: u32) -> SocketAddr {
    let spread = number.wrapping_mul(0x9e37_79b1) | 0x0100_0000;
    SocketAddr::from((spread.to_be_bytes(), 1 + u16::try_from(number % 60_000).unwrap_or(0)))
}

fn one_place(_: u32) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 66], 666))
}

/// Host A's address with another port each time: a neighbour behind the same NAT.
fn beside_a(number: u32) -> SocketAddr {
    SocketAddr::new(parties()[0].endpoint.ip(), 10_000 + u16::try_from(number % 50_000).unwrap_or(0))
}

/// Returns an initiation from a key to `to`, with a correct mac1.
fn initiation(from: &PrivateKey, to: &Party, seconds: u64) -> [u8; 148] {
    let identity = Identity::new(from.clone());
    let remote = Remote::new(&identity, to.public(), PresharedKey::NONE).expect("a good key");
    let stamp = Timestamp::from_wall_clock(Duration::from_secs(seconds));
    let index = ReceiverIndex(16 * u32::try_from(seconds % 1_000_000).expect("six digits"));
    SentInitiation::start(&identity, &remote, index, stamp, PrivateKey::from_bytes([9; 32])).expect("a good key").1
}

/// Sends ten thousand datagrams a second to host B.
fn flood(world: &mut TautWorld, message: &[u8], from: From, duration: Duration) {
    for millisecond in 0..u32::try_from(duration.as_millis()).expect("a short flood") {
        for number in 0..10 {
            world.inject(Side::B, from(10 * millisecond + number), message);
        }
        world.run(ms(1));
    }
}

/// Half the interval between two bursts of [`flood`].
const HALF: Duration = Duration::from_micros(500);

fn stranger_to_b() -> [u8; 148] {
    initiation(&PrivateKey::from_bytes([0x77; 32]), &parties()[1], 5)
}

#[test]
fn fault_b1_a_flood_without_a_good_mac1_gets_no_answer_and_costs_no_packet() {
    let mut world = taut_world(Link::clean(ms(20)), 1);
    let start = world.now();
    world.flow(Side::A, ms(10));
    world.flow(Side::B, ms(10));
    let mut message = stranger_to_b();
    message[120] ^= 1;
    flood(&mut world, &message, anywhere, secs(3));
    world.run(secs(1));
    assert_complete(&world, start, world.ago(secs(1)));
    assert_eq!(world.counts(Side::B).astray, 0);
    assert_eq!(world.b().drops().count(DropReason::BadMac1), 30_000);
}

#[test]
fn fault_b10_two_nodes_talk_and_rekey_through_a_flood_from_everywhere() {
    for_seeds(2, |seed| {
        let mut world = taut_world(Link::clean(ms(20)), seed);
        let start = world.now();
        world.flow(Side::A, ms(50));
        world.flow(Side::B, ms(50));
        world.run(secs(118));
        let sessions = world.b().established();
        flood(&mut world, &stranger_to_b(), anywhere, secs(5));
        world.run(secs(1));
        assert_complete(&world, start, world.ago(secs(1)));
        assert_eq!(world.b().established(), sessions + 1, "the rekey came through, and nothing else");
        let asked = world.b().drops().count(DropReason::CookieAsked);
        assert!(asked > 45_000, "{asked} of 50,000 were asked for a cookie");
        assert_eq!(world.counts(Side::B).astray, asked, "nobody got anything else");
    });
}

#[test]
fn fault_b2_a_node_that_nobody_knows_gets_in_through_a_flood() {
    for_seeds(5, |seed| {
        let mut world = taut_world(Link::clean(ms(20)), seed);
        flood(&mut world, &stranger_to_b(), anywhere, secs(1));
        // Between two of the flood's datagrams, which have taken all that there is for new senders.
        world.run(HALF);
        let sent = world.now();
        world.send(Side::A);
        world.run(HALF);
        flood(&mut world, &stranger_to_b(), anywhere, secs(1));
        // The first initiation brings the cookie, and its copy with the cookie follows at once: two round trips, and the delay of the packet itself.
        assert_eq!(took(&world, Side::A, 0, sent), ms(100));
    });
}

#[test]
fn fault_b4_a_flood_from_one_place_delays_nobody_else() {
    for_seeds(5, |seed| {
        let mut world = taut_world(Link::clean(ms(20)), seed);
        flood(&mut world, &stranger_to_b(), one_place, secs(1));
        let sent = world.now();
        world.send(Side::A);
        flood(&mut world, &stranger_to_b(), one_place, secs(1));
        assert_eq!(took(&world, Side::A, 0, sent), ms(60), "no cookie was asked of A");
    });
}

#[test]
fn fault_b5_a_flood_from_behind_the_same_nat_delays_by_one_round_trip() {
    for_seeds(5, |seed| {
        let mut world = taut_world(Link::clean(ms(20)), seed);
        flood(&mut world, &stranger_to_b(), beside_a, secs(1));
        // Between two of the flood's datagrams, which have taken all that there is for new senders.
        world.run(HALF);
        let sent = world.now();
        world.send(Side::A);
        world.run(HALF);
        flood(&mut world, &stranger_to_b(), beside_a, secs(1));
        assert_eq!(took(&world, Side::A, 0, sent), ms(100));
    });
}

/// An agent without lanes, and its answers.
fn agent(me: &Party, map: &NetworkMap) -> Node<impl taut_base::Entropy + use<>> {
    let mut drawn = 0_u64;
    let mut node = Node::new(me.key.clone(), Limits::WIREGUARD, move |bytes: &mut [u8]| {
        for chunk in bytes.chunks_mut(8) {
            drawn = drawn.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            chunk.copy_from_slice(&drawn.rotate_left(29).to_le_bytes()[..chunk.len()]);
        }
    });
    node.set_map(map);
    node
}

fn answered(node: &mut Node<impl taut_base::Entropy>) -> usize {
    let outputs = std::iter::from_fn(|| node.poll_output());
    outputs.filter(|output| matches!(output, Output::Lane(_, ToLane::Send { .. }))).count()
}

#[test]
fn fault_b6_one_initiation_is_answered_four_times_at_most() {
    let [a, b] = parties();
    let mut node = agent(&b, &map_for(&b, &[&a]));
    answered(&mut node);
    let message = HandshakeMessage::new(&initiation(&a.key, &b, 1_000_000)).expect("an initiation");
    let mut answers = Vec::new();
    for number in 0..10_000 {
        let clocks = Clocks { now: taut_base::Time(0) + secs(100) + ms(number), wall: secs(1_000_000) };
        node.handle_lane(FromLane::Handshake { source: one_place(0).into(), message }, clocks);
        answers.push(answered(&mut node));
    }
    assert_eq!(answers.iter().sum::<usize>(), 4);
    assert_eq!(answers[2_000..].iter().sum::<usize>(), 0);
    assert!(node.peers().all(|peer| peer.proven.is_none()), "no endpoint moved");
    let counts = HandshakeCounts { computed: 10_000, answered: 1, repeated: 3, over_limit: 0 };
    assert_eq!(node.handshake_counts(), counts);
}

#[test]
fn fault_b7_a_peer_gets_fifty_sessions_a_second_at_most() {
    let [a, b] = parties();
    let mut node = agent(&b, &map_for(&b, &[&a]));
    answered(&mut node);
    let mut answers = 0;
    for number in 0..1_000 {
        let clocks = Clocks { now: taut_base::Time(0) + secs(100) + ms(number), wall: secs(1_000_000 + number) };
        let message = HandshakeMessage::new(&initiation(&a.key, &b, 1_000_000 + number)).unwrap();
        node.handle_lane(FromLane::Handshake { source: a.endpoint.into(), message }, clocks);
        answers += answered(&mut node);
    }
    assert_eq!(answers, 50);
    let counts = HandshakeCounts { computed: 1_000, answered: 50, repeated: 0, over_limit: 950 };
    assert_eq!(node.handshake_counts(), counts);
}

#[test]
fn fault_b12_initiations_to_other_lanes_leave_the_first_lane_its_share() {
    let [a, b] = parties();
    let mut node = agent(&b, &map_for(&b, &[&a]));
    answered(&mut node);
    let stranger = HandshakeMessage::new(&stranger_to_b()).unwrap();
    let mut answers = 0;
    for number in 0..1_000 {
        let clocks = Clocks { now: taut_base::Time(0) + secs(100) + ms(number), wall: secs(1_000_000 + number) };
        for lane in 1..16 {
            node.handle(LaneId(lane), FromLane::Handshake { source: one_place(0).into(), message: stranger }, clocks);
        }
        if number % 100 == 0 {
            let message = HandshakeMessage::new(&initiation(&a.key, &b, 1_000_000 + number)).unwrap();
            node.handle_lane(FromLane::Handshake { source: a.endpoint.into(), message }, clocks);
            answers += answered(&mut node);
        }
    }
    assert_eq!(answers, 10, "each initiation to the first lane is answered");
    let counts = node.handshake_counts();
    assert!((240..=260).contains(&counts.computed), "{counts:?}: 200 a second, a burst of 50, and ten");
}

#[test]
fn fault_b2_the_keeper_computes_for_two_thousand_a_second_at_most() {
    let [a, b] = parties();
    let mut node = agent(&b, &map_for(&b, &[&a]));
    answered(&mut node);
    let stranger = HandshakeMessage::new(&stranger_to_b()).unwrap();
    let clocks = Clocks { now: taut_base::Time(0) + secs(100), wall: secs(1_000_000) };
    for _ in 0..300 {
        node.handle_lane(FromLane::Handshake { source: one_place(0).into(), message: stranger }, clocks);
    }
    let message = HandshakeMessage::new(&initiation(&a.key, &b, 1_000_000)).unwrap();
    node.handle_lane(FromLane::Handshake { source: a.endpoint.into(), message }, clocks);
    assert_eq!(answered(&mut node), 0, "the second's work is done");
    let counts = HandshakeCounts { computed: 200, answered: 0, repeated: 0, over_limit: 101 };
    assert_eq!(node.handshake_counts(), counts);
    let clocks = Clocks { now: clocks.now + ms(1), ..clocks };
    node.handle_lane(FromLane::Handshake { source: a.endpoint.into(), message }, clocks);
    assert_eq!(answered(&mut node), 1);
}
