//! The coordinator's own relay, and members that were removed or have a new key, over real sockets (fault F17).

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use taut_base::{NodeId, PrivateKey, Time};
use taut_netmap::{Hello, JoinToken, SCHEMA, ToCoordinator, ToNode};
use taut_noise::public_key;
use taut_relay::{Client, ClientOutput, Credentials};
use taut_relay_server::{ConnectionAdmission, RelayServer};
use taut_testkit::Seeded;

use super::relays::{next_tickets, read};
use super::world::{Directory, TestChannel, TestCoordinator, TestHost};
use crate::relay::{RelayOptions, start};
use crate::state::random;
use crate::store::Party;

/// Longest wait for a frame. Only a failing test reaches it.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A member that is bound to the relay.
pub(super) struct Member {
    socket: UdpSocket,
    pub(super) client: Client,
    began: Instant,
    random: Seeded,
}

impl Member {
    pub(super) fn new(relay: &RelayServer, credentials: Credentials) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", relay.port())).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let mut client = Client::new(relay.key(), credentials, Time::ZERO);
        client.set_clock(super::relays::now());
        Self { socket, client, began: Instant::now(), random: Seeded::new(taut_testkit::first()) }
    }

    /// Handles frames until `done` returns true.
    #[track_caller]
    pub(super) fn run(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            assert!(self.began.elapsed() < TEST_TIMEOUT, "nothing came of it");
            let now = Time::from_duration(self.began.elapsed());
            self.client.handle_timeout(now, &mut self.random);
            while let Some(output) = self.client.poll_output() {
                let ClientOutput::Transmit(datagram) = output else { continue };
                let _ = self.socket.send(datagram.as_bytes());
            }
            let mut buffer = [0; 2048];
            if let Ok(length) = self.socket.recv(&mut buffer) {
                self.client.handle_datagram(&buffer[..length], now, &mut self.random);
            }
        }
    }
}

/// Opens a member's channel and returns its credentials for relays.
pub(super) fn credentials(
    coordinator: &TestCoordinator,
    token: &JoinToken,
    host: &TestHost,
) -> (TestChannel, Credentials) {
    let bind = PrivateKey::from_bytes(random());
    let mut channel = TestChannel::open(coordinator.address, token, &host.machine).unwrap();
    let (node_key, bind_key) = (host.node, Some(public_key(&bind)));
    let hello = Hello {
        schema: SCHEMA,
        node_key,
        bind_key,
        enrol: None,
        have: 0,
        version: String::from("test"),
        request: None,
        run: 0,
    };
    channel.send(&ToCoordinator::Hello(hello));
    assert!(matches!(channel.receive(), Some(ToNode::Map(_))), "the map comes first");
    let (ticket, numbered, _) = next_tickets(&mut channel);
    (channel, Credentials { bind, ticket: read(&ticket), numbered: Some(read(&numbered)) })
}

fn relay(coordinator: &TestCoordinator) -> RelayServer {
    let wanted = RelayOptions { port: 0, ..RelayOptions::default() };
    let admission = ConnectionAdmission::new(64, Vec::new());
    coordinator.wait(start(&coordinator.state, Some(&wanted), &admission)).unwrap().expect("a relay")
}

/// Checks that the relay refuses both tickets.
pub(super) fn is_refused(relay: &RelayServer, credentials: &Credentials) {
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
    let coordinator = TestCoordinator::start(&directory);
    let node = coordinator.join("a");
    let (_channel, credentials) = credentials(&coordinator, &coordinator.token(), &node.host);
    let (plain, numbered) = (credentials.ticket.terms(), credentials.numbered.unwrap().terms());
    assert_eq!((plain.id, numbered.id), (None, Some(node.id())));
    assert_eq!(taut_relay::Terms { id: None, ..numbered }, plain, "and else the same");
}

#[test]
fn fault_f17_a_removed_node_is_cut_off_at_the_own_relay_at_once_and_after_a_restart() {
    let directory = Directory::new();
    let credentials = {
        let coordinator = TestCoordinator::start(&directory);
        let relay = relay(&coordinator);
        let node = coordinator.join("a");
        let (_channel, credentials) = credentials(&coordinator, &coordinator.token(), &node.host);
        let mut member = Member::new(&relay, credentials.clone());
        member.run(|_| relay.stats().tally.clients == 1 && relay.stats().tally.bound == 2);
        coordinator.wait(coordinator.state.remove_node(None, "a")).unwrap();
        assert_eq!(relay.stats().tally.clients, 0, "at once");
        member.run(|member| !member.client.is_ready());
        is_refused(&relay, &credentials);
        credentials
    };
    let coordinator = TestCoordinator::start(&directory);
    is_refused(&relay(&coordinator), &credentials);
}

#[test]
fn fault_f17_a_former_key_has_no_place_at_the_own_relay() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let relay = relay(&coordinator);
    let mut host = coordinator.join("a").host;
    let (_channel, former) = credentials(&coordinator, &coordinator.token(), &host);
    let mut member = Member::new(&relay, former.clone());
    member.run(|_| relay.stats().tally.bound == 2);
    host.node = TestHost::new().node;
    let (_channel, present) = credentials(&coordinator, &coordinator.token(), &host);
    assert_eq!(relay.stats().tally.clients, 0, "at once");
    is_refused(&relay, &former);
    let mut member = Member::new(&relay, present);
    member.run(|member| member.client.is_ready() && relay.stats().tally.clients == 1);
}

