//! A relay, its clients and tickets under any bytes.

use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{NodeId, PrivateKey, PublicKey, Time};
use taut_noise::public_key;
use taut_relay::frame::{self, DATA_HEADER, Frame};
use taut_relay::{
    Client, ClientAddress, ClientOutput, Credentials, Forward, ForwardRate, NetworkTag, RelayLimits, Server,
    ServerClocks, ServerOutput, SigningKey, Terms, Ticket,
};
use taut_testkit::Seeded;
use taut_wire::{stun, wireguard};

use crate::input::Input;

const NOW: Time = Time(1_000_000_000_000);
pub(crate) const WALL: Duration = Duration::from_secs(1_800_000_000);

pub(crate) fn signer() -> Option<SigningKey> {
    SigningKey::from_seed([1; 32])
}

pub(crate) fn node(number: u8) -> PublicKey {
    public_key(&PrivateKey::from_bytes([number; 32]))
}

pub(crate) fn ticket_of(number: u8, bind: &PrivateKey) -> Option<Ticket> {
    Some(Ticket::sign(&terms(number, None, bind), &signer()?))
}

/// A ticket that also names the node.
pub(crate) fn numbered_of(number: u8, id: NodeId, bind: &PrivateKey) -> Option<Ticket> {
    Some(Ticket::sign(&terms(number, Some(id), bind), &signer()?))
}

fn terms(number: u8, id: Option<NodeId>, bind: &PrivateKey) -> Terms {
    let (network, seconds) = (NetworkTag([1; 16]), WALL.as_secs());
    let (not_before, expires) = (seconds - 60, seconds + 86_400);
    Terms { network, id, node: node(number), bind: public_key(bind), not_before, expires }
}

/// A frame: it cannot be mistaken for WireGuard or STUN, and it carries a WireGuard message.
pub(crate) fn relay_frame(data: &[u8]) {
    let Ok(frame) = frame::parse(data) else { return assert!(frame::data(data).is_none()) };
    assert!(frame::is_frame(data) && !stun::is_stun(data) && wireguard::classify(data).is_err());
    if let Frame::Data { id, datagram } = frame {
        assert_eq!([&frame::data_header(id), datagram].concat(), data);
        assert!(!frame::is_frame(datagram) && datagram.len() >= wireguard::DATA_MIN);
    }
}

/// A ticket, as bytes and as text. Only a signed ticket is valid.
pub(crate) fn ticket(data: &[u8]) {
    let text = std::str::from_utf8(data).ok().and_then(|text| text.parse::<Ticket>().ok());
    let bind = PrivateKey::from_bytes([9; 32]);
    let real = [ticket_of(1, &bind), numbered_of(1, NodeId(7), &bind)];
    let trusted: Vec<_> = signer().iter().map(SigningKey::verifying).collect();
    for read in Ticket::from_bytes(data).into_iter().chain(text) {
        assert_eq!(read.to_string().parse::<Ticket>().as_ref(), Ok(&read));
        assert!(
            read.verify(&trusted, WALL).is_err() || real.contains(&Some(read)),
            "a ticket is valid although no coordinator signed it"
        );
    }
}

fn client_address(number: u8) -> ClientAddress {
    ClientAddress::Udp(SocketAddr::from(([192, 0, 2, number], 8288)))
}

/// A relay with two clients that have opened a channel to each other, and pieces from any address: a kind and bytes. No piece binds or moves a client,
/// unauthenticated senders get no more bytes than they sent, and both clients still reach each other afterwards.
pub(crate) fn relay(data: &[u8]) {
    let Some(mut world) = World::new(1) else { return };
    let mut input = Input::new(data);
    for _ in 0..16 {
        if input.is_empty() {
            break;
        }
        let (kind, bytes) = (input.byte(), input.piece().to_vec());
        match kind % 3 {
            0 => world.receive_unauthenticated(&bytes),
            1 => world.forward(usize::from(kind / 3) % 2, &bytes),
            _ => world.client(usize::from(kind / 3) % 2, &bytes),
        }
    }
    world.check();
}

struct World {
    server: Server,
    forward: Forward,
    clients: Vec<Client>,
    random: Seeded,
}

impl World {
    /// Returns a relay whose bindings get their keys from `seed`.
    fn new(seed: u64) -> Option<Self> {
        let key = PrivateKey::from_bytes([200; 32]);
        let relay = public_key(&key);
        let mut clients = Vec::new();
        for number in 0..2 {
            let bind = PrivateKey::from_bytes([number + 100; 32]);
            let ticket = ticket_of(number, &bind)?;
            clients.push(Client::new(relay, Credentials { bind, ticket, numbered: None }, NOW));
        }
        let server = Server::new(key, vec![signer()?.verifying()], RelayLimits::DEFAULT, [3; 32]);
        let forward = Forward::new(ForwardRate::bits_per_second(1_000_000_000));
        let mut world = Self { server, forward, clients, random: Seeded::new(seed) };
        for client in &mut world.clients {
            client.handle_timeout(NOW, &mut world.random);
        }
        world.settle();
        for (number, client) in world.clients.iter_mut().enumerate() {
            client.open(node(1 - u8::try_from(number).ok()?), NOW, &mut world.random);
        }
        world.settle();
        Some(world)
    }

