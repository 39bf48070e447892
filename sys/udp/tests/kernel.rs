//! The UDP socket on a real kernel: runs over loopback with each offload on and off, bad destinations, full buffers.
#![expect(unsafe_code, reason = "socket options of the tests are set through libc")]
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod choice;
mod ecn;
mod edges;
mod local;
mod namespace;

use namespace::{SilentNetwork, in_namespace};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use taut_udp::{
    BUFFER_LEN, BindError, MAX_GSO_BYTES, MAX_MESSAGES, MAX_SEGMENTS, ReceiveBatch, Transmit, UdpConfig, UdpSocket,
};

const CONFIG: UdpConfig =
    UdpConfig { port: 0, ipv4_only: false, send_buffer: 4 << 20, receive_buffer: 8 << 20, gso: true, gro: true };

/// The loopback destinations of a dual-stack socket: IPv4, IPv6, and an IPv4-mapped IPv6 address.
const LOOPBACKS: [&str; 3] = ["127.0.0.1", "::1", "::ffff:127.0.0.1"];

fn at(ip: &str, port: u16) -> SocketAddr {
    (ip.parse::<IpAddr>().unwrap(), port).into()
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|position| (position / 7 % 251) as u8).collect()
}

/// Receives until `bytes` bytes have arrived. Returns the source, contents and segment size of each message.
fn receive(socket: &UdpSocket, bytes: usize) -> Vec<(SocketAddr, Vec<u8>, usize)> {
    let mut batch = ReceiveBatch::new(MAX_MESSAGES).unwrap();
    let (mut received, mut missing) = (Vec::new(), bytes);
    while missing > 0 {
        wait_readable(socket);
        let count = socket.recv(&mut batch).unwrap();
        assert_eq!((count, batch.is_empty()), (batch.len(), count == 0));
        for message in batch.iter_mut() {
            missing -= message.data.len();
            received.push((message.source, message.data.to_vec(), message.segment_size));
        }
    }
    received
}

