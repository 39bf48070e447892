use std::time::Duration;

use proptest::prelude::*;
use taut_wire::tcp;

use super::packet::TcpFields;
use super::*;
use crate::testkit::{Answer, names, question};

const MTU: usize = 1_420;
const NOW: Time = Time(1_000_000_000);
const CLIENT: &str = "100.64.0.1";
const STUB: &str = "100.64.0.0";
const WEB: u16 = 1;

/// The flow of the client's packets: the other way round, so that the stub's writer of packets serves the client.
fn towards(client: &str, port: u16, stub: &str, stub_port: u16) -> Flow {
    let end = |address: &str, port| SocketAddr::new(address.parse().unwrap(), port);
    Flow { client: end(stub, stub_port), stub: end(client, port) }
}

fn web() -> Vec<u8> {
    question("web.home.taut.internal", WEB)
}

#[test]
fn a_datagram_is_answered_to_where_it_came_from() {
    for (client, stub) in [(CLIENT, STUB), ("fd12::1", "fd12::53:0:53")] {
        let mut dns = Stub::default();
        let asked = towards(client, 40_000, stub, PORT).datagram(&web()).unwrap();
        assert!(dns.handle(&names(), &asked, MTU, NOW));
        let answer = dns.poll_output().unwrap();
        let packet = Packet::parse(&answer).unwrap();
        assert!(packet.header_checksum_ok());
        assert_eq!((packet.source().to_string(), packet.destination().to_string()), (stub.into(), client.into()));
        let datagram = Datagram::parse(packet.payload()).unwrap();
        assert!(datagram.checksum_ok(packet.pseudo_header(datagram.length() as u16)));
        assert_eq!((datagram.source(), datagram.destination()), (PORT, 40_000));
        assert_eq!(Answer::of(datagram.payload()).answers.len(), 1);
        assert_eq!(dns.poll_output(), None);
    }
}

#[test]
fn fault_h8_only_this_nodes_addresses_are_answered() {
    for client in ["100.64.0.2", "192.168.1.7", "fd12::2"] {
        let stub = if client.contains(':') { "fd12::53:0:53" } else { STUB };
        let mut dns = Stub::default();
        let flow = towards(client, 40_000, stub, PORT);
        let syn = TcpFields { sequence: 1, acknowledgement: 0, flags: tcp::SYN, window: 1_000, segment_size: None };
        for packet in [flow.datagram(&web()), flow.segment(&syn, &[])] {
            assert!(!dns.handle(&names(), &packet.unwrap(), MTU, NOW), "{client}");
            assert_eq!(dns.poll_output(), None, "{client}");
        }
    }
}

#[test]
fn damaged_datagrams_and_other_ports_are_dropped() {
    let mut dns = Stub::default();
    let good = towards(CLIENT, 40_000, STUB, PORT).datagram(&web()).unwrap().to_vec();
    let with = |at: usize, byte: u8| [&good[..at], &[byte], &good[at + 1..]].concat();
    let other = towards(CLIENT, 40_000, STUB, 54).datagram(&web()).unwrap().to_vec();
    let answer = towards(CLIENT, 40_000, STUB, PORT).datagram(&[0x80; 40]).unwrap().to_vec();
    for packet in [with(good.len() - 1, 9), with(6, 0x20), with(9, 1), other, answer, good[..30].to_vec()] {
        assert!(!dns.handle(&names(), &packet, MTU, NOW));
        assert_eq!(dns.poll_output(), None);
    }
    let unsummed = [&good[..26], &[0, 0], &good[28..]].concat();
    assert!(dns.handle(&names(), &unsummed, MTU, NOW), "over IPv4 a datagram may have no checksum");
}

#[test]
fn replies_that_wait_are_bounded() {
    let mut dns = Stub::default();
    let asked = towards(CLIENT, 40_000, STUB, PORT).datagram(&web()).unwrap();
    let taken = (0..100).filter(|_| dns.handle(&names(), &asked, MTU, NOW)).count();
    assert_eq!((taken, std::iter::from_fn(|| dns.poll_output()).count()), (64, 64));
}

/// A client of TCP, as strict as a kernel.
struct Client {
    dns: Stub,
    flow: Flow,
    now: Time,
    sequence: u32,
    acknowledged: u32,
    window: u16,
    received: Vec<u8>,
    flags: u8,
}

