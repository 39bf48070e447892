//! Local addresses: a received message carries the address that it was sent to, and an answer leaves from that address.

use super::namespace::in_namespace;
use super::{CONFIG, at, pattern, wait_readable};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use taut_udp::{Local, ReceiveBatch, Transmit, UdpConfig, UdpSocket};

/// Pairs of a second address of this host and the first address, which the routes would choose.
const ADDRESSES: [(&str, &str); 2] = [("127.0.0.5", "127.0.0.1"), ("fd00::5", "::1")];
const SEGMENT: usize = 1_200;

/// Runs `test` in a namespace whose loopback interface has the second IPv6 address. The second IPv4 address needs no setup: 127.0.0.0/8 is local.
fn with_addresses(test: impl Fn() + Send + 'static) {
    in_namespace(move || {
        let done = Command::new("ip").args(["address", "add", "fd00::5/128", "dev", "lo", "nodad"]).status();
        assert!(done.unwrap().success());
        // On a busy machine the kernel takes a moment, and drops what arrives meanwhile.
        while !is_usable("fd000000000000000000000000000005") {
            std::thread::yield_now();
        }
        // The route to it may come a moment later.
        let own = std::net::UdpSocket::bind("[fd00::5]:0").unwrap();
        own.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        while own.send_to(b"?", own.local_addr().unwrap()).is_err() || own.recv(&mut [0]).is_err() {}
        test();
    });
}

/// Returns true if the host has this IPv6 address and has finished with its set-up: /proc/net/if_inet6 has the flag `IFA_F_TENTATIVE` until then.
fn is_usable(address: &str) -> bool {
    let lines = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap();
    let mut lines = lines.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.any(|words| words[0] == address && u32::from_str_radix(words[4], 16).unwrap() & libc::IFA_F_TENTATIVE == 0)
}

/// Returns the next message's source, local address and length.
fn next(socket: &UdpSocket) -> (SocketAddr, Option<Local>, usize) {
    let mut batch = ReceiveBatch::new(1).unwrap();
    wait_readable(socket);
    assert_eq!(socket.recv(&mut batch).unwrap(), 1);
    let message = batch.iter_mut().next().unwrap();
    (message.source, message.local, message.data.len())
}

fn local(address: &str) -> Local {
    // The loopback interface has index 1 in every namespace.
    Local { address: address.parse().unwrap(), interface: 1 }
}

#[test]
fn an_answer_leaves_from_the_address_that_the_question_was_sent_to() {
    with_addresses(|| {
        let contents = pattern(10 * SEGMENT);
        for (ipv4_only, addresses) in [(false, &ADDRESSES[..]), (true, &ADDRESSES[..1])] {
            let asker = UdpSocket::bind(&CONFIG).unwrap();
            let socket = UdpSocket::bind(&UdpConfig { ipv4_only, ..CONFIG }).unwrap();
            for (second, first) in addresses {
                let to = at(second, socket.port());
                let question = Transmit { destination: to, contents: b"?", segment_size: 0, ecn: 0 };
                assert_eq!(asker.send_from(&[question], |_| Some(local(first))).failed, 0);
                let (source, arrival, _) = next(&socket);
                assert_eq!(arrival, Some(local(second)));
                // The answer is a single datagram, then a run.
                for segment_size in [0, SEGMENT] {
                    let length = if segment_size == 0 { 100 } else { contents.len() };
                    let answer = Transmit { destination: source, contents: &contents[..length], segment_size, ecn: 0 };
                    let sent = socket.send_from(&[answer], |_| arrival);
                    assert_eq!((sent.sent, sent.failed, sent.refused), (1, 0, None), "{:?}", sent.first_error);
                    let (from, to, received) = next(&asker);
                    assert_eq!((from, received), (SocketAddr::new(second.parse().unwrap(), socket.port()), length));
                    assert_eq!(to.map(|to| to.address), Some(source.ip()));
                    // Without a requested address the routes choose one.
                    assert_eq!(socket.send(&[answer]).failed, 0);
                    assert_eq!(next(&asker).0.ip(), first.parse::<IpAddr>().unwrap());
                }
            }
        }
    });
}

#[test]
fn runs_arrive_with_their_local_address() {
    with_addresses(|| {
        let (sender, receiver) = (UdpSocket::bind(&CONFIG).unwrap(), UdpSocket::bind(&CONFIG).unwrap());
        let contents = pattern(10 * SEGMENT);
        for (second, _) in ADDRESSES {
            let destination = at(second, receiver.port());
            assert_eq!(
                sender.send(&[Transmit { destination, contents: &contents, segment_size: SEGMENT, ecn: 0 }]).failed,
                0
            );
            let mut batch = ReceiveBatch::new(1).unwrap();
            wait_readable(&receiver);
            receiver.recv(&mut batch).unwrap();
            let message = batch.iter_mut().next().unwrap();
            assert_eq!((message.segment_size, message.local), (SEGMENT, Some(local(second))));
        }
    });
}

#[test]
fn messages_from_a_removed_address_are_still_sent() {
    with_addresses(|| {
        let (sender, receiver) = (UdpSocket::bind(&CONFIG).unwrap(), UdpSocket::bind(&CONFIG).unwrap());
        let contents = pattern(10 * SEGMENT);
        for ((second, first), gone) in ADDRESSES.into_iter().zip(["192.0.2.77", "2001:db8::77"]) {
            let destination = at(first, receiver.port());
            for segment_size in [0, SEGMENT] {
                let length = if segment_size == 0 { 100 } else { contents.len() };
                let transmit = Transmit { destination, contents: &contents[..length], segment_size, ecn: 0 };
                let sent = sender.send_from(&[transmit; 2], |_| Some(local(gone)));
                assert_eq!((sent.sent, sent.failed, sent.refused), (2, 0, Some(local(gone))), "{:?}", sent.first_error);
                for _ in 0..2 {
                    let (from, _, received) = next(&receiver);
                    assert_eq!((from.ip(), received), (first.parse::<IpAddr>().unwrap(), length));
                }
                assert!(sender.features().gso, "a removed address must not switch GSO off");
                // Only the removed address is refused; other local addresses still work.
                let sent = sender.send_from(&[transmit], |_| Some(local(second)));
                assert_eq!((sent.failed, sent.refused), (0, None));
                assert_eq!(next(&receiver).0.ip(), second.parse::<IpAddr>().unwrap());
            }
        }
    });
}

#[test]
fn a_destination_without_a_route_still_fails_once() {
    with_addresses(|| {
        let socket = UdpSocket::bind(&CONFIG).unwrap();
        let transmit = Transmit { destination: at("203.0.113.1", 9), contents: b"x", segment_size: 0, ecn: 0 };
        let sent = socket.send_from(&[transmit], |_| Some(local("127.0.0.5")));
        assert_eq!((sent.sent, sent.failed, sent.refused), (1, 1, Some(local("127.0.0.5"))));
    });
}