/// Waits until the socket is readable. The limit of 20 s suffices for the slowest machine; only a lost datagram reaches it.
fn wait_readable(socket: &UdpSocket) {
    let mut slot = libc::pollfd { fd: socket.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry that lives across the call.
    assert_eq!(unsafe { libc::poll(&raw mut slot, 1, 20_000) }, 1, "nothing more arrived");
}

fn joined(received: &[(SocketAddr, Vec<u8>, usize)]) -> Vec<u8> {
    received.iter().flat_map(|(_, contents, _)| contents.clone()).collect()
}

#[test]
fn a_run_of_ten_arrives_with_and_without_each_offload() {
    const SEGMENT: usize = 1_200;
    for (gso, gro) in [(true, true), (true, false), (false, true), (false, false)] {
        in_namespace(move || {
            let sender = UdpSocket::bind(&UdpConfig { gso, ..CONFIG }).unwrap();
            let receiver = UdpSocket::bind(&UdpConfig { gro, ..CONFIG }).unwrap();
            assert_eq!((sender.features().gso, receiver.features().gro), (gso, gro), "this kernel has GSO and GRO");
            assert!(sender.features().ipv6);
            let contents = pattern(9 * SEGMENT + 100);
            for loopback in LOOPBACKS {
                let destination = at(loopback, receiver.port());
                let sent = sender.send(&[Transmit { destination, contents: &contents, segment_size: SEGMENT, ecn: 0 }]);
                assert_eq!((sent.sent, sent.partial, sent.blocked, sent.failed), (1, 0, false, 0));
                let received = receive(&receiver, contents.len());
                assert_eq!(joined(&received), contents);
                let source = SocketAddr::new(destination.ip().to_canonical(), sender.port());
                assert!(received.iter().all(|message| message.0 == source), "{source}");
                if gso && gro {
                    assert_eq!(
                        (received.len(), received[0].2),
                        (1, SEGMENT),
                        "a run that is sent as one arrives as one"
                    );
                }
                if !gro {
                    let sizes: Vec<_> = received.iter().map(|message| (message.1.len(), message.2)).collect();
                    assert_eq!(sizes, [[(SEGMENT, SEGMENT); 9].as_slice(), &[(100, 100)]].concat());
                }
            }
        });
    }
}

#[test]
fn the_largest_runs_are_sent_as_one() {
    in_namespace(|| {
        let (sender, receiver) = (UdpSocket::bind(&CONFIG).unwrap(), UdpSocket::bind(&CONFIG).unwrap());
        // The run with the most bytes, and the run with the most segments.
        for (length, segment_size) in [(MAX_GSO_BYTES, 1_452), (MAX_SEGMENTS * 500, 500)] {
            for loopback in LOOPBACKS {
                let contents = pattern(length);
                let destination = at(loopback, receiver.port());
                let sent = sender.send(&[Transmit { destination, contents: &contents, segment_size, ecn: 0 }]);
                assert_eq!((sent.sent, sent.failed), (1, 0), "{:?}", sent.first_error);
                let received = receive(&receiver, length);
                assert_eq!((received.len(), received[0].2), (1, segment_size));
                assert!(received[0].1 == contents);
            }
        }
        assert!(sender.features().gso, "no run made the socket fall back to single datagrams");
    });
}

#[test]
fn runs_that_are_too_long_for_the_kernel_are_split() {
    in_namespace(|| {
        let (sender, receiver) = (UdpSocket::bind(&CONFIG).unwrap(), UdpSocket::bind(&CONFIG).unwrap());
        let contents = pattern(3 * MAX_GSO_BYTES);
        let destination = at("127.0.0.1", receiver.port());
        let sent = sender.send(&[Transmit { destination, contents: &contents, segment_size: 1_400, ecn: 0 }]);
        assert_eq!((sent.sent, sent.failed), (1, 0), "{:?}", sent.first_error);
        assert!(joined(&receive(&receiver, contents.len())) == contents);
    });
}

#[test]
fn mixed_sizes_and_more_messages_than_one_call_takes_keep_their_order() {
    for gso in [true, false] {
        in_namespace(move || {
            let sender = UdpSocket::bind(&UdpConfig { gso, ..CONFIG }).unwrap();
            let receivers = [UdpSocket::bind(&CONFIG).unwrap(), UdpSocket::bind(&CONFIG).unwrap()];
            let contents = pattern(4_000);
            let sizes = [1, 32, 148, 1_000, 4_000];
            let transmits: Vec<_> = (0..3 * MAX_MESSAGES)
                .map(|number| Transmit {
                    destination: at(LOOPBACKS[number % 3], receivers[number % 2].port()),
                    contents: &contents[..sizes[number % 5]],
                    segment_size: [0, 100, 1_200, 5_000][number % 4],
                    ecn: 0,
                })
                .collect();
            let sent = sender.send(&transmits);
            assert_eq!((sent.sent, sent.failed, sent.blocked), (transmits.len(), 0, false), "{:?}", sent.first_error);
            for (parity, receiver) in receivers.iter().enumerate() {
                let wanted: Vec<u8> =
                    transmits.iter().skip(parity).step_by(2).flat_map(|transmit| transmit.contents).copied().collect();
                assert!(joined(&receive(receiver, wanted.len())) == wanted);
            }
        });
    }
}

#[test]
fn an_empty_datagram_arrives_and_cannot_stop_a_loop_over_segments() {
    in_namespace(|| {
        let (sender, receiver) = (UdpSocket::bind(&CONFIG).unwrap(), UdpSocket::bind(&CONFIG).unwrap());
        let destination = at("::1", receiver.port());
        for segment_size in [0, 1_200] {
            let sent = sender.send(&[Transmit { destination, contents: &[], segment_size, ecn: 0 }]);
            assert_eq!((sent.sent, sent.failed), (1, 0));
        }
        let mut batch = ReceiveBatch::new(4).unwrap();
        let mut count = 0;
        while count < 2 {
            wait_readable(&receiver);
            count += receiver.recv(&mut batch).unwrap();
            for mut message in batch.iter_mut() {
                assert_eq!((message.data.len(), message.segment_size, message.datagrams().count()), (0, 1, 0));
            }
        }
        assert_eq!(receiver.recv(&mut batch).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        assert!(
            batch.is_empty() && batch.iter_mut().next().is_none(),
            "the batch still has the messages of the call before"
        );
    });
}

#[test]
fn a_bad_destination_does_not_stop_the_batch() {
    for gso in [true, false] {
        in_namespace(move || {
            let sender = UdpSocket::bind(&UdpConfig { gso, ..CONFIG }).unwrap();
            let receiver = UdpSocket::bind(&CONFIG).unwrap();
            let contents = pattern(70_000);
            let good = at("127.0.0.1", receiver.port());
            let to = |destination, length, segment_size| Transmit {
                destination,
                contents: &contents[..length],
                segment_size,
                ecn: 0,
            };
            let transmits = [
                to(good, 100, 0),
                to(at("192.0.2.1", 9), 5_000, 1_000), // no route
                to(at("2001:db8::1", 9), 100, 0),     // no route
                to(good, 3_000, 1_000),
                to(good, 70_000, 0),        // longer than any datagram
                to(at("0.0.0.9", 9), 1, 0), // no such network
                to(good, 50, 0),
            ];
            let sent = sender.send(&transmits);
            assert_eq!((sent.sent, sent.blocked, sent.failed), (transmits.len(), false, 4));
            let (index, error) = sent.first_error.unwrap();
            assert_eq!((index, error.raw_os_error()), (1, Some(libc::ENETUNREACH)));
            let received = receive(&receiver, 3_150);
            assert!(joined(&received) == [&contents[..100], &contents[..3_000], &contents[..50]].concat());
            assert_eq!(sender.features().gso, gso, "an error of one destination must not switch GSO off");
        });
    }
}

#[test]
fn a_run_that_the_kernel_refuses_is_sent_datagram_by_datagram() {
    in_namespace(|| {
        let (sender, receiver) = (UdpSocket::bind(&CONFIG).unwrap(), UdpSocket::bind(&CONFIG).unwrap());
        let yes: libc::c_int = 1;
        // Without UDP checksums the kernel refuses IPv4 runs with EINVAL (net/ipv4/udp.c, udp_send_skb).
        // SAFETY: an int with its length, which lives across the call.
        let result = unsafe {
            let fd = sender.as_fd().as_raw_fd();
            libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, (&raw const yes).cast(), 4)
        };
        assert_eq!(result, 0);
        let contents = pattern(5_500);
        let run = Transmit {
            destination: at("127.0.0.1", receiver.port()),
            contents: &contents,
            segment_size: 1_000,
            ecn: 0,
        };
        let single = Transmit { segment_size: 0, ..run };
        let sent = sender.send(&[run, single, run]);
        assert_eq!((sent.sent, sent.failed), (3, 0), "{:?}", sent.first_error);
        assert!(joined(&receive(&receiver, 3 * contents.len())) == [&*contents; 3].concat());
        assert!(sender.features().gso, "only EIO switches GSO off");
    });
}

/// Asserts that datagrams without room in a full socket are sent later: none is lost, duplicated or reordered.
fn fill_and_drain(gso: bool, length: usize, segment_size: usize) {
    let network = SilentNetwork::new();
    let sender = UdpSocket::bind(&UdpConfig { gso, send_buffer: 16 << 10, ..CONFIG }).unwrap();
    let contents: Vec<Vec<u8>> = (0..100_u8).map(|number| vec![number; length]).collect();
    let destination = at(&SilentNetwork::FAR.to_string(), 9);
    let transmits: Vec<_> =
        contents.iter().map(|contents| Transmit { destination, contents, segment_size, ecn: 0 }).collect();

    let first = sender.send(&transmits);
    assert!(first.blocked && first.sent < transmits.len() && first.failed == 0, "{first:?}");
    assert_eq!(network.datagrams(), [], "no datagram leaves before the silent host's address is resolved");
    assert!(sender.send(&transmits[first.sent..]).blocked, "the socket buffer is still full");

    network.resolve();
    let mut arrived = network.datagrams();
    let (mut next, mut partial) = (first.sent, first.partial);
    while next < transmits.len() {
        let rest = Transmit { contents: &contents[next][partial..], ..transmits[next] };
        let sent = sender.send(&[rest]);
        assert_eq!(sent.failed, 0, "{sent:?}");
        (next, partial) = (next + sent.sent, if sent.sent == 1 { 0 } else { partial + sent.partial });
        arrived.extend(network.datagrams());
    }
    let arrived: Vec<u8> = arrived.into_iter().flat_map(|(contents, _)| contents).collect();
    assert!(arrived == contents.concat(), "{} of {} bytes", arrived.len(), contents.concat().len());
}

#[test]
fn a_full_socket_reports_how_many_messages_were_sent() {
    in_namespace(|| fill_and_drain(true, 1_000, 0));
    in_namespace(|| fill_and_drain(true, 7_000, 1_000));
    in_namespace(|| fill_and_drain(false, 7_000, 1_000));
}

#[test]
fn fragmentation_is_forbidden_until_allowed() {
    in_namespace(|| {
        let network = SilentNetwork::new();
        network.resolve();
        let sender = UdpSocket::bind(&CONFIG).unwrap();
        let contents = pattern(1_473);
        let destination = at(&SilentNetwork::FAR.to_string(), 9);
        let send =
            |length| sender.send(&[Transmit { destination, contents: &contents[..length], segment_size: 0, ecn: 0 }]);
        assert_eq!(send(1_472).failed, 0);
        assert_eq!(network.datagrams(), [(contents[..1_472].to_vec(), true)]);
        let error = send(1_473).first_error.unwrap().1;
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));

        sender.allow_fragmentation(true).unwrap();
        assert_eq!((send(1_473).failed, send(100).failed), (0, 0));
        let run = Transmit { destination, contents: &pattern(2 * 1_473), segment_size: 1_473, ecn: 0 };
        assert_eq!(sender.send(&[run]).failed, 0, "the kernel fragments no run, so each datagram is sent alone");
        let datagrams = network.datagrams();
        assert_eq!(datagrams.len(), 4, "three datagrams leave in fragments and one whole");
        assert!(datagrams.iter().all(|(_, dont_fragment)| !dont_fragment));
        sender.allow_fragmentation(false).unwrap();
        assert_eq!(send(1_473).failed, 1);
    });
}

