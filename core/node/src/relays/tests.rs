use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{LaneId, PrivateKey, PublicKey, RelayId, Time};
use taut_noise::public_key;
use taut_relay::{
    Client, ClientAddress, ClientOutput, Credentials, LostCause, NetworkTag, RelayLimits, Server, ServerClocks,
    ServerOutput, SigningKey, Terms, Ticket,
};

use taut_testkit::Seeded;

use super::*;

const WALL: u64 = 1_800_000_000;
/// Numbers of the node under test, of a peer in its map, and of the first peer that the relay invents.
const US: u16 = 1;
const PEER: u16 = 2;
const INVENTED: u16 = 100;

fn key(number: u16) -> PrivateKey {
    let mut bytes = [1; 32];
    // Clamping clears three bits of the first byte, so the number is in the following ones.
    bytes[1..3].copy_from_slice(&number.to_be_bytes());
    PrivateKey::from_bytes(bytes)
}

fn node(number: u16) -> PublicKey {
    public_key(&key(number))
}

fn credentials(number: u16) -> Credentials {
    let bind = key(number + 10_000);
    let terms = Terms {
        id: None,
        network: NetworkTag([1; 16]),
        node: node(number),
        bind: public_key(&bind),
        not_before: WALL,
        expires: WALL + 100_000,
    };
    Credentials { ticket: Ticket::sign(&terms, &SigningKey::from_seed([1; 32]).unwrap()), bind, numbered: None }
}

fn place(number: u16) -> ClientAddress {
    ClientAddress::Udp(SocketAddr::from(([192, 0, 2, 1], number)))
}

fn relay_place() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 9], 3478))
}

/// The relays of one node, one relay, and the relay's other clients, for which the test signs tickets.
struct World {
    relays: Relays,
    server: Server,
    others: Vec<(u16, Client)>,
    /// Peers whose ways changed.
    changed: SortedSet<PublicKey>,
    now: Time,
    entropy: Seeded,
}

impl World {
    fn new() -> Self {
        let now = Time::ZERO + Duration::from_secs(1_000);
        let signing = SigningKey::from_seed([1; 32]).unwrap();
        let server = Server::new(key(9), vec![signing.verifying()], RelayLimits::DEFAULT, [3; 32]);
        let mut relays = Relays::default();
        relays.set_map(
            &[taut_netmap::Relay {
                id: RelayId(1),
                name: String::from("r1"),
                key: node(9),
                endpoints: vec![relay_place()],
                stun_port: 0,
                web: None,
                busy: false,
            }],
            now,
        );
        relays.set_credentials(credentials(US), now);
        let mut world =
            Self { relays, server, others: Vec::new(), changed: SortedSet::new(), now, entropy: Seeded::new(7) };
        world.run(Duration::from_millis(500));
        world
    }

    /// Binds a client of this number, which then opens the node under test.
    fn opens_us(&mut self, number: u16) {
        let mut client = Client::new(node(9), credentials(number), self.now);
        client.open(node(US), self.now, &mut self.entropy);
        self.others.push((number, client));
        while !self.others.last().is_some_and(|(_, client)| client.is_ready()) {
            self.run(Duration::from_millis(20));
        }
        self.run(Duration::from_millis(20));
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.relays.handle_timeout(&mut self.entropy, self.now);
            for (_, client) in &mut self.others {
                client.handle_timeout(self.now, &mut self.entropy);
            }
            (0..4).for_each(|_| self.exchange());
            self.now = self.now + Duration::from_millis(10);
        }
    }

    fn exchange(&mut self) {
        let clocks = ServerClocks { now: self.now, wall: Duration::from_secs(WALL + 10) };
        while let Some(output) = self.relays.poll_output() {
            match output {
                RelaysOutput::Transmit(_, _, frame) => {
                    let _ = self.server.handle_frame(place(US), None, frame.as_bytes(), clocks, &mut self.entropy);
                }
                RelaysOutput::WaysChanged(peer) => drop(self.changed.insert(peer)),
                _ => {}
            }
        }
        for (number, client) in &mut self.others {
            while let Some(output) = client.poll_output() {
                let ClientOutput::Transmit(frame) = output else { continue };
                let _ = self.server.handle_frame(place(*number), None, frame.as_bytes(), clocks, &mut self.entropy);
            }
        }
        while let Some(output) = self.server.poll_output() {
            let ServerOutput::Reply(reply) = output else { continue };
            if reply.address == place(US) {
                let is_member = |key: &PublicKey| *key == node(PEER);
                self.relays.handle_datagram(
                    LaneId::FIRST,
                    relay_place(),
                    reply.as_bytes(),
                    is_member,
                    &mut self.entropy,
                    self.now,
                );
            }
            let other = self.others.iter_mut().find(|(number, _)| place(*number) == reply.address);
            other.into_iter().for_each(|(_, client)| {
                client.handle_datagram(reply.as_bytes(), self.now, &mut self.entropy);
            });
        }
    }

    fn served(&self) -> &KnownRelay {
        &self.relays.served[&RelayId(1)]
    }
}

