//! Lanes that open and close by load (`--lanes auto`), while flows start, stop, pause and change their rate, sessions are renewed, and threads wake late. On a clean
//! network no flow is reordered, no packet arrives twice, each packet arrives or was dropped for a reason with a name, and each key seals with each counter once.
//!
//! What a core can do is a model ([`AutoSettings::cost`]): it decides when lanes open, and says nothing about a real machine.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, as tests do")]

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Entropy, LaneId, PeerId, Time};
use taut_sim::{AutoSettings, Host, LanesHost, Ledger, Link, Party, Seeded, Settings, Side, Station, World, map_for};
use taut_tunnel::Limits;
use taut_wire::control::{Abilities, ControlMessage, Lanes, Suites};

use crate::control::{AES, nonces_used_once};
use crate::{assert_complete, for_seeds, ms, parties, secs};

type LanesWorld = World<LanesHost, LanesHost>;

/// Flows of each side's applications.
const FLOWS: u16 = 24;

/// The work for one datagram: a lane carries a thousand per second.
const COST: Duration = Duration::from_millis(1);

/// A side of the world: lanes by load or a fixed number, 2 to 16 of them.
fn some_host(me: &Party, peer: &Party, settings: Settings, chance: &mut Seeded, seed: u64) -> LanesHost {
    let most = 2 + u8::try_from(chance.below(15)).unwrap();
    let latest = [ms(0), ms(1), ms(10)][chance.below(3) as usize];
    let late: Vec<Duration> = (0..most).map(|_| chance.up_to(latest)).collect();
    if chance.below(4) == 0 {
        return LanesHost::new(me, map_for(me, &[peer]), settings, &late, seed);
    }
    let auto = AutoSettings { most, cost: COST, steered: chance.below(4) > 0 };
    LanesHost::auto(me, map_for(me, &[peer]), settings, auto, &late, seed)
}

/// The applications of one side. Their load changes between much and little, and so do their flows.
struct Applications {
    side: Side,
    /// Packets per second that all flows together aim at.
    rate: u32,
    next: Time,
}

impl Applications {
    /// Sets the next load: nothing, a fraction of what one lane carries, or up to three times as much.
    fn turn(&mut self, world: &mut LanesWorld, chance: &mut Seeded) {
        self.rate = [0, 20, 300, 1_500, 3_000][chance.below(5) as usize];
        self.next = world.now() + secs(1) + chance.up_to(secs(12));
        for flow in 0..FLOWS {
            self.change(flow, world, chance);
        }
    }

    /// Starts a flow, stops it, or changes its rate.
    fn change(&self, flow: u16, world: &mut LanesWorld, chance: &mut Seeded) {
        // A third of the flows carry most of the load.
        let share = if flow.is_multiple_of(3) { 8 } else { 1 };
        let interval = secs(1) * 80 / (share * self.rate.max(1)) + chance.up_to(ms(5));
        let runs = self.rate > 0 && chance.below(5) > 0;
        world.set_flow(self.side, flow, runs.then_some(interval));
    }

    /// Does what one application may do at any time.
    fn something(&self, world: &mut LanesWorld, chance: &mut Seeded) {
        let flow = u16::try_from(chance.below(u32::from(FLOWS))).unwrap();
        match chance.below(4) {
            // A pause, which lasts until something else happens to this flow.
            0 => world.set_flow(self.side, flow, None),
            1 => (0..chance.below(30)).for_each(|_| world.send_in(self.side, flow)),
            _ => self.change(flow, world, chance),
        }
    }
}

/// Stops all flows, and checks what became of every packet.
#[track_caller]
fn assert_exact(world: &mut LanesWorld) {
    Side::BOTH.into_iter().for_each(|side| world.stop(side));
    world.run(secs(3));
    let hosts = [world.a(), world.b()];
    // A probe may arrive before its lane has learned of the session; it carries no packet.
    let named = |host: &&LanesHost| host.drops().iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>();
    let other: Vec<_> = hosts.iter().flat_map(named).filter(|(name, _)| *name != "in-unknown-index").collect();
    assert_eq!(other, [], "packets were dropped");
    for (side, host) in Side::BOTH.into_iter().zip(hosts) {
        let ledger = world.ledger(side);
        let missing = (ledger.sent() - ledger.arrived()) as u64;
        assert_eq!(missing, host.queue_drops(), "packets from {side:?} are missing that found room in their queue");
        assert_eq!(ledger.overtaken(), 0, "packets from {side:?} were overtaken");
    }
}

