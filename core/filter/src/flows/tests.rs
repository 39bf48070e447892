use super::*;

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
    assert!(!table.is_answer(&ours, false, 10));
    assert_eq!(table.remember(&ours, FlowClass::Opening, 10), Remembered::New);
    assert_eq!(table.remember(&ours, FlowClass::Opening, 11), Remembered::Known);
    assert!(table.is_answer(&ours, false, 12));
    for other in [
        FlowKey { peer: PeerId(2), ..ours },
        FlowKey { protocol: 17, ..ours },
        FlowKey { local: [100, 64, 0, 2].into(), ..ours },
        FlowKey { remote: [100, 64, 0, 2].into(), ..ours },
        FlowKey { local_port: 2, ..ours },
        FlowKey { remote_port: 2, ..ours },
    ] {
        assert!(!table.is_answer(&other, false, 12), "{other:?}");
    }
    assert_eq!((table.len(), table.bytes()), (1, 16 * 1024 + 4096));
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
            assert!(table.is_answer(&flow(1, 1), false, 1_000));
        }
        assert!(table.is_known(&flow(1, 1), 1_000 + lifetime), "{class:?}");
        assert!(!table.is_known(&flow(1, 1), 1_001 + lifetime), "{class:?}");
        assert!(
            !table.is_answer(&flow(1, 1), false, 1_001 + lifetime)
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
    assert!(table.is_answer(&flow(1, 1), false, 0) && table.is_answer(&flow(1, 1), true, 10));
    table.remember(&flow(1, 1), FlowClass::Connection, 11);
    assert!(table.is_known(&flow(1, 1), 131) && !table.is_known(&flow(1, 1), 132));
    table.remember(&flow(1, 1), FlowClass::Opening, 50);
    assert!(table.is_known(&flow(1, 1), 170) && !table.is_known(&flow(1, 1), 171), "not answered yet");
    assert!(table.is_answer(&flow(1, 1), false, 51) && table.is_known(&flow(1, 1), 10_000));
}

#[test]
fn law_15_a_peer_that_fills_the_table_displaces_its_own_flows() {
    let table = table();
    for number in 0..1_000 {
        assert_eq!(table.remember(&flow(1, number), FlowClass::Opening, 10), Remembered::New);
        assert!(table.is_answer(&flow(1, number), false, 10));
    }
    let most = u32::try_from(MOST_FLOWS).unwrap();
    for number in 0..2 * most {
        table.remember(&flow(2, number), FlowClass::Opening, 20);
    }
    assert!(table.bytes() < 5_000_000, "{}", table.bytes());
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
