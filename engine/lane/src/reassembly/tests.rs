use proptest::prelude::*;
use taut_wire::pieces::HEADER;

use super::*;

const ONE: PeerId = PeerId(1);
const INDEX: ReceiverIndex = ReceiverIndex(16);

fn at(milliseconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(100) + Duration::from_millis(milliseconds)
}

/// Returns the pieces of a packet of `length` equal bytes.
fn pieces(id: u32, length: usize, limit: usize) -> Vec<Vec<u8>> {
    let packet = vec![id.to_le_bytes()[0]; length];
    let plan = Plan::new(length, limit).unwrap();
    let piece = |index| {
        let mut piece = vec![0; plan.longest()];
        plan.write(index, id, &packet, &mut piece).unwrap();
        piece
    };
    (0..plan.count()).map(piece).collect()
}

fn push(machine: &mut Reassembly, id: PeerId, piece: &[u8], now: Time) -> Result<Option<JoinedPacket>, BadPiece> {
    machine.push(id, INDEX, &Piece::parse(piece).unwrap(), Ecn::Ect0, now)
}

/// Asserts that the bounds hold and that the costs are what is kept.
fn check(machine: &Reassembly) {
    let mut all = 0;
    for packets in machine.peers.values() {
        let cost: usize = packets.iter().map(|packet| ENTRY + packet.bytes.capacity()).sum();
        assert!((1..=PACKETS).contains(&packets.len()) && cost <= PER_PEER);
        all += cost;
    }
    assert!(all == machine.cost && all <= PER_LANE, "{all} bytes, and {} in the books", machine.cost);
}

#[test]
fn a_packet_is_joined_when_its_last_piece_has_arrived() {
    let mut machine = Reassembly::default();
    let (one, two) = (pieces(1, 3_000, 1_000), pieces(2, 3_000, 1_000));
    assert_eq!(one.len(), 4);
    for piece in [&one[2], &two[0], &one[0], &one[3], &two[3], &two[2]] {
        assert!(push(&mut machine, ONE, piece, at(0)).unwrap().is_none());
        check(&machine);
    }
    assert_eq!(push(&mut machine, ONE, &one[1], at(900)).unwrap().unwrap().bytes, [1; 3_000]);
    assert_eq!(push(&mut machine, ONE, &two[1], at(999)).unwrap().unwrap().bytes, [2; 3_000]);
    assert_eq!((machine.cost, machine.peers.len(), machine.take_dropped()), (0, 0, 0));
}

#[test]
fn any_congestion_mark_marks_the_packet() {
    for (marks, expected) in [
        ([Ecn::Ect0, Ecn::Ce], Ecn::Ce),
        ([Ecn::Ce, Ecn::Ect0], Ecn::Ce),
        ([Ecn::Ect1, Ecn::Ect1], Ecn::Ect1),
        ([Ecn::NotEct, Ecn::NotEct], Ecn::NotEct),
    ] {
        let mut machine = Reassembly::default();
        let mut joined = None;
        for (piece, mark) in pieces(1, 1_500, 1_000).iter().zip(marks) {
            joined = machine.push(ONE, INDEX, &Piece::parse(piece).unwrap(), mark, at(0)).unwrap();
        }
        assert_eq!(joined.unwrap().congestion, expected);
    }
}

#[test]
fn a_packet_that_stays_incomplete_is_dropped_after_a_second() {
    let mut machine = Reassembly::default();
    assert_eq!(machine.poll_timeout(), None);
    let (one, two) = (pieces(1, 1_500, 1_000), pieces(2, 1_500, 1_000));
    push(&mut machine, ONE, &one[0], at(0)).unwrap();
    push(&mut machine, ONE, &two[0], at(500)).unwrap();
    assert_eq!(machine.poll_timeout(), Some(at(1_000)));
    machine.handle_timeout(at(999));
    assert_eq!(machine.take_dropped(), 0);
    machine.handle_timeout(at(1_000));
    assert_eq!((machine.take_dropped(), machine.poll_timeout()), (1, Some(at(1_500))));
    // A late piece begins its packet again, which stays incomplete.
    assert!(push(&mut machine, ONE, &two[1], at(1_500)).unwrap().is_none());
    assert_eq!(machine.take_dropped(), 1);
    machine.handle_timeout(at(1_500));
    machine.handle_timeout(at(3_000));
    assert_eq!((machine.take_dropped(), machine.poll_timeout(), machine.cost), (1, None, 0));
}