#[test]
fn lanes_that_open_and_close_by_load_reorder_and_lose_nothing() {
    let (grown, opened, sealed) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let scenario = |seed: u64| {
        let mut chance = Seeded::new(!seed);
        let settings = Settings {
            // More than the 5 s within which two handshakes count as crossed, as with the real 120 s.
            limits: Limits::with_rekey_after(secs(6) + chance.up_to(secs(20))),
            agent_delay: if chance.below(2) == 0 { Duration::ZERO } else { chance.up_to(ms(20)) },
            suites: if chance.below(2) == 0 { AES } else { Suites::STOCK },
            ..Settings::default()
        };
        let [a, b] = parties();
        let hosts = (
            some_host(&a, &b, settings, &mut chance, 2 * seed),
            some_host(&b, &a, settings, &mut chance, 2 * seed + 1),
        );
        let delay = [ms(0), ms(1), ms(9), ms(40)][chance.below(4) as usize];
        let mut world = World::new((&a, hosts.0), (&b, hosts.1), Link::clean(delay), seed);
        world.set_flows(FLOWS);
        world.record();
        // If both nodes speak first at once, their handshakes cross.
        Side::BOTH.into_iter().take(1 + chance.below(2) as usize).for_each(|side| world.send_in(side, 0));
        world.run(secs(1));
        let mut applications = Side::BOTH.map(|side| Applications { side, rate: 0, next: world.now() });
        let end = world.now() + secs(40);
        while world.now() < end {
            for application in &mut applications {
                if world.now() >= application.next {
                    application.turn(&mut world, &mut chance);
                }
                application.something(&mut world, &mut chance);
            }
            if chance.below(50) == 0 {
                let refuses = chance.below(2) == 0;
                world.with_a(|host, _| host.refuse_lanes(refuses));
            }
            world.run(chance.up_to(ms(600)));
            opened.set(opened.get() + usize::from(lanes(world.a(), 0) > 1));
        }
        assert_exact(&mut world);
        grown.set(grown.get() + world.a().grown() + world.b().grown());
        sealed.set(sealed.get() + nonces_used_once(&world.take_history()));
    };
    // How often lanes open depends on what the seeds draw, so these are the same in every run.
    (0..5).for_each(scenario);
    assert!(grown.get() > 4 && opened.get() > 40, "lanes were started {} times", grown.get());
    assert!(sealed.get() > 30_000, "{} packets were sealed", sealed.get());
    for_seeds(8, scenario);
}

/// Returns the number of lanes in use with a peer.
fn lanes(host: &LanesHost, peer: usize) -> u8 {
    host.node().peers().nth(peer).map_or(0, |peer| peer.lanes.0)
}

/// A hostile member beside the two hosts: it names other lanes again and again, and sends packets of several flows to node A.
struct HostileMember {
    host: LanesHost,
    packets: Ledger,
    /// The times between two messages and between two packets, and when the next ones are sent.
    pace: [Duration; 2],
    next: [Time; 2],
    chance: Seeded,
}

impl HostileMember {
    fn new(me: &Party, victim: &Party, pace: [Duration; 2], start: Time, seed: u64) -> Self {
        let late = [Duration::ZERO; 8];
        let mut packets = Ledger::new(me.overlay(), victim.overlay());
        packets.set_flows(FLOWS);
        Self {
            host: LanesHost::new(me, map_for(me, &[victim]), Settings::default(), &late, seed),
            packets,
            pace,
            next: [start; 2],
            chance: Seeded::new(seed),
        }
    }

    /// Returns true if it is time for the next message (0) or packet (1).
    fn is_due(&mut self, what: usize, now: Time) -> bool {
        let due = now >= self.next[what];
        if due {
            self.next[what] = now + self.pace[what];
        }
        due
    }

    /// Names up to 15 extra lanes, at ports that are its own or nobody's.
    fn some_message(&mut self) -> ControlMessage {
        let ports: Vec<u16> =
            (0..self.chance.below(16)).map(|_| u16::try_from(8_288 + self.chance.below(12)).unwrap()).collect();
        ControlMessage::Offer { lanes: Lanes::with_ports(&ports), suites: Suites::STOCK, abilities: Abilities::OURS }
    }
}

