//! Views of messages and packets, and the checksum.

use std::net::SocketAddr;

use taut_node::HandshakeMessage;
use taut_wire::checksum::Sum;
use taut_wire::control::{self, ControlMessage};
use taut_wire::icmp::Echo;
use taut_wire::ip::{MAX_EXTENSIONS, Packet};
use taut_wire::stun::{self, BadStun, BindingRequest, BindingResponse, MAX_ANSWER_LEN, REQUEST_LEN};
use taut_wire::wireguard::{self, DATA_HEADER, Message, TAG, classify};
use taut_wire::{tcp, udp};

use crate::reference;

/// A control message: a parsed message is written as the same bytes, and fits into its largest length.
pub(crate) fn control(data: &[u8]) {
    let Ok(message) = ControlMessage::parse(data) else { return };
    let mut bytes = [0; control::MAX];
    let length = message.write(&mut bytes);
    assert!(length <= data.len() && length.is_multiple_of(16), "{message:?}");
    assert_eq!(ControlMessage::parse(&bytes[..length]), Ok(message));
}

/// A STUN message: a parsed message means the same after it was written and read again, an answer is not longer than its request, and no WireGuard message
/// is a STUN message.
pub(crate) fn stun(data: &[u8]) {
    assert!(!stun::is_stun(data) || classify(data).is_err());
    if let Ok(request) = BindingRequest::parse(data) {
        let mut again = [0; REQUEST_LEN];
        request.write(&mut again);
        assert_eq!(BindingRequest::parse(&again), Ok(request));
    }
    if let Ok(answer) = BindingResponse::parse(data) {
        check_answer(&answer);
    }
    let source = SocketAddr::from(([192, 0, 2, 1], 8288));
    match stun::answer(data, source, Some(source)) {
        Ok((answer, _)) => assert!(check_answer(&answer) <= data.len() && answer.mapped == source),
        Err(BadStun::ShorterThanItsAnswer) => assert!(BindingRequest::parse(data).is_ok()),
        Err(refusal) => assert!(BindingRequest::parse(data).is_err() && !refusal.to_string().is_empty()),
    }
}

fn check_answer(answer: &BindingResponse) -> usize {
    let mut again = [0; MAX_ANSWER_LEN];
    let length = answer.write(&mut again);
    assert_eq!(BindingResponse::parse(&again[..length]).as_ref(), Ok(answer));
    length
}

/// A datagram: type and length decide its kind, and a parsed message is written as the same bytes.
pub(crate) fn wireguard(data: &[u8]) {
    let message = classify(data);
    if let Err(malformed) = &message {
        assert!(!malformed.to_string().is_empty());
    }
    let is_handshake = matches!(message, Ok(Message::Initiation(_) | Message::Response(_) | Message::CookieReply(_)));
    assert!(!is_handshake || HandshakeMessage::new(data).is_some_and(|kept| kept.as_bytes() == data));
    match message {
        Ok(Message::Initiation(message)) => {
            let mut again = [0; wireguard::initiation::LEN];
            let (key, stamp) = (message.sealed_static, message.sealed_timestamp);
            wireguard::write_initiation(&mut again, message.sender, message.ephemeral, key, stamp);
            again[wireguard::initiation::MAC1].copy_from_slice(message.mac1);
            again[wireguard::initiation::MAC2].copy_from_slice(message.mac2);
            assert_eq!(again, data);
        }
        Ok(Message::Response(message)) => {
            let mut again = [0; wireguard::response::LEN];
            let (sender, receiver) = (message.sender, message.receiver);
            wireguard::write_response(&mut again, sender, receiver, message.ephemeral, message.sealed_empty);
            again[wireguard::response::MAC1].copy_from_slice(message.mac1);
            again[wireguard::response::MAC2].copy_from_slice(message.mac2);
            assert_eq!(again, data);
        }
        Ok(Message::CookieReply(message)) => {
            let mut again = [0; wireguard::cookie_reply::LEN];
            wireguard::write_cookie_reply(&mut again, message.receiver, message.nonce, message.sealed_cookie);
            assert_eq!(again[4..], data[4..]);
        }
        Ok(Message::Data(message)) => {
            let mut header = [0; DATA_HEADER];
            wireguard::write_data_header(&mut header, message.receiver, message.counter);
            assert_eq!([&header, message.ciphertext].concat(), data);
            assert!(message.ciphertext.len() >= TAG);
        }
        Err(_) => {}
    }
}

