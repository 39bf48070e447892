//! Two networks without a TUN device, wired to each other as two lanes would wire them, with real sockets of this host at both ends.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use taut_proxy::{Report, Setup};
use taut_testkit::{Seeded, seeds};
use taut_tun::{Offload, Tun, packet_pair};

/// A network that runs in a thread of its own. It ends when it is dropped.
struct Network {
    control: UnixStream,
    unread: Vec<u8>,
    last: Option<Report>,
    thread: Option<JoinHandle<()>>,
}

impl Network {
    fn start(device: OwnedFd, number: u8, change: impl FnOnce(&mut Setup)) -> Self {
        let (control, its_end) = UnixStream::pair().unwrap();
        let mut setup = Setup {
            addresses: vec![[100, 64, 0, number].into(), format!("fd00::{number}").parse().unwrap()],
            mtu: 1_420,
            reachable: vec!["100.64.0.0/10".parse().unwrap(), "fd00::/48".parse().unwrap()],
            ..Setup::default()
        };
        change(&mut setup);
        (&control).write_all(format!("{}\n", serde_json::to_string(&setup).unwrap()).as_bytes()).unwrap();
        let thread = thread::spawn(move || taut_netstack::run(device, its_end).unwrap());
        control.set_nonblocking(true).unwrap();
        let mut network = Self { control, unread: Vec::new(), last: None, thread: Some(thread) };
        assert!(network.report(|_| true).services.iter().all(|service| service.problem.is_none()));
        network
    }

    /// Waits until the last report is as wanted.
    fn report(&mut self, is_wanted: impl Fn(&Report) -> bool) -> Report {
        loop {
            let mut chunk = [0; 4_096];
            while let Ok(count @ 1..) = self.control.read(&mut chunk) {
                self.unread.extend_from_slice(&chunk[..count]);
            }
            while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                self.last = Some(serde_json::from_slice(&line).unwrap());
            }
            if let Some(report) = self.last.as_ref().filter(|report| is_wanted(report)) {
                return report.clone();
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until all connections are over, and reports were due since.
    fn is_idle(&mut self) {
        thread::sleep(Duration::from_millis(700));
        self.report(|report| report.connections == 0);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.control.shutdown(Shutdown::Both);
        let result = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || result.is_some_and(|result| result.is_ok()));
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns two networks, a listener behind a published port of the second, and the port of the first that leads there.
fn pair(six: bool) -> (Network, Network, TcpListener, SocketAddr) {
    let (one, other) = packet_pair().unwrap();
    let program = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = program.local_addr().unwrap();
    let second = Network::start(other, 2, |setup| setup.publish = vec![format!("80={target}").parse().unwrap()]);
    let (port, place) = (free_port(), if six { "[fd00::2]:80" } else { "100.64.0.2:80" });
    let first = Network::start(one, 1, |setup| setup.forwards = vec![format!("{port}={place}").parse().unwrap()]);
    (first, second, program, SocketAddr::from(([127, 0, 0, 1], port)))
}

#[test]
fn streams_are_whole_and_each_direction_ends_on_its_own() {
    for six in [false, true] {
        let (mut first, _second, program, local) = pair(six);
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 251) as u8).collect();
        let copy = sent.clone();
        let answering = thread::spawn(move || {
            let (mut stream, _) = program.accept().unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            // The other direction is still open.
            stream.write_all(&received).unwrap();
            received == copy
        });
        let mut stream = TcpStream::connect(local).unwrap();
        stream.write_all(&sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        assert!(answering.join().unwrap() && back == sent);
        drop(stream);
        first.is_idle();
    }
}

#[test]
fn a_reader_that_does_not_read_stops_its_sender() {
    let (_first, _second, program, local) = pair(false);
    let mut stream = TcpStream::connect(local).unwrap();
    stream.set_nonblocking(true).unwrap();
    let (mut peer, _) = program.accept().unwrap();
    let (mut written, mut idle) = (0_usize, 0);
    // Buffers of both stacks and of four sockets, and not a byte more.
    while idle < 200 {
        match stream.write(&[7; 65_536]) {
            Ok(count) => (written, idle) = (written + count, 0),
            Err(_) => {
                idle += 1;
                thread::sleep(Duration::from_millis(5));
            }
        }
        assert!(written < 64 * 1024 * 1024, "nothing holds the sender back");
    }
    stream.set_nonblocking(false).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    peer.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), written);
}

