//! A relay and its clients without a network: which clients reach each other, and how the relay treats unauthenticated senders.

mod binds;
mod hostile;
mod lanes;
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

/// Returns the address of a client's lane; that of the first is the client's.
fn lane_address(client: ClientAddress, lane: u8) -> ClientAddress {
    match client {
        ClientAddress::Udp(first) if lane > 0 => {
            ClientAddress::Udp(SocketAddr::from(([203, 0, 113, lane], first.port())))
        }
        first => first,
    }
}

/// A client: its address, its state machine, its events, and the data frames that it received.
type TestClient = (ClientAddress, Client, Vec<RelayEvent>, Vec<Vec<u8>>);

/// A relay with the forwarding table of one worker, and clients that each have a port.
struct Net {
    server: Server,
    forward: Forward,
    clients: Vec<TestClient>,
    now: Time,
    random: Seeded,
    /// Whether all frames to the relay are lost.
    dead: bool,
    /// The relay's replies that are held back. `None` delivers replies at once.
    held: Option<Vec<(ClientAddress, Vec<u8>)>>,
    /// Bytes that the relay sent to each address.
    sent: BTreeMap<ClientAddress, usize>,
}

/// Returns a client of the current release, whose binds carry the time at which they were made.
fn new_client(credentials: &Credentials, now: Time) -> Client {
    let mut client = Client::new(public_key(&relay_key()), credentials.clone(), now);
    client.set_clock(Duration::from_secs(WALL));
    client
}