#[test]
fn fault_f18_a_relay_that_announces_invented_keys_is_not_believed_and_real_peers_stay_reachable() {
    let mut world = World::new();
    assert!(world.served().client.as_ref().is_some_and(Client::is_ready));
    for number in INVENTED..INVENTED + 200 {
        world.opens_us(number);
    }
    world.opens_us(PEER);
    assert_eq!(world.served().known, SortedSet::from([node(PEER)]));
    assert!(world.changed.iter().all(|key| *key == node(PEER)), "the ways of no other peer change");
    let client = world.served().client.as_ref().unwrap();
    assert!((INVENTED..INVENTED + 200).all(|number| client.id_of(&node(number)).is_none()));
    assert!(client.id_of(&node(PEER)).is_some() && world.relays.ways(&node(PEER)).len() == 1);
    // A peer that leaves the network is forgotten, even if the node never asked for it.
    world.relays.forget_peer(&node(PEER));
    assert!(world.served().known.is_empty() && world.relays.ways(&node(PEER)).is_empty());
}

#[test]
fn fault_f18_one_relay_makes_the_node_ask_the_others_once_in_two_seconds() {
    let relay = taut_netmap::Relay {
        id: RelayId(1),
        name: String::from("r1"),
        key: node(9),
        endpoints: vec![relay_place()],
        stun_port: 0,
        web: None,
        busy: false,
    };
    let mut served = KnownRelay::new(&relay, Time::ZERO);
    let told = (0..10_000).filter(|now| served.take_move(Time::ZERO + Duration::from_millis(*now))).count();
    assert_eq!(told, 5);
}

#[test]
fn fault_n1_a_peer_is_looked_for_at_own_relays_when_the_map_is_old_and_its_relay_is_lost() {
    const ALL: [RelayId; 4] = [RelayId(1), RelayId(2), RelayId(3), RelayId(4)];
    let [first, second, third, other] = ALL;
    let relays = ALL.map(|id| taut_netmap::Relay {
        id,
        name: format!("r{}", id.0),
        key: node(u16::try_from(id.0).unwrap()),
        endpoints: vec![SocketAddr::from(([192, 0, 2, 9], 3478 + u16::try_from(id.0).unwrap()))],
        stun_port: 0,
        web: None,
        busy: false,
    });
    let (now, mut entropy) = (Time::ZERO, Seeded::new(7));
    let mut node_relays = Relays::default();
    node_relays.set_map(&relays, now);
    node_relays.set_credentials(credentials(US), now);
    node_relays.set_homes(&[first, second], now);
    let peer = node(PEER);
    let by = |relays: &Relays| relays.wanted[&peer].by.clone();
    for (at, expected) in [
        (&[first, second][..], [first, second]),
        (&[second, first], [first, second]),
        (&[second], [second, first]),
        (&[third], [third, first]),
        (&[third, other], [third, other]),
        (&[], [first, second]),
    ] {
        node_relays.request(peer, at, &mut entropy, now);
        assert_eq!(by(&node_relays), expected, "bound to {at:?}");
    }
    // The only relay that the map names is lost, and comes back.
    node_relays.request(peer, &[first], &mut entropy, now);
    node_relays.handle_event(first, RelayEvent::Lost(LostCause::Silent), &mut entropy, now);
    assert_eq!(by(&node_relays), [second, first]);
    node_relays.request(peer, &[first, third], &mut entropy, now);
    assert_eq!(by(&node_relays), [third, second], "the peer's other relay, and an own one");
    assert!(node_relays.served[&third].client.is_some(), "the node binds there");
    let place = node_relays.served[&first].relay.endpoints[0];
    node_relays.served.get_mut(&first).unwrap().place = Some(place);
    node_relays.handle_event(first, RelayEvent::Ready, &mut entropy, now);
    assert_eq!(by(&node_relays), [first, second]);
}