#[test]
fn fault_f17_a_machine_that_joins_again_is_served_at_once() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let relay = relay(&coordinator);
    let node = coordinator.join("a");
    coordinator.wait(coordinator.state.remove_node(None, "a")).unwrap();
    let again = node.host.join(&coordinator, &coordinator.token(), "a").unwrap();
    assert_eq!(again.host.node, node.host.node, "with the key that it had");
    let (_channel, credentials) = credentials(&coordinator, &coordinator.token(), &again.host);
    let mut member = Member::new(&relay, credentials);
    member.run(|member| member.client.is_ready() && relay.stats().tally.bound == 2);
}

/// Returns the nodes and times of the revocations in the database.
fn revocations(coordinator: &TestCoordinator) -> Vec<(NodeId, i64)> {
    coordinator.wait(async {
        let page = coordinator.state.store().read(Party::Coordinator).await.unwrap().revocations(0, 10).await.unwrap();
        page.rows.iter().map(|row| (row.node.unwrap(), row.revoked_at)).collect()
    })
}

/// Returns the numbers of the marks of removed nodes in the database.
fn marks(coordinator: &TestCoordinator) -> Vec<NodeId> {
    let network = coordinator.network();
    coordinator.wait(async {
        let mut tx = coordinator.state.store().read(Party::Coordinator).await.unwrap();
        let rows = tx.nodes_since(network, 0).await.unwrap();
        rows.valid.iter().filter(|row| row.removed).map(|row| row.id).collect()
    })
}

/// Thousands of changes delete the former versions of a network. Marks and revocations of recently removed nodes are kept.
#[test]
fn fault_f17_revocations_and_marks_are_kept_while_tickets_last() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let [old, young, ahead] = ["old", "young", "ahead"].map(|name| {
        let id = coordinator.join(name).id();
        coordinator.wait(coordinator.state.remove_node(None, name)).unwrap();
        id
    });
    let state = &coordinator.state;
    for edit in [
        "UPDATE nodes SET removed_at = removed_at - 73 * 3600 - 60 WHERE name = 'old'",
        "UPDATE revocations SET revoked_at = revoked_at - 73 * 3600 - 60 WHERE node = (SELECT id FROM nodes WHERE name = 'old')",
        "UPDATE nodes SET removed_at = removed_at + 315360000 WHERE name = 'ahead'",
        "UPDATE revocations SET revoked_at = revoked_at + 315360000 WHERE node = (SELECT id FROM nodes WHERE name = 'ahead')",
    ] {
        coordinator.wait(state.store().edit(edit));
    }
    let forget = |now| coordinator.wait(state.forget_marks(now)).unwrap();
    let now = crate::clock::unix_now();
    forget(now);
    assert_eq!(marks(&coordinator), [old, young, ahead], "nodes may resume from before");
    let kept = revocations(&coordinator);
    assert_eq!(kept.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [young, ahead]);
    assert_eq!(kept[1].1, now, "a removal while the clock was ahead counts from now on");
    coordinator.wait(async {
        let mut tx = state.store().write(Party::Coordinator).await.unwrap();
        let network = tx.networks().await.unwrap()[0].id;
        tx.leap(network, 0, 10_000, 1).await.unwrap();
        tx.commit().await.unwrap();
    });
    forget(now);
    assert_eq!(marks(&coordinator), [young, ahead]);
    forget(now + 73 * 3600 + 60);
    assert_eq!((marks(&coordinator).len(), revocations(&coordinator).len()), (0, 0));
}

/// There are more revocations than are read at once, and that of the node is the last one.
const EARLIER_REVOCATIONS: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
    INSERT INTO revocations (network, node, node_key, revoked_at) \
    SELECT (SELECT id FROM networks), i, randomblob(32), unixepoch() FROM n";

/// The clock was ten years ahead when the node was removed. Its machine joins again with its key after a restart of the coordinator.
#[test]
fn fault_f17_a_removal_while_the_clock_was_ahead_keeps_the_machine_out_of_no_relay() {
    let directory = Directory::new();
    let (host, token, removed) = {
        let coordinator = TestCoordinator::start(&directory);
        coordinator.wait(coordinator.state.store().edit(EARLIER_REVOCATIONS));
        let node = coordinator.join("a");
        let (_channel, removed) = credentials(&coordinator, &coordinator.token(), &node.host);
        coordinator.wait(coordinator.state.remove_node(None, "a")).unwrap();
        let ahead = "UPDATE revocations SET revoked_at = revoked_at + 315360000 WHERE node = (SELECT id FROM nodes WHERE name = 'a')";
        coordinator.wait(coordinator.state.store().edit(ahead));
        (node.host, coordinator.token(), removed)
    };
    let coordinator = TestCoordinator::start(&directory);
    let relay = relay(&coordinator);
    is_refused(&relay, &removed);
    let again = host.join(&coordinator, &token, "a").unwrap();
    let (_channel, credentials) = credentials(&coordinator, &token, &again.host);
    let mut member = Member::new(&relay, credentials);
    member.run(|member| member.client.is_ready() && relay.stats().tally.bound == 2);
}