/// Returns a client that behaves like release 0.1.0.
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

    /// Restarts the relay: it keeps only its key.
    fn restart(&mut self) {
        self.server = Server::new(relay_key(), vec![coordinator(1).verifying()], RelayLimits::DEFAULT, [4; 32]);
        self.forward = Forward::new(ForwardRate::bits_per_second(1_000_000_000));
    }

    fn clocks(&self) -> ServerClocks {
        ServerClocks { now: self.now, wall: Duration::from_secs(WALL) + self.now.since(Time::ZERO) }
    }

    /// Passes a frame to the relay, as if it had arrived from this address.
    fn receive(&mut self, from: ClientAddress, bytes: &[u8]) -> Result<(), Refused> {
        if self.dead {
            return Ok(());
        }
        let mut bytes = bytes.to_vec();
        if let (Some(at), Some(_)) = (self.forward.lane_at(&from), frame::data(&bytes)) {
            if let Ok(to) = self.forward.forward(at, &mut bytes, self.now) {
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

    /// Delivers bytes that the relay sent to the clients at this address.
    fn deliver(&mut self, to: ClientAddress, bytes: &[u8]) {
        let now = self.now;
        *self.sent.entry(to).or_default() += bytes.len();
        for (address, client, events, data) in &mut self.clients {
            let Some(lane) = (0..16).find(|lane| lane_address(*address, *lane) == to) else { continue };
            if frame::data(bytes).is_some() {
                data.push(bytes.to_vec());
            } else {
                client.handle_lane_datagram(lane, bytes, now, &mut self.random);
                events.extend(client.take_events());
            }
        }
    }

    /// Delivers all datagrams that the clients have to send, and the relay's replies.
    fn settle(&mut self) {
        for _ in 0..20 {
            for number in 0..self.clients.len() {
                while let Some((lane, datagram)) = self.clients[number].1.next_lane_datagram() {
                    let from = lane_address(self.clients[number].0, lane);
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

    /// Returns the number of bytes that the relay has sent to this address.
    fn bytes_to(&self, address: ClientAddress) -> usize {
        self.sent.get(&address).copied().unwrap_or(0)
    }

    /// Sends binds from invented addresses until the relay asks each new address for a cookie.
    fn flood_until_cookies_are_required(&mut self) {
        // The tickets are signed by a coordinator that the relay does not trust, so these binds never become pending.
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

    /// Returns a bind with the cookie that the relay gave to its sender. The relay must already ask for cookies.
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

    /// Asserts that two clients reach each other by their current channel numbers.
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

/// Returns a data frame whose payload looks like a WireGuard data message.
fn carried(id: u32, text: &[u8]) -> Vec<u8> {
    [&data_header(id), &[4, 0, 0, 0][..], &[0; 28], text].concat()
}

#[test]
fn two_nodes_reach_each_other_and_opening_costs_no_round_trip() {
    let mut net = Net::with(&[1, 2]);
    assert_eq!(net.events(0), [RelayEvent::Ready]);
    assert_eq!(net.clients[0].1.standing(), BindingState::Ready);
    assert_eq!(net.clients[0].1.seen(), Some("192.0.2.1:1000".parse().unwrap()));
    // The first data frame leaves with the `open` that names its channel number, before any answer.
    let id = net.clients[0].1.open(node_key(2), net.now, &mut net.random).unwrap();
    let open = net.clients[0].1.next_datagram().unwrap();
    let from = net.clients[0].0;
    net.receive(from, open.as_bytes()).unwrap();
    net.send(0, id, b"first");
    assert_eq!(net.events(0), [RelayEvent::Opened { peer: node_key(2), id }]);
    let Some(RelayEvent::Arrived { peer, id: back }) = net.events(1).pop() else {
        panic!("B must learn of A before the data of A arrives")
    };
    assert_eq!(peer, node_key(1));
    assert_eq!(net.data(1), [(back, b"first".to_vec())]);
    assert_eq!(net.clients[1].1.peer_of(back), Some(node_key(1)));
    net.assert_reach((0, 1), (1, 2));
}

#[test]
fn crossing_opens_make_one_channel() {
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
fn an_absent_peer_is_announced_when_it_binds_and_when_it_leaves() {
    let mut net = Net::with(&[1]);
    let id = net.open(0, 2).unwrap();
    assert_eq!(net.events(0), [RelayEvent::Ready, RelayEvent::Absent { peer: node_key(2) }]);
    assert_eq!(net.clients[0].1.id_of(&node_key(2)), None);
    net.send(0, id, b"nobody");
    assert_eq!(net.forward.counts().unknown_id, 1);
    net.join(&credentials(2));
    net.run(Duration::from_millis(100));
    assert_eq!(
        net.events(0),
        [RelayEvent::Arrived { peer: node_key(2), id }],
        "the peer has the number that the earlier open drew"
    );
    net.assert_reach((0, 1), (1, 2));
    net.clients[1].1.leave();
    net.settle();
    assert_eq!(net.events(0), [RelayEvent::Absent { peer: node_key(2) }]);
    assert_eq!((net.server.tally().clients, net.server.tally().channels), (1, 0));
}

#[test]
fn a_channel_lasts_while_either_end_keeps_it_open() {
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
fn the_newest_of_reordered_announcements_applies() {
    let mut net = Net::with(&[1, 2]);
    net.open(0, 2);
    // The first node restarts. It draws another number, and the relay tells it the former one.
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
fn data_under_an_unexpected_number_makes_the_client_ask_for_the_peer_again() {
    let mut net = Net::with(&[1, 2]);
    net.open(1, 1);
    let former = net.clients[0].1.id_of(&node_key(2)).unwrap();
    // The peer closes the channel and opens it again. All that the relay tells the first client about this is lost.
    let first_client = net.clients[0].0;
    net.held = Some(Vec::new());
    net.clients[1].1.close(&node_key(1));
    net.settle();
    net.open(1, 1);
    let held = net.held.take().unwrap();
    held.iter().filter(|(to, _)| *to != first_client).for_each(|(to, bytes)| net.deliver(*to, bytes));
    net.send(0, former, b"nowhere");
    assert_eq!((net.forward.counts().unknown_id, net.data(1).len()), (1, 0));
    let id = net.clients[1].1.id_of(&node_key(1)).unwrap();
    net.send(1, id, b"from the peer");
    let (heard, _) = net.data(0).remove(0);
    assert_ne!(heard, former);
    net.clients[0].1.learn(node_key(2), heard, net.now);
    net.settle();
    net.assert_reach((0, 1), (1, 2));
    // Two doubts in a row send one request.
    net.clients[0].1.doubt(&node_key(2), net.now);
    net.clients[0].1.doubt(&node_key(2), net.now);
    assert!(net.clients[0].1.next_datagram().is_some() && net.clients[0].1.next_datagram().is_none());
}

#[test]
fn fault_f1_an_unauthenticated_sender_gets_no_answer_and_nothing_is_relayed() {
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

/// Returns the bind that a new client sends first.
fn bind_of(credentials: &Credentials, random: &mut Seeded, now: Time) -> Vec<u8> {
    let mut client = new_client(credentials, now);
    client.handle_timeout(now, random);
    client.next_datagram().unwrap().as_bytes().to_vec()
}

#[test]
fn fault_f3_f10_a_ticket_is_valid_only_with_the_bind_key_that_it_names() {
    let mut net = Net::with(&[]);
    let thief = Credentials { bind: bind_key(6), ticket: credentials(1).ticket, numbered: None };
    let bind = bind_of(&thief, &mut net.random, net.now);
    assert_eq!(net.receive(address(9), &bind), Err(Refused::NotTheirs));
    assert_eq!(net.server.tally().not_theirs, 1);
}

#[test]
fn fault_f10_of_two_programs_with_one_key_the_later_one_is_bound_and_the_former_is_told() {
    let mut net = Net::with(&[1, 2]);
    net.open(1, 1);
    net.assert_reach((0, 1), (1, 2));
    let second = net.join(&credentials(1));
    net.run(Duration::from_millis(100));
    assert_eq!(net.events(0).last(), Some(&RelayEvent::Lost(LostCause::Replaced)));
    assert!(net.events(second).contains(&RelayEvent::Ready));
    net.assert_reach((second, 1), (1, 2));
    assert_eq!(net.server.tally().clients, 2);
    // The replaced client binds again only after a pause, so two programs with one key do not replace each other in a tight loop (fault D14).
    net.run(Duration::from_secs(25));
    assert_eq!(net.server.tally().replaced, 1);
    net.run(Duration::from_secs(600));
    assert!((2..=22).contains(&net.server.tally().replaced), "{}", net.server.tally().replaced);
}

#[test]
fn fault_f4_channel_numbers_are_random_and_invalid_from_another_client() {
    let mut net = Net::with(&[1, 2, 3]);
    let id = net.open(0, 2).unwrap();
    let other = net.open(0, 3).unwrap();
    assert!(id != other && id & 0xf == 0 && other & 0xf == 0);
    // The third member uses a channel number of the first one.
    net.send(2, id, b"not mine");
    assert_eq!(net.data(1), []);
    assert_eq!(net.forward.counts().unknown_id, 1);
    assert_eq!(net.forward.forward(0, &mut carried(id ^ 0x10, b"other"), net.now), Err(NoForward::UnknownId));
}

#[test]
fn members_of_different_networks_never_get_a_channel() {
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
fn fault_f7_tables_that_clients_fill_are_bounded() {
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
    assert_eq!(net.server.tally().clients, 3, "the relay serves as many clients as its limit allows");
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
    assert_eq!(net.server.tally().bound, 2, "no client had to bind a second time");
    net.run(Duration::from_secs(DAY));
    assert!(net.events(0).contains(&RelayEvent::Lost(LostCause::Expired)));
    assert_eq!(net.server.tally().clients, 0);
    // New tickets restore both bindings and their channel.
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
fn a_renewed_ticket_keeps_the_binding_and_its_channels() {
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
    assert!(net.clients[0].1.is_ready(), "still bound after the first ticket expired");
}

#[test]
fn fault_f8_a_dead_relay_is_noticed_by_timeout_and_a_stopped_one_at_once() {
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
    // Without a hint the client notices by its keepalive: the next one is due within 25 s, waits 1 s, and three quick repetitions follow.
    net.run(Duration::from_millis(26_500));
    assert!(net.events(1).contains(&RelayEvent::Lost(LostCause::Silent)));
    net.dead = false;
    net.run(Duration::from_secs(40));
    assert!(net.clients[0].1.is_ready() && net.clients[1].1.is_ready(), "both clients bind again automatically");
    net.events(0);
    net.server.leave();
    net.flush();
    assert_eq!(net.events(0), [RelayEvent::Lost(LostCause::Left)]);
}

#[test]
fn fault_f8_attempts_to_bind_again_are_spread_over_time() {
    let mut net = Net::with(&(1..=40).collect::<Vec<_>>());
    net.dead = true;
    net.run(Duration::from_secs(60));
    let next: Vec<_> = net.clients.iter().filter_map(|(_, client, ..)| client.poll_timeout()).collect();
    let (first, last) = (next.iter().min().unwrap(), next.iter().max().unwrap());
    assert!(last.since(*first) > Duration::from_secs(4), "{:?}", last.since(*first));
    // Even after a long outage all clients are bound within 12 s of the relay's return.
    net.run(Duration::from_secs(600));
    net.dead = false;
    net.run(Duration::from_secs(12));
    assert!(net.clients.iter().all(|(_, client, ..)| client.is_ready()));
}

#[test]
fn a_restarted_relay_is_noticed_by_the_next_frame() {
    let mut net = Net::with(&[1, 2]);
    let id = net.open(0, 2).unwrap();
    net.restart();
    // The restarted relay answers unknown data with a hint. One round trip later the client has proof, and it binds again with the same numbers.
    let (from, now) = (net.clients[0].0, net.now);
    assert_eq!(net.receive(from, &carried(id, b"lost")), Err(Refused::Unbound));
    assert_eq!(net.now, now);
    net.run(Duration::from_millis(5));
    assert_eq!(
        net.clients[0].1.id_of(&node_key(2)),
        None,
        "B is not bound yet, because it has not noticed the restart"
    );
    net.send(1, 16, b"lost, too");
    net.run(Duration::from_millis(5));
    assert_eq!(net.clients[0].1.id_of(&node_key(2)), Some(id));
    net.assert_reach((0, 1), (1, 2));
}

#[test]
fn a_forged_again_frame_costs_one_ping() {
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
fn fault_d3_a_binding_survives_a_nat_with_a_timeout_of_thirty_seconds() {
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
fn fault_d3_d4_a_client_that_moves_is_reachable_at_once() {
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
    // The NAT changes the client's port without the client's knowledge. The relay knows no client at the new address, so it answers with a hint.
    net.clients[0].0 = address(3000);
    let id = net.clients[0].1.id_of(&node_key(2)).unwrap();
    net.send(0, id, b"lost");
    net.settle();
    net.assert_reach((0, 1), (1, 2));
}
