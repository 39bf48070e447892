use super::*;

const HERE: Option<Duration> = Some(Duration::from_micros(200));
const ONE: PeerId = PeerId(1);
const TWO: PeerId = PeerId(2);

fn at(micros: u64) -> Time {
    Time::ZERO + Duration::from_secs(1) + Duration::from_micros(micros)
}

/// Returns a TCP packet of a flow.
fn packet(flow: u16) -> Vec<u8> {
    let mut packet = vec![0; 1_400];
    packet[0] = 0x45;
    packet[9] = 6;
    packet[12..20].copy_from_slice(&[100, 64, 0, 1, 100, 64, 0, 2]);
    packet[20..22].copy_from_slice(&flow.to_be_bytes());
    packet
}

/// Passes packets, each a peer and a flow, through a queue that is long at a look every 100 µs, for this many looks. Returns the packets that are marked in the last look with marks.
fn marked(queue: &mut QueueMarks, looks: u64, packets: &[(PeerId, u16)]) -> Vec<(PeerId, u16)> {
    let mut last = Vec::new();
    for look in 0..looks {
        queue.looked(STANDING_BYTES, false, at(100 * look));
        let now: Vec<_> =
            packets.iter().copied().filter(|(peer, flow)| queue.marks(*peer, HERE, &packet(*flow))).collect();
        last = if now.is_empty() { last } else { now };
    }
    last
}

#[test]
fn a_queue_that_stands_for_a_millisecond_gets_its_flow_marked() {
    let flow = [(ONE, 1); 20];
    let mut queue = QueueMarks::new();
    assert!(!queue.is_long());
    assert!(marked(&mut queue, 10, &flow).is_empty(), "0.9 ms");
    assert!(queue.is_long());
    assert_eq!(marked(&mut QueueMarks::new(), 11, &flow), flow, "1 ms");
}

#[test]
fn a_burst_is_not_marked() {
    let mut queue = QueueMarks::new();
    for look in 0..100 {
        // Every tenth look finds the queue short.
        let bytes = if look % 10 == 9 { STANDING_BYTES - 1 } else { 1_000_000 };
        queue.looked(bytes, false, at(100 * look));
        assert!(!(0..50).any(|_| queue.marks(ONE, HERE, &packet(1))), "{look}");
    }
}

#[test]
fn a_look_that_did_not_reach_the_end_found_a_long_queue() {
    let mut queue = QueueMarks::new();
    for look in 0..=10 {
        queue.looked(12_000, true, at(100 * look));
        let marks = (0..8).any(|_| queue.marks(ONE, HERE, &packet(1)));
        assert_eq!(marks, look == 10, "{look}");
    }
    assert!(queue.is_long());
    queue.looked(12_000, false, at(1_100));
    assert!(!queue.is_long());
}

#[test]
fn a_lane_that_often_waits_for_a_core_has_longer_queues() {
    let flow = [(ONE, 1); 20];
    for (waited, looks) in [(0, 11), (250, 11), (625, 111), (1_000, 211), (u16::MAX, 211)] {
        let mut queue = QueueMarks::new();
        queue.set_waited(waited);
        assert!(marked(&mut queue, looks - 1, &flow).is_empty(), "{waited}");
        let mut queue = QueueMarks::new();
        queue.set_waited(waited);
        assert_eq!(marked(&mut queue, looks, &flow), flow, "{waited}");
    }
}

#[test]
fn the_time_between_two_bursts_does_not_count() {
    let mut queue = QueueMarks::new();
    queue.looked(STANDING_BYTES, false, at(0));
    queue.looked(STANDING_BYTES, false, at(1_000_000));
    assert!(!(0..100).any(|_| queue.marks(ONE, HERE, &packet(1))));
}

#[test]
fn a_queue_that_shows_one_packet_at_a_time_is_long_once_enough_was_taken_from_it() {
    let mut queue = QueueMarks::new();
    let mut asked = 0;
    for number in 0..100_u64 {
        queue.took(64 * 1024, || {
            asked += 1;
            at(50 * number)
        });
        let marks = queue.marks(ONE, HERE, &packet(1)) | (0..50).any(|_| queue.marks(ONE, HERE, &packet(1)));
        assert_eq!(marks, number > 0 && number % 21 == 0, "{number}");
    }
    assert_eq!(asked, 99, "the first packet costs no look at the clock");
    queue.emptied();
    assert!(!queue.is_long());
}

