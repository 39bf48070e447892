//! A busy peer requires a cookie: when the node sends its initiation again.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use taut_base::{NodeId, PeerId, Prefix, PrivateKey, Time};
use taut_netmap::{LocalMember, NetworkInfo, NetworkMap, Peer};
use taut_node::uapi::PeerChange;
use taut_node::{Clocks, FromLane, HandshakeMessage, Node, Output, ToLane};
use taut_noise::public_key;
use taut_tunnel::Limits;
use taut_tunnel::cookie::CookieChecker;
use taut_tunnel::handshake::Identity;

type Noise = Box<dyn FnMut(&mut [u8])>;
type Sent = Vec<(SocketAddr, HandshakeMessage)>;

/// The peer's endpoints, the node's endpoint as the peer sees it, and an unrelated endpoint.
const PLACES: [SocketAddr; 2] = [place(1), place(2)];
const US: SocketAddr = place(9);
const ELSEWHERE: SocketAddr = place(66);

const fn place(number: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, number)), 8288)
}

fn key(number: u8) -> PrivateKey {
    PrivateKey::from_bytes([number; 32])
}

fn at(milliseconds: u64) -> Clocks {
    let time = Duration::from_millis(1_000_000 + milliseconds);
    Clocks { now: Time::from_duration(time), wall: time }
}

/// A node that has just sent an initiation to its only peer, and the peer's cookie checker.
struct Asking {
    node: Node<Noise>,
    checker: CookieChecker,
    asked: Sent,
}

impl Asking {
    fn taut() -> Self {
        let peer = Peer {
            id: NodeId(2),
            name: String::from("peer"),
            key: public_key(&key(2)),
            addresses: vec![IpAddr::from([100, 64, 0, 2])],
            endpoints: PLACES.to_vec(),
            relays: Vec::new(),
            native: false,
            routes: Vec::new(),
        };
        let prefix = |address: IpAddr, length| Prefix::new(address, length).unwrap();
        let network = NetworkInfo {
            name: String::from("net"),
            ipv4: prefix(IpAddr::from([100, 64, 0, 0]), 10),
            ipv6: prefix(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 0]), 48),
            naming: taut_netmap::Naming::default(),
        };
        let addresses = vec![IpAddr::from([100, 64, 0, 1])];
        let me = LocalMember {
            id: NodeId(1),
            name: String::from("me"),
            key: public_key(&key(1)),
            addresses,
            routes: Vec::new(),
        };
        Self::with(|node| {
            node.set_map(&NetworkMap {
                version: 1,
                network,
                me,
                peers: [(peer.id, peer)].into(),
                relays: Vec::new(),
                filter: None,
            });
        })
    }

    fn native() -> Self {
        let allowed = vec![("10.0.0.2/32".parse().unwrap(), true)];
        let change = PeerChange { allowed, endpoint: Some(PLACES[0]), ..PeerChange::new(public_key(&key(2))) };
        Self::with(|node| node.configure(false, vec![change]).unwrap())
    }

    fn with(set_up: impl FnOnce(&mut Node<Noise>)) -> Self {
        let mut drawn = 0_u8;
        let noise: Noise = Box::new(move |bytes| {
            drawn = drawn.wrapping_add(1);
            bytes.fill(drawn);
        });
        let mut node = Node::new(key(1), Limits::WIREGUARD, noise);
        set_up(&mut node);
        node.handle_lane(FromLane::WantsHandshake(PeerId(0)), at(0));
        let mut asking = Self { node, checker: Identity::new(key(2)).checker([7; 32]), asked: Vec::new() };
        asking.asked = asking.sent();
        asking
    }

    fn sent(&mut self) -> Sent {
        let outputs = std::iter::from_fn(|| self.node.poll_output());
        let sent = outputs.filter_map(|output| match output {
            Output::Lane(_, ToLane::Send { way, message }) => Some((way.first_hop(), message)),
            _ => None,
        });
        sent.collect()
    }

    /// Returns the messages that are sent when `source` answers the first copy with a cookie.
    fn cookie_from(&mut self, source: SocketAddr, clocks: Clocks) -> Sent {
        let reply = self.checker.reply(self.asked[0].1.as_bytes(), US, clocks.now).unwrap();
        self.receive(source, &reply, clocks)
    }

    fn receive(&mut self, source: SocketAddr, message: &[u8], clocks: Clocks) -> Sent {
        let message = HandshakeMessage::new(message).unwrap();
        self.node.handle_lane(FromLane::Handshake { source: source.into(), message }, clocks);
        self.sent()
    }

    /// Returns the messages of the next retransmission, which is due at `not_before` or later.
    fn next_retransmission(&mut self, not_before: Clocks) -> (Time, Sent) {
        let due = self.node.poll_timeout().unwrap();
        assert!(due >= not_before.now, "{due:?}");
        self.node.handle_timeout(Clocks { now: due, ..not_before });
        (due, self.sent())
    }

    fn shows(&mut self, message: &HandshakeMessage, now: Time) -> bool {
        self.checker.proves_address(message.as_bytes(), US, now)
    }
}

