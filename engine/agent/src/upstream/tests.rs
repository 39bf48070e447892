use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use super::*;

/// Only port 53 is asked, so servers of tests listen there at addresses of their own; the loopback network has many.
fn work(ways: Vec<(SocketAddr, ServerWay)>) -> Answered {
    Work { lane: LaneId::FIRST, question: question(), ways, filtered: Arc::from([]) }.done()
}

/// A question for `www.corp.example`, as a stub passes it on.
fn question() -> Question {
    let own: IpAddr = [100, 64, 0, 1].into();
    let server: IpAddr = [10, 1, 0, 53].into();
    let prefixes = ["100.64.0.0/10", "fd12::/64"].map(|text| text.parse().unwrap());
    let network = taut_dns::Network { zone: "home.taut.internal", serial: 1, prefixes, own: &[own] };
    let names = taut_dns::Names::new(network, []).unwrap().with_domains([("corp.example", &[server][..])]);
    let mut message = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in ["www", "corp", "example"] {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    let length = (28 + message.len()) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 100, 64, 0, 1, 100, 64, 0, 0];
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet.extend([0x9c, 0x40, 0, 53]);
    packet.extend((length - 20).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend_from_slice(&message);
    let mut stub = taut_dns::Stub::default();
    assert!(stub.handle(&names, &packet, 1_420, taut_base::Time(1)));
    stub.poll_question().unwrap()
}

#[test]
fn a_server_without_a_way_is_named_and_nothing_is_sent() {
    let none = |reason: &str| ServerWay::None(String::from(reason));
    let answered =
        work(vec![(([10, 1, 0, 53], 53).into(), none("no route")), (([10, 1, 0, 54], 53).into(), none("no peer"))]);
    assert_eq!(answered.message[..2], [7, 7]);
    assert_eq!(answered.message[3] & 15, 2, "SERVFAIL");
    let reasons: Vec<_> = answered.results.iter().filter_map(|(_, trouble)| trouble.as_deref()).collect();
    assert_eq!(reasons, ["no route", "no peer"]);
}

#[test]
fn fault_h5_a_dead_server_is_named_and_forgiven_when_it_answers() {
    let waker = Waker::new().unwrap();
    let mut upstream = Upstream::new(waker);
    let dead: IpAddr = [10, 1, 0, 53].into();
    let answered = |trouble: Option<&str>| Answered {
        lane: LaneId::FIRST,
        client: question().client,
        message: vec![0; 12],
        results: vec![(dead, trouble.map(String::from))],
    };
    upstream.sender.send(answered(Some("it does not answer"))).unwrap();
    assert!(upstream.poll_answer().is_some());
    assert_eq!(upstream.trouble(dead), Some("it does not answer"));
    upstream.sender.send(answered(None)).unwrap();
    assert!(upstream.poll_answer().is_some());
    assert_eq!(upstream.trouble(dead), None);
}

#[test]
fn fault_h5_a_dead_server_leaves_places_to_others() {
    let waiting = Arc::default();
    let [dead, second, other] = [1, 2, 3].map(|last| IpAddr::from([10, 1, 0, last]));
    let take = |servers: &[IpAddr]| Place::take(&waiting, servers.iter().copied());
    let held: Vec<Place> = std::iter::from_fn(|| take(&[dead, second])).collect();
    assert_eq!(held.len(), MOST_WAITING / 4);
    assert!(take(&[second]).is_none() && take(&[other]).is_some());
    drop(held);
    assert!(take(&[dead]).is_some() && lock(&waiting).of.is_empty(), "the places are free again");
}

#[test]
fn questions_beyond_the_limit_fail_at_once() {
    let mut upstream = Upstream::new(Waker::new().unwrap());
    let none = std::iter::empty::<IpAddr>;
    let places: Vec<Place> = std::iter::from_fn(|| Place::take(&upstream.waiting, none())).collect();
    assert_eq!(places.len(), MOST_WAITING);
    upstream.ask(LaneId::FIRST, question(), Vec::new(), Arc::from([]));
    assert_eq!(upstream.poll_answer().unwrap().message[3] & 15, 2, "SERVFAIL");
    drop(places);
    upstream.ask(LaneId::FIRST, question(), Vec::new(), Arc::from([]));
    let end = Instant::now() + Duration::from_secs(30);
    let answer = std::iter::from_fn(|| {
        thread::yield_now();
        (Instant::now() < end).then(|| upstream.poll_answer())
    });
    assert!(answer.flatten().next().is_some());
}

#[test]
fn a_server_on_this_host_is_asked_without_the_device() {
    // Port 53 of a loopback address needs rights that not every host gives a test.
    let address = Ipv4Addr::new(127, 83, 0, 53);
    let Ok(socket) = UdpSocket::bind((address, 53)) else { return };
    let server = thread::spawn(move || {
        let mut buffer = [0; 512];
        let (length, client) = socket.recv_from(&mut buffer).unwrap();
        assert_ne!(buffer[..2], [7, 7], "the identifier is drawn again");
        buffer[2] |= 0x80;
        socket.send_to(&buffer[..length], client).unwrap();
    });
    let answered = work(vec![((address, 53).into(), ServerWay::Here)]);
    server.join().unwrap();
    assert_eq!((&answered.message[..2], answered.results), (&[7, 7][..], vec![(address.into(), None)]));
}