#[test]
fn runs_of_datagrams_that_are_too_long_leave_in_fragments_if_that_is_allowed() {
    in_namespace(|| {
        let network = SilentNetwork::new();
        network.resolve();
        let sender = UdpSocket::bind(&CONFIG).unwrap();
        let contents = pattern(3 * 1_473 + 100);
        let destination = at(&SilentNetwork::FAR.to_string(), 9);
        let run = Transmit { destination, contents: &contents, segment_size: 1_473, ecn: 0 };
        let single = Transmit { contents: &contents[..100], segment_size: 0, ..run };
        let sent = sender.send(&[run, single]);
        assert_eq!((sent.sent, sent.failed, sent.too_long), (2, 1, 1), "{sent:?}");
        assert_eq!(network.datagrams().len(), 1);

        sender.allow_fragmentation(true).unwrap();
        let sent = sender.send(&[run, single]);
        assert_eq!((sent.sent, sent.failed), (2, 0), "{sent:?}");
        // The network reports whole datagrams, and the first fragments of others.
        assert_eq!(network.datagrams().len(), 5);
        assert!(sender.features().gso, "the next run may be short enough");
    });
}

#[test]
fn root_gets_the_requested_buffer_sizes() {
    in_namespace(|| {
        // The requested sizes exceed the usual limit for other users (net.core.wmem_max).
        let asked = 24 << 20;
        let socket = UdpSocket::bind(&UdpConfig { send_buffer: asked, receive_buffer: asked, ..CONFIG }).unwrap();
        let buffers = socket.buffers();
        assert!(buffers.send >= asked && buffers.receive >= asked, "{buffers:?}");
        let greedy = UdpConfig { send_buffer: usize::MAX, receive_buffer: 0, ..CONFIG };
        assert!(UdpSocket::bind(&greedy).unwrap().buffers().receive > 0);
    });
}

