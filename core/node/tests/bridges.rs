//! A node reaches a relay through a bridge where UDP is blocked, and by UDP again as soon as the relay answers there. The test runs a whole node and the real rules
//! of a relay, on a wire that passes or blocks UDP.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "what several tests share, of which this one needs a part")]
mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{Seeded, key, map, seeded};
use taut_base::{LaneId, PrivateKey, RelayId, Time};
use taut_netmap::Relay;
use taut_node::{Clocks, Datagram, FromLane, Node, Output, ToLane};
use taut_noise::public_key;
use taut_relay::{
    ClientAddress, Credentials, NetworkTag, RelayLimits, Server, ServerOutput, SigningKey, Terms, Ticket,
};
use taut_tunnel::Limits;
use taut_wire::stun::{BindingRequest, BindingResponse, MAX_ANSWER_LEN};

const STEP: Duration = Duration::from_millis(5);
const WALL: Duration = Duration::from_secs(1_800_000_000);
const RELAY: RelayId = RelayId(1);
/// The client's address, as the relay sees it through the bridge.
const STREAM: ClientAddress = ClientAddress::Stream(1);

fn at_udp() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 7], 3478))
}

/// The node's endpoint, as the relay sees it by UDP.
fn me() -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 1], 8288))
}

fn at_bridge() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 40_000))
}

/// One node, its relay, and the network between them.
struct World {
    node: Node<Seeded>,
    relay: Server,
    entropy: Seeded,
    now: Time,
    /// Whether UDP passes frames, and whether it passes STUN.
    udp: (bool, bool),
    /// Whether a requested bridge opens.
    web: bool,
    requested: bool,
    is_open: bool,
    /// The relays that the node reported to the coordinator.
    homes: Vec<RelayId>,
    /// The addresses that the lane accepts frames from.
    heard: Vec<SocketAddr>,
}

fn world(udp: (bool, bool)) -> World {
    let signer = SigningKey::from_seed([3; 32]).unwrap();
    let (relay_key, bind) = (PrivateKey::from_bytes([200; 32]), PrivateKey::from_bytes([201; 32]));
    let mut listed = map(0, 0..2);
    listed.relays = vec![Relay {
        id: RELAY,
        name: String::from("r"),
        key: public_key(&relay_key),
        endpoints: vec![at_udp()],
        stun_port: 0,
        web: Some(String::from("wss://r.example/")),
        busy: false,
    }];
    let terms = Terms {
        network: NetworkTag([7; 16]),
        id: None,
        node: public_key(&key(0)),
        bind: public_key(&bind),
        not_before: WALL.as_secs(),
        expires: WALL.as_secs() + 72 * 3600,
    };
    let credentials = Credentials { bind, ticket: Ticket::sign(&terms, &signer), numbered: None };
    let mut node = Node::new(key(0), Limits::WIREGUARD, seeded(1));
    node.set_map(&listed);
    let relay = Server::new(relay_key, vec![signer.verifying()], RelayLimits::DEFAULT, [5; 32]);
    let heard = Vec::new();
    let (now, entropy) = (Time::ZERO + Duration::from_secs(100), seeded(2));
    let mut world =
        World { node, relay, entropy, now, udp, web: true, requested: false, is_open: false, homes: Vec::new(), heard };
    let clocks = world.clocks();
    world.node.set_ticket(credentials, clocks);
    world
}

impl World {
    fn clocks(&self) -> Clocks {
        Clocks { now: self.now, wall: WALL }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + STEP;
            let clocks = self.clocks();
            if self.node.poll_timeout().is_some_and(|due| due <= self.now) {
                self.node.handle_timeout(clocks);
                assert!(
                    self.node.poll_timeout().is_none_or(|due| due > self.now),
                    "a timeout is due again right after it was handled"
                );
            }
            self.relay.handle_timeout(self.now);
            self.carry();
            self.set_bridge(self.requested && self.web);
            self.carry();
        }
    }

    fn set_bridge(&mut self, open: bool) {
        let clocks = self.clocks();
        match (std::mem::replace(&mut self.is_open, open), open) {
            (false, true) => self.node.bridge_opened(RELAY, at_bridge(), clocks),
            (true, false) => {
                self.relay.handle_hangup(STREAM);
                self.node.bridge_closed(RELAY, clocks);
            }
            _ => {}
        }
    }

    /// Carries the datagrams of the node's lane to the relay, and the replies back.
    fn carry(&mut self) {
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Lane(_, ToLane::Relays(places)) => self.heard = places.to_vec(),
                Output::Bridges(requests) => {
                    self.requested = requests == [(RELAY, String::from("wss://r.example/"))];
                    assert!(self.requested || requests.is_empty());
                }
                Output::HomeRelays(relays) => self.homes = relays,
                Output::Lane(_, ToLane::Datagram { destination, bytes }) => {
                    assert!(
                        self.heard.contains(&destination) || destination == at_bridge(),
                        "the answer would be dropped: the lane does not know {destination}"
                    );
                    self.send(destination, bytes.as_bytes());
                }
                _ => {}
            }
        }
        while let Some(output) = self.relay.poll_output() {
            let ServerOutput::Reply(reply) = output else { continue };
            match reply.address {
                ClientAddress::Udp(_) if self.udp.0 => self.receive(at_udp(), reply.as_bytes()),
                ClientAddress::Stream(_) if self.is_open => self.receive(at_bridge(), reply.as_bytes()),
                _ => {}
            }
        }
    }

    fn send(&mut self, to: SocketAddr, bytes: &[u8]) {
        let clocks = taut_relay::ServerClocks { now: self.now, wall: WALL };
        if let Ok(request) = BindingRequest::parse(bytes) {
            if self.udp.1 && to == at_udp() && !request.change_port {
                let answer = BindingResponse { transaction: request.transaction, mapped: me(), other: None };
                let mut bytes = [0; MAX_ANSWER_LEN];
                let length = answer.write(&mut bytes);
                self.receive(at_udp(), &bytes[..length]);
            }
            return;
        }
        let place = match to {
            _ if to == at_udp() && self.udp.0 => ClientAddress::Udp(me()),
            _ if to == at_bridge() && self.is_open => STREAM,
            _ => return,
        };
        let _ = self.relay.handle_frame(place, None, bytes, clocks, &mut self.entropy);
    }

    fn receive(&mut self, source: SocketAddr, bytes: &[u8]) {
        if self.heard.contains(&source) {
            let said = FromLane::Datagram { source, bytes: Datagram::new(bytes).unwrap() };
            self.node.handle(LaneId::FIRST, said, self.clocks());
        }
    }

    /// Returns the address at which the relay answers, if it does.
    fn place(&self) -> Option<SocketAddr> {
        self.node.relays().next().unwrap().place
    }
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn no_bridge_is_requested_where_udp_passes() {
    let mut world = world((true, true));
    world.run(secs(3_600));
    assert!(world.place() == Some(at_udp()) && !world.requested);
}

