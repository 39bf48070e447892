//! Congestion marks (ECN): each sent datagram carries the requested mark, and the receiver reports the mark of each message.

use crate::{CONFIG, LOOPBACKS, at, pattern, wait_readable};
use taut_udp::{Local, ReceiveBatch, Transmit, UdpConfig, UdpSocket};

const SEGMENT: usize = 1_000;

#[test]
fn fault_i6_marks_arrive_on_single_datagrams_and_runs_of_both_families() {
    crate::in_namespace(|| {
        let contents = pattern(5 * SEGMENT);
        for (ipv4_only, gso) in [(false, true), (false, false), (true, true)] {
            let config = UdpConfig { ipv4_only, gso, gro: gso, ..CONFIG };
            let (sender, receiver) = (UdpSocket::bind(&config).unwrap(), UdpSocket::bind(&config).unwrap());
            for loopback in if ipv4_only { &LOOPBACKS[..1] } else { &LOOPBACKS[..] } {
                let destination = at(loopback, receiver.port());
                for (length, ecn) in
                    [SEGMENT, 5 * SEGMENT].into_iter().flat_map(|length| (0..4).map(move |ecn| (length, ecn)))
                {
                    let transmit = Transmit { destination, contents: &contents[..length], segment_size: SEGMENT, ecn };
                    // The mark is set together with a local address.
                    let local = Local { address: destination.ip().to_canonical(), interface: 0 };
                    for from in [None, Some(local)] {
                        let sent = sender.send_from(&[transmit], |_| from);
                        assert_eq!((sent.failed, sent.refused), (0, None), "{:?}", sent.first_error);
                        assert_eq!(
                            marks(&receiver, length),
                            [ecn],
                            "{loopback}, {length} bytes, gso {gso}, from {from:?}"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn fault_i6_datagrams_with_different_marks_are_not_merged() {
    crate::in_namespace(|| {
        let (sender, receiver) = (UdpSocket::bind(&CONFIG).unwrap(), UdpSocket::bind(&CONFIG).unwrap());
        let contents = pattern(4 * SEGMENT);
        let destination = at("127.0.0.1", receiver.port());
        let to = |ecn| Transmit { destination, contents: &contents, segment_size: SEGMENT, ecn };
        assert_eq!(sender.send(&[to(2), to(3), to(2)]).failed, 0);
        assert_eq!(marks(&receiver, 12 * SEGMENT), [2, 3, 2]);
    });
}

/// Receives until `missing` bytes have arrived. Returns the marks of the messages, with neighbouring equal marks once.
fn marks(receiver: &UdpSocket, mut missing: usize) -> Vec<u8> {
    let (mut batch, mut marks) = (ReceiveBatch::new(8).unwrap(), vec![]);
    while missing > 0 {
        wait_readable(receiver);
        receiver.recv(&mut batch).unwrap();
        for message in batch.iter_mut() {
            missing -= message.data.len();
            marks.push(message.ecn);
        }
    }
    marks.dedup();
    marks
}
