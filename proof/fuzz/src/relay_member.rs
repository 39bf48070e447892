//! A relay with a hostile member, which has keys and a ticket, sends any message from any address, and reads at one address (faults F14, F15).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{NodeId, PrivateKey, Time};
use taut_noise::public_key;
use taut_relay::frame::{self, MESSAGE_LEN};
use taut_relay::{
    Client, ClientAddress, ClientOutput, Credentials, Forward, ForwardRate, RelayLimits, Server, ServerClocks,
    ServerOutput, Ticket, fuzzing,
};
use taut_testkit::Seeded;

use crate::input::Input;
use crate::relay::{WALL, node, numbered_of, signer, ticket_of};

/// The time at which the script begins.
const START: Time = Time(1_000_000_000_000);
/// The member that the script controls; the others are honest.
const HOSTILE: u8 = 0;
/// An address without a client.
const INVENTED: u8 = 99;
/// Added to a client's number, the number of the address of its second lane.
const LANE: u8 = 10;

fn client_address(number: u8) -> ClientAddress {
    ClientAddress::Udp(SocketAddr::from(([192, 0, 2, number], 8288)))
}

/// Pieces of a script: a kind and bytes. 0: the member sends 40 bytes from an address that the kind chooses; 1: the relay sends 40 bytes to the member; 2: time
/// passes; 3: the member binds from an address, with a stamp. After each piece the two honest clients reach each other, and an address that has not
/// answered got no more bytes than it sent.
pub(crate) fn member(data: &[u8]) {
    let Some(mut world) = World::new() else { return };
    let mut input = Input::new(data);
    for _ in 0..24 {
        if input.is_empty() {
            break;
        }
        let kind = input.byte();
        let from = client_address([HOSTILE, 1, 2, INVENTED, HOSTILE + LANE, 1 + LANE][usize::from(kind / 4) % 6]);
        match kind % 4 {
            0 => world.send_as_member(from, &message(&mut input)),
            1 => world.send_to_member(&message(&mut input)),
            2 => world.wait(Duration::from_millis(u64::from(input.word()))),
            _ => world.bind(from, u64::from(input.word()), input.byte() % 2 == 1),
        }
        world.check();
    }
    // The time that passes suffices for all rate limits to refill.
    (0..40).for_each(|_| world.wait(Duration::from_secs(1)));
    world.check();
}

/// Checks that a parsed message is written as the same bytes, except for reserved ones.
fn message(input: &mut Input<'_>) -> [u8; MESSAGE_LEN] {
    let mut bytes = [0; MESSAGE_LEN];
    let given = input.take(MESSAGE_LEN);
    bytes[..given.len()].copy_from_slice(given);
    if let Some(again) = fuzzing::message(&bytes) {
        assert_eq!(fuzzing::message(&again), Some(again));
        assert!(again.iter().zip(&bytes).all(|(again, byte)| again == byte || *again == 0));
    }
    bytes
}

struct World {
    server: Server,
    forward: Forward,
    clients: Vec<Client>,
    random: Seeded,
    now: Time,
    /// Bytes from each address and to it.
    bytes: BTreeMap<ClientAddress, (usize, usize)>,
}

impl World {
    fn new() -> Option<Self> {
        let key = PrivateKey::from_bytes([200; 32]);
        let server = Server::new(key.clone(), vec![signer()?.verifying()], RelayLimits::DEFAULT, [3; 32]);
        let forward = Forward::new(ForwardRate::bits_per_second(1_000_000_000));
        let (clients, bytes) = (Vec::new(), BTreeMap::new());
        let mut world = Self { server, forward, clients, random: Seeded::new(1), now: START, bytes };
        for number in 0..3 {
            let mut client = Client::new(public_key(&key), credentials(number)?, START);
            client.set_clock(WALL);
            client.set_lanes(2, START, &mut world.random);
            world.clients.push(client);
        }
        world.settle();
        for (number, peer) in [(1, 2), (2, 1), (HOSTILE, 1)] {
            let client = world.clients.get_mut(usize::from(number))?;
            client.open(node(peer), world.now, &mut world.random);
        }
        world.settle();
        Some(world)
    }

    /// Runs the due timers of the relay and its clients, and delivers their frames.
    fn settle(&mut self) {
        for _ in 0..8 {
            for number in 0..3_u8 {
                let (now, at) = (self.now, usize::from(number));
                if let Some(client) = self.clients.get_mut(at) {
                    client.handle_timeout(now, &mut self.random);
                }
                while let Some(output) = self.clients.get_mut(at).and_then(Client::poll_output) {
                    match output {
                        ClientOutput::Transmit(datagram) => self.receive(client_address(number), datagram.as_bytes()),
                        ClientOutput::LaneTransmit(_, datagram) => {
                            self.receive(client_address(number + LANE), datagram.as_bytes());
                        }
                        ClientOutput::Event(_) => {}
                    }
                }
            }
        }
    }