impl Client {
    fn new(port: u16) -> Self {
        let flow = towards(CLIENT, port, STUB, PORT);
        Self {
            dns: Stub::default(),
            flow,
            now: NOW,
            sequence: u32::MAX - 5,
            acknowledged: 0,
            window: 60_000,
            received: Vec::new(),
            flags: 0,
        }
    }

    fn connected(port: u16) -> Self {
        let mut client = Self::new(port);
        client.send(tcp::SYN, &[]);
        client.sequence = client.sequence.wrapping_add(1);
        assert_eq!(client.take(), 1);
        assert_eq!(client.flags, tcp::SYN | tcp::ACK);
        client.send(tcp::ACK, &[]);
        client
    }

    /// Sends a segment, without counting its bytes.
    fn send(&mut self, flags: u8, payload: &[u8]) {
        let fields = TcpFields {
            sequence: self.sequence,
            acknowledgement: self.acknowledged,
            flags,
            window: self.window,
            segment_size: None,
        };
        let packet = self.flow.segment(&fields, payload).unwrap();
        assert!(self.dns.handle(&names(), &packet, MTU, self.now));
    }

    fn write(&mut self, payload: &[u8]) {
        self.send(tcp::ACK | tcp::PSH, payload);
        self.sequence = self.sequence.wrapping_add(payload.len() as u32);
    }

    /// Takes all packets in order. Returns their number.
    fn take(&mut self) -> usize {
        let mut count = 0;
        while let Some(packet) = self.dns.poll_output() {
            count += 1;
            let packet = Packet::parse(&packet).unwrap();
            let segment = Segment::parse(packet.payload()).unwrap();
            assert!(segment.checksum_ok(packet.pseudo_header(packet.payload().len() as u16)));
            self.flags = segment.flags();
            if self.flags & tcp::SYN != 0 {
                self.acknowledged = segment.sequence().wrapping_add(1);
                assert_eq!(segment.options()[..2], [2, 4]);
            } else if segment.sequence() == self.acknowledged {
                self.received.extend_from_slice(segment.payload());
                let fin = u32::from(self.flags & tcp::FIN != 0);
                self.acknowledged = self.acknowledged.wrapping_add(segment.payload().len() as u32 + fin);
            }
        }
        count
    }

    /// Loses all packets. Returns their number.
    fn lose(&mut self) -> usize {
        std::iter::from_fn(|| self.dns.poll_output()).count()
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.dns.handle_timeout(self.now);
    }

    /// Returns the answers that are complete.
    fn answers(&self) -> Vec<Answer> {
        let (mut rest, mut answers) = (self.received.as_slice(), Vec::new());
        while let Some((length, more)) = rest.split_first_chunk::<2>() {
            let Some((answer, more)) = more.split_at_checked(usize::from(u16::from_be_bytes(*length))) else { break };
            answers.push(Answer::of(answer));
            rest = more;
        }
        answers
    }

    fn connections(&self) -> usize {
        self.dns.connections.len()
    }
}

fn framed(question: &[u8]) -> Vec<u8> {
    [&(question.len() as u16).to_be_bytes(), question].concat()
}

#[test]
fn several_questions_are_answered_on_one_connection_and_it_ends_in_order() {
    let mut client = Client::connected(1);
    client.write(&framed(&web()));
    client.take();
    assert_eq!(client.answers().len(), 1);
    // Two at once, and one byte by byte.
    client.write(&[framed(&web()), framed(&web())].concat());
    for byte in framed(&web()) {
        client.write(&[byte]);
    }
    client.take();
    assert_eq!(client.answers().len(), 4);
    client.send(tcp::FIN | tcp::ACK, &[]);
    client.sequence = client.sequence.wrapping_add(1);
    client.take();
    assert_eq!((client.flags, client.connections()), (tcp::FIN | tcp::ACK, 1));
    client.send(tcp::ACK, &[]);
    assert_eq!((client.take(), client.connections()), (0, 0));
}

