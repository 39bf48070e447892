//! A relay and its clients, together, without a network: who reaches whom, and what strangers get.

mod binds;
mod hostile;
mod moves;
mod numbered;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Entropy, PrivateKey, PublicKey, Time};
use taut_noise::public_key;
use taut_testkit::Seeded;

use crate::frame::{self, AGAIN_LEN, BIND_LEN, CONTROL_LEN, data_header};
use crate::{
    BadTicket, BindingState, Client, ClientAddress, Credentials, Forward, ForwardRate, LostCause, NetworkTag,
    NoForward, Refused, RelayEvent, RelayLimits, Removal, Reply, Server, ServerClocks, ServerOutput, SigningKey, Terms,
    Ticket,
};

const WALL: u64 = 1_800_000_000;
const DAY: u64 = 86_400;

fn coordinator(number: u8) -> SigningKey {
    SigningKey::from_seed([number; 32]).unwrap()
}

fn node_key(number: u8) -> PublicKey {
    public_key(&PrivateKey::from_bytes([number; 32]))
}

fn bind_key(number: u8) -> PrivateKey {
    PrivateKey::from_bytes([number ^ 0xff; 32])
}

fn terms(number: u8) -> Terms {
    let bind = public_key(&bind_key(number));
    Terms {
        network: NetworkTag([1; 16]),
        id: None,
        node: node_key(number),
        bind,
        not_before: WALL,
        expires: WALL + 2 * DAY,
    }
}

fn credentials(number: u8) -> Credentials {
    Credentials { bind: bind_key(number), ticket: Ticket::sign(&terms(number), &coordinator(1)), numbered: None }
}

fn address(port: u16) -> ClientAddress {
    ClientAddress::Udp(SocketAddr::from(([192, 0, 2, 1], port)))
}

/// A client, where it is, what happened to it, and the data that came.
type End = (ClientAddress, Client, Vec<RelayEvent>, Vec<Vec<u8>>);

/// A relay with its one thread's table, and clients, each at a port.
struct Net {
    server: Server,
    forward: Forward,
    clients: Vec<End>,
    now: Time,
    random: Seeded,
    /// The relay hears nothing.
    dead: bool,
    /// What the relay says stays on its way, here.
    held: Option<Vec<(ClientAddress, Vec<u8>)>>,
    /// Bytes that the relay sent to each place.
    sent: BTreeMap<ClientAddress, usize>,
}

/// A client of this program's: it says when it made its binds.
fn new_client(credentials: &Credentials, now: Time) -> Client {
    let mut client = Client::new(public_key(&relay_key()), credentials.clone(), now);
    client.set_clock(Duration::from_secs(WALL));
    client
}

/// A client of release 0.1.0.
fn old_client(credentials: &Credentials, now: Time) -> Client {
    let mut client = Client::new(public_key(&relay_key()), Credentials { numbered: None, ..credentials.clone() }, now);
    client.is_release_0_1_0 = true;
    client
}

fn relay_key() -> PrivateKey {
    PrivateKey::from_bytes([200; 32])
}

impl Net {
    fn new(limits: RelayLimits) -> Self {
        let server = Server::new(relay_key(), vec![coordinator(1).verifying()], limits, [3; 32]);
        let now = Time::ZERO + Duration::from_secs(1000);
        let forward = Forward::new(ForwardRate::bits_per_second(1_000_000_000));
        Self {
            server,
            forward,
            clients: Vec::new(),
            now,
            random: Seeded::new(7),
            dead: false,
            held: None,
            sent: BTreeMap::new(),
        }
    }

    fn with(numbers: &[u8]) -> Self {
        let mut net = Self::new(RelayLimits::DEFAULT);
        for number in numbers {
            net.join(&credentials(*number));
        }
        net.run(Duration::from_millis(100));
        net
    }

    fn join(&mut self, credentials: &Credentials) -> usize {
        let client = new_client(credentials, self.now);
        let port = 1000 + u16::try_from(self.clients.len()).unwrap();
        self.clients.push((address(port), client, Vec::new(), Vec::new()));
        self.clients.len() - 1
    }

