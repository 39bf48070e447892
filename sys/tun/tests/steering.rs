//! The queue that each packet reaches, with Taut's steering program and with the kernel's default.
#![expect(unsafe_code, reason = "queues and raw packets of the tests are made through libc")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;
use std::{io, mem, ptr, thread};
use taut_base::Placement;
use taut_namespace::{configure, in_namespace};
use taut_tun::{Offload, Tun, TunConfig, TunError, flow};

const NEAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

/// Returns a device with `count` queues that is up and accepts any packet.
fn queues(count: u8) -> Vec<Tun> {
    let first =
        Tun::create(&TunConfig { name: "taut%d".to_owned(), offload: Offload::NONE, multi_queue: true }).unwrap();
    let mut all = vec![first];
    all.extend((1..count).map(|_| all[0].add_queue().unwrap()).collect::<Vec<_>>());
    configure(all[0].name(), NEAR);
    all
}

/// A raw socket that sends any bytes through a device.
struct Raw {
    fd: OwnedFd,
    to: libc::sockaddr_ll,
}

impl Raw {
    fn new(tun: &Tun) -> Self {
        // SAFETY: the call takes no pointers, and no other owner has the new descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)) };
        // SAFETY: all bytes zero is a valid address.
        let mut to: libc::sockaddr_ll = unsafe { mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        let name = std::ffi::CString::new(tun.name()).unwrap();
        // SAFETY: the name ends in a zero byte and lives across the call.
        to.sll_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) }.cast_signed();
        Self { fd, to }
    }

    fn send(&self, packet: &[u8]) {
        let protocol = if packet[0] >> 4 == 6 { libc::ETH_P_IPV6 } else { libc::ETH_P_IP };
        let to = libc::sockaddr_ll { sll_protocol: (protocol as u16).to_be(), ..self.to };
        let length = size_of_val(&to) as libc::socklen_t;
        // SAFETY: packet and address live across the call, each with its length.
        let sent = unsafe {
            let (bytes, address) = (packet.as_ptr().cast(), (&raw const to).cast());
            libc::sendto(self.fd.as_raw_fd(), bytes, packet.len(), 0, address, length)
        };
        assert_eq!(sent, packet.len().cast_signed(), "{}", io::Error::last_os_error());
    }

    /// Sends a packet. Returns the queue on which it waits.
    fn queue_of(&self, packet: &[u8], queues: &[Tun]) -> Option<usize> {
        self.send(packet);
        queues.iter().position(|queue| drain(queue).iter().any(|found| found == packet))
    }
}

/// Removes and returns all packets of a queue.
fn drain(queue: &Tun) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 65_536];
    let mut found = Vec::new();
    while let Ok(length) = queue.read(&mut buffer) {
        found.push(buffer[..length].to_vec());
    }
    found
}

/// Returns a UDP packet between two ports of the near and a far address.
fn udp(ports: [u16; 2], outwards: bool) -> Vec<u8> {
    let (near, far) = ([10, 9, 0, 1], [10, 9, 0, 2]);
    let (source, destination) = if outwards { (near, far) } else { (far, near) };
    let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0];
    packet.extend(source.iter().chain(&destination));
    let ports = if outwards { ports } else { [ports[1], ports[0]] };
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    let sum = packet[..20].chunks(2).fold(0_u32, |sum, pair| sum + u32::from(pair[0]) * 256 + u32::from(pair[1]));
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// Returns pseudo-random bytes.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed | 1;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
}

/// Returns random bytes that begin like IPv4, like IPv6, or like neither, often with ports, and sometimes truncated.
fn anything(seed: u64) -> Vec<u8> {
    let mut bytes = noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let choice = bytes.next().unwrap();
    let length = if choice < 64 { 1 + usize::from(choice) } else { 80 };
    let mut packet: Vec<u8> = bytes.by_ref().take(80).collect();
    packet[0] = [0x45, 0x45, 0x46, 0x60, 0x60, packet[0]][usize::from(choice % 6)];
    let protocol = [6, 17, packet[9], 1][usize::from(bytes.next().unwrap() % 4)];
    let place = if packet[0] >> 4 == 6 { 6 } else { 9 };
    packet[place] = protocol;
    if packet[0] >> 4 == 4 && bytes.next().unwrap() < 200 {
        packet[6..8].copy_from_slice(&[0x40, 0]);
    }
    packet.truncate(length);
    packet
}

