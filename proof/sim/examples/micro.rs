//! Benchmarks of the steps of a packet's path, one at a time, for tools/micro.py: `micro` lists them, `micro NAME COUNT` runs one COUNT times and prints the
//! nanoseconds of each run. The preparation does not depend on COUNT, so the difference between two counts is the time of the step alone.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark may stop at the first surprise")]

#[path = "../../../engine/lane/tests/rig/mod.rs"]
mod rig;

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant;

use taut_base::{PeerId, Prefix, ReceiverIndex, SessionId};
use taut_node::Routes;
use taut_tunnel::{Exporter, ReplayWindow, Role, Session, SessionKeys};
use taut_wire::control::{Abilities, Suite, Suites};
use taut_wire::merge::{Merger, Offloads};
use taut_wire::split::Split;
use taut_wire::vnet::{self, VnetHeader};
use taut_wire::wireguard::DATA_HEADER;

/// Maximum number of rounds: the preparation is sized for it.
const MOST: usize = 4_096;
/// Bytes of the inner packets: a small one, one of the usual MTU, and a jumbo frame.
const LENGTHS: [usize; 3] = [64, 1_420, 8_900];
const SEGMENTS: u16 = 46;
const SEGMENT: u16 = 1_380;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, count] = words.as_slice() else {
        for (name, _) in parts() {
            println!("{name}");
        }
        return;
    };
    let count = count.parse::<usize>().unwrap();
    assert!(count <= MOST, "at most {MOST} rounds");
    let Some((_, prepare)) = parts().into_iter().find(|(known, _)| known == name) else { panic!("no step {name}") };
    let mut round = prepare();
    let start = Instant::now();
    for number in 0..count {
        round(number);
    }
    println!("{:.1}", start.elapsed().as_secs_f64() * 1e9 / count.max(1) as f64);
}

type Round = Box<dyn FnMut(usize)>;
type Prepare = Box<dyn FnOnce() -> Round>;

fn parts() -> Vec<(String, Prepare)> {
    let mut parts: Vec<(String, Prepare)> = Vec::new();
    for (short, suite) in [("chacha", Suite::ChaCha20Poly1305), ("aes", Suite::Aes256Gcm)] {
        for length in LENGTHS {
            parts.push((format!("seal-{short}-{length}"), Box::new(move || seal(suite, length))));
            parts.push((format!("open-{short}-{length}"), Box::new(move || open(suite, length))));
        }
        parts.push((format!("lane-superpacket-{short}"), Box::new(move || lane(rig::pair(suite), true))));
        parts.push((format!("lane-small-{short}"), Box::new(move || lane(rig::pair(suite), false))));
    }
    parts.push(("lane-superpacket-relayed".into(), Box::new(|| lane(by_relay(), true))));
    parts.push(("lane-small-relayed".into(), Box::new(|| lane(by_relay(), false))));
    parts.push(("split".into(), Box::new(split)));
    parts.push(("merge".into(), Box::new(merge)));
    parts.push(("route".into(), Box::new(route)));
    parts.push(("window-in-order".into(), Box::new(|| window(|number| number))));
    parts.push(("window-reordered".into(), Box::new(|| window(|number| number ^ 63))));
    parts
}

/// Returns both ends of a session between Taut nodes that seals with `suite`.
fn sessions(suite: Suite) -> (Session, Session) {
    let side = |role, local: u32, remote: u32| {
        let (local, remote) = (ReceiverIndex(local << 4), ReceiverIndex(remote << 4));
        let key = |index: ReceiverIndex| [index.0.to_le_bytes()[0]; 32].into();
        let stock = SessionKeys::stock(role, local, remote, key(local), key(remote));
        let extension = Some(Exporter::new([9; 32].into(), role, local, remote));
        let keys = SessionKeys { extension, suites: Suites::STOCK.with(Suite::Aes256Gcm), ..stock };
        let mut session = Session::new(SessionId(1), keys, rig::at(0));
        session.use_suite(suite, Abilities::OURS);
        session
    };
    (side(Role::Initiator, 1, 2), side(Role::Responder, 2, 1))
}

fn seal(suite: Suite, length: usize) -> Round {
    let (mut session, _) = sessions(suite);
    let mut datagram = vec![7; Session::sealed_len(length, length)];
    Box::new(move |_| session.seal(black_box(&mut datagram), length).unwrap())
}