    /// The relay is started again: it has forgotten everything but its key.
    fn restart(&mut self) {
        self.server = Server::new(relay_key(), vec![coordinator(1).verifying()], RelayLimits::DEFAULT, [4; 32]);
        self.forward = Forward::new(ForwardRate::bits_per_second(1_000_000_000));
    }

    fn clocks(&self) -> ServerClocks {
        ServerClocks { now: self.now, wall: Duration::from_secs(WALL) + self.now.since(Time::ZERO) }
    }

    /// Something comes to the relay.
    fn receive(&mut self, from: ClientAddress, bytes: &[u8]) -> Result<(), Refused> {
        if self.dead {
            return Ok(());
        }
        let mut bytes = bytes.to_vec();
        if let (Some(slot), Some(_)) = (self.forward.client_at(&from), frame::data(&bytes)) {
            if let Ok(to) = self.forward.forward(slot, &mut bytes, self.now) {
                self.deliver(to, &bytes);
            }
            return Ok(());
        }
        let clocks = self.clocks();
        let outcome = self.server.handle_frame(from, None, &bytes, clocks, &mut self.random);
        self.flush();
        outcome
    }

    fn flush(&mut self) {
        while let Some(reply) = self.next_reply() {
            match &mut self.held {
                Some(held) => held.push((reply.address, reply.as_bytes().to_vec())),
                None => self.deliver(reply.address, reply.as_bytes()),
            }
        }
    }

    /// Returns the relay's next reply, and applies the changes before it.
    fn next_reply(&mut self) -> Option<Reply> {
        loop {
            match self.server.poll_output()? {
                ServerOutput::Change(change) => self.forward.apply(&change),
                ServerOutput::Reply(reply) => return Some(reply),
            }
        }
    }

    /// The relay sends.
    fn deliver(&mut self, to: ClientAddress, bytes: &[u8]) {
        let now = self.now;
        *self.sent.entry(to).or_default() += bytes.len();
        for (address, client, events, data) in &mut self.clients {
            if *address != to {
                continue;
            }
            if frame::data(bytes).is_some() {
                data.push(bytes.to_vec());
            } else {
                client.handle_datagram(bytes, now, &mut self.random);
                events.extend(client.take_events());
            }
        }
    }