#[test]
fn lost_packets_of_both_sides_are_sent_again() {
    let mut client = Client::new(1);
    client.send(tcp::SYN, &[]);
    client.lose();
    client.send(tcp::SYN, &[]);
    assert_eq!(client.lose(), 1, "a repeated SYN is answered again");
    client.wait(Duration::from_millis(300));
    assert_eq!(client.take(), 1, "the stub repeats its SYN");
    client.sequence = client.sequence.wrapping_add(1);
    client.send(tcp::ACK, &[]);
    // The answer is lost; the client repeats its question, and then the timer works alone.
    client.send(tcp::ACK, &framed(&web()));
    client.lose();
    client.write(&framed(&web()));
    client.lose();
    client.wait(Duration::from_millis(300));
    client.take();
    assert_eq!(client.answers().len(), 1);
    client.send(tcp::ACK, &[]);
    // The FIN is lost.
    client.send(tcp::FIN | tcp::ACK, &[]);
    client.lose();
    client.send(tcp::FIN | tcp::ACK, &[]);
    client.sequence = client.sequence.wrapping_add(1);
    client.take();
    client.send(tcp::ACK, &[]);
    assert_eq!((client.flags, client.connections()), (tcp::FIN | tcp::ACK, 0));
}

#[test]
fn data_out_of_order_is_not_taken() {
    let mut client = Client::connected(1);
    let message = framed(&web());
    let start = client.sequence;
    client.sequence = start.wrapping_add(4);
    client.send(tcp::ACK, &message[4..]);
    client.take();
    assert_eq!((client.answers().len(), client.flags), (0, tcp::ACK));
    client.sequence = start;
    client.send(tcp::ACK, &message);
    client.take();
    assert_eq!(client.answers().len(), 1);
}

#[test]
fn a_client_that_reads_nothing_costs_no_more_than_its_bounds() {
    let mut client = Client::connected(1);
    client.window = 0;
    for _ in 0..100 {
        client.write(&framed(&web()).repeat(20));
        client.lose();
        assert!(client.dns.connections.held() <= (8 + 16 + 1) * 1_024, "{} bytes", client.dns.connections.held());
    }
    for _ in 0..10 {
        client.wait(Duration::from_secs(10));
    }
    client.take();
    assert_eq!((client.connections(), client.flags), (0, tcp::RST | tcp::ACK));
}

#[test]
fn many_questions_at_once_are_answered_as_the_client_reads() {
    let mut client = Client::connected(1);
    client.window = 4_000;
    let mut rest = framed(&web()).repeat(500);
    let mut rounds = 0;
    while client.answers().len() < 500 {
        let now: Vec<u8> = rest.drain(..rest.len().min(1_000)).collect();
        client.write(&now);
        client.take();
        for _ in 0..20 {
            client.send(tcp::ACK, &[]);
            client.take();
        }
        rounds += 1;
        assert!(rounds < 100, "{} answers", client.answers().len());
    }
}

#[test]
fn what_is_no_question_resets_the_connection() {
    for bytes in [vec![0x20; 2], framed(&[0; 5]), framed(&[0x80; 12])] {
        let mut client = Client::connected(1);
        client.write(&bytes);
        client.take();
        assert_eq!((client.flags, client.connections()), (tcp::RST | tcp::ACK, 0), "{bytes:?}");
    }
    let mut client = Client::connected(1);
    client.write(&framed(&[0; 12]));
    client.take();
    assert_eq!(client.answers()[0].code, 1, "no question in it is a malformed one");
}

#[test]
fn resets_end_a_connection_only_in_order() {
    let mut client = Client::connected(1);
    client.sequence = client.sequence.wrapping_add(1);
    client.send(tcp::RST, &[]);
    assert_eq!(client.connections(), 1);
    client.sequence = client.sequence.wrapping_sub(1);
    client.send(tcp::RST, &[]);
    assert_eq!((client.connections(), client.take()), (0, 0));
}

#[test]
fn segments_of_no_connection_are_reset() {
    for (flags, port, answer) in [
        (tcp::ACK, PORT, Some(tcp::RST)),
        (tcp::FIN, PORT, Some(tcp::RST | tcp::ACK)),
        (tcp::SYN, 80, Some(tcp::RST | tcp::ACK)),
        (tcp::RST, PORT, None),
    ] {
        let mut client = Client::new(1);
        client.flow = towards(CLIENT, 1, STUB, port);
        client.send(flags, &[]);
        assert_eq!((client.take() == 1).then_some(client.flags), answer);
        assert_eq!(client.connections(), 0);
    }
}