#[test]
fn fault_b2_a_cookie_is_shown_at_once_and_only_where_it_came_from() {
    let mut asking = Asking::taut();
    assert_eq!(asking.asked.iter().map(|(place, _)| *place).collect::<Vec<_>>(), PLACES);
    for place in PLACES {
        let [(destination, copy)] = asking.cookie_from(place, at(20))[..] else {
            panic!("exactly one copy must be sent")
        };
        assert_eq!(destination, place);
        assert!(asking.shows(&copy, at(20).now));
        let first = asking.asked[0].1;
        assert_eq!(
            copy.as_bytes()[..132],
            first.as_bytes()[..132],
            "the copy differs from the initiation only in mac2"
        );
    }
    let (_, again) = asking.next_retransmission(at(250));
    assert_eq!(again.len(), 2, "the regular retransmission is sent, too");
}

#[test]
fn fault_b8_cookies_make_the_node_send_once_and_nowhere_else() {
    let mut asking = Asking::taut();
    assert!(asking.cookie_from(ELSEWHERE, at(10)).is_empty(), "no initiation was sent there");
    let mut forged = asking.checker.reply(asking.asked[0].1.as_bytes(), US, at(10).now).unwrap();
    forged[40] ^= 1;
    assert!(asking.receive(PLACES[0], &forged, at(10)).is_empty());
    let copies = (20..240).map(|time| asking.cookie_from(PLACES[0], at(time)).len());
    assert_eq!(copies.sum::<usize>(), 1);
    let (due, _) = asking.next_retransmission(at(250));
    assert!(due <= at(313).now, "no cookie moved the next retransmission");
    assert!(
        asking.cookie_from(PLACES[0], at(320)).is_empty(),
        "the cookie answers a retransmission, which is not a new initiation"
    );
}

#[test]
fn fault_b8_a_cookie_too_late_for_a_copy_waits_for_the_next_initiation() {
    let mut asking = Asking::taut();
    assert!(asking.cookie_from(PLACES[0], at(2_000)).is_empty());
    // The retransmissions until then repeat the first initiation.
    let initiations =
        std::iter::from_fn(|| Some(asking.next_retransmission(at(0)))).find(|(due, _)| *due >= at(2_000).now);
    let (due, sent) = initiations.unwrap();
    assert_ne!(sent[0].1.as_bytes()[..116], asking.asked[0].1.as_bytes()[..116], "this is a new initiation");
    assert!(asking.shows(&sent[0].1, due));
}

#[test]
fn a_native_peer_gets_the_cookie_with_the_next_stock_retransmission() {
    let mut asking = Asking::native();
    assert!(asking.cookie_from(PLACES[0], at(20)).is_empty());
    let (due, sent) = asking.next_retransmission(at(5_000));
    assert!(asking.shows(&sent[0].1, due), "the retransmission carries the cookie");
}