/// Returns the queues of a steered device, or `None` if this kernel or this user cannot load the program.
fn steered(placement: Placement) -> Option<Vec<Tun>> {
    let all = queues(placement.lanes());
    match all[0].steer(placement) {
        Ok(()) => Some(all),
        Err(error @ TunError::Steering { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_program_and_the_rust_function_agree_on_every_packet() {
    in_namespace(|| {
        for placement in [1, 2, 3, 4, 16].map(|count| Placement::candidates(count).nth(count.into())) {
            let placement = placement.unwrap_or(Placement::new(16));
            let count = placement.lanes();
            let Some(all) = steered(placement) else { return };
            let raw = Raw::new(&all[0]);
            let mut used = vec![0; usize::from(count)];
            for seed in 0..1_500 {
                let packet = anything(seed);
                let queue = usize::from(placement.lane(flow(&packet)).0);
                assert_eq!(raw.queue_of(&packet, &all), Some(queue), "{count} queues, seed {seed}: {packet:02x?}");
                used[queue] += 1;
            }
            assert!(used.iter().all(|packets| *packets > 30), "{used:?}");
        }
    });
}

#[test]
fn a_steered_flow_keeps_its_queue_for_any_writes_to_the_queues() {
    in_namespace(|| {
        let Some(all) = steered(Placement::new(3)) else { return };
        let raw = Raw::new(&all[0]);
        for port in 1_000..1_020 {
            let (there, back) = (udp([port, 9], true), udp([port, 9], false));
            let queue = raw.queue_of(&there, &all);
            for other in &all {
                other.write(&back).unwrap();
                assert_eq!(raw.queue_of(&there, &all), queue);
            }
        }
        all[0].steer(Placement::FIRST).unwrap();
        for port in 1_000..1_020 {
            assert_eq!(raw.queue_of(&udp([port, 9], true), &all), Some(0), "the flow is back on the first queue");
        }
    });
}

/// Shows why Taut cannot use the kernel's default steering: a flow changes its queue. The test fails if a later kernel improves it.
#[test]
fn without_a_program_a_flow_changes_its_queue_in_the_middle() {
    in_namespace(|| {
        let mut all = queues(2);
        let raw = Raw::new(&all[0]);
        let flows = |all: &[Tun]| {
            (1_000..1_040).map(|port| raw.queue_of(&udp([port, 9], true), all).unwrap()).collect::<Vec<_>>()
        };
        let hashed = flows(&all);
        assert!(hashed.contains(&0) && hashed.contains(&1));

        // An answer that is written to the other queue moves the flow to that queue.
        for port in 1_000..1_040 {
            all[0].write(&udp([port, 9], false)).unwrap();
        }
        assert_eq!(flows(&all), [0; 40], "each flow must follow the queue to which its answers were written");

        // If no answer is written for three seconds, the flow returns to its former queue, although its packets kept arriving.
        for _ in 0..45 {
            thread::sleep(Duration::from_millis(100));
            flows(&all);
        }
        assert_eq!(flows(&all), hashed);

        // Adding a queue moves most flows to other queues.
        all.push(all[0].add_queue().unwrap());
        assert_ne!(flows(&all), hashed);

        // Packets on a closed queue are lost.
        let on_the_last = (1_000..1_200).map(|port| udp([port, 9], true));
        let mut on_the_last = on_the_last.filter(|packet| raw.queue_of(packet, &all) == Some(2));
        let packet = on_the_last.next().unwrap();
        raw.send(&packet);
        set_attached(&all[2], false);
        set_attached(&all[2], true);
        assert!(all.iter().all(|queue| !drain(queue).contains(&packet)));
    });
}

/// Attaches or detaches a queue (`TUNSETQUEUE`).
fn set_attached(queue: &Tun, attached: bool) {
    use std::os::fd::AsFd;
    // SAFETY: all bytes zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // IFF_ATTACH_QUEUE and IFF_DETACH_QUEUE of include/uapi/linux/if_tun.h.
    request.ifr_ifru.ifru_flags = if attached { 0x0200 } else { 0x0400 };
    // SAFETY: the call reads `request`, which lives across it.
    let result = unsafe { libc::ioctl(queue.as_fd().as_raw_fd(), libc::TUNSETQUEUE as _, ptr::from_mut(&mut request)) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}