#[test]
fn a_reset_of_one_side_is_one_at_the_other_and_a_refusal_is_a_refusal() {
    let (mut first, _second, program, local) = pair(false);
    let mut stream = TcpStream::connect(local).unwrap();
    let (peer, _) = program.accept().unwrap();
    (&peer).write_all(b"part").unwrap();
    let mut part = [0; 4];
    stream.read_exact(&mut part).unwrap();
    socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
    let error = stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "a stream that was cut does not look complete");
    // And the other way round.
    let stream = TcpStream::connect(local).unwrap();
    let (mut peer, _) = program.accept().unwrap();
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    assert_eq!(peer.read(&mut [0; 1]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    drop(program);
    let mut stream = TcpStream::connect(local).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    first.is_idle();
}

/// Returns an IPv4 packet of TCP or of another protocol, with fields that fit or do not.
fn packet(random: &mut Seeded) -> Vec<u8> {
    let mut segment = vec![0; 20];
    let syn = random.below_u64(2) == 0;
    segment[0..2].copy_from_slice(&(random.below_u64(4) as u16 + 1_000).to_be_bytes());
    segment[2..4].copy_from_slice(&80_u16.to_be_bytes());
    segment[4..8].copy_from_slice(&(random.next_u64() as u32).to_be_bytes());
    segment[13] = if syn { 2 } else { random.next_u64() as u8 };
    segment[14..16].copy_from_slice(&(random.next_u64() as u16).to_be_bytes());
    let options: Vec<u8> = match random.below_u64(4) {
        0 => vec![2, 4, 0, random.next_u64() as u8],
        1 => vec![2, 4, random.next_u64() as u8, 0, 3, 3, random.next_u64() as u8, 1],
        2 => (0..4 * random.below_u64(10)).map(|_| random.next_u64() as u8).collect(),
        _ => Vec::new(),
    };
    segment[12] = ((5 + options.len() / 4) << 4) as u8;
    segment.extend(options);
    segment.extend((0..random.below_u64(40)).map(|_| random.next_u64() as u8));
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 100, 64, 0, 9, 100, 64, 0, 1];
    if random.below_u64(8) == 0 {
        packet[9] = random.next_u64() as u8;
    }
    packet.extend(segment);
    let length = packet.len() as u16;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    let sum: u32 = packet[..20].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    for _ in 0..random.below_u64(3) * random.below_u64(2) {
        let place = random.below_u64(packet.len() as u64) as usize;
        packet[place] = random.next_u64() as u8;
    }
    packet
}

#[test]
fn fault_p5_packets_of_a_hostile_peer_do_no_harm() {
    for seed in seeds(6, 200) {
        let mut random = Seeded::new(seed);
        let (lane, device) = packet_pair().unwrap();
        let lane = Tun::from_packet_socket(lane, "lane", Offload::PACKET_SOCKET).unwrap();
        let program = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = program.local_addr().unwrap();
        let port = free_port();
        let mut network = Network::start(device, 1, |setup| {
            setup.publish = vec![format!("80={target}").parse().unwrap()];
            setup.socks5 = Some(SocketAddr::from(([127, 0, 0, 1], port)));
        });
        for _ in 0..3_000 {
            // A header that says that the checksum is partial, so that packets get past it.
            let mut message = vec![1, 0, 0, 0, 0, 0, 20, 0, 16, 0];
            message.extend(packet(&mut random));
            while lane.write(&message).is_err() {
                while lane.read(&mut [0; 65_600]).is_ok() {}
                thread::yield_now();
            }
        }
        // Programs of this host are served, and the peer has as many connections as one client may have.
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(&[5, 1, 0]).unwrap();
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [5, 0], "seed {seed}");
        drop(stream);
        assert!(network.report(|_| true).connections <= 257);
    }
}
