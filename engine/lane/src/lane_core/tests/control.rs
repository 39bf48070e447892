use taut_base::{LaneId, SessionId};
use taut_node::{FromLane, ToLane};
use taut_tunnel::{Role, Session, SessionKeys};
use taut_wire::control::{self, Abilities, ControlMessage, Lanes, Suite, Suites};
use taut_wire::wireguard::{DATA_HEADER, DATA_OVERHEAD};

use super::kit::{PEER, TestLane, add_session, at, exporter, keys, outer, packet};
use crate::control_limits::TO_AGENT;
use crate::drops::DropReason;

/// Returns host 2 with session 1 between Taut nodes, and the peer's side of the session.
fn taut_lane() -> (TestLane, Session) {
    let mut end = TestLane::new(2, 1);
    let (ours, theirs) = keys(1);
    let extended = |keys: SessionKeys| SessionKeys {
        extension: Some(exporter(keys.role, keys.stock.local, keys.stock.remote)),
        suites: Suites::STOCK.with(Suite::Aes256Gcm),
        ..keys
    };
    end.command(add_session(1, extended(theirs), None, at(0)), at(0));
    (end, Session::new(SessionId(1), extended(ours), at(0)))
}

fn sealed(peer: &mut Session, content: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; DATA_OVERHEAD + content.len()];
    datagram[DATA_HEADER..DATA_HEADER + content.len()].copy_from_slice(content);
    peer.control_pair().unwrap().seal(&mut datagram, content.len()).unwrap();
    datagram
}

fn message_of(peer: &mut Session, message: ControlMessage) -> Vec<u8> {
    let mut bytes = [0; control::MAX];
    let length = message.write(&mut bytes);
    sealed(peer, &bytes[..length])
}

fn opened(peer: &mut Session, datagram: &[u8]) -> ControlMessage {
    let counter = u64::from_le_bytes(datagram[8..16].try_into().unwrap());
    let pair = peer.control_pair().unwrap();
    ControlMessage::parse(pair.open(counter, &mut datagram[DATA_HEADER..].to_vec()).unwrap()).unwrap()
}

#[test]
fn a_probe_is_answered_to_its_source_and_does_not_change_the_path() {
    let (mut end, mut peer) = taut_lane();
    let data = message_of(&mut peer, ControlMessage::Probe { id: 1 });
    end.inbound(outer(1), &data, data.len(), at(1));
    assert_eq!(opened(&mut peer, &end.datagrams()[0]), ControlMessage::Answer { id: 1, seen: outer(1) });
    let moved = FromLane::Moved { peer: PEER, way: outer(1).into() };
    assert_eq!(
        end.outputs(),
        [moved, FromLane::Confirmed { peer: PEER, id: SessionId(1) }],
        "no path was known before"
    );

    let probe = message_of(&mut peer, ControlMessage::Probe { id: 2 });
    end.inbound(outer(9), &probe, probe.len(), at(1));
    let [(destination, answer, _)] = &end.runs()[..] else { panic!("one answer") };
    assert_eq!(*destination, outer(9));
    assert_eq!(answer.len(), probe.len(), "the answer is as long as the probe");
    assert_eq!(opened(&mut peer, answer), ControlMessage::Answer { id: 2, seen: outer(9) });
    assert!(end.outputs().is_empty());
    end.outbound(&packet(2, 1, 100), at(1));
    assert_eq!(end.runs()[0].0, outer(1), "data stays on its path");

    end.inbound(outer(66), &probe, probe.len(), at(1));
    end.assert_dropped(DropReason::Replayed, 1);
    assert!(end.datagrams().is_empty());
}

