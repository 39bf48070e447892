//! Questions for names, and packets to the stub.

use std::net::IpAddr;
use std::time::Duration;

use taut_base::{Prefix, Time};
use taut_dns::{MAX_UDP, Names, Network, Stub, Transport, is_answer, leads_to, respond};
use taut_wire::ip::{self, Packet};

use crate::input::{Input, piece};
use crate::reference;
use crate::superpackets::repair;

/// The node's own addresses, and those of its stub.
const OWN: [&str; 2] = ["100.64.0.1", "fd00:7a07::1"];
/// When a script begins: the stub's initial sequence number follows from it.
const START: Time = Time(1_000_000_000);

/// A network of two nodes. Its prefixes are those of the seeds for other targets.
fn names() -> Option<Names> {
    let own: Vec<IpAddr> = OWN.iter().filter_map(|text| text.parse().ok()).collect();
    let many: Vec<IpAddr> = (1..100).map(|host| IpAddr::from([100, 64, 9, host])).collect();
    let prefixes: Vec<Prefix> =
        ["100.64.0.0/10", "fd00:7a07::/64"].iter().filter_map(|text| text.parse().ok()).collect();
    let network = Network { zone: "home.taut.internal", serial: 7, prefixes: prefixes.try_into().ok()?, own: &own };
    let names = Names::new(network, [("me", own.as_slice()), ("many", many.as_slice())])?;
    let records = [("*.apps.example", many.get(..8)?), ("x.y.home.taut.internal", many.get(..1)?)];
    Some(names.with_records(records).with_domains([("corp.example", many.get(..3)?)]))
}

/// A message: its answer is one, is as short as the client wants, and is not answered itself.
pub(crate) fn message(data: &[u8]) {
    let Some(names) = names() else { unreachable!("a valid network") };
    // As the answer of a server, too.
    let _ = leads_to(data, &["100.64.0.0/10"].iter().filter_map(|text| text.parse().ok()).collect::<Vec<Prefix>>());
    let is_question = data.get(2).is_none_or(|flags| flags & 0x80 == 0);
    assert!(!is_question || !is_answer(data, data), "a question is no answer to itself");
    for (transport, limit) in
        [(Transport::Udp(MAX_UDP), usize::from(MAX_UDP)), (Transport::Udp(0), 600), (Transport::Tcp, 65_535)]
    {
        let Some(answer) = respond(&names, data, transport) else { continue };
        assert_eq!(answer[..2], data[..2], "another identifier");
        assert!(answer[2] & 0x80 != 0 && answer.len() <= limit && answer.len() >= 12);
        assert_eq!(answer[2] & 0x79, data[2] & 0x79, "opcode and RD are repeated");
        assert_eq!(respond(&names, &answer, transport), None, "an answer to an answer");
        if answer[5] == 1 {
            let end = 12 + data[12..].iter().position(|byte| *byte == 0).map_or(0, |root| root.min(255));
            assert_eq!(answer[12..end.min(answer.len())], data[12..end.min(answer.len())], "the client's spelling");
        }
    }
}

/// A script: pauses in milliseconds, and packets, which get right checksums. What the stub sends is right, goes to the node, and is bounded.
pub(crate) fn stub(data: &[u8]) {
    let Some(names) = names() else { unreachable!("a valid network") };
    let (mut input, mut stub, mut now) = (Input::new(data), Stub::default(), START);
    while !input.is_empty() {
        now = now + Duration::from_millis(u64::from(input.word()));
        let mut packet = input.piece().to_vec();
        repair(&mut packet);
        stub.handle_timeout(now);
        stub.handle(&names, &packet, 1_420, now);
        let mut asked = 0;
        while let Some(question) = stub.poll_question() {
            asked += 1;
            // A server answers with any bytes at all.
            stub.take_answer(&names, question.client, input.piece(), now);
        }
        assert!(asked <= 64, "a connection has 8 questions at once, and each answer makes room for one more");
        let mut sent = 0;
        while let Some(answer) = stub.poll_output() {
            sent += 1;
            let Ok(packet) = Packet::parse(&answer) else { unreachable!("the stub sends packets") };
            assert!(answer.len() <= 1_420 && packet.bytes().len() == answer.len() && packet.header_checksum_ok());
            assert!(names.is_stub(packet.source()) && names.may_ask(packet.destination()));
            assert!(packet.protocol() == ip::UDP || packet.protocol() == ip::TCP);
            assert!(reference::transport_is_right(&answer, packet.header_len(), packet.protocol()));
        }
        assert!(sent <= 64);
    }
    // Without packets every connection ends.
    for _ in 0..20 {
        now = now + Duration::from_secs(20);
        stub.handle_timeout(now);
        while stub.poll_output().is_some() {}
    }
    assert_eq!(stub.poll_timeout(), None);
}