#[test]
fn pieces_that_contradict_each_other_change_nothing() {
    let mut machine = Reassembly::default();
    let good = pieces(1, 3_000, 1_000);
    push(&mut machine, ONE, &good[0], at(0)).unwrap();
    assert!(push(&mut machine, ONE, &good[0], at(0)).is_err(), "a second time");
    assert!(push(&mut machine, ONE, &pieces(1, 3_001, 1_000)[1], at(0)).is_err(), "another length");
    assert!(push(&mut machine, ONE, &pieces(1, 3_000, 700)[1], at(0)).is_err(), "another count");
    // The same number under another pair, or of another peer, is another packet.
    let elsewhere = ReceiverIndex(32);
    let foreign = machine.push(ONE, elsewhere, &Piece::parse(&good[1]).unwrap(), Ecn::Ect0, at(0));
    assert!(foreign.is_ok_and(|joined| joined.is_none()));
    assert!(push(&mut machine, PeerId(2), &good[1], at(0)).unwrap().is_none());
    check(&machine);
    assert!(push(&mut machine, ONE, &good[1], at(0)).unwrap().is_none());
    assert!(push(&mut machine, ONE, &good[2], at(0)).unwrap().is_none());
    assert_eq!(push(&mut machine, ONE, &good[3], at(0)).unwrap().unwrap().bytes, [1; 3_000]);
    machine.clear(ONE);
    machine.clear(PeerId(2));
    assert_eq!((machine.cost, machine.take_dropped()), (0, 2));
}

#[test]
fn fault_b11_a_flood_of_first_pieces_takes_no_more_than_its_share() {
    for length in [600, 1_500, 9_000, 65_000] {
        let mut machine = Reassembly::default();
        // One peer alone has four packets, or two of the longest.
        for id in 0..1_000 {
            push(&mut machine, ONE, &pieces(id, length, 500)[0], at(0)).unwrap();
            check(&machine);
        }
        let kept = machine.peers[&ONE].len();
        assert_eq!((kept, machine.take_dropped()), (if length > 30_000 { 2 } else { 4 }, 1_000 - kept as u64));
        // All other peers, too: their oldest packets are dropped, and a new peer finds room for a usual packet.
        for id in 0..20 {
            for peer in 0..1_000 {
                push(&mut machine, PeerId(peer), &pieces(id, length, 500)[0], at(1)).unwrap();
            }
            check(&machine);
        }
        let mut joined = None;
        for piece in pieces(7, 600, 500) {
            joined = push(&mut machine, PeerId(5_000), &piece, at(2)).unwrap();
        }
        assert!(joined.is_some(), "{} of {PER_LANE} bytes are used by packets of {length}", machine.cost);
    }
}

proptest! {
    #[test]
    fn any_order_of_pieces_gives_the_packets(order in Just((0..40_usize).collect::<Vec<_>>()).prop_shuffle(), lengths in proptest::collection::vec(600_usize..4_500, 4)) {
        let mut machine = Reassembly::default();
        let all: Vec<(u32, Vec<u8>)> =
            (0..4_u32).zip(&lengths).flat_map(|(id, length)| pieces(id, *length, 500).into_iter().map(move |piece| (id, piece))).collect();
        let mut joined = 0;
        for place in order.into_iter().filter(|place| *place < all.len()).chain(40..all.len()) {
            let (id, piece) = &all[place];
            prop_assert!(piece.len() > HEADER);
            if let Some(packet) = push(&mut machine, ONE, piece, at(0)).unwrap() {
                let id = *id as usize;
                prop_assert_eq!(packet.bytes, vec![id as u8; lengths[id]]);
                joined += 1;
            }
            check(&machine);
        }
        prop_assert_eq!((joined, machine.cost, machine.take_dropped()), (4, 0, 0));
    }
}

/// Members that keep as many incomplete packets as they may, long and short ones, until nothing is left of the lane's bytes.
#[test]
fn fault_b11_hostile_members_leave_room_for_the_packet_of_another() {
    let mut machine = Reassembly::default();
    for hostile in 1..=20 {
        for (id, length) in [65_000, 40_000, 20_000, 300].into_iter().enumerate() {
            let first = &pieces(u32::try_from(id).unwrap(), length, length / 2 + 20)[0];
            push(&mut machine, PeerId(100 + hostile), first, at(0)).unwrap();
        }
        check(&machine);
    }
    for filler in 200.. {
        if machine.cost + ENTRY + 1_500 > PER_LANE {
            break;
        }
        push(&mut machine, PeerId(filler), &pieces(1, 300, 200)[0], at(0)).unwrap();
    }
    let joined =
        pieces(9, 1_500, 1_000).iter().filter_map(|piece| push(&mut machine, ONE, piece, at(1)).unwrap()).count();
    assert_eq!(joined, 1);
    check(&machine);
}