    /// Lets all say what they have to say.
    fn settle(&mut self) {
        for _ in 0..20 {
            for number in 0..self.clients.len() {
                while let Some(datagram) = self.clients[number].1.next_datagram() {
                    let from = self.clients[number].0;
                    let _ = self.receive(from, datagram.as_bytes());
                }
            }
        }
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.settle();
            let due = self
                .clients
                .iter()
                .filter_map(|(_, client, ..)| client.poll_timeout())
                .chain(self.server.poll_timeout());
            let next = due.min().unwrap_or(end).max(self.now + Duration::from_millis(1));
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            for (_, client, events, _) in &mut self.clients {
                client.handle_timeout(next, &mut self.random);
                events.extend(client.take_events());
            }
            self.server.handle_timeout(next);
            self.flush();
        }
    }

    fn open(&mut self, client: usize, peer: u8) -> Option<u32> {
        let id = self.clients[client].1.open(node_key(peer), self.now, &mut self.random);
        self.settle();
        id
    }

    fn send(&mut self, client: usize, id: u32, text: &[u8]) {
        let from = self.clients[client].0;
        let _ = self.receive(from, &carried(id, text));
    }

    fn events(&mut self, client: usize) -> Vec<RelayEvent> {
        std::mem::take(&mut self.clients[client].2)
    }

    fn data(&mut self, client: usize) -> Vec<(u32, Vec<u8>)> {
        let frames = std::mem::take(&mut self.clients[client].3);
        frames.iter().map(|bytes| frame::data(bytes).map(|(id, inner)| (id, inner[32..].to_vec())).unwrap()).collect()
    }

    /// Bytes that the relay sent there so far.
    fn bytes_to(&self, address: ClientAddress) -> usize {
        self.sent.get(&address).copied().unwrap_or(0)
    }

    /// Sends binds from invented addresses until the relay asks each new address for a cookie.
    fn ask_for_cookies(&mut self) {
        // Of a coordinator that the relay does not trust, so that nothing waits for them.
        let foreign = Credentials { ticket: Ticket::sign(&terms(250), &coordinator(9)), ..credentials(250) };
        let bind = bind_of(&foreign, &mut self.random, self.now);
        for number in 0..2_000_u32 {
            let [_, _, c, d] = number.to_be_bytes();
            let from = ClientAddress::Udp(SocketAddr::from(([192, 168, c, d], 9)));
            if self.receive(from, &bind) == Err(Refused::CookieAsked) {
                return;
            }
        }
        panic!("the relay never asked for a cookie");
    }

    /// A bind with the cookie that the relay gave its sender. The relay has to be asking for cookies.
    fn proven_bind(&mut self, from: ClientAddress, credentials: &Credentials) -> Vec<u8> {
        let mut client = new_client(credentials, self.now);
        client.handle_timeout(self.now, &mut self.random);
        let first = client.next_datagram().unwrap();
        let clocks = self.clocks();
        let outcome = self.server.handle_frame(from, None, first.as_bytes(), clocks, &mut self.random);
        assert_eq!(outcome, Err(Refused::CookieAsked));
        let cookie = self.next_reply().unwrap();
        client.handle_datagram(cookie.as_bytes(), self.now, &mut self.random);
        client.next_datagram().unwrap().as_bytes().to_vec()
    }

    /// Both reach each other by the numbers that they have now.
    fn assert_reach(&mut self, a: (usize, u8), b: (usize, u8)) {
        for (from, to) in [(a, b), (b, a)] {
            let id = self.clients[from.0].1.id_of(&node_key(to.1)).expect("a number for the peer");
            let back = self.clients[to.0].1.id_of(&node_key(from.1)).expect("a number for the sender");
            self.data(to.0);
            self.send(from.0, id, b"hello");
            assert_eq!(self.data(to.0), [(back, b"hello".to_vec())]);
        }
    }
}

/// A frame with something in it that looks like data of WireGuard's.
fn carried(id: u32, text: &[u8]) -> Vec<u8> {
    [&data_header(id), &[4, 0, 0, 0][..], &[0; 28], text].concat()
}

#[test]
fn two_nodes_reach_each_other_and_opening_costs_no_round_trip() {
    let mut net = Net::with(&[1, 2]);
    assert_eq!(net.events(0), [RelayEvent::Ready]);
    assert_eq!(net.clients[0].1.standing(), BindingState::Ready);
    assert_eq!(net.clients[0].1.seen(), Some("192.0.2.1:1000".parse().unwrap()));
    // `open` and what bears its number leave together.
    let id = net.clients[0].1.open(node_key(2), net.now, &mut net.random).unwrap();
    let open = net.clients[0].1.next_datagram().unwrap();
    let from = net.clients[0].0;
    net.receive(from, open.as_bytes()).unwrap();
    net.send(0, id, b"first");
    assert_eq!(net.events(0), [RelayEvent::Opened { peer: node_key(2), id }]);
    let Some(RelayEvent::Arrived { peer, id: back }) = net.events(1).pop() else {
        panic!("B hears of A before its data")
    };
    assert_eq!(peer, node_key(1));
    assert_eq!(net.data(1), [(back, b"first".to_vec())]);
    assert_eq!(net.clients[1].1.peer_of(back), Some(node_key(1)));
    net.assert_reach((0, 1), (1, 2));
}

#[test]
fn opens_that_cross_end_in_one_channel() {
    let mut net = Net::with(&[1, 2]);
    let now = net.now;
    for (client, peer) in [(0, 2), (1, 1)] {
        net.clients[client].1.open(node_key(peer), now, &mut net.random);
    }
    net.settle();
    assert_eq!(net.server.tally().channels, 2);
    net.assert_reach((0, 1), (1, 2));
}