/// An inner packet: every view lies inside it, and its checksums equal those of the reference.
pub(crate) fn packet(data: &[u8]) {
    let packet = match Packet::parse(data) {
        Ok(packet) => packet,
        Err(malformed) => return assert!(!malformed.to_string().is_empty()),
    };
    assert!(data.starts_with(packet.bytes()));
    assert_eq!(packet.header_len() + packet.payload().len(), packet.bytes().len());
    assert_eq!(packet.source().is_ipv4(), packet.destination().is_ipv4());
    // 40 bytes, and at most 8 headers of at most 256 * 8 bytes.
    assert!(packet.header_len() <= 40 + MAX_EXTENSIONS * 2_048);
    if packet.source().is_ipv4() {
        assert_eq!(packet.header_checksum_ok(), reference::sum(&packet.bytes()[..packet.header_len()]) == 0xffff);
    }
    let length = u16::try_from(packet.payload().len()).unwrap_or(u16::MAX);
    let right = || reference::transport_is_right(packet.bytes(), packet.header_len(), packet.protocol());
    if let Ok(segment) = tcp::Segment::parse(packet.payload()) {
        assert_eq!(segment.header_len() + segment.payload().len(), packet.payload().len());
        assert_eq!(segment.options().len() + tcp::HEADER, segment.header_len());
        if packet.protocol() == taut_wire::ip::TCP {
            assert_eq!(segment.checksum_ok(packet.pseudo_header(length)), right());
        }
    }
    if let Ok(datagram) = udp::Datagram::parse(packet.payload()) {
        assert_eq!(datagram.payload().len() + udp::HEADER, datagram.length());
        if packet.protocol() == taut_wire::ip::UDP && datagram.length() == packet.payload().len() {
            assert_eq!(datagram.checksum_ok(packet.pseudo_header(length)), right());
        }
    }
    if let Ok(echo) = Echo::parse(&packet) {
        let mut again = vec![0; echo.message_len()];
        assert_eq!(echo.write_message(packet.source(), packet.destination(), &mut again), Ok(packet.payload().len()));
        // A checksum of zero has two forms; both are equal here.
        assert_eq!((&again[..2], &again[4..]), (&packet.payload()[..2], &packet.payload()[4..]));
    }
}

/// The fast sum equals the slow sum, of the whole and of pieces, and after the change of a word.
pub(crate) fn checksum(data: &[u8]) {
    let whole = Sum::of(data);
    assert_eq!(whole.folded(), reference::sum(data));
    let mut copy = vec![0; data.len()];
    assert_eq!(Sum::copying(data, &mut copy), whole);
    assert_eq!(copy, data);
    let (Some(first), Some(word)) = (data.first(), data.get(1..3)) else { return };
    let (head, tail) = data.split_at((usize::from(*first) * 2).min(data.len()));
    if head.len().is_multiple_of(2) {
        assert_eq!(Sum::of(head) + Sum::of(tail), whole);
    }
    let (old, new) = (reference::be16(data, 0), u16::from_be_bytes([word[0], word[1]]));
    copy[..2].copy_from_slice(&new.to_be_bytes());
    let updated = taut_wire::checksum::updated(whole.checksum(), old, new);
    // Ones' complement has two forms of zero.
    let same = |a: u16, b: u16| a == b || (a | b == 0xffff && a & b == 0);
    assert!(same(updated, Sum::of(&copy).checksum()), "{updated:04x} after a change");
}
