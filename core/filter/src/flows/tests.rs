use super::*;
use taut_wire::ip::TCP;

/// How many times 8 bytes a shared number of 64 bits has: 2 where the processor has no atomic instructions for it, and a lock is beside the number.
const WORDS: usize = size_of::<AtomicU64>() / 8;

fn flow(peer: u32, number: u32) -> FlowKey {
    let [.., high, low] = number.to_be_bytes();
    FlowKey {
        peer: PeerId(peer),
        protocol: TCP,
        local: [100, 64, 0, 1].into(),
        remote: [100, 64, (number >> 24) as u8, (number >> 16) as u8].into(),
        local_port: u16::from_be_bytes([high, low]),
        remote_port: 443,
    }
}

fn table() -> FlowTable {
    FlowTable::new([7; 16])
}

#[test]
fn only_a_remembered_flow_is_answered_and_only_by_its_peer() {
    let table = table();
    let ours = flow(1, 1);
    assert!(!table.is_answer(&ours, Answer::Continues, 10));
    assert_eq!(table.remember(&ours, FlowClass::Opening, 10), Remembered::New);
    assert_eq!(table.remember(&ours, FlowClass::Opening, 11), Remembered::Known);
    assert!(table.is_answer(&ours, Answer::Continues, 12));
    for other in [
        FlowKey { peer: PeerId(2), ..ours },
        FlowKey { protocol: 17, ..ours },
        FlowKey { local: [100, 64, 0, 2].into(), ..ours },
        FlowKey { remote: [100, 64, 0, 2].into(), ..ours },
        FlowKey { local_port: 2, ..ours },
        FlowKey { remote_port: 2, ..ours },
    ] {
        assert!(!table.is_answer(&other, Answer::Continues, 12), "{other:?}");
    }
    assert_eq!((table.len(), table.bytes()), (1, 16 * 1024 * WORDS + 4096));
}

#[test]
fn a_flow_is_forgotten_after_its_time_of_silence() {
    for (class, answered, lifetime) in [
        (FlowClass::Opening, false, 120),
        (FlowClass::Opening, true, 5 * 24 * 3600),
        (FlowClass::Connection, false, 120),
        (FlowClass::Ending, true, 120),
        (FlowClass::Datagrams, true, 300),
        (FlowClass::Echo, true, 60),
        (FlowClass::Other, false, 600),
    ] {
        let table = table();
        table.remember(&flow(1, 1), class, 1_000);
        if answered {
            assert!(table.is_answer(&flow(1, 1), Answer::Continues, 1_000));
        }
        assert!(table.is_known(&flow(1, 1), 1_000 + lifetime), "{class:?}");
        assert!(!table.is_known(&flow(1, 1), 1_001 + lifetime), "{class:?}");
        assert!(
            !table.is_answer(&flow(1, 1), Answer::Continues, 1_001 + lifetime)
                && !table.refresh(&flow(1, 1), class, 1_001 + lifetime)
        );
        // ICMP errors do not prolong a flow. A packet of the host renews an expired flow.
        assert_eq!(table.remember(&flow(1, 1), class, 1_001 + lifetime), Remembered::Known);
        assert!(table.is_known(&flow(1, 1), 1_001 + lifetime));
    }
}

#[test]
fn the_end_of_a_connection_shortens_its_time_and_a_new_one_on_the_same_ports_begins_afresh() {
    let table = table();
    table.remember(&flow(1, 1), FlowClass::Opening, 0);
    assert!(table.is_answer(&flow(1, 1), Answer::Continues, 0) && table.is_answer(&flow(1, 1), Answer::Ends, 10));
    table.remember(&flow(1, 1), FlowClass::Connection, 11);
    assert!(table.is_known(&flow(1, 1), 131) && !table.is_known(&flow(1, 1), 132));
    table.remember(&flow(1, 1), FlowClass::Opening, 50);
    assert!(table.is_known(&flow(1, 1), 170) && !table.is_known(&flow(1, 1), 171), "not answered yet");
    assert!(table.is_answer(&flow(1, 1), Answer::Continues, 51) && table.is_known(&flow(1, 1), 10_000));
}

#[test]
fn a_table_that_is_half_full_lost_no_flow_and_later_it_loses_few() {
    for (flows, lost) in [(MOST_FLOWS / 2, 0), (MOST_FLOWS / 4 * 3, 500)] {
        let table = table();
        for number in 0..flows as u32 {
            assert_eq!(table.remember(&flow(1, number), FlowClass::Opening, 1), Remembered::New);
        }
        let known = (0..flows as u32).filter(|number| table.is_known(&flow(1, *number), 1)).count();
        assert_eq!(known, table.len());
        assert!(flows - known <= lost, "{} of {flows}", flows - known);
    }
}

