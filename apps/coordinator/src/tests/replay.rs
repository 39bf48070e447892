//! Replays of a node's recorded bytes (fault C7).

use taut_base::{PrivateKey, encode_base64url};
use taut_netmap::{Enrol, ToCoordinator, prologue};
use taut_noise::ik::Initiator;
use tungstenite::Message;

use super::world::{Directory, TestChannel, TestCoordinator, TestHost, read};
use crate::state::{Expiry, random};

/// A channel of a node, and a record of all messages that the node sent on it.
struct Recorded {
    channel: TestChannel,
    said: Vec<Vec<u8>>,
}

impl Recorded {
    fn open(coordinator: &TestCoordinator, machine: &PrivateKey) -> Self {
        let token = coordinator.token();
        let mut socket = TestChannel::socket(coordinator.address, &token.network);
        let ephemeral = PrivateKey::from_bytes(random());
        let (initiator, first) =
            Initiator::start(&prologue(&token.network), machine, &token.coordinator, ephemeral).unwrap();
        socket.send(Message::binary(first.to_vec())).unwrap();
        let transport = initiator.finish(&read(&mut socket).unwrap()).unwrap();
        Self { channel: TestChannel { socket, transport }, said: vec![first.to_vec()] }
    }

    fn say(&mut self, message: &ToCoordinator) {
        let sealed = self.channel.transport.seal(&serde_json::to_vec(message).unwrap());
        self.channel.socket.send(Message::binary(sealed.clone())).unwrap();
        self.said.push(sealed);
    }

    /// Replays the recorded messages on a new connection. The coordinator answers the first message of the handshake, which anybody may repeat, with keys that
    /// only the node can compute. It cannot decrypt the next message, and closes the connection.
    fn again(&self, coordinator: &TestCoordinator) {
        let mut socket = TestChannel::socket(coordinator.address, &coordinator.token().network);
        for said in &self.said {
            // The coordinator may have closed the connection already.
            let _ = socket.send(Message::binary(said.clone()));
        }
        assert!(read(&mut socket).is_some(), "the handshake's second message");
        assert_eq!(read(&mut socket), None, "and nothing more");
    }
}

fn enrol(coordinator: &TestCoordinator, name: &str) -> (i64, Option<Enrol>) {
    let (id, token) = coordinator.key(false, Expiry::Never);
    (id, Some(Enrol { secret: encode_base64url(&token.secret), name: String::from(name) }))
}

fn members(coordinator: &TestCoordinator) -> Vec<(String, bool)> {
    coordinator
        .wait(coordinator.state.nodes(None))
        .unwrap()
        .into_iter()
        .map(|node| (node.row.name, node.online))
        .collect()
}

#[test]
fn fault_c7_a_replayed_registration_registers_and_disturbs_no_node() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let host = TestHost::new();
    let (_, enrolment) = enrol(&coordinator, "web");
    let mut node = Recorded::open(&coordinator, &host.machine);
    node.say(&host.hello(enrolment, 0));
    assert!(node.channel.receive().is_some(), "a map");
    node.say(&ToCoordinator::Endpoints {
        endpoints: vec!["192.0.2.1:8288".parse().unwrap()],
        ports: vec![8288],
        observed: Vec::new(),
    });

    // While the node is connected: a newer channel of its own would replace its channel.
    for _ in 0..3 {
        node.again(&coordinator);
    }
    node.say(&ToCoordinator::Ping);
    while node.channel.receive().expect("it is still connected") != taut_netmap::ToNode::Pong {}
    assert_eq!(members(&coordinator), [(String::from("web"), true)]);

    // After its goodbye and after its removal: the node neither comes online nor becomes a member again.
    node.say(&ToCoordinator::Goodbye);
    while node.channel.receive().is_some() {}
    node.again(&coordinator);
    assert_eq!(members(&coordinator), [(String::from("web"), false)]);
    coordinator.wait(coordinator.state.remove_node(None, "web")).unwrap();
    node.again(&coordinator);
    assert_eq!(members(&coordinator), []);
}

#[test]
fn fault_c7_an_intercepted_enrolment_cannot_be_replayed() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let host = TestHost::new();
    let (_, enrolment) = enrol(&coordinator, "web");
    // The hello never arrived, so the key is unused. The recorded bytes are still useless.
    let mut kept = Recorded::open(&coordinator, &host.machine);
    let hello = kept.channel.transport.seal(&serde_json::to_vec(&host.hello(enrolment.clone(), 0)).unwrap());
    kept.said.push(hello);
    kept.again(&coordinator);
    assert_eq!(members(&coordinator), []);
    let mut node = Recorded::open(&coordinator, &host.machine);
    node.say(&host.hello(enrolment, 0));
    assert!(node.channel.receive().is_some(), "the key still lets its owner in");
    assert_eq!(members(&coordinator), [(String::from("web"), true)]);
}

#[test]
fn fault_c7_a_record_repeated_or_out_of_its_place_ends_the_channel() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let endpoints = |port: u16| ToCoordinator::Endpoints {
        endpoints: vec![format!("192.0.2.1:{port}").parse().unwrap()],
        ports: vec![port],
        observed: Vec::new(),
    };
    // The records (0 is the hello) that are sent after the hello. The last one of each list is wrong at its place.
    for order in [vec![0], vec![1, 1], vec![1, 0], vec![2], vec![1, 2, 1]] {
        let host = TestHost::new();
        let mut node = Recorded::open(&coordinator, &host.machine);
        node.say(&host.hello(enrol(&coordinator, "web").1, 0));
        assert!(node.channel.receive().is_some());
        let sealed: Vec<_> =
            [endpoints(1), endpoints(2)].map(|said| serde_json::to_vec(&said).unwrap()).into_iter().collect();
        let sealed: Vec<_> = sealed.iter().map(|plain| node.channel.transport.seal(plain)).collect();
        let records = [&node.said[1], &sealed[0], &sealed[1]];
        for place in &order {
            let _ = node.channel.socket.send(Message::binary(records[*place].clone()));
        }
        // The coordinator answers what came before, and then closes the connection.
        while node.channel.receive().is_some() {}
        assert!(host.resume(&coordinator, &coordinator.token(), None).is_ok(), "it may come back; {order:?}");
    }
}
