//! What a node said once, said again by somebody who kept the bytes (fault C7).

use taut_base::{PrivateKey, encode_base64url};
use taut_netmap::{Enrol, ToCoordinator, prologue};
use taut_noise::ik::Initiator;
use tungstenite::Message;

use super::world::{Channel, Coordinator, Directory, Host, read};
use crate::state::{Expiry, random};

/// A channel as a node opens it, and every byte string that it sent there, in order.
struct Recorded {
    channel: Channel,
    said: Vec<Vec<u8>>,
}

impl Recorded {
    fn open(coordinator: &Coordinator, machine: &PrivateKey) -> Self {
        let token = coordinator.token();
        let mut socket = Channel::socket(coordinator.address, &token.network);
        let ephemeral = PrivateKey::from_bytes(random());
        let (initiator, first) =
            Initiator::start(&prologue(&token.network), machine, &token.coordinator, ephemeral).unwrap();
        socket.send(Message::binary(first.to_vec())).unwrap();
        let transport = initiator.finish(&read(&mut socket).unwrap()).unwrap();
        Self { channel: Channel { socket, transport }, said: vec![first.to_vec()] }
    }

    fn say(&mut self, message: &ToCoordinator) {
        let sealed = self.channel.transport.seal(&serde_json::to_vec(message).unwrap());
        self.channel.socket.send(Message::binary(sealed.clone())).unwrap();
        self.said.push(sealed);
    }

    /// The same connection again, byte by byte. The coordinator answers the handshake's first message, which anybody may repeat, with keys
    /// that only the node could compute; the next thing that it hears makes no sense then, and it hangs up.
    fn again(&self, coordinator: &Coordinator) {
        let mut socket = Channel::socket(coordinator.address, &coordinator.token().network);
        for said in &self.said {
            // The coordinator may have hung up already.
            let _ = socket.send(Message::binary(said.clone()));
        }
        assert!(read(&mut socket).is_some(), "the handshake's second message");
        assert_eq!(read(&mut socket), None, "and nothing more");
    }
}

fn enrol(coordinator: &Coordinator, name: &str) -> (i64, Option<Enrol>) {
    let (id, token) = coordinator.key(false, Expiry::Never);
    (id, Some(Enrol { secret: encode_base64url(&token.secret), name: String::from(name) }))
}

fn members(coordinator: &Coordinator) -> Vec<(String, bool)> {
    coordinator
        .wait(coordinator.state.nodes(None))
        .unwrap()
        .into_iter()
        .map(|node| (node.row.name, node.online))
        .collect()
}

#[test]
fn fault_c7_a_registration_that_is_said_again_registers_nobody_and_disturbs_nobody() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    let host = Host::new();
    let (_, enrolment) = enrol(&coordinator, "web");
    let mut node = Recorded::open(&coordinator, &host.machine);
    node.say(&host.hello(enrolment, 0));
    assert!(node.channel.receive().is_some(), "a map");
    node.say(&ToCoordinator::Endpoints {
        endpoints: vec!["192.0.2.1:8288".parse().unwrap()],
        ports: vec![8288],
        observed: Vec::new(),
    });

    // While it is connected: a channel of its own that is newer would take over from it.
    for _ in 0..3 {
        node.again(&coordinator);
    }
    node.say(&ToCoordinator::Ping);
    while node.channel.receive().expect("it is still connected") != taut_netmap::ToNode::Pong {}
    assert_eq!(members(&coordinator), [(String::from("web"), true)]);

    // After it said goodbye, and after it was removed: it neither comes online nor back.
    node.say(&ToCoordinator::Goodbye);
    while node.channel.receive().is_some() {}
    node.again(&coordinator);
    assert_eq!(members(&coordinator), [(String::from("web"), false)]);
    coordinator.wait(coordinator.state.remove_node(None, "web")).unwrap();
    node.again(&coordinator);
    assert_eq!(members(&coordinator), []);
}

#[test]
fn fault_c7_an_enrolment_that_never_arrived_cannot_be_handed_in_by_somebody_else() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    let host = Host::new();
    let (_, enrolment) = enrol(&coordinator, "web");
    // The hello was kept back on its way: the key is unused, and the bytes are of no use to who has them.
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
    let coordinator = Coordinator::start(&directory);
    let endpoints = |port: u16| ToCoordinator::Endpoints {
        endpoints: vec![format!("192.0.2.1:{port}").parse().unwrap()],
        ports: vec![port],
        observed: Vec::new(),
    };
    // Which of the records 0 (the hello), 1 and 2 are sent after the hello; the last one is wrong there.
    for order in [vec![0], vec![1, 1], vec![1, 0], vec![2], vec![1, 2, 1]] {
        let host = Host::new();
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
        // All that comes is what was said before; then it hangs up.
        while node.channel.receive().is_some() {}
        assert!(host.resume(&coordinator, &coordinator.token(), None).is_ok(), "it may come back; {order:?}");
    }
}
