//! The coordinator's own relay and members that were removed, or have another key: over real sockets (fault F17).

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use taut_base::{Entropy, NodeId, PrivateKey, PublicKey, Time};
use taut_netmap::{Hello, SCHEMA, ToCoordinator, ToNode};
use taut_noise::public_key;
use taut_relay::{Client, Credentials};
use taut_relay_server::{Admission, Relay};

use super::relays::{next_tickets, read};
use super::world::{Channel, Coordinator, Directory, Host};
use crate::relay::{Wanted, start};
use crate::state::random;
use crate::store::Party;

/// Ends only what is hopeless.
const PATIENCE: Duration = Duration::from_secs(30);

/// The randomness of the system.
struct Dice;

impl Entropy for Dice {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = random::<1>()[0]);
    }
}

/// A member at the relay.
struct Member {
    socket: UdpSocket,
    client: Client,
    began: Instant,
}

impl Member {
    fn new(relay: &Relay, credentials: Credentials) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", relay.port())).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let mut client = Client::new(relay.key(), credentials, Time::ZERO);
        client.set_clock(super::relays::now());
        Self { socket, client, began: Instant::now() }
    }

    /// Lives until `done` says so.
    #[track_caller]
    fn run(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            assert!(self.began.elapsed() < PATIENCE, "nothing came of it");
            let now = Time::from_duration(self.began.elapsed());
            self.client.handle_timeout(now, &mut Dice);
            while let Some(datagram) = self.client.poll_transmit() {
                let _ = self.socket.send(datagram.as_bytes());
            }
            let mut buffer = [0; 2048];
            if let Ok(length) = self.socket.recv(&mut buffer) {
                self.client.handle_datagram(&buffer[..length], now, &mut Dice);
            }
        }
    }
}

/// What a member is known by, from its channel.
fn credentials(coordinator: &Coordinator, host: &Host) -> (Channel, Credentials) {
    let bind = PrivateKey::from_bytes(random());
    let mut channel = Channel::open(coordinator.address, &coordinator.token(), &host.machine).unwrap();
    let (node_key, bind_key) = (host.node, Some(public_key(&bind)));
    let hello =
        Hello { schema: SCHEMA, node_key, bind_key, enrol: None, have: 0, version: String::from("test"), run: 0 };
    channel.send(&ToCoordinator::Hello(hello));
    assert!(matches!(channel.receive(), Some(ToNode::Map(_))), "the map comes first");
    let (ticket, numbered, _) = next_tickets(&mut channel);
    (channel, Credentials { bind, ticket: read(&ticket), numbered: Some(read(&numbered)) })
}

fn relay(coordinator: &Coordinator) -> Relay {
    let wanted = Wanted { port: 0, ..Wanted::default() };
    let admission = Admission::new(64, Vec::new());
    coordinator.wait(start(&coordinator.state, Some(&wanted), &admission)).unwrap().expect("a relay")
}

/// Neither ticket is taken any more.
fn is_refused(relay: &Relay, credentials: &Credentials) {
    let numbered = credentials.numbered.clone().unwrap();
    for ticket in [credentials.ticket.clone(), numbered] {
        let before = relay.stats().tally.cut_off;
        let credentials = Credentials { ticket, numbered: None, ..credentials.clone() };
        let mut member = Member::new(relay, credentials);
        member.run(|_| relay.stats().tally.cut_off > before);
        assert!(!member.client.is_ready());
    }
}

#[test]
fn a_member_gets_its_ticket_in_both_versions() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    let node = coordinator.join("a");
    let (_channel, credentials) = credentials(&coordinator, &node.host);
    let (plain, numbered) = (credentials.ticket.terms(), credentials.numbered.unwrap().terms());
    assert_eq!((plain.id, numbered.id), (None, Some(node.id())));
    assert_eq!(taut_relay::Terms { id: None, ..numbered }, plain, "and else the same");
}

#[test]
fn fault_f17_a_removed_node_is_cut_off_at_the_own_relay_at_once_and_after_a_restart() {
    let directory = Directory::new();
    let credentials = {
        let coordinator = Coordinator::start(&directory);
        let relay = relay(&coordinator);
        let node = coordinator.join("a");
        let (_channel, credentials) = credentials(&coordinator, &node.host);
        let mut member = Member::new(&relay, credentials.clone());
        member.run(|_| relay.stats().tally.clients == 1 && relay.stats().tally.bound == 2);
        coordinator.wait(coordinator.state.remove_node(None, "a")).unwrap();
        assert_eq!(relay.stats().tally.clients, 0, "at once");
        member.run(|member| !member.client.is_ready());
        is_refused(&relay, &credentials);
        credentials
    };
    let coordinator = Coordinator::start(&directory);
    is_refused(&relay(&coordinator), &credentials);
}

#[test]
fn fault_f17_a_former_key_has_no_place_at_the_own_relay() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    let relay = relay(&coordinator);
    let mut host = coordinator.join("a").host;
    let (_channel, former) = credentials(&coordinator, &host);
    let mut member = Member::new(&relay, former.clone());
    member.run(|_| relay.stats().tally.bound == 2);
    host.node = Host::new().node;
    let (_channel, present) = credentials(&coordinator, &host);
    assert_eq!(relay.stats().tally.clients, 0, "at once");
    is_refused(&relay, &former);
    let mut member = Member::new(&relay, present);
    member.run(|member| member.client.is_ready() && relay.stats().tally.clients == 1);
}

#[test]
fn fault_f17_a_machine_that_joins_again_is_served_at_once() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    let relay = relay(&coordinator);
    let node = coordinator.join("a");
    coordinator.wait(coordinator.state.remove_node(None, "a")).unwrap();
    let again = node.host.join(&coordinator, &coordinator.token(), "a").unwrap();
    assert_eq!(again.host.node, node.host.node, "with the key that it had");
    let (_channel, credentials) = credentials(&coordinator, &again.host);
    let mut member = Member::new(&relay, credentials);
    member.run(|member| member.client.is_ready() && relay.stats().tally.bound == 2);
}

/// Thousands of changes of a network forget its former versions; what was removed lately is kept for the relay.
#[test]
fn fault_f17_marks_of_removed_nodes_are_kept_while_their_tickets_last() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    let key: PublicKey = coordinator.join("a").host.node;
    coordinator.wait(coordinator.state.remove_node(None, "a")).unwrap();
    let forgotten = coordinator.wait(async {
        let mut tx = coordinator.state.store().write(Party::House).await.unwrap();
        let network = tx.networks().await.unwrap()[0].id;
        tx.leap(network, 10_000, 1).await.unwrap();
        tx.commit().await.unwrap();
        coordinator.state.store().read(Party::House).await.unwrap().removed_nodes(NodeId(0), 10).await.unwrap()
    });
    assert_eq!(forgotten.iter().map(|row| row.node_key).collect::<Vec<_>>(), [key]);
}