#[test]
fn who_is_absent_is_announced_when_it_comes_and_when_it_goes() {
    let mut net = Net::with(&[1]);
    let id = net.open(0, 2).unwrap();
    assert_eq!(net.events(0), [RelayEvent::Ready, RelayEvent::Absent { peer: node_key(2) }]);
    assert_eq!(net.clients[0].1.id_of(&node_key(2)), None);
    net.send(0, id, b"nobody");
    assert_eq!(net.forward.counts().unknown_id, 1);
    net.join(&credentials(2));
    net.run(Duration::from_millis(100));
    assert_eq!(net.events(0), [RelayEvent::Arrived { peer: node_key(2), id }], "under the same number");
    net.assert_reach((0, 1), (1, 2));
    net.clients[1].1.leave();
    net.settle();
    assert_eq!(net.events(0), [RelayEvent::Absent { peer: node_key(2) }]);
    assert_eq!((net.server.tally().clients, net.server.tally().channels), (1, 0));
}

#[test]
fn a_channel_lasts_while_one_of_both_wants_it() {
    let mut net = Net::with(&[1, 2]);
    let id = net.open(0, 2).unwrap();
    net.open(1, 1);
    net.clients[0].1.close(&node_key(2));
    net.settle();
    net.assert_reach((0, 1), (1, 2));
    net.clients[1].1.close(&node_key(1));
    net.settle();
    assert_eq!(net.server.tally().channels, 0);
    net.send(0, id, b"closed");
    assert_eq!(net.data(1), []);
}

#[test]
fn of_words_that_overtake_each_other_the_last_one_said_counts() {
    let mut net = Net::with(&[1, 2]);
    net.open(0, 2);
    // The program of the first node was started again: it draws another number, and is told of the former one.
    let again = net.join(&credentials(1));
    let (from, client, ..) = &mut net.clients[again];
    let from = *from;
    client.open(node_key(2), net.now, &mut net.random);
    client.handle_timeout(net.now, &mut net.random);
    let bind = client.next_datagram().unwrap();
    net.receive(from, bind.as_bytes()).unwrap();
    net.held = Some(Vec::new());
    net.settle();
    let held = net.held.take().unwrap();
    assert!(held.iter().filter(|(to, _)| *to == from).count() >= 2);
    held.iter().rev().for_each(|(to, bytes)| net.deliver(*to, bytes));
    net.settle();
    net.assert_reach((again, 1), (1, 2));
}

#[test]
fn who_is_heard_behind_another_number_is_asked_for_again() {
    let mut net = Net::with(&[1, 2]);
    net.open(1, 1);
    let former = net.clients[0].1.id_of(&node_key(2)).unwrap();
    // The peer does not want us any more, and then does: all that the relay says of it to us is lost.
    let ours = net.clients[0].0;
    net.held = Some(Vec::new());
    net.clients[1].1.close(&node_key(1));
    net.settle();
    net.open(1, 1);
    let held = net.held.take().unwrap();
    held.iter().filter(|(to, _)| *to != ours).for_each(|(to, bytes)| net.deliver(*to, bytes));
    net.send(0, former, b"nowhere");
    assert_eq!((net.forward.counts().unknown_id, net.data(1).len()), (1, 0));
    let id = net.clients[1].1.id_of(&node_key(1)).unwrap();
    net.send(1, id, b"from the peer");
    let (heard, _) = net.data(0).remove(0);
    assert_ne!(heard, former);
    net.clients[0].1.learn(node_key(2), heard, net.now);
    net.settle();
    net.assert_reach((0, 1), (1, 2));
    // Once is enough.
    net.clients[0].1.doubt(&node_key(2), net.now);
    net.clients[0].1.doubt(&node_key(2), net.now);
    assert!(net.clients[0].1.next_datagram().is_some() && net.clients[0].1.next_datagram().is_none());
}