#[test]
fn connections_are_bounded_and_idle_ones_end() {
    let mut client = Client::connected(1);
    for port in 2..=40 {
        client.flow = towards(CLIENT, port, STUB, PORT);
        client.send(tcp::SYN, &[]);
        client.take();
    }
    assert_eq!((client.connections(), client.flags), (32, tcp::RST | tcp::ACK));
    client.wait(Duration::from_millis(1_100));
    client.lose();
    client.send(tcp::SYN, &[]);
    client.take();
    assert_eq!((client.connections(), client.flags), (32, tcp::SYN | tcp::ACK), "a silent one gave way");
    for _ in 0..20 {
        client.wait(Duration::from_secs(5));
        client.lose();
    }
    assert_eq!((client.connections(), client.dns.poll_timeout()), (0, None));
}

proptest! {
    /// Whatever segments come in whatever order, tables and queues keep their bounds.
    #[test]
    fn any_segments_do_no_harm(segments in proptest::collection::vec(
        (0..4_u16, 0..64_u8, -20..20_i32, -20..20_i32, 0..3_u16, proptest::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..40), 0..400_u64),
        1..60,
    )) {
        let mut client = Client::connected(1);
        client.write(&framed(&web()));
        for (port, flags, sequence, acknowledgement, window, payload, pause) in segments {
            client.flow = towards(CLIENT, port, STUB, PORT);
            let (own, theirs) = (client.sequence, client.acknowledged);
            client.window = window * 30;
            client.sequence = own.wrapping_add_signed(sequence);
            client.acknowledged = theirs.wrapping_add_signed(acknowledgement);
            client.send(flags, &payload);
            client.sequence = own;
            client.acknowledged = theirs;
            client.wait(Duration::from_millis(pause));
            if pause % 2 == 0 {
                client.lose();
            }
            prop_assert!(client.connections() <= 32);
        }
        for _ in 0..20 {
            client.wait(Duration::from_secs(20));
            client.lose();
        }
        prop_assert_eq!(client.connections(), 0);
    }

    #[test]
    fn any_packets_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), udp: bool) {
        let mut dns = Stub::default();
        let flow = towards(CLIENT, 1, STUB, PORT);
        let packet = if udp { flow.datagram(&bytes) } else { None };
        dns.handle(&names(), packet.as_deref().unwrap_or(&bytes), MTU, NOW);
    }
}

/// The answer of the server of `corp.example` to this message, `length` bytes long.
fn served(message: &[u8], length: usize) -> Vec<u8> {
    let mut answer = message.to_vec();
    answer[2] |= 0x80;
    answer.resize(length.max(message.len()), 0);
    answer
}

#[test]
fn a_question_for_another_servers_domain_is_passed_on_unchanged() {
    let (names, mut dns) = (crate::testkit::chosen_names(), Stub::default());
    let message = crate::testkit::query(0x0130, "Www.corp.example", [WEB, 1], &[0, 0, 41, 16, 0, 0, 0, 128, 0, 0, 0]);
    let flow = towards(CLIENT, 40_000, STUB, PORT);
    assert!(dns.handle(&names, &flow.datagram(&message).unwrap(), MTU, NOW));
    assert_eq!(dns.poll_output(), None);
    let question = dns.poll_question().unwrap();
    assert_eq!((&question.message, &*question.servers), (&message, &["10.1.0.53".parse().unwrap()][..]));
    assert!(!question.is_over_tcp());
    for (length, shown) in [(600, 600), (1_300, message.len() - 11)] {
        dns.take_answer(&names, question.client, &served(&message, length), NOW);
        let packet = dns.poll_output().unwrap();
        let packet = Packet::parse(&packet).unwrap();
        let datagram = Datagram::parse(packet.payload()).unwrap();
        assert_eq!((datagram.destination(), datagram.payload().len()), (40_000, shown));
        assert_eq!(datagram.payload()[2] & 2 != 0, length != shown, "TC");
    }
    // Neither a transfer nor the names of nodes and records.
    for (name, kind) in [("corp.example", 252), ("git.corp.example", WEB), ("web.home.taut.internal", WEB)] {
        let other = flow.datagram(&crate::testkit::question(name, kind)).unwrap();
        assert!(dns.handle(&names, &other, MTU, NOW) && dns.poll_output().is_some(), "{name}");
    }
    assert_eq!(dns.poll_question(), None);
}