#[test]
fn law_15_a_peer_that_fills_the_table_displaces_its_own_flows() {
    let table = table();
    for number in 0..1_000 {
        assert_eq!(table.remember(&flow(1, number), FlowClass::Opening, 10), Remembered::New);
        assert!(table.is_answer(&flow(1, number), Answer::Continues, 10));
    }
    let most = u32::try_from(MOST_FLOWS).unwrap();
    for number in 0..2 * most {
        table.remember(&flow(2, number), FlowClass::Opening, 20);
    }
    assert!(table.bytes() < 5_000_000 * WORDS, "{}", table.bytes());
    assert!(table.len() <= MOST_FLOWS);
    let kept = (0..1_000).filter(|number| table.is_known(&flow(1, *number), 20)).count();
    assert_eq!(kept, 1_000, "a peer within its share keeps what it has");
    // A later peer gets places of the peer that has more than its share.
    for number in 0..1_000 {
        assert_eq!(table.remember(&flow(3, number), FlowClass::Datagrams, 20), Remembered::New);
    }
}

#[test]
fn expired_flows_make_room_first() {
    let table = table();
    let most = u32::try_from(MOST_FLOWS).unwrap();
    for number in 0..most {
        table.remember(&flow(1, number), FlowClass::Echo, 0);
    }
    let held = table.len();
    for number in 0..most / 2 {
        assert_eq!(table.remember(&flow(2, number), FlowClass::Connection, 61), Remembered::New);
    }
    assert!(table.len() < held + held / 10, "{} of {held}", table.len());
}

#[test]
fn a_syn_of_the_peer_answers_only_a_connection_that_opens() {
    let table = table();
    for (class, answers) in [
        (FlowClass::Opening, true),
        (FlowClass::Connection, false),
        (FlowClass::Ending, false),
        (FlowClass::Datagrams, false),
        (FlowClass::Other, false),
    ] {
        let flow = flow(1, class as u32);
        table.remember(&flow, class, 10);
        assert_eq!(table.is_answer(&flow, Answer::Opens, 10), answers, "{class:?}");
    }
    // A simultaneous open: the peer's SYN may come again, and after its SYN with ACK a SYN of the peer would open another connection.
    let ours = flow(1, FlowClass::Opening as u32);
    table.remember(&ours, FlowClass::Connection, 11);
    assert!(table.is_answer(&ours, Answer::Opens, 12) && table.is_answer(&ours, Answer::Continues, 12));
    assert!(!table.is_answer(&ours, Answer::Opens, 12) && table.is_answer(&ours, Answer::Continues, 10_000));
}

#[test]
fn a_late_writer_does_not_mark_an_entry_that_another_flow_has() {
    let table = table();
    let (ours, other) = (table.key(&flow(1, 1)), table.key(&flow(1, 2)));
    table.remember(&flow(1, 1), FlowClass::Opening, 10);
    let entry =
        table.buckets(ours).flat_map(|bucket| &bucket.0).find(|entry| entry.key.load(Ordering::Relaxed) == ours);
    let entry = entry.unwrap();
    // The same peer, class and second, as after an eviction.
    let state = State { tag: tag(other), ..entry.state() };
    assert!(table.occupy(entry, ours, other, state));
    assert!(!entry.change(ours, |state| state.answered(Answer::Continues, 10)));
    assert_eq!(entry.state(), state);
    assert!(entry.change(other, |state| state.answered(Answer::Continues, 10)) && entry.state().answered);
}

#[test]
fn a_full_bucket_of_peers_within_their_shares_gives_up_what_was_never_answered() {
    let table = table();
    // The table is full for many keys, although no peer has more than its share.
    for (peer, number) in (0..512).flat_map(|peer| (0..400).map(move |number| (peer, number))) {
        table.remember(&flow(peer, number), FlowClass::Datagrams, 10);
        if number % 2 == 0 {
            table.is_answer(&flow(peer, number), Answer::Continues, 10);
        }
    }
    let answered = || (0..512).flat_map(|peer| (0..200).map(move |number| (peer, 2 * number)));
    let count = || answered().filter(|(peer, number)| table.is_known(&flow(*peer, *number), 11)).count();
    let before = count();
    for number in 0..500 {
        assert_eq!(table.remember(&flow(600, number), FlowClass::Opening, 11), Remembered::New, "{number}");
    }
    assert_eq!(count(), before, "no answered flow gave way");
}

#[test]
fn the_state_of_an_entry_is_packed_without_loss() {
    for class in FlowClass::ALL {
        let state = State { tag: (1 << TAG_BITS) - 1, party: 5, class, answered: true, second: SECOND_MASK - 7 };
        assert_eq!(State::unpack(state.pack()), state);
        let state = State { tag: 1, party: PARTIES as u32 - 1, class, answered: false, second: 3 };
        assert_eq!(State::unpack(state.pack()), state);
    }
}
