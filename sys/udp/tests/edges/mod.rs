//! Two hosts at the ends of a cable whose MTU and offloads the test chooses: datagrams that the kernel refuses, and datagrams of unusual size or in fragments.

use std::io;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use taut_udp::{Transmit, UdpSocket};

use crate::namespace::in_namespace;
use crate::{CONFIG, UdpConfig, at, joined, pattern, receive};

/// The far end's addresses.
const FAR: [&str; 2] = ["10.9.0.2", "fd00:9::2"];

/// Runs a command of `ip` in the namespace of the calling thread.
fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Connects the calling thread's namespace by a cable to a host in another one, and opens a socket on that host. The cable exists as long as the socket.
fn cable(far: UdpConfig) -> UdpSocket {
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

/// Switches off the checksum offload of the near end (`ETHTOOL_STXCSUM`), as with a driver that lacks it.
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

/// Kernels before 6.11 refuse the run with EIO, and it is sent datagram by datagram. Later kernels compute the checksums in software. All datagrams arrive in
/// both cases.
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

/// The kernel refuses datagrams above the MTU with EMSGSIZE; older kernels refuse runs with EINVAL, and then each datagram. Only datagrams that are too large
/// count as failed, and GSO stays on.
#[test]
fn only_datagrams_above_the_mtu_fail() {
    in_namespace(|| {
        let receiver = cable(CONFIG);
        ip("link set near mtu 1300");
        let contents = pattern(20_000);
        for gso in [true, false] {
            let sender = UdpSocket::bind(&UdpConfig { gso, ..CONFIG }).unwrap();
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
                assert_eq!(sender.features().gso, gso, "the MTU of one path must not switch GSO off");
            }
        }
    });
}

/// Fault A4: the largest possible datagram, whole over loopback and in 45 fragments over a cable, with and without GRO.
#[test]
fn fault_a4_a_datagram_after_the_largest_one_whole_or_in_fragments_arrives() {
    const LARGEST: usize = 65_507;
    let contents = pattern(LARGEST);
    for gro in [true, false] {
        let contents = contents.clone();
        in_namespace(move || {
            let near = UdpSocket::bind(&UdpConfig { gro, ..CONFIG }).unwrap();
            let far = cable(UdpConfig { gro, ..CONFIG });
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