#[test]
fn over_a_long_or_unknown_round_trip_nothing_is_marked() {
    let mut queue = QueueMarks::new();
    for look in 0..20 {
        queue.looked(STANDING_BYTES, false, at(100 * look));
        for round_trip in [None, Some(LONGEST_ROUND_TRIP + Duration::from_nanos(1))] {
            assert!(!(0..50).any(|_| queue.marks(ONE, round_trip, &packet(1))));
        }
    }
    assert!(queue.marks(ONE, Some(LONGEST_ROUND_TRIP), &packet(1)));
}

#[test]
fn after_a_look_with_marks_the_flow_has_time_to_slow_down() {
    let mut queue = QueueMarks::new();
    let mut marking = Vec::new();
    for look in 0..50 {
        queue.looked(STANDING_BYTES, false, at(100 * look));
        if (0..50).filter(|_| queue.marks(ONE, HERE, &packet(1))).count() > 0 {
            marking.push(look);
        }
    }
    assert_eq!(marking, [10, 21, 32, 43]);
}

#[test]
fn time_without_a_core_does_not_count() {
    let mut queue = QueueMarks::new();
    let mut marking = Vec::new();
    for look in 0..6 {
        queue.looked(STANDING_BYTES, false, at(3_000 * look));
        if (0..50).filter(|_| queue.marks(ONE, HERE, &packet(1))).count() > 0 {
            marking.push(look);
        }
    }
    assert_eq!(marking, [4], "four steps of 0.25 ms");
}

#[test]
fn a_sparse_flow_beside_a_heavy_one_is_not_marked() {
    let mut packets = vec![(ONE, 1); 40];
    packets.push((ONE, 2));
    assert_eq!(marked(&mut QueueMarks::new(), 100, &packets), [(ONE, 1); 40]);
}

#[test]
fn two_equal_flows_are_both_marked() {
    let packets: Vec<_> = (0..40).map(|number| (ONE, number % 2)).collect();
    let last = marked(&mut QueueMarks::new(), 20, &packets);
    assert!(last.contains(&(ONE, 0)) && last.contains(&(ONE, 1)));
}

#[test]
fn a_peer_that_floods_with_one_flow_gets_nobody_else_marked() {
    let mut packets = vec![(TWO, 9); 60];
    packets.extend([(ONE, 1); 20]);
    let last = marked(&mut QueueMarks::new(), 30, &packets);
    assert!(!last.is_empty() && last.iter().all(|(peer, _)| *peer == TWO));
}

#[test]
fn a_peer_that_floods_with_thousands_of_flows_gets_nobody_else_marked() {
    let mut queue = QueueMarks::new();
    let mut port = 0;
    for look in 0..200 {
        queue.looked(STANDING_BYTES, true, at(100 * look));
        for _ in 0..60 {
            port += 1;
            queue.marks(TWO, HERE, &packet(port));
        }
        assert!(!(0..20).any(|_| queue.marks(ONE, HERE, &packet(1))), "{look}");
    }
}

#[test]
fn a_peer_that_takes_more_than_its_share_is_marked_down_to_it() {
    // The flood of the other peer does not slow down. This peer is marked while it has the larger part, and no more when it has the smaller one.
    let share = |own: usize| {
        let packets: Vec<_> = [(TWO, 9)].repeat(40).into_iter().chain([(ONE, 1)].repeat(own)).collect();
        marked(&mut QueueMarks::new(), 30, &packets).contains(&(ONE, 1))
    };
    assert!(share(50) && !share(30));
}

/// A peer floods the queue with many flows. Ten others, which send a packet per millisecond each, do not make the flow of an honest peer look heavy.
#[test]
fn quiet_peers_do_not_lower_the_mean_that_decides_about_marks() {
    let mut packets: Vec<_> = (0..90).map(|flow| (TWO, 100 + flow)).collect();
    packets.extend([(ONE, 1); 10]);
    let quiet: Vec<_> = (10..20).map(|number| (PeerId(number), 9_000 + u16::try_from(number).unwrap())).collect();
    let mut queue = QueueMarks::new();
    for look in 0..160 {
        queue.looked(STANDING_BYTES, false, at(100 * look));
        for (peer, flow) in packets.iter().chain(quiet.iter().filter(|_| look % 10 == 0)) {
            let marks = queue.marks(*peer, HERE, &packet(*flow));
            assert!(!marks || *peer == TWO, "{peer:?} at look {look}");
        }
    }
}
