//! Several lanes through a relay: they open there as on a direct path, follow the path, and come back after the relay did. No packet may be overtaken.

use std::time::Duration;

use taut_base::Entropy;
use taut_sim::{
    LanesHost, Link, Probability, Recorded, Seeded, Settings, Side, SimRelay, StationId, World, map_with_relays,
};
use taut_wire::relay;
use taut_wire::wireguard::{Message, classify};

use crate::control::{AES, nonces_used_once};
use crate::{assert_complete, for_seeds, ms, parties, secs};

type LanesWorld = World<LanesHost, LanesHost>;

/// Delay between a host and the relay.
const TO_RELAY: Link = Link::clean(ms(3));
/// Flows of each side's applications.
const FLOWS: u16 = 12;

/// Returns true if no thread is late with this seed. A round trip is short then, so every flow is on its lane soon.
fn is_punctual(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// Two nodes with tickets and these numbers of lanes, and a relay that has bound them.
struct Scene {
    world: LanesWorld,
    relay: SimRelay,
    station: StationId,
    seed: u64,
}

fn scene(direct: Link, counts: [usize; 2], seed: u64) -> Scene {
    let [a, b] = parties();
    let mut chance = Seeded::new(!seed);
    let relay = SimRelay::new(1);
    let settings = Settings { ticket: true, suites: AES, ..Settings::default() };
    let mut host = |me, peer, count: usize, own_seed| {
        let late: Vec<_> = (0..count).map(|_| if is_punctual(seed) { ms(0) } else { chance.up_to(ms(10)) }).collect();
        LanesHost::new(me, map_with_relays(me, &[peer], std::slice::from_ref(&relay)), settings, &late, own_seed)
    };
    let hosts = (host(&a, &b, counts[0], 2 * seed), host(&b, &a, counts[1], 2 * seed + 1));
    let mut world = World::new((&a, hosts.0), (&b, hosts.1), direct, seed);
    world.set_flows(FLOWS);
    let station = world.put_up(relay.address, Box::new(relay.start(100 * seed)), TO_RELAY);
    world.run(secs(2));
    Scene { world, relay, station, seed }
}

const fn dead() -> Link {
    Link::clean(ms(1)).with_loss(Probability::ALWAYS)
}

impl Scene {
    fn flows(&mut self, interval: Duration) {
        Side::BOTH.into_iter().for_each(|side| self.world.flow(side, interval));
    }

    /// Lanes in use and lanes of the session, as each side sees them.
    fn lanes(&self) -> [(u8, u8); 2] {
        [self.world.a(), self.world.b()].map(|host| host.node().peers().next().map_or((0, 0), |peer| peer.lanes))
    }

    fn is_relayed(&self) -> bool {
        [self.world.a(), self.world.b()].into_iter().all(|host| {
            let way = host.node().peers().next().and_then(|peer| peer.path).and_then(|path| path.way);
            way.is_some_and(|way| way.is_relayed())
        })
    }

    #[track_caller]
    fn assert_in_order(&self) {
        assert_eq!(Side::BOTH.map(|side| self.world.ledger(side).overtaken()), [0, 0], "packets were overtaken");
    }
}

/// Returns the numbers of relayed packets on first lanes and on extra lanes.
fn shares(history: &[Recorded]) -> (usize, usize) {
    let lane = |sent: &Recorded| {
        let (_, inner) = relay::id(&sent.datagram).map(|id| (id, &sent.datagram[relay::HEADER..]))?;
        let Ok(Message::Data(data)) = classify(inner) else { return None };
        // Packets of the world are longer than any control message.
        (inner.len() > 80).then_some(data.receiver & 15)
    };
    let lanes: Vec<u32> = history.iter().filter_map(lane).collect();
    let first = lanes.iter().filter(|lane| **lane == 0).count();
    (first, lanes.len() - first)
}

#[test]
fn lanes_open_through_a_relay_and_nothing_is_overtaken_or_lost() {
    for_seeds(40, |seed| {
        let mut chance = Seeded::new(seed);
        let counts = [0; 2].map(|_| [1, 2, 2, 3, 4, 16][chance.below(6) as usize]);
        let mut scene = scene(dead(), counts, seed);
        scene.world.record();
        let start = scene.world.now();
        scene.flows(ms(2) + chance.up_to(ms(3)));
        scene.world.run(secs(10));
        assert!(scene.is_relayed());
        let all = u8::try_from(counts[0].max(counts[1])).unwrap();
        assert_eq!(scene.lanes(), [(all, all); 2]);
        assert_complete(&scene.world, start, scene.world.ago(secs(1)));
        scene.assert_in_order();
        let history = scene.world.take_history();
        let (first, extra) = shares(&history);
        assert!(
            all == 1 || extra > 0 || !is_punctual(seed),
            "{first} packets went through first lanes, {extra} through extra ones"
        );
        nonces_used_once(&history);
    });
}

#[test]
fn with_one_lane_the_relay_gets_no_frame_more_than_before() {
    for_seeds(10, |seed| {
        let frames = |counts| {
            let mut scene = scene(dead(), counts, seed);
            let before = scene.world.counts_to(scene.station, Side::A).to_station;
            scene.flows(ms(20));
            scene.world.run(secs(60));
            scene.world.counts_to(scene.station, Side::A).to_station - before
        };
        // A ping every 20 to 25 s; each extra lane adds one, and the exchange that binds it.
        let (one, two) = (frames([1, 1]), frames([2, 2]));
        assert!(one <= 12 && two >= one + 2 && two <= one + 12, "{one} frames with one lane, {two} with two");
    });
}

#[test]
fn lanes_follow_the_path_from_the_relay_to_the_direct_one_and_back() {
    for_seeds(20, |seed| {
        let mut scene = scene(dead(), [3, 2], seed);
        scene.flows(ms(4));
        scene.world.run(secs(10));
        assert!(scene.is_relayed());
        assert_eq!(scene.lanes(), [(3, 3); 2]);
        let start = scene.world.now();
        scene.world.set_links(Link::clean(ms(2)));
        scene.world.run(secs(70));
        assert!(!scene.is_relayed());
        assert_eq!(scene.lanes(), [(3, 3); 2]);
        assert_complete(&scene.world, start, scene.world.ago(secs(1)));
        scene.assert_in_order();
        scene.world.set_links(dead());
        scene.world.run(secs(20));
        assert!(scene.is_relayed());
        assert_eq!(scene.lanes(), [(3, 3); 2]);
        scene.assert_in_order();
    });
}

#[test]
fn after_a_restart_of_the_relay_the_lanes_are_back() {
    for_seeds(20, |seed| {
        let mut scene = scene(dead(), [2, 4], seed);
        scene.flows(ms(4));
        scene.world.run(secs(8));
        assert_eq!(scene.lanes(), [(4, 4); 2]);
        let away = if seed.is_multiple_of(2) { ms(0) } else { secs(3) };
        scene.world.replace(scene.station, None);
        scene.world.run(away);
        let again = scene.relay.start(100 * scene.seed + 1);
        scene.world.replace(scene.station, Some(Box::new(again)));
        scene.world.run(secs(20));
        assert_eq!(scene.lanes(), [(4, 4); 2]);
        scene.world.record();
        let start = scene.world.now();
        scene.world.run(secs(2));
        assert_complete(&scene.world, start, scene.world.ago(secs(1)));
        scene.assert_in_order();
        let (first, extra) = shares(&scene.world.take_history());
        assert!(
            extra > first || !is_punctual(seed),
            "{first} packets went through first lanes, {extra} through extra ones"
        );
    });
}