#[test]
fn fault_f1_a_stranger_gets_silence_and_nothing_is_relayed() {
    let mut net = Net::with(&[1, 2]);
    let id = net.open(0, 2).unwrap();
    let stranger = address(9);
    net.clients.push((stranger, Client::new(node_key(5), credentials(5), net.now), Vec::new(), Vec::new()));
    let expired = Ticket::sign(&Terms { expires: WALL + 10, ..terms(5) }, &coordinator(1));
    let foreign = Ticket::sign(&terms(5), &coordinator(9));
    for (ticket, reason) in [(expired, BadTicket::Expired), (foreign, BadTicket::UnknownSigner)] {
        let bind = bind_of(&Credentials { bind: bind_key(5), ticket, numbered: None }, &mut net.random, net.now);
        assert_eq!(net.receive(stranger, &bind), Err(Refused::Ticket(reason)));
    }
    assert!(net.next_reply().is_none());
    assert_eq!(net.receive(stranger, &carried(id, b"let me in")), Err(Refused::Unbound));
    assert_eq!(net.data(1), []);
    assert_eq!(net.server.tally().clients, 2);
}

/// What a client sends first.
fn bind_of(credentials: &Credentials, random: &mut Seeded, now: Time) -> Vec<u8> {
    let mut client = new_client(credentials, now);
    client.handle_timeout(now, random);
    client.next_datagram().unwrap().as_bytes().to_vec()
}

#[test]
fn fault_f3_f10_a_ticket_serves_only_the_key_that_it_was_given_to() {
    let mut net = Net::with(&[]);
    let thief = Credentials { bind: bind_key(6), ticket: credentials(1).ticket, numbered: None };
    let bind = bind_of(&thief, &mut net.random, net.now);
    assert_eq!(net.receive(address(9), &bind), Err(Refused::NotTheirs));
    assert_eq!(net.server.tally().not_theirs, 1);
}

#[test]
fn fault_f10_of_two_programs_with_one_key_the_later_one_counts_and_the_former_is_told() {
    let mut net = Net::with(&[1, 2]);
    net.open(1, 1);
    net.assert_reach((0, 1), (1, 2));
    let second = net.join(&credentials(1));
    net.run(Duration::from_millis(100));
    assert_eq!(net.events(0).last(), Some(&RelayEvent::Lost(LostCause::Replaced)));
    assert!(net.events(second).contains(&RelayEvent::Ready));
    net.assert_reach((second, 1), (1, 2));
    assert_eq!(net.server.tally().clients, 2);
    // The former comes back, but not at once: two of them do not push each other out without end (fault D14).
    net.run(Duration::from_secs(25));
    assert_eq!(net.server.tally().replaced, 1);
    net.run(Duration::from_secs(600));
    assert!((2..=22).contains(&net.server.tally().replaced), "{}", net.server.tally().replaced);
}

#[test]
fn fault_f4_numbers_are_random_and_mean_nothing_from_elsewhere() {
    let mut net = Net::with(&[1, 2, 3]);
    let id = net.open(0, 2).unwrap();
    let other = net.open(0, 3).unwrap();
    assert!(id != other && id & 0xf == 0 && other & 0xf == 0);
    // Another member, with the number of somebody else.
    net.send(2, id, b"not mine");
    assert_eq!(net.data(1), []);
    assert_eq!(net.forward.counts().unknown_id, 1);
    assert_eq!(net.forward.forward(0, &mut carried(id ^ 1, b"lane"), net.now), Err(NoForward::UnknownId));
}

#[test]
fn members_of_different_networks_never_meet() {
    let mut net = Net::with(&[1]);
    let other = Terms { network: NetworkTag([2; 16]), ..terms(2) };
    net.join(&Credentials { bind: bind_key(2), ticket: Ticket::sign(&other, &coordinator(1)), numbered: None });
    net.server.trust(coordinator(2).verifying());
    net.join(&Credentials { bind: bind_key(3), ticket: Ticket::sign(&terms(3), &coordinator(2)), numbered: None });
    net.run(Duration::from_millis(100));
    for peer in [2, 3] {
        net.open(0, peer);
        assert_eq!(net.clients[0].1.id_of(&node_key(peer)), None, "{peer}");
    }
    assert_eq!(net.server.tally().channels, 0);
}