    /// Delivers the frames of the relay and its clients until no frame is left.
    fn settle(&mut self) {
        for _ in 0..8 {
            for number in 0..2_u8 {
                while let Some(output) = self.clients.get_mut(usize::from(number)).and_then(Client::poll_output) {
                    let ClientOutput::Transmit(datagram) = output else { continue };
                    self.receive(client_address(number), datagram.as_bytes());
                }
            }
        }
    }

    /// Passes a frame to the relay and returns the number of bytes that it answers.
    fn receive(&mut self, from: ClientAddress, bytes: &[u8]) -> usize {
        let _ = self.server.handle_frame(from, None, bytes, ServerClocks { now: NOW, wall: WALL }, &mut self.random);
        let mut answered = 0;
        while let Some(output) = self.server.poll_output() {
            let reply = match output {
                ServerOutput::Change(change) => {
                    self.forward.apply(&change);
                    continue;
                }
                ServerOutput::Reply(reply) => reply,
            };
            answered += if reply.address == from { reply.as_bytes().len() } else { 0 };
            let number = (0..2).find(|number| client_address(*number) == reply.address);
            if let Some(client) = number.and_then(|number| self.clients.get_mut(usize::from(number))) {
                client.handle_datagram(reply.as_bytes(), NOW, &mut self.random);
            }
        }
        answered
    }

    fn receive_unauthenticated(&mut self, bytes: &[u8]) {
        let before = self.server.tally();
        let answered = self.receive(client_address(99), bytes);
        assert!(answered <= bytes.len(), "{answered} bytes were answered to {}", bytes.len());
        let after = self.server.tally();
        assert_eq!((before.bound, before.moved, before.clients), (after.bound, after.moved, after.clients));
    }

    fn forward(&mut self, number: usize, bytes: &[u8]) {
        let mut frame = bytes.to_vec();
        let slot = u8::try_from(number).ok().and_then(|number| self.forward.client_at(&client_address(number)));
        let Some(slot) = slot else { return };
        match self.forward.forward(slot, &mut frame, NOW) {
            Ok(to) => assert!(
                frame[DATA_HEADER..] == bytes[DATA_HEADER..] && (to == client_address(0) || to == client_address(1))
            ),
            Err(_) => assert_eq!(frame, bytes),
        }
    }

    fn client(&mut self, number: usize, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(number) else { return };
        client.handle_datagram(bytes, NOW, &mut self.random);
        assert!(!matches!(client.poll_output(), Some(ClientOutput::Event(_))));
        self.settle();
    }

    fn check(&mut self) {
        assert_eq!((self.server.tally().clients, self.server.tally().channels), (2, 2));
        for (from, to) in [(0_u8, 1_u8), (1, 0)] {
            let id = self.clients.get(usize::from(from)).and_then(|client| client.id_of(&node(to))).unwrap_or(0);
            let mut frame = [&frame::data_header(id), &[4, 0, 0, 0][..], &[0; 28]].concat();
            let slot = self.forward.client_at(&client_address(from)).unwrap_or(u32::MAX);
            assert_eq!(self.forward.forward(slot, &mut frame, NOW), Ok(client_address(to)));
            let back = frame::data(&frame).map(|(id, _)| id);
            assert_eq!(back, self.clients.get(usize::from(to)).and_then(|client| client.id_of(&node(from))));
        }
    }
}

/// Returns the next datagram of a client.
fn next_datagram(client: &mut Client) -> Option<Vec<u8>> {
    std::iter::from_fn(|| client.poll_output()).find_map(|output| match output {
        ClientOutput::Transmit(datagram) => Some(datagram.as_bytes().to_vec()),
        ClientOutput::LaneTransmit(..) | ClientOutput::Event(_) => None,
    })
}

/// Seeds: the messages between a client and a relay, one of each kind. They are sealed with other keys than the target uses, because with its own keys the
/// target would accept them.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let Some(mut world) = World::new(2) else { return Vec::new() };
    let mut frames = vec![
        [&frame::data_header(0x70), &[4, 0, 0, 0][..], &[0; 28]].concat(),
        [&[0x84, 2, 0, 0, 1, 2, 3, 4][..], &[7; 16]].concat(),
        [&[0x84, 1, 0, 0, 1, 2, 3, 4][..], &[7; 56]].concat(),
    ];
    if let Some(client) = world.clients.first_mut() {
        client.handle_suspicion(NOW, &mut world.random);
        frames.extend(next_datagram(client));
    }
    let bind = PrivateKey::from_bytes([150; 32]);
    if let Some(ticket) = ticket_of(9, &bind) {
        let mut fresh = Client::new(world.server.public(), Credentials { bind, ticket, numbered: None }, NOW);
        fresh.handle_timeout(NOW, &mut world.random);
        let first = next_datagram(&mut fresh).unwrap_or_default();
        let _ = world.server.handle_frame(
            client_address(9),
            None,
            &first,
            ServerClocks { now: NOW, wall: WALL },
            &mut world.random,
        );
        frames.extend(std::iter::from_fn(|| world.server.poll_output()).find_map(|output| match output {
            ServerOutput::Reply(reply) => Some(reply.as_bytes().to_vec()),
            ServerOutput::Change(_) => None,
        }));
        frames.push(first);
    }
    frames
}