#[test]
fn fault_j10_without_udp_the_relay_is_reached_by_the_bridge_within_two_seconds_and_stays_so() {
    let mut world = world((false, false));
    world.run(Duration::from_millis(900));
    assert!(!world.requested, "only UDP is tried for a second");
    world.run(Duration::from_millis(1_100));
    assert_eq!(world.place(), Some(at_bridge()));
    assert!(world.node.relays().next().unwrap().is_bridged);
    assert_eq!(world.homes, [RELAY], "the node must report the relay to the coordinator");
    for _ in 0..360 {
        world.run(secs(10));
        assert_eq!(world.place(), Some(at_bridge()));
    }
}

#[test]
fn the_binding_moves_to_udp_when_it_works_again_and_the_bridge_closes_after_the_trial() {
    let mut world = world((false, false));
    world.run(secs(5));
    world.udp = (true, true);
    let mut waited = 0;
    while world.place() != Some(at_udp()) {
        world.run(STEP);
        waited += 1;
        assert!(world.place().is_some(), "the node stays bound to the relay during the trial");
        assert!(waited < 70 * 200, "UDP is asked every minute at least");
    }
    assert!(world.requested, "UDP is on trial");
    world.run(secs(11));
    assert!(!world.requested && !world.is_open && world.place() == Some(at_udp()));
    assert!(!world.heard.contains(&at_bridge()));
    // UDP is blocked again.
    world.udp = (false, false);
    world.run(secs(40));
    assert_eq!(world.place(), Some(at_bridge()));
}

#[test]
fn a_failed_trial_of_udp_takes_half_a_second_and_is_repeated_after_ten_minutes() {
    let mut world = world((false, true));
    world.run(secs(30));
    assert_eq!(world.place(), Some(at_bridge()));
    let mut away = Duration::ZERO;
    for _ in 0..(3_600_000 / 5) {
        world.run(STEP);
        if world.place() != Some(at_bridge()) {
            away += STEP;
        }
    }
    // Each trial of UDP takes half a second, and there is one trial in ten minutes.
    assert!(away <= 7 * Duration::from_millis(1_000), "{away:?}");
}

#[test]
fn fault_f8_a_bridge_that_breaks_is_noticed_and_used_again_when_it_is_back() {
    let mut world = world((false, false));
    world.run(secs(5));
    world.web = false;
    for _ in 0..20 {
        world.run(Duration::from_millis(100));
        assert!(world.requested, "a broken bridge is still requested");
    }
    assert!(world.place().is_none() && world.requested && !world.heard.contains(&at_bridge()));
    world.run(secs(60));
    world.web = true;
    world.run(secs(1));
    assert_eq!(world.place(), Some(at_bridge()));
    // The bridge broke and opened again between two turns of the agent: the relay has forgotten the client, and answers with a hint.
    world.relay.handle_hangup(STREAM);
    let clocks = world.clocks();
    world.node.bridge_opened(RELAY, at_bridge(), clocks);
    world.run(Duration::from_millis(100));
    assert_eq!((world.place(), world.relay.tally().clients), (Some(at_bridge()), 1));
}

#[test]
fn a_relay_that_restarts_is_bound_again_without_a_bridge() {
    let mut world = world((true, true));
    world.run(secs(5));
    for _ in 0..20 {
        // The relay forgets the client.
        world.relay.handle_hangup(ClientAddress::Udp(me()));
        world.run(secs(30));
        assert!(world.place() == Some(at_udp()) && !world.requested);
    }
}