fn question(name: &[u8], kind: u16, additional: &[u8]) -> Vec<u8> {
    let count = u8::from(!additional.is_empty());
    [&[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, count][..], name, &kind.to_be_bytes(), &[0, 1], additional].concat()
}

/// Seeds for [`message`].
pub(crate) fn message_seeds() -> Vec<Vec<u8>> {
    let edns = [0, 0, 41, 16, 0, 0, 0, 0x80, 0, 0, 0];
    vec![
        question(b"\x02Me\x04home\x04taut\x08internal\0", 1, &[]),
        question(b"\x04many\x04HOME\x04taut\x08internal\0", 255, &edns),
        question(b"\x02no\x04home\x04taut\x08internal\0", 28, &edns),
        question(b"\x04home\x04taut\x08internal\0", 6, &[]),
        question(b"\x011\x010\x0264\x03100\x07in-addr\x04arpa\0", 12, &edns),
        question(b"\x017\x010\x01a\x017\x010\x010\x01d\x01f\x03ip6\x04arpa\0", 12, &[]),
        question(b"\x07example\x03com\0", 1, &[]),
        question(b"\x03www\x04apps\x07example\0", 1, &edns),
    ]
}

/// Seeds for [`stub`]: a datagram, and a connection with two questions.
pub(crate) fn stub_seeds() -> Vec<Vec<u8>> {
    let asked = question(b"\x02me\x04home\x04taut\x08internal\0", 1, &[]);
    let length = (8 + asked.len() as u16).to_be_bytes();
    let datagram = [&[0x9c, 0x40, 0, 53][..], &length, &[0, 0], &asked].concat();
    let framed = [&(asked.len() as u16).to_be_bytes()[..], &asked].concat();
    // The stub's initial sequence number is the time in units of 4 us.
    let theirs = (START.0 / 4_000) as u32 + 1;
    let script = |packets: Vec<Vec<u8>>| {
        packets.iter().flat_map(|packet| [vec![1, 0], piece(packet)].concat()).collect::<Vec<u8>>()
    };
    let connection = |to: fn(u8, &[u8]) -> Vec<u8>| {
        let segment = |sequence: u32, flags: u8, data: &[u8]| {
            let acknowledged = if flags == 2 { 0 } else { theirs };
            let numbers = [sequence, acknowledged].map(u32::to_be_bytes);
            to(
                ip::TCP,
                &[&[0x9c, 0x40, 0, 53][..], numbers.as_flattened(), &[0x50, flags, 0xff, 0xff, 0, 0, 0, 0], data]
                    .concat(),
            )
        };
        let twice = framed.repeat(2);
        let end = 1 + twice.len() as u32;
        // The first millisecond of the script counts for the number, so the SYN comes without a pause.
        let first = [vec![0, 0], piece(&segment(0, 2, &[]))].concat();
        [first, script(vec![segment(1, 0x10, &[]), segment(1, 0x18, &twice), segment(end, 0x11, &[])])].concat()
    };
    let foreign = question(b"\x03www\x04corp\x07example\0", 1, &[]);
    let length = (8 + foreign.len() as u16).to_be_bytes();
    let asking = four(ip::UDP, &[&[0x9c, 0x41, 0, 53][..], &length, &[0, 0], &foreign].concat());
    let mut served = foreign;
    served[2] |= 0x80;
    let passed = [script(vec![asking]), piece(&served)].concat();
    vec![script(vec![four(ip::UDP, &datagram), six(ip::UDP, &datagram)]), passed, connection(four), connection(six)]
}

fn four(protocol: u8, message: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + message.len() as u16).to_be_bytes();
    [&[0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0, 100, 64, 0, 1, 100, 64, 0, 0][..], message].concat()
}

fn six(protocol: u8, message: &[u8]) -> Vec<u8> {
    let [high, low] = (message.len() as u16).to_be_bytes();
    let prefix = [0xfd, 0, 0x7a, 7, 0, 0, 0, 0];
    let own = [&prefix[..], &[0, 0, 0, 0, 0, 0, 0, 1]].concat();
    let stub = [&prefix[..], &[0, 0, 0, 0x53, 0, 0, 0, 0x53]].concat();
    [&[0x60, 0, 0, 0, high, low, protocol, 64][..], &own, &stub, message].concat()
}