#[test]
fn fault_f7_what_strangers_can_make_grow_is_bounded() {
    let mut net = Net::new(RelayLimits { pending: 8, clients: 3, channels: 2, ..RelayLimits::DEFAULT });
    // Binds that are never confirmed.
    for number in 0..12 {
        let bind = bind_of(&credentials(number), &mut net.random, net.now);
        let outcome = net.receive(address(100 + u16::from(number)), &bind);
        assert_eq!(outcome, if number < 8 { Ok(()) } else { Err(Refused::Full) });
    }
    net.run(Duration::from_secs(11));
    for number in 1..=5 {
        net.join(&credentials(number));
    }
    net.run(Duration::from_secs(1));
    assert_eq!(net.server.tally().clients, 3, "and these are served");
    for peer in 11..=13 {
        net.open(0, peer);
    }
    assert_eq!(net.events(0).last(), Some(&RelayEvent::Refused { peer: node_key(13) }));
}

#[test]
fn fault_f11_n1_the_coordinator_is_away_and_bound_clients_stay_while_their_tickets_last() {
    let mut net = Net::with(&[1, 2]);
    net.open(0, 2);
    net.run(Duration::from_secs(DAY));
    net.assert_reach((0, 1), (1, 2));
    assert_eq!(net.server.tally().bound, 2, "nobody had to bind again");
    net.run(Duration::from_secs(DAY));
    assert!(net.events(0).contains(&RelayEvent::Lost(LostCause::Expired)));
    assert_eq!(net.server.tally().clients, 0);
    // Another ticket, and all is as before.
    for number in [1, 2] {
        let renewed = Terms { not_before: WALL + 2 * DAY, expires: WALL + 4 * DAY, ..terms(number) };
        let ticket = Ticket::sign(&renewed, &coordinator(1));
        let now = net.now;
        net.clients[usize::from(number) - 1]
            .1
            .set_credentials(Credentials { bind: bind_key(number), ticket, numbered: None }, now);
    }
    net.run(Duration::from_secs(1));
    net.assert_reach((0, 1), (1, 2));
}

#[test]
fn a_new_ticket_is_shown_without_a_gap() {
    let mut net = Net::with(&[1, 2]);
    let id = net.open(0, 2).unwrap();
    let renewed = Terms { expires: WALL + 3 * DAY, ..terms(1) };
    let ticket = Ticket::sign(&renewed, &coordinator(1));
    let now = net.now;
    net.clients[0].1.set_credentials(Credentials { bind: bind_key(1), ticket, numbered: None }, now);
    assert_eq!(net.clients[0].1.id_of(&node_key(2)), Some(id));
    net.run(Duration::from_millis(100));
    assert_eq!(net.clients[0].1.id_of(&node_key(2)), Some(id));
    net.assert_reach((0, 1), (1, 2));
    assert_eq!(net.server.tally().replaced, 1);
    net.run(Duration::from_secs(2 * DAY + 3600));
    assert!(net.clients[0].1.is_ready(), "beyond the first ticket");
}

#[test]
fn fault_f8_a_relay_that_dies_is_noticed_soon_and_one_that_ends_at_once() {
    let mut net = Net::with(&[1, 2]);
    net.events(0);
    net.dead = true;
    let now = net.now;
    net.clients[0].1.handle_suspicion(now, &mut net.random);
    net.run(Duration::from_millis(398));
    assert_eq!(net.events(0), []);
    assert_eq!(net.clients[0].1.standing(), BindingState::Suspected);
    net.run(Duration::from_millis(2));
    assert_eq!(net.events(0), [RelayEvent::Lost(LostCause::Silent)]);
    // Without a hint: the next sign of life, one second, and three quick ones.
    net.run(Duration::from_millis(26_500));
    assert!(net.events(1).contains(&RelayEvent::Lost(LostCause::Silent)));
    net.dead = false;
    net.run(Duration::from_secs(40));
    assert!(net.clients[0].1.is_ready() && net.clients[1].1.is_ready(), "tried again by itself");
    net.events(0);
    net.server.leave();
    net.flush();
    assert_eq!(net.events(0), [RelayEvent::Lost(LostCause::Left)]);
}

