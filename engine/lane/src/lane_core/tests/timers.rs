use std::time::Duration;

use taut_base::{ReceiverIndex, SessionId};
use taut_node::{FromLane, ToLane};
use taut_tunnel::SessionIndices;

use super::kit::{PEER, TestLane, add_session, at, keys, outer, packet, pair};
use crate::drops::DropReason;

/// Runs the timers of `end` until `seconds`.
fn pass(end: &mut TestLane, seconds: u64) {
    while let Some(due) = end.core.poll_timeout().filter(|due| *due <= at(seconds)) {
        end.core.handle_timeout(&mut end.out, due);
    }
}

#[test]
fn the_timer_heap_does_not_grow_with_traffic() {
    let (mut here, mut there) = pair();
    for second in 1..3600 {
        pass(&mut here, second);
        pass(&mut there, second);
        if second % 120 == 0 {
            let number = u32::try_from(1 + second / 120).unwrap();
            let (ours, theirs) = keys(number);
            there.command(add_session(number, theirs, None, at(second)), at(second));
            here.command(add_session(number, ours, Some(outer(2)), at(second)), at(second));
        }
        here.outbound(&packet(1, 2, 100), at(second));
        for datagram in here.datagrams() {
            there.inbound(outer(1), &datagram, datagram.len(), at(second));
        }
        if second % 7 == 0 {
            there.outbound(&packet(2, 1, 100), at(second));
        }
        for datagram in there.datagrams() {
            here.inbound(outer(2), &datagram, datagram.len(), at(second));
        }
    }
    assert_eq!(there.written().len(), 3599);
    let timers = [here.core.peers.timers(), there.core.peers.timers()];
    assert!(timers.iter().all(|timers| *timers <= 8), "{timers:?} entries for one peer");
}

#[test]
fn an_old_session_is_retired_and_opens_nothing() {
    let (mut here, mut there) = pair();
    here.outbound(&packet(1, 2, 100), at(178));
    let datagrams = here.datagrams();
    here.outbound(&packet(1, 2, 100), at(179));
    assert!(here.out.is_empty(), "a packet in the last second waits for a new session");
    pass(&mut there, 180);
    assert!(there.outputs().contains(&FromLane::Retired {
        peer: PEER,
        id: SessionId(1),
        indices: SessionIndices { stock: ReceiverIndex(3 << 4), control: None, fast: [None; 2] }
    }));
    there.inbound(outer(1), &datagrams[0], datagrams[0].len(), at(180));
    there.assert_dropped(DropReason::UnknownIndex, 1);
    assert!(here.outputs().contains(&FromLane::WantsHandshake(PEER)));
}

#[test]
fn received_data_is_answered_by_an_empty_packet_after_ten_seconds() {
    let (mut here, mut there) = pair();
    here.outbound(&packet(1, 2, 100), at(0));
    for datagram in here.datagrams() {
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    pass(&mut there, 10);
    assert!(there.out.is_empty());
    pass(&mut there, 11);
    assert_eq!(there.datagrams().iter().map(Vec::len).collect::<Vec<_>>(), [32]);
}

#[test]
fn data_without_an_answer_asks_for_a_handshake_after_fifteen_seconds() {
    let (mut here, _) = pair();
    here.outbound(&packet(1, 2, 100), at(2));
    pass(&mut here, 16);
    assert!(here.outputs().is_empty());
    pass(&mut here, 17);
    assert_eq!(here.outputs(), [FromLane::WantsHandshake(PEER)]);
}

#[test]
fn new_sessions_replace_the_oldest_and_free_its_index() {
    let (mut here, _) = pair();
    here.outputs();
    for number in 2..6 {
        here.command(add_session(number, keys(number).0, Some(outer(2)), at(2)), at(2));
    }
    let freed: Vec<_> = here.outputs().into_iter().filter(|said| matches!(said, FromLane::Retired { .. })).collect();
    assert_eq!(freed.len(), 3, "current and previous are left");
    assert_eq!(here.core.peers.indices(), 2);
}

#[test]
fn a_persistent_keepalive_starts_at_once_and_continues() {
    let mut here = TestLane::new(1, 2);
    here.command(ToLane::SetEndpoint { peer: PEER, endpoint: outer(2) }, at(0));
    here.command(ToLane::SetKeepalive { peer: PEER, interval: Some(Duration::from_secs(25)) }, at(0));
    here.core.handle_timeout(&mut here.out, at(0));
    assert_eq!(here.core.poll_output(), Some(FromLane::WantsHandshake(PEER)), "there is no session yet");
    here.command(add_session(1, keys(1).0, Some(outer(2)), at(1)), at(1));
    assert_eq!(here.datagrams().len(), 1);
    here.core.handle_timeout(&mut here.out, at(25));
    assert!(here.out.is_empty());
    here.core.handle_timeout(&mut here.out, at(26));
    assert_eq!(here.runs().iter().map(|(to, contents, _)| (*to, contents.len())).collect::<Vec<_>>(), [(outer(2), 32)]);
    here.command(ToLane::SetKeepalive { peer: PEER, interval: None }, at(27));
    here.core.handle_timeout(&mut here.out, at(60));
    assert!(here.out.is_empty());
}
