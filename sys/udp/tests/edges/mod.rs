//! Two hosts at the ends of a cable whose MTU and offloads the test chooses: what the kernel refuses, and what comes in
//! larger or in more pieces than one expects.

use std::io;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use taut_udp::{Transmit, UdpSocket};

use crate::namespace::in_namespace;
use crate::{CONFIG, Config, at, joined, pattern, receive};

/// The far end's addresses.
const FAR: [&str; 2] = ["10.9.0.2", "fd00:9::2"];

/// A command of `ip` in the namespace of the calling thread.
fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Lays a cable from here to a host in a namespace of its own, and opens a socket there. Socket and cable go together.
fn cable(far: Config) -> UdpSocket {
    let (say, hear) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let host = thread::spawn(move || {
        assert!(taut_namespace::enter_new());
        // SAFETY: no pointers, cannot fail.
        say.send(unsafe { libc::gettid() }).unwrap();
        wait.recv().unwrap();
        ip("addr add 10.9.0.2/24 dev far");
        ip("addr add fd00:9::2/64 dev far nodad");
        ip("link set far up");
        UdpSocket::bind(&far).unwrap()
    });
    let there = hear.recv().unwrap();
    ip(&format!("link add near type veth peer name far netns {there}"));
    ip("addr add 10.9.0.1/24 dev near");
    ip("addr add fd00:9::1/64 dev near nodad");
    ip("link set near up");
    go.send(()).unwrap();
    host.join().unwrap()
}

/// Takes the checksum offload from the near end, as a driver without it would be (`ETHTOOL_STXCSUM`).
fn without_checksum_offload() {
    const ETHTOOL_STXCSUM: u32 = 0x17;
    let mut value = [ETHTOOL_STXCSUM, 0];
    // SAFETY: all bytes zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"near") {
        *slot = libc::c_char::from_ne_bytes([*byte]);
    }
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // SAFETY: `request` and the value that it points to live across the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// Kernels before 6.11 refuse the run by EIO, and it goes datagram by datagram; later ones sum in software. Either way all arrives.
#[test]
fn a_run_arrives_over_a_device_without_checksum_offload() {
    in_namespace(|| {
        let receiver = cable(CONFIG);
        without_checksum_offload();
        let sender = UdpSocket::bind(&CONFIG).unwrap();
        let contents = pattern(20 * 1_400 + 77);
        for far in FAR {
            let run =
                Transmit { destination: at(far, receiver.port()), contents: &contents, segment_size: 1_400, ecn: 0 };
            let sent = sender.send(&[run, run]);
            assert_eq!((sent.sent, sent.partial, sent.failed), (2, 0, 0), "{:?}", sent.first_error);
            assert!(joined(&receive(&receiver, 2 * contents.len())) == [&*contents; 2].concat());
        }
    });
}

/// EMSGSIZE, for runs EINVAL in older kernels and then once more for each datagram: only what is too large counts as failed, and GSO stays.
#[test]
fn what_is_larger_than_the_mtu_fails_alone() {
    in_namespace(|| {
        let receiver = cable(CONFIG);
        ip("link set near mtu 1300");
        let contents = pattern(20_000);
        for gso in [true, false] {
            let sender = UdpSocket::bind(&Config { gso, ..CONFIG }).unwrap();
            for far in FAR {
                let destination = at(far, receiver.port());
                let to = |length, segment_size| Transmit {
                    destination,
                    contents: &contents[..length],
                    segment_size,
                    ecn: 0,
                };
                let sent = sender.send(&[to(500, 0), to(12_000, 1_200), to(4 * 1_280, 1_280), to(1_280, 0), to(77, 0)]);
                assert_eq!((sent.sent, sent.blocked, sent.failed), (5, false, 2), "{:?}", sent.first_error);
                let (index, error) = sent.first_error.unwrap();
                assert_eq!((index, error.raw_os_error()), (2, Some(libc::EMSGSIZE)));
                let expected = [&contents[..500], &contents[..12_000], &contents[..77]].concat();
                assert!(joined(&receive(&receiver, expected.len())) == expected);
                assert_eq!(sender.features().gso, gso, "one path's MTU is not the socket's fault");
            }
        }
    });
}

/// Fault A4: the largest datagram there is, whole over the loopback and in 45 fragments over a cable, with GRO and without.
#[test]
fn fault_a4_after_the_largest_datagram_whole_or_in_fragments_the_next_one_arrives() {
    const LARGEST: usize = 65_507;
    let contents = pattern(LARGEST);
    for gro in [true, false] {
        let contents = contents.clone();
        in_namespace(move || {
            let near = UdpSocket::bind(&Config { gro, ..CONFIG }).unwrap();
            let far = cable(Config { gro, ..CONFIG });
            let stranger = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
            for (receiver, ip) in [(&near, "127.0.0.1"), (&far, FAR[0])] {
                for _ in 0..3 {
                    assert_eq!(stranger.send_to(&contents, at(ip, receiver.port())).unwrap(), LARGEST);
                    stranger.send_to(b"next", at(ip, receiver.port())).unwrap();
                    let received = receive(receiver, LARGEST + 4);
                    let sizes: Vec<_> = received.iter().map(|message| message.1.len()).collect();
                    assert_eq!(sizes, [LARGEST, 4], "gro {gro}, {ip}");
                    assert!(joined(&received) == [&contents, &b"next"[..]].concat());
                }
            }
        });
    }
}