#[test]
fn fault_h8_questions_for_other_servers_are_taken_from_this_node_alone_and_bounded() {
    let (names, mut dns) = (crate::testkit::chosen_names(), Stub::default());
    let message = question("www.corp.example", WEB);
    let other = towards("100.64.0.2", 40_000, STUB, PORT).datagram(&message).unwrap();
    assert!(!dns.handle(&names, &other, MTU, NOW) && dns.poll_question().is_none());
    let asked = towards(CLIENT, 40_000, STUB, PORT).datagram(&message).unwrap();
    let taken = (0..200).filter(|_| dns.handle(&names, &asked, MTU, NOW)).count();
    assert_eq!(taken, 32);
    assert_eq!(std::iter::from_fn(|| dns.poll_question()).count(), 32);
}

#[test]
fn a_connection_waits_for_other_servers_and_answers_what_it_knows_at_once() {
    let (names, mut dns) = (crate::testkit::chosen_names(), Stub::default());
    let flow = towards(CLIENT, 40_000, STUB, PORT);
    let fields = |sequence, acknowledgement, flags| TcpFields {
        sequence,
        acknowledgement,
        flags,
        window: 60_000,
        segment_size: None,
    };
    let send = |dns: &mut Stub, fields: &TcpFields, payload: &[u8]| {
        assert!(dns.handle(&names, &flow.segment(fields, payload).unwrap(), MTU, NOW));
    };
    send(&mut dns, &fields(0, 0, tcp::SYN), &[]);
    let opened = dns.poll_output().unwrap();
    let opened = Segment::parse(Packet::parse(&opened).unwrap().payload()).unwrap().sequence().wrapping_add(1);
    let framed = |message: &[u8]| [&(message.len() as u16).to_be_bytes()[..], message].concat();
    let foreign = question("www.corp.example", WEB);
    let all = [framed(&foreign).repeat(10), framed(&web())].concat();
    send(&mut dns, &fields(1, opened, tcp::ACK), &all);
    let mut asked: Vec<Question> = std::iter::from_fn(|| dns.poll_question()).collect();
    assert_eq!((asked.len(), asked[0].is_over_tcp()), (8, true), "the others wait");
    let client = asked.remove(0).client;
    let received = |dns: &mut Stub| {
        let packets = std::iter::from_fn(|| dns.poll_output());
        let payload =
            |packet: Box<[u8]>| Segment::parse(Packet::parse(&packet).unwrap().payload()).unwrap().payload().to_vec();
        packets.flat_map(payload).collect::<Vec<u8>>()
    };
    assert_eq!(received(&mut dns), [0; 0]);
    dns.take_answer(&names, client, &served(&foreign, 2_000), NOW);
    assert_eq!(received(&mut dns).len(), 2 + 2_000, "whole, in two segments");
    assert!(dns.poll_question().is_some(), "the next one has its place");
    for _ in 0..9 {
        dns.take_answer(&names, client, &served(&foreign, 0), NOW);
    }
    let rest = received(&mut dns);
    assert_eq!(rest.len() - 9 * framed(&foreign).len(), 2 + web().len() + 16, "all, and that of the network's name");
    dns.take_answer(&names, client, &served(&foreign, 0), NOW);
    assert_eq!(received(&mut dns), [0; 0], "a later answer is ignored");
}

#[test]
fn fault_h8_with_an_exit_node_names_of_the_internet_are_passed_on_and_no_others() {
    let names = crate::testkit::chosen_names().with_all_others(["internal", "local", "taut.internal"]);
    let mut dns = Stub::default();
    let flow = towards(CLIENT, 40_000, STUB, PORT);
    let mut servers = |name: &str| {
        assert!(dns.handle(&names, &flow.datagram(&question(name, WEB)).unwrap(), MTU, NOW), "{name}");
        let question = dns.poll_question();
        assert_eq!(question.is_none(), dns.poll_output().is_some(), "{name}: either an answer or a question");
        question.map(|question| question.servers.len())
    };
    for name in ["www.example.com", "1.1.1.1.in-addr.arpa", "example", "www.local.gov.uk"] {
        assert_eq!(servers(name), Some(0), "{name}: none, which is the exit node");
    }
    assert_eq!(servers("www.corp.example"), Some(1), "a split domain");
    for name in [
        "web.home.taut.internal",
        "x.other.taut.internal",
        "www.taut.internal.lan.example",
        "www.taut.local",
        "nas.local",
        "git.corp.example",
        "x.apps.example",
        "1.0.64.100.in-addr.arpa",
    ] {
        assert_eq!(servers(name), None, "{name}");
    }
}
