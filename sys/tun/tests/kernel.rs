//! The TUN device on a real kernel: real packets, each offload on and off.
#![expect(unsafe_code, reason = "devices and socket options of the tests are set through libc")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use std::io::{self, IoSlice, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use taut_namespace::{configure, enter_new, exists, gone, in_namespace};
use taut_tun::{HEADER_LEN, Offload, Tun, TunConfig, TunError};

/// The host's address on the device.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// An unused address behind the device.
const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// Default MTU of a TUN device, in bytes.
const MTU: usize = 1_500;

fn config(offload: Offload) -> TunConfig {
    TunConfig { name: "taut%d".to_owned(), offload, multi_queue: false }
}

/// Returns a device that is up and has the near address.
fn device(offload: Offload) -> Tun {
    let tun = Tun::create(&config(offload)).unwrap();
    configure(tun.name(), NEAR);
    tun
}

/// Plays the far side: sends every IPv4 packet back with its addresses exchanged, so that the host talks to itself
/// across the device. Checksums, partial ones too, stay right: the sum does not depend on order.
struct Reflector {
    stop: Arc<AtomicBool>,
    longest: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Reflector {
    fn start(tun: Tun) -> Self {
        let (stop, longest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, seen) = (Arc::clone(&stop), Arc::clone(&longest));
        let thread = thread::spawn(move || {
            let header = if tun.offload().vnet_header { HEADER_LEN } else { 0 };
            let mut buffer = vec![0; 65_536 + HEADER_LEN];
            while !stopped.load(Ordering::Relaxed) {
                let Some(length) = read(&tun, &mut buffer) else { continue };
                let (header, packet) = buffer[..length].split_at_mut(header);
                if packet[0] >> 4 != 4 {
                    continue;
                }
                seen.fetch_max(packet.len(), Ordering::Relaxed);
                let (source, destination) = packet[12..20].split_at_mut(4);
                source.swap_with_slice(destination);
                let pieces = [IoSlice::new(header), IoSlice::new(packet)];
                assert_eq!(tun.write_vectored(&pieces).unwrap(), length);
            }
        });
        Self { stop, longest, thread: Some(thread) }
    }

    /// Returns the bytes of the longest packet so far, without its header.
    fn longest(&self) -> usize {
        self.longest.load(Ordering::Relaxed)
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let outcome = self.thread.take().unwrap().join();
        if !thread::panicking() {
            outcome.unwrap();
        }
    }
}

/// Waits a short time for a packet.
fn read(tun: &Tun, buffer: &mut [u8]) -> Option<usize> {
    let mut slot = libc::pollfd { fd: tun.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry that lives across the call.
    unsafe { libc::poll(&raw mut slot, 1, 50) };
    match tun.read(buffer) {
        Ok(length) => Some(length),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the next IPv4 packet with its header, in one vector.
fn next_ipv4(tun: &Tun, header: usize) -> Vec<u8> {
    let mut buffer = vec![0; 65_536 + HEADER_LEN];
    loop {
        if let Some(length) = read(tun, &mut buffer)
            && buffer[header] >> 4 == 4
        {
            buffer.truncate(length);
            return buffer;
        }
    }
}

/// Moves a megabyte over TCP across the device and checks every byte. Returns the length of the longest packet.
fn tcp_across(offload: Offload) -> usize {
    let reflector = Reflector::start(device(offload));
    let listener = TcpListener::bind((NEAR, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let sent: Vec<u8> = (0..1_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let payload = sent.clone();
    let sender = thread::spawn(move || TcpStream::connect((FAR, port)).unwrap().write_all(&payload).unwrap());
    let (mut stream, peer) = listener.accept().unwrap();
    assert_eq!(peer.ip(), FAR, "the other end of the connection is behind the device");
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    assert!(received == sent, "the received bytes differ from those sent");
    reflector.longest()
}

#[test]
fn this_kernel_grants_offloads() {
    in_namespace(|| {
        let granted = device(Offload::ALL).offload();
        assert!(granted.vnet_header && granted.checksum && granted.tso, "{granted:?}");
        println!("granted: {granted:?}");
    });
}

#[test]
fn tcp_crosses_in_superpackets() {
    in_namespace(|| {
        // Before Linux 5.18 the rate of a connection alone decides how long its superpackets are, and on a slow processor they are short.
        std::fs::write("/proc/sys/net/ipv4/tcp_min_tso_segs", "20").unwrap();
        let longest = tcp_across(Offload::ALL);
        assert!(longest > 4 * MTU, "the longest packet had {longest} bytes");
    });
}

#[test]
fn each_offload_can_be_switched_off() {
    let switches = [
        Offload { uso: false, ..Offload::ALL },
        Offload { tso: false, ..Offload::ALL },
        Offload { checksum: false, ..Offload::ALL },
        Offload::NONE,
    ];
    for asked in switches {
        in_namespace(move || {
            let granted = device(asked).offload();
            assert_eq!(granted.vnet_header, asked.vnet_header);
            assert!(asked.tso && asked.checksum || !granted.tso);
            assert!(asked.uso && asked.checksum || !granted.uso);
            let longest = tcp_across(asked);
            assert_eq!(longest > MTU, granted.tso, "{asked:?}: the longest packet had {longest} bytes");
        });
    }
}

#[test]
fn a_udp_run_crosses_as_one_packet_with_uso_and_as_many_without() {
    const SEGMENT: usize = 1_000;
    for uso in [true, false] {
        in_namespace(move || {
            let tun = device(Offload { uso, ..Offload::ALL });
            if uso && !tun.offload().uso {
                println!("skipped: this kernel has no USO");
                return;
            }
            let socket = UdpSocket::bind((NEAR, 0)).unwrap();
            let size = libc::c_int::try_from(SEGMENT).unwrap();
            // SAFETY: an int with its length, which lives across the call.
            let result = unsafe {
                let size_at = (&raw const size).cast();
                libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, size_at, 4)
            };
            assert_eq!(result, 0);
            socket.send_to(&[7; 10 * SEGMENT], (FAR, 9)).unwrap();
            let packet = next_ipv4(&tun, HEADER_LEN);
            let payload = packet.len() - HEADER_LEN - 28;
            assert_eq!(payload, if uso { 10 * SEGMENT } else { SEGMENT });
            // virtio_net.h: gso_type VIRTIO_NET_HDR_GSO_UDP_L4 = 5, gso_size little-endian at 4.
            assert_eq!(packet[1], if uso { 5 } else { 0 });
            if uso {
                assert_eq!(usize::from(u16::from_le_bytes([packet[4], packet[5]])), SEGMENT);
            }
        });
    }
}

#[test]
fn a_written_packet_arrives_at_a_socket() {
    in_namespace(|| {
        let tun = device(Offload::NONE);
        let socket = UdpSocket::bind((NEAR, 0)).unwrap();
        socket.send_to(b"round trip", (FAR, 5_000)).unwrap();
        let mut packet = next_ipv4(&tun, 0);
        let (source, destination) = packet[12..20].split_at_mut(4);
        source.swap_with_slice(destination);
        let (source, destination) = packet[20..24].split_at_mut(2);
        source.swap_with_slice(destination);
        assert_eq!(tun.write(&packet).unwrap(), packet.len());
        let mut answer = [0; 64];
        let (length, from) = socket.recv_from(&mut answer).unwrap();
        assert_eq!((&answer[..length], from), (&b"round trip"[..], (FAR, 5_000).into()));
    });
}

#[test]
fn invalid_packets_are_refused_and_no_call_blocks() {
    in_namespace(|| {
        let tun = device(Offload::ALL);
        assert_eq!(tun.write(&[0; 4]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let mut buffer = vec![0; 70_000];
        // The host's IPv6 announces itself on a new link, so a few packets may wait before the queue is empty.
        while tun.read(&mut buffer).is_ok() {}
        assert_eq!(tun.read(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    });
}

#[test]
fn a_device_exists_as_long_as_its_value() {
    in_namespace(|| {
        let (first, second) = (device(Offload::ALL), Tun::create(&config(Offload::NONE)).unwrap());
        assert_eq!((first.name(), second.name()), ("taut0", "taut1"));
        assert!(exists("taut0") && exists("taut1"));
        drop(first);
        assert!(gone("taut0") && exists("taut1"));
    });
}

#[test]
fn a_name_in_use_is_not_taken_over() {
    in_namespace(|| {
        for (multi_queue, offload) in [(false, Offload::ALL), (true, Offload::ALL), (true, Offload::NONE)] {
            let config = TunConfig { name: "mine".to_owned(), offload, multi_queue };
            let _first = Tun::create(&config).unwrap();
            assert!(matches!(Tun::create(&config), Err(TunError::NameTaken { .. })));
            let loopback = TunConfig { name: "lo".to_owned(), ..config };
            assert!(matches!(Tun::create(&loopback), Err(TunError::NameTaken { .. })));
        }
    });
}

#[test]
fn queues_are_added_if_the_device_allows_it() {
    in_namespace(|| {
        let many = Tun::create(&TunConfig { multi_queue: true, ..config(Offload::ALL) }).unwrap();
        let second = many.add_queue().unwrap();
        assert_eq!((second.name(), second.offload()), (many.name(), many.offload()));
        let name = many.name().to_owned();
        drop(many);
        assert!(exists(&name), "the second queue keeps the device");
        drop(second);
        assert!(gone(&name));
        assert!(matches!(device(Offload::ALL).add_queue(), Err(TunError::SingleQueue { .. })));
    });
}

#[test]
fn an_inherited_queue_is_the_same_device_with_its_offloads() {
    in_namespace(|| {
        for offload in [Offload::ALL, Offload::NONE] {
            let made = device(offload);
            let name = made.name().to_owned();
            let copy = made.as_fd().try_clone_to_owned().unwrap();
            // The device keeps its virtio header even if the new owner requests no offloads.
            let plain = Tun::from_fd(made.as_fd().try_clone_to_owned().unwrap(), Offload::NONE).unwrap();
            assert_eq!(plain.offload(), Offload { vnet_header: offload.vnet_header, ..Offload::NONE });
            let taken = Tun::from_fd(copy, Offload::ALL).unwrap();
            assert_eq!((taken.name(), taken.offload()), (name.as_str(), made.offload()));
            drop((made, plain));
            assert!(exists(&name), "the device exists as long as the inherited queue");
            drop(taken);
            assert!(gone(&name));
        }
    });
}

#[test]
fn an_inherited_queue_becomes_non_blocking() {
    in_namespace(|| {
        let made = device(Offload::NONE);
        // SAFETY: no pointers; the descriptor is open.
        assert_eq!(unsafe { libc::fcntl(made.as_fd().as_raw_fd(), libc::F_SETFL, 0) }, 0);
        let taken = Tun::from_fd(made.as_fd().try_clone_to_owned().unwrap(), Offload::ALL).unwrap();
        // SAFETY: as above.
        let flags = unsafe { libc::fcntl(taken.as_fd().as_raw_fd(), libc::F_GETFL) };
        assert_ne!(flags & libc::O_NONBLOCK, 0);
    });
}

#[test]
fn a_descriptor_that_carries_no_bare_ip_packets_is_refused() {
    in_namespace(|| {
        let null = std::fs::File::open("/dev/null").unwrap();
        let unattached = std::fs::File::open("/dev/net/tun").unwrap();
        for (file, reason) in
            [(null, "not a queue"), (unattached, "not a queue"), (raw(libc::IFF_TAP | libc::IFF_NO_PI), "Ethernet")]
        {
            let error = Tun::from_fd(file.into(), Offload::ALL).unwrap_err();
            assert!(matches!(error, TunError::Unusable { .. }) && error.to_string().contains(reason), "{error}");
        }
    });
}

#[test]
fn a_device_that_moved_to_another_namespace_is_found() {
    in_namespace(|| {
        let tun = device(Offload::NONE);
        let identity = |file: std::fs::File| file.metadata().map(|namespace| namespace.ino()).unwrap();
        let of = |thread: i32| identity(std::fs::File::open(format!("/proc/self/task/{thread}/ns/net")).unwrap());
        // SAFETY: no pointers, cannot fail.
        assert_eq!(identity(tun.namespace().unwrap().into()), of(unsafe { libc::gettid() }));
        let (say, hear) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let other = thread::spawn(move || {
            assert!(enter_new());
            // SAFETY: no pointers, cannot fail.
            say.send(unsafe { libc::gettid() }).unwrap();
            wait.recv().unwrap_err();
        });
        let there = hear.recv().unwrap();
        let words = ["link", "set", tun.name(), "name", "elsewhere", "netns", &there.to_string()];
        assert!(Command::new("ip").args(words).status().unwrap().success());
        assert_eq!(identity(tun.namespace().unwrap().into()), of(there));
        assert_eq!(tun.current_name().unwrap(), "elsewhere");
        assert!(tun.exists() && !exists(tun.name()));
        drop(go);
        other.join().unwrap();
    });
}

/// Returns a device with these flags, as another program might create it.
fn raw(flags: libc::c_int) -> std::fs::File {
    let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
    // SAFETY: all bytes zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).unwrap();
    // SAFETY: TUNSETIFF reads and writes `request`, which lives across the call.
    assert_eq!(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) }, 0);
    file
}