#[test]
fn fault_f8_attempts_to_come_back_are_spread() {
    let mut net = Net::with(&(1..=40).collect::<Vec<_>>());
    net.dead = true;
    net.run(Duration::from_secs(60));
    let next: Vec<_> = net.clients.iter().filter_map(|(_, client, ..)| client.poll_timeout()).collect();
    let (first, last) = (next.iter().min().unwrap(), next.iter().max().unwrap());
    assert!(last.since(*first) > Duration::from_secs(4), "{:?}", last.since(*first));
    // However long it was away: who waits for it is not kept waiting.
    net.run(Duration::from_secs(600));
    net.dead = false;
    net.run(Duration::from_secs(12));
    assert!(net.clients.iter().all(|(_, client, ..)| client.is_ready()));
}

#[test]
fn a_relay_that_was_started_again_is_noticed_by_the_next_frame() {
    let mut net = Net::with(&[1, 2]);
    let id = net.open(0, 2).unwrap();
    net.restart();
    // Data that it does not know: a hint, and one round trip later a proof, and then a new binding with the same numbers.
    let (from, now) = (net.clients[0].0, net.now);
    assert_eq!(net.receive(from, &carried(id, b"lost")), Err(Refused::Unbound));
    assert_eq!(net.now, now);
    net.run(Duration::from_millis(5));
    assert_eq!(net.clients[0].1.id_of(&node_key(2)), None, "B has not noticed yet");
    net.send(1, 16, b"lost, too");
    net.run(Duration::from_millis(5));
    assert_eq!(net.clients[0].1.id_of(&node_key(2)), Some(id));
    net.assert_reach((0, 1), (1, 2));
}

#[test]
fn an_invented_again_costs_one_ping() {
    let mut net = Net::with(&[1]);
    let again = [&[0x84, 2, 0, 0, 1, 2, 3, 4][..], &[7; 16]].concat();
    assert_eq!(again.len(), AGAIN_LEN);
    net.events(0);
    for _ in 0..100 {
        net.deliver(address(1000), &again);
    }
    let first = net.clients[0].1.next_datagram().unwrap();
    assert_eq!(first.as_bytes().len(), CONTROL_LEN);
    assert!(net.clients[0].1.next_datagram().is_none());
    net.receive(address(1000), first.as_bytes()).unwrap();
    assert!(net.clients[0].1.is_ready() && net.events(0).is_empty());
}

#[test]
fn fault_d3_a_binding_lives_through_a_nat_that_forgets_after_thirty_seconds() {
    let mut net = Net::with(&[1]);
    let mut heard = net.now;
    for _ in 0..2000 {
        net.now = net.clients[0].1.poll_timeout().unwrap();
        net.run(Duration::from_millis(1));
        assert!(net.now.since(heard) <= Duration::from_millis(25_010), "{:?}", net.now.since(heard));
        heard = net.now;
    }
}

#[test]
fn fault_d3_d4_a_client_that_moves_is_found_at_once() {
    let mut net = Net::with(&[1, 2]);
    net.open(0, 2);
    for port in 2000..2020 {
        net.clients[0].0 = address(port);
        net.now = net.now + Duration::from_millis(100);
        let now = net.now;
        net.clients[0].1.handle_move(now, &mut net.random);
        net.settle();
        net.assert_reach((0, 1), (1, 2));
        assert_eq!(net.clients[0].1.seen(), Some(SocketAddr::from(([192, 0, 2, 1], port))));
    }
    assert_eq!(net.server.tally().moved, 20);
    // A NAT that changed its port, of which the client knows nothing: the relay tells it, because it knows nobody there.
    net.clients[0].0 = address(3000);
    let id = net.clients[0].1.id_of(&node_key(2)).unwrap();
    net.send(0, id, b"lost");
    net.settle();
    net.assert_reach((0, 1), (1, 2));
}