impl Station for HostileMember {
    fn receive(&mut self, port: u16, source: SocketAddr, datagram: &[u8], now: Time) {
        if port < self.host.ports() {
            self.host.receive_at(port, source, datagram, now);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.host.poll_timeout().is_some_and(|due| now >= due) {
            self.host.handle_timeout(now);
        }
        if self.is_due(1, now) {
            let packet = self.packets.send(now);
            self.host.send(&packet, now);
        }
        if self.is_due(0, now) {
            let message = self.some_message();
            self.host.say(LaneId::FIRST, message, now);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next.into_iter().chain(self.host.poll_timeout()).min()
    }

    fn poll_transmit(&mut self) -> Option<(u16, SocketAddr, Vec<u8>)> {
        self.host.poll_transmit_at()
    }
}

/// Runs until the lanes of both nodes have not changed for longer than the minute after which they may grow again.
fn settle(world: &mut LanesWorld, id: PeerId) {
    let lanes_of = |world: &LanesWorld| (world.a().changes(id), lanes(world.a(), 0), lanes(world.b(), 0));
    world.run(secs(10));
    let has_settled = (0..5).any(|_| {
        let before = lanes_of(world);
        world.run(secs(75));
        lanes_of(world) == before
    });
    assert!(has_settled, "the lanes still change after {:?}", world.now());
}

/// A node with an honest member, which is side B of the world, and a hostile one. The honest member's flows need extra lanes, or one lane is enough for them.
fn besieged(needs_lanes: bool, pace: [Duration; 2], seed: u64) {
    let [a, b, c] = [1, 2, 3].map(Party::new);
    let mut chance = Seeded::new(!seed);
    let most = 4 + u8::try_from(chance.below(13)).unwrap();
    let auto = AutoSettings { most, cost: COST, steered: chance.below(4) > 0 };
    let late = vec![chance.up_to(ms(2)); most.into()];
    // No session is renewed by time, so every new one has another cause.
    let settings = Settings { limits: Limits::with_rekey_after(secs(3_600)), ..Settings::default() };
    let host = |me, peers: &[&Party], seed| LanesHost::auto(me, map_for(me, peers), settings, auto, &late, seed);
    let hosts = (host(&a, &[&b, &c], 3 * seed), host(&b, &[&a], 3 * seed + 1));
    let mut world = World::new((&a, hosts.0), (&b, hosts.1), Link::clean(ms(1)), seed);
    world.set_flows(FLOWS);
    for flow in 0..FLOWS {
        // What one and a third lane carry: more than one, and little enough that those which open are enough.
        world.set_flow(Side::A, flow, Some(if needs_lanes { ms(18) } else { secs(2) }));
        world.set_flow(Side::B, flow, Some(secs(2)));
    }
    let id = world.a().node().peers().next().unwrap().id;
    settle(&mut world, id);
    let open = lanes(world.a(), 0);
    assert_eq!(open > 1, needs_lanes, "{open} lanes are open");

    let seen = |world: &LanesWorld| {
        let peer = world.a().node().peers().next().unwrap();
        (peer.lanes, peer.established, world.a().changes(id), world.a().queue_drops())
    };
    let (before, start) = (seen(&world), world.now());
    let hostile = HostileMember::new(&c, &a, pace, start, 3 * seed + 2);
    world.put_up(c.endpoint, Box::new(hostile), Link::clean(ms(1)));
    world.run(secs(25));
    assert_eq!(seen(&world), before, "lanes, sessions, changes and drops of the honest member");
    let hostile = world.a().node().peers().nth(1).unwrap();
    assert!(hostile.established > 0 && hostile.lane_changes_ignored > 100, "{} changes", hostile.lane_changes_ignored);
    assert_complete(&world, start, world.ago(secs(1)));
    assert_eq!(Side::BOTH.map(|side| world.ledger(side).overtaken()), [0, 0], "packets were overtaken");
}

#[test]
fn fault_b11_a_member_that_keeps_changing_its_lanes_moves_nobody_elses() {
    for_seeds(8, |seed| {
        // Few packets beside many messages, or a load of a quarter of a lane, which every lane has to spare: how peers share a core is no part of the model.
        let pace = if seed.is_multiple_of(2) { [ms(20), ms(50)] } else { [ms(100), ms(4)] };
        besieged(true, pace, seed);
        besieged(false, pace, seed);
    });
}