#[test]
fn datagrams_without_room_in_the_receive_buffer_are_counted() {
    in_namespace(|| {
        let sender = UdpSocket::bind(&CONFIG).unwrap();
        let receiver = UdpSocket::bind(&UdpConfig { receive_buffer: 4_096, ..CONFIG }).unwrap();
        assert_eq!(receiver.dropped(), Some(0));
        let contents = pattern(1_000);
        let transmit =
            Transmit { destination: at("::1", receiver.port()), contents: &contents, segment_size: 0, ecn: 0 };
        assert_eq!(sender.send(&[transmit; 50]).failed, 0, "a full receive buffer is no error of the sender");
        assert!(receiver.dropped().is_some_and(|dropped| dropped > 0));
    });
}

#[test]
fn on_a_host_without_ipv6_the_socket_uses_ipv4() {
    in_namespace(|| {
        let sender = UdpSocket::bind(&UdpConfig { ipv4_only: true, ..CONFIG }).unwrap();
        let receiver = UdpSocket::bind(&CONFIG).unwrap();
        assert!(!sender.features().ipv6);
        let to = |ip| Transmit { destination: at(ip, receiver.port()), contents: b"hello", segment_size: 0, ecn: 0 };
        let sent = sender.send(&[to("::1"), to("127.0.0.1")]);
        assert_eq!((sent.sent, sent.failed, sent.first_error.unwrap().0), (2, 1, 0));
        assert_eq!(receive(&receiver, 5)[0].0, at("127.0.0.1", sender.port()));
    });
}

#[test]
fn a_port_can_be_bound_once_and_marks_are_set() {
    in_namespace(|| {
        let first = UdpSocket::bind(&CONFIG).unwrap();
        assert_ne!(first.port(), 0);
        for ipv4_only in [false, true] {
            let again = UdpSocket::bind(&UdpConfig { port: first.port(), ipv4_only, ..CONFIG });
            assert!(matches!(again, Err(BindError::PortTaken { port }) if port == first.port()));
        }
        first.set_mark(0xffff_0001).unwrap();
        let another = first.another().unwrap();
        assert_ne!(another.port(), first.port());
        assert_eq!((another.features(), another.buffers()), (first.features(), first.buffers()));
    });
}

#[test]
fn untouched_buffers_cost_no_memory() {
    in_namespace(|| {
        let resident = || {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
        };
        let before = resident();
        let batches: Vec<_> = (0..16).map(|_| ReceiveBatch::new(usize::MAX).unwrap()).collect();
        let mapped = batches.len() * MAX_MESSAGES * BUFFER_LEN;
        assert!(resident() < before + mapped / 2, "less than half of the mapped 64 MiB may be resident");
    });
}
