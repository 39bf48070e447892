//! Packets that are longer than their path carries: pieces, a lower segment size, and the error about a packet that is too big.

use taut_wire::icmp::{TOO_BIG_MAX, write_too_big};
use taut_wire::ip::{self, Packet};
use taut_wire::mss;
use taut_wire::pieces::{HEADER, MAX_PIECES, Piece, Plan};

use crate::input::Input;
use crate::reference;

/// A limit and a packet: its pieces make the packet again, and the rest of the bytes read as a piece are written as the same bytes.
pub(crate) fn pieces(data: &[u8]) {
    if let Some(piece) = Piece::parse(data) {
        again(&piece, data);
    }
    let mut input = Input::new(data);
    let limit = usize::from(input.word() % 2_048);
    let packet = input.rest();
    if let Some(plan) = Plan::new(packet.len(), limit) {
        assert!(plan.longest() <= limit && (2..=MAX_PIECES).contains(&plan.count()));
        let mut joined = vec![0xee; packet.len()];
        for index in (0..plan.count()).rev() {
            let mut room = vec![0xee; plan.longest() + 1];
            let Some(length) = plan.write(index, 7, packet, &mut room) else {
                unreachable!("there is room for a piece")
            };
            let Some(piece) = Piece::parse(&room) else { unreachable!("a written piece is one") };
            assert_eq!((piece.plan, piece.id, piece.index, piece.part.len()), (plan, 7, index, length - HEADER));
            joined[plan.range(index)].copy_from_slice(piece.part);
        }
        assert!(joined == packet);
    }
    lowered(packet);
    too_big(packet, u16::try_from(limit).unwrap_or(0));
}

/// Writes a piece that was read.
fn again(piece: &Piece<'_>, data: &[u8]) {
    let mut packet = vec![0; piece.plan.length()];
    packet[piece.plan.range(piece.index)].copy_from_slice(piece.part);
    let mut written = vec![0; piece.plan.longest()];
    let Some(length) = piece.plan.write(piece.index, piece.id, &packet, &mut written) else {
        unreachable!("a piece that was read can be written")
    };
    let mut expected = data[..length].to_vec();
    expected[3] = 0;
    assert_eq!(written[..length], expected);
}

/// A lower segment size changes two bytes and the checksum, which stays correct or wrong.
fn lowered(packet: &[u8]) {
    let Ok(ip) = Packet::parse(packet) else { return };
    if !mss::opens_connection(&ip) {
        return;
    }
    let mut changed = packet.to_vec();
    let done = mss::lower(&mut changed, 600, false);
    let differing = packet.iter().zip(&changed).filter(|(a, b)| a != b).count();
    assert!(differing <= if done { 4 } else { 0 });
    let right = |packet: &[u8]| reference::transport_is_right(&packet[..ip.bytes().len()], ip.header_len(), ip::TCP);
    assert_eq!(right(packet), right(&changed));
    assert!(!mss::lower(&mut changed, 600, false));
}

/// An error is a valid packet to the sender, and is never answered by another error.
fn too_big(packet: &[u8], mtu: u16) {
    let Ok(ip) = Packet::parse(packet) else { return };
    let mut error = [0xee; TOO_BIG_MAX];
    let Some(length) = write_too_big(&ip, mtu, &mut error) else { return };
    let Ok(answer) = Packet::parse(&error) else { unreachable!("the error is a packet") };
    assert!(answer.bytes().len() == length && reference::ip_is_right(answer.bytes()));
    assert_eq!((answer.source(), answer.destination()), (ip.destination(), ip.source()));
    assert!(write_too_big(&answer, mtu, &mut [0; TOO_BIG_MAX]).is_none());
}

/// Seeds for [`pieces`]: a limit and a packet, and pieces as they are sent.
pub(crate) fn seeds(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> =
        packets.iter().map(|packet| [&100_u16.to_le_bytes()[..], packet.as_slice()].concat()).collect();
    let packet: Vec<u8> = (0..=255).collect();
    if let Some(plan) = Plan::new(packet.len(), 100) {
        for index in [0, plan.count() - 1] {
            let mut piece = vec![0; plan.longest()];
            let length = plan.write(index, 1, &packet, &mut piece).unwrap_or(0);
            piece.truncate(length);
            seeds.push(piece);
        }
    }
    seeds
}