#[test]
fn messages_for_the_agent_reach_it_within_a_rate() {
    let (mut end, mut peer) = taut_lane();
    let offer = ControlMessage::Offer { lanes: Lanes::ONE, suites: Suites::STOCK, abilities: Abilities::OURS };
    for _ in 0..1_000 {
        let datagram = message_of(&mut peer, offer);
        end.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    let to_agent = FromLane::Control {
        peer: PEER,
        session: SessionId(1),
        lane: LaneId::FIRST,
        source: outer(1).into(),
        message: offer,
    };
    let passed = end.outputs().iter().filter(|output| **output == to_agent).count();
    assert_eq!(passed, 100);
    end.assert_dropped(DropReason::ControlRate, 900);
    assert!(TO_AGENT == taut_tunnel::Rate::new(50, 100));
    let datagram = message_of(&mut peer, offer);
    end.inbound(outer(1), &datagram, datagram.len(), at(2));
    assert_eq!(end.outputs(), [to_agent], "a second later the limit allows more");
}

#[test]
fn fault_b11_probes_of_one_peer_are_answered_within_a_rate() {
    let (mut end, mut peer) = taut_lane();
    for id in 0..1_000 {
        let datagram = message_of(&mut peer, ControlMessage::Probe { id });
        end.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    assert_eq!(end.datagrams().len(), 400);
    end.assert_dropped(DropReason::ControlRate, 600);
    let datagram = message_of(&mut peer, ControlMessage::Probe { id: 1_000 });
    end.inbound(outer(1), &datagram, datagram.len(), at(2));
    assert_eq!(end.datagrams().len(), 1, "a second later the limit allows more");
}

#[test]
fn fault_b11_a_peer_that_sends_too_many_messages_is_muted_and_no_third_party_can_cause_that() {
    let (mut end, mut peer) = taut_lane();
    let receipt = ControlMessage::Receipt { suite: Suite::ChaCha20Poly1305, counter: 0, longest: 0 };
    let messages: Vec<Vec<u8>> = (0..3_000).map(|_| message_of(&mut peer, receipt)).collect();
    // Forged messages do not mute the peer.
    for datagram in &messages {
        let mut forged = datagram.clone();
        forged[20] ^= 1;
        end.inbound(outer(1), &forged, forged.len(), at(1));
    }
    end.assert_dropped(DropReason::NotAuthentic, 3_000);
    for datagram in &messages {
        end.inbound(outer(1), datagram, datagram.len(), at(1));
    }
    // The burst of 1,000, and the one that was too many.
    assert_eq!(end.dropped(DropReason::ControlRate), 3_000 - 1_001);
    let probe = message_of(&mut peer, ControlMessage::Probe { id: 1 });
    end.inbound(outer(1), &probe, probe.len(), at(1) + std::time::Duration::from_millis(999));
    assert!(end.datagrams().is_empty());
    let probe = message_of(&mut peer, ControlMessage::Probe { id: 2 });
    end.inbound(outer(1), &probe, probe.len(), at(2));
    assert_eq!(end.datagrams().len(), 1);
}

#[test]
fn unknown_and_impossible_messages_are_counted() {
    let (mut end, mut peer) = taut_lane();
    let unknown = sealed(&mut peer, &[200; 32]);
    let impossible = message_of(&mut peer, ControlMessage::Receipt { suite: Suite::Aes256Gcm, counter: 0, longest: 0 });
    for datagram in [unknown, impossible] {
        end.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    end.assert_dropped(DropReason::BadControl, 2);
    assert!(end.datagrams().is_empty());
}

#[test]
fn a_session_is_removed_with_all_its_indices() {
    let (mut end, _) = taut_lane();
    assert_eq!(end.core.peers.indices(), 3);
    let control = keys(1).1;
    let exporter = exporter(Role::Responder, control.stock.local, control.stock.remote);
    assert!(end.core.peers.by_index(exporter.control(LaneId::FIRST).local).is_some());
    end.command(ToLane::RemovePeer(PEER), at(1));
    assert_eq!(end.core.peers.indices(), 0);
}

#[test]
fn data_under_the_agreed_suite_passes_both_ways() {
    let (mut end, mut peer) = taut_lane();
    let aes = Suite::Aes256Gcm;
    let seal = |peer: &mut Session, content: &[u8]| {
        let mut datagram = vec![0; Session::sealed_len(content.len(), 1420)];
        datagram[DATA_HEADER..][..content.len()].copy_from_slice(content);
        peer.seal(&mut datagram, content.len()).unwrap();
        datagram
    };
    let before = seal(&mut peer, &packet(1, 2, 100));
    peer.use_suite(aes, Abilities::OURS);
    let after = seal(&mut peer, &packet(1, 2, 200));
    for datagram in [after, before] {
        end.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    assert_eq!(end.written(), [packet(1, 2, 200), packet(1, 2, 100)], "in any order");

    end.command(ToLane::UseSuite { peer: PEER, session: SessionId(1), suite: aes, abilities: Abilities::OURS }, at(1));
    end.outbound(&packet(2, 1, 100), at(1));
    let datagram = end.datagrams().pop().unwrap();
    let index = taut_base::ReceiverIndex(u32::from_le_bytes(datagram[4..8].try_into().unwrap()));
    let pair = peer.data_pair(index).unwrap();
    assert_eq!(pair.suite(), aes);
    assert!(pair.open(0, &mut datagram[DATA_HEADER..].to_vec()).unwrap().starts_with(&packet(2, 1, 100)));
}

#[test]
fn fault_i10_a_sized_probe_is_as_long_as_such_a_packet_and_its_answer_is_short() {
    let (mut end, mut peer) = taut_lane();
    let data = message_of(&mut peer, ControlMessage::Probe { id: 1 });
    end.inbound(outer(1), &data, data.len(), at(1));
    end.datagrams();
    for (size, length) in [(1_420, 1_420), (1_341, 1_341), (0, 32)] {
        let way = outer(2).into();
        end.command(ToLane::SizedProbe { peer: PEER, session: SessionId(1), way, id: 7, size }, at(1));
        let [(destination, probe, _)] = &end.runs()[..] else { panic!("one probe") };
        assert_eq!((*destination, probe.len()), (outer(2), DATA_OVERHEAD + length));
        assert_eq!(opened(&mut peer, probe), ControlMessage::Probe { id: 7 }, "the padding is ignored");
    }
    let long = {
        let mut bytes = [0; 1_420];
        let mut message = [0; control::MAX];
        let length = ControlMessage::Probe { id: 9 }.write(&mut message);
        bytes[..length].copy_from_slice(&message[..length]);
        sealed(&mut peer, &bytes)
    };
    end.inbound(outer(1), &long, long.len(), at(2));
    let answers = end.datagrams();
    assert_eq!(answers[0].len(), DATA_OVERHEAD + 32);
    assert_eq!(opened(&mut peer, &answers[0]), ControlMessage::Answer { id: 9, seen: outer(1) });
}