    fn receive(&mut self, from: ClientAddress, bytes: &[u8]) {
        self.bytes.entry(from).or_default().0 += bytes.len();
        let clocks = ServerClocks { now: self.now, wall: WALL + self.now.since(START) };
        let _ = self.server.handle_frame(from, None, bytes, clocks, &mut self.random);
        self.deliver();
    }

    fn deliver(&mut self) {
        while let Some(output) = self.server.poll_output() {
            let reply = match output {
                ServerOutput::Change(change) => {
                    self.forward.apply(&change);
                    continue;
                }
                ServerOutput::Reply(reply) => reply,
            };
            self.bytes.entry(reply.address).or_default().1 += reply.as_bytes().len();
            for (number, client) in (0..).zip(&mut self.clients) {
                for lane in 0..2 {
                    if client_address(number + lane * LANE) == reply.address {
                        client.handle_lane_datagram(lane, reply.as_bytes(), self.now, &mut self.random);
                    }
                }
            }
        }
    }

    fn send_as_member(&mut self, from: ClientAddress, message: &[u8; MESSAGE_LEN]) {
        let hostile = self.clients.get_mut(usize::from(HOSTILE));
        if let Some(frame) = hostile.and_then(|client| fuzzing::say(client, message)) {
            self.receive(from, &frame);
        }
    }

    fn send_to_member(&mut self, message: &[u8; MESSAGE_LEN]) {
        let Some(frame) = fuzzing::tell(&mut self.server, client_address(HOSTILE), message) else { return };
        let (now, hostile) = (self.now, self.clients.get_mut(usize::from(HOSTILE)));
        if let Some(client) = hostile {
            client.handle_datagram(&frame, now, &mut self.random);
        }
        self.settle();
    }

    fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.server.handle_timeout(self.now);
        self.deliver();
        self.settle();
    }

    /// Binds the member again, with a stamp this many seconds after the first, and one of two tickets.
    fn bind(&mut self, from: ClientAddress, seconds: u64, numbered: bool) {
        let Some(mut credentials) = credentials(HOSTILE) else { return };
        if let Some(ticket) = credentials.numbered.take().filter(|_| numbered) {
            credentials.ticket = ticket;
        }
        let mut client = Client::new(self.server.public(), credentials, self.now);
        client.set_clock(Duration::from_secs(seconds));
        client.handle_timeout(self.now, &mut self.random);
        while let Some(output) = client.poll_output() {
            let ClientOutput::Transmit(datagram) = output else { continue };
            self.receive(from, datagram.as_bytes());
        }
        if from == client_address(HOSTILE) {
            // The answer went to the former client, which ignored it. The new client asks again and gets the same answer.
            if let Some(hostile) = self.clients.get_mut(usize::from(HOSTILE)) {
                *hostile = client;
            }
            self.wait(Duration::from_millis(250));
        }
    }

    /// Checks that frames to the member go to the addresses at which it reads, and that the honest clients reach each other, on each lane.
    fn check(&mut self) {
        let (sent, received) = self.bytes.get(&client_address(INVENTED)).copied().unwrap_or_default();
        assert!(received <= sent, "an address without a client got {received} bytes and sent {sent}");
        for (from, to) in [(1_u8, 2_u8), (2, 1), (1, HOSTILE)] {
            let id = self.clients.get(usize::from(from)).and_then(|client| client.id_of(&node(to))).unwrap_or(0);
            let mut frame = [&frame::data_header(id), &[4, 0, 0, 0][..], &[0; 28]].concat();
            let slot = self.forward.client_at(&client_address(from)).unwrap_or(u32::MAX);
            let sent = self.forward.forward(slot, &mut frame, self.now);
            assert!(sent == Ok(client_address(to)) || (to == HOSTILE && sent.is_err()), "{from} to {to}: {sent:?}");
            let mut frame = [&frame::data_header(id | 1), &[4, 0, 0, 0][..], &[0; 28]].concat();
            let from = self.forward.lane_at(&client_address(from + LANE)).unwrap_or(u32::MAX.into());
            let sent = self.forward.forward(from, &mut frame, self.now);
            let lane = client_address(to + LANE);
            let is_first = sent == Ok(client_address(to)) || sent.is_err();
            assert!(sent == Ok(lane) || (to == HOSTILE && is_first), "lane 1 of {from:?} to {to}: {sent:?}");
        }
    }
}

fn credentials(number: u8) -> Option<Credentials> {
    let bind = PrivateKey::from_bytes([number + 100; 32]);
    let (ticket, numbered): (Ticket, Ticket) =
        (ticket_of(number, &bind)?, numbered_of(number, NodeId(number.into()), &bind)?);
    Some(Credentials { bind, ticket, numbered: Some(numbered) })
}