fn open(suite: Suite, length: usize) -> Round {
    let (mut here, mut there) = sessions(suite);
    let size = Session::sealed_len(length, length);
    let mut sealed = vec![7; size * MOST];
    for datagram in sealed.chunks_mut(size) {
        here.seal(datagram, length).unwrap();
    }
    Box::new(move |number| {
        let datagram = &mut sealed[number * size..][..size];
        let index = ReceiverIndex(u32::from_le_bytes(datagram[4..8].try_into().unwrap()));
        let counter = u64::from_le_bytes(datagram[8..16].try_into().unwrap());
        let pair = there.data_pair(index).unwrap();
        black_box(pair.open(counter, &mut datagram[DATA_HEADER..]).unwrap());
    })
}

/// Passes packets from the TUN of one host to the TUN of the other: everything except the kernel.
fn lane((mut here, mut there): (rig::Host, rig::Host), superpackets: bool) -> Round {
    let read = if superpackets { rig::superpacket(1, SEGMENTS * SEGMENT, SEGMENT) } else { rig::small(1, 3, 64) };
    let mut wire = vec![0; 1 << 16];
    Box::new(move |_| {
        here.send(black_box(&read), rig::at(1));
        here.deliver(&mut there, &mut wire, rig::at(1));
    })
}

/// Returns two hosts that talk through a relay.
fn by_relay() -> (rig::Host, rig::Host) {
    let (mut here, mut there) = rig::pair(Suite::Aes256Gcm);
    here.use_relay(false);
    there.use_relay(false);
    (here, there)
}

/// Splits a superpacket into its segments.
fn split() -> Round {
    let read = rig::superpacket(1, SEGMENTS * SEGMENT, SEGMENT);
    let mut out = vec![0; 2_048];
    Box::new(move |_| {
        let header = VnetHeader::parse(black_box(&read)).unwrap().0;
        let mut split = Split::new(header, &read[vnet::LEN..]).unwrap();
        while split.write_next(&mut out).is_some() {
            black_box(&out);
        }
    })
}

/// Merges these segments into one superpacket. The first header is restored each time, because merging changes it.
fn merge() -> Round {
    let read = rig::superpacket(1, SEGMENTS * SEGMENT, SEGMENT);
    let mut split = Split::new(VnetHeader::parse(&read).unwrap().0, &read[vnet::LEN..]).unwrap();
    let (mut buffer, mut places) = (vec![], vec![]);
    while let Some(length) = split.next_len() {
        places.push(buffer.len()..buffer.len() + length);
        buffer.resize(buffer.len() + length, 0);
        split.write_next(&mut buffer[places[places.len() - 1].clone()]);
    }
    let first: [u8; 64] = buffer[..64].try_into().unwrap();
    let mut merger = Merger::new(Offloads::ALL);
    Box::new(move |_| {
        buffer[..64].copy_from_slice(&first);
        let mut runs = 0;
        for place in &places {
            merger.push(&mut buffer, place.clone(), 1, None, |_| runs += 1).unwrap();
        }
        merger.flush(&mut buffer, |run| runs += run.packets());
        assert_eq!(runs, usize::from(SEGMENTS), "all segments are merged");
    })
}

/// Looks up routes among a thousand peers with an address of each family.
fn route() -> Round {
    let addresses: Vec<IpAddr> = (0..1_000_u16)
        .flat_map(|peer| {
            let [high, low] = peer.to_be_bytes();
            [IpAddr::from([100, 64, high, low]), IpAddr::from([0xfd00, 1, 2, 0, 0, 0, 0, peer])]
        })
        .collect();
    let peers = addresses.iter().enumerate();
    let routes =
        Routes::new(peers.map(|(peer, address)| (Prefix::host(*address), PeerId(u32::try_from(peer / 2).unwrap()))));
    Box::new(move |number| {
        let peer = routes.lookup(black_box(addresses[number * 7 % addresses.len()]));
        assert!(peer.is_some());
    })
}

fn window(counter: fn(u64) -> u64) -> Round {
    let mut window = ReplayWindow::new();
    Box::new(move |number| {
        let counter = counter(black_box(number as u64));
        assert!(window.is_fresh(counter) && window.record(counter));
    })
}
