use std::time::Duration;

use taut_base::{PresharedKey, PrivateKey, ReceiverIndex};
use taut_tunnel::cookie::{Cookies, mac1};
use taut_tunnel::handshake::{Identity, Remote, SentInitiation, Timestamp};
use taut_wire::wireguard::classify;

use std::net::SocketAddr;

use super::*;

fn at(milliseconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(1_200) + Duration::from_millis(milliseconds)
}

fn endpoint(address: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, address], port))
}

fn anywhere(number: u32) -> SocketAddr {
    SocketAddr::from((number.to_be_bytes(), 1))
}

/// An ingress, and an initiation from host 1 that it checks.
struct TestIngress {
    ingress: Ingress,
    remote: Remote,
    message: [u8; 148],
}

/// Returns the ingress of host 2 and an initiation from host 1.
fn test_ingress() -> TestIngress {
    let (here, there) = (identity(1), identity(2));
    let remote = Remote::new(&here, there.public(), PresharedKey::NONE).unwrap();
    let message = initiation_of(&here, &remote, 0x1230);
    TestIngress { ingress: Ingress::new(there.checker([7; 32])), remote, message }
}

fn identity(number: u8) -> Identity {
    Identity::new(PrivateKey::from_bytes([number; 32]))
}

fn initiation_of(from: &Identity, to: &Remote, index: u32) -> [u8; 148] {
    let stamp = Timestamp::from_wall_clock(Duration::from_secs(1));
    SentInitiation::start(from, to, ReceiverIndex(index), stamp, PrivateKey::from_bytes([3; 32])).unwrap().1
}

impl TestIngress {
    fn judge(&mut self, source: impl Into<Way>, bytes: &[u8], now: Time) -> HandshakeVerdict {
        self.ingress.judge(source.into(), &classify(bytes).unwrap(), bytes, |_| false, now)
    }

    fn ask(&mut self, source: impl Into<Way>, now: Time) -> HandshakeVerdict {
        let message = self.message;
        self.judge(source, &message, now)
    }

    /// Returns the initiation with the cookie of this reply.
    fn with_cookie(&self, reply: &[u8], now: Time) -> [u8; 148] {
        let Ok(Message::CookieReply(reply)) = classify(reply) else { panic!("no cookie reply") };
        let (mut cookies, mut message) = (Cookies::default(), self.message);
        assert!(cookies.take(&self.remote, mac1(&message).unwrap(), endpoint(2, 2), &reply, now));
        cookies.write_mac2(endpoint(2, 2), &mut message, now);
        message
    }

    /// Receives initiations from unauthenticated senders everywhere until new senders need a cookie; the agent keeps up. Returns how many passed.
    fn flood(&mut self, now: Time) -> usize {
        let taken = (0..1_000)
            .filter(|number| self.ask(anywhere(0x0a00_0000 + number), now) == HandshakeVerdict::Passed)
            .count();
        while self.ingress.poll_output().is_some() {}
        taken
    }
}

#[test]
fn fault_b1_a_message_without_our_mac1_gets_no_answer() {
    let mut tested = test_ingress();
    let mut forged = tested.message;
    forged[116] ^= 1;
    for number in 0..10_000 {
        let dropped = HandshakeVerdict::Dropped(DropReason::BadMac1);
        assert_eq!(tested.judge(anywhere(number % 7), &forged, at(0)), dropped);
    }
    assert!(tested.ingress.poll_output().is_none());
    assert_eq!(tested.ask(anywhere(3), at(0)), HandshakeVerdict::Passed, "and other senders have their limits left");
}

#[test]
fn fault_b2_forged_senders_get_cookies_and_a_sender_that_shows_one_passes() {
    let mut tested = test_ingress();
    assert_eq!(tested.flood(at(0)), 48);
    let HandshakeVerdict::Cookie(reply) = tested.ask(endpoint(1, 1), at(1)) else { panic!("no cookie") };
    let message = tested.with_cookie(&reply, at(1));
    assert_eq!(tested.judge(endpoint(1, 1), &message, at(1)), HandshakeVerdict::Passed);
    assert!(
        matches!(tested.judge(endpoint(1, 2), &message, at(1)), HandshakeVerdict::Cookie(_)),
        "not from another port"
    );
    assert!(tested.flood(at(1_001)) <= 500);
}

#[test]
fn fault_b4_only_the_sender_that_floods_is_asked_for_a_cookie() {
    let mut tested = test_ingress();
    let answers: Vec<HandshakeVerdict> = (0..100).map(|_| tested.ask(endpoint(9, 9), at(0))).collect();
    assert_eq!(answers.iter().filter(|verdict| **verdict == HandshakeVerdict::Passed).count(), 5);
    assert!(answers[5..].iter().all(|verdict| matches!(verdict, HandshakeVerdict::Cookie(_))));
    assert_eq!(tested.ask(endpoint(1, 1), at(0)), HandshakeVerdict::Passed);
    // A cookie does not raise the limit of its sender.
    let HandshakeVerdict::Cookie(reply) = tested.ask(endpoint(9, 9), at(0)) else { panic!("no cookie") };
    let message = tested.with_cookie(&reply, at(0));
    let taken =
        (0..1_000).filter(|time| tested.judge(endpoint(9, 9), &message, at(*time)) == HandshakeVerdict::Passed).count();
    assert_eq!(taken, 5 + 19);
}

#[test]
fn fault_b5_another_host_behind_the_same_nat_passes_with_a_cookie() {
    let mut tested = test_ingress();
    for port in 1..1_000 {
        tested.ask(endpoint(9, port), at(0));
    }
    while tested.ingress.poll_output().is_some() {}
    let HandshakeVerdict::Cookie(reply) = tested.ask(endpoint(9, 40_000), at(0)) else { panic!("no cookie") };
    let message = tested.with_cookie(&reply, at(0));
    assert_eq!(tested.judge(endpoint(9, 40_000), &message, at(0)), HandshakeVerdict::Passed);
    assert_eq!(tested.ask(endpoint(8, 1), at(0)), HandshakeVerdict::Passed, "other addresses need no cookie");
}

#[test]
fn fault_b10_a_known_peer_needs_no_cookie_in_a_flood() {
    let mut tested = test_ingress();
    tested.ingress.peer_moved(PeerId(1), None, Some(endpoint(1, 1).into()));
    tested.flood(at(0));
    assert_eq!(tested.ask(endpoint(1, 1), at(0)), HandshakeVerdict::Passed);
    assert!(matches!(tested.ask(endpoint(1, 2), at(0)), HandshakeVerdict::Cookie(_)));
    tested.ingress.peer_moved(PeerId(1), Some(endpoint(1, 1).into()), Some(endpoint(1, 2).into()));
    assert_eq!(tested.ask(endpoint(1, 2), at(0)), HandshakeVerdict::Passed);
    assert!(matches!(tested.ask(endpoint(1, 1), at(0)), HandshakeVerdict::Cookie(_)));
}

#[test]
fn known_senders_come_first_and_no_class_takes_anothers_places() {
    let mut tested = test_ingress();
    tested.ingress.peer_moved(PeerId(1), None, Some(endpoint(1, 1).into()));
    // The agent takes no messages: the queue of one class fills, and stays bounded.
    for second in 0..100 {
        for number in 0..100 {
            tested.ask(anywhere(0x0a00_0000 + 1_000 * second + number), at(1_000 * u64::from(second)));
        }
    }
    assert_eq!(tested.ingress.waiting.each_ref().map(VecDeque::len), [0, 0, WAITING]);
    assert_eq!(tested.ask(endpoint(1, 1), at(100_000)), HandshakeVerdict::Passed);
    assert!(
        matches!(tested.ingress.poll_output(), Some(FromLane::Handshake { source, .. }) if source == endpoint(1, 1).into())
    );
}

#[test]
fn fault_b8_a_cookie_reply_to_no_message_of_ours_is_dropped() {
    let mut tested = test_ingress();
    let mut reply = [0; cookie_reply::LEN];
    reply[0] = 3;
    reply[4..8].copy_from_slice(&0x4560_u32.to_le_bytes());
    assert_eq!(tested.judge(endpoint(1, 1), &reply, at(0)), HandshakeVerdict::Dropped(DropReason::UnknownIndex));
    let ours = initiation_of(&identity(1), &tested.remote, 0x4560);
    tested.ingress.sent(&ours);
    let taken = (0..1_000).filter(|_| tested.judge(endpoint(1, 1), &reply, at(0)) == HandshakeVerdict::Passed).count();
    assert_eq!(taken, 5);
}

/// Senders that each proved their address, and their initiations.
type Proven = Vec<(Way, [u8; 148])>;

impl TestIngress {
    /// Returns an initiation of this sender with the cookie that it was asked for. The limit of new senders is used up first, so that it is asked.
    fn proven(&mut self, source: impl Into<Way>, now: Time) -> (Way, [u8; 148]) {
        let source = source.into();
        loop {
            if let HandshakeVerdict::Cookie(reply) = self.ask(source, now) {
                return (source, self.with_cookie(&reply, now));
            }
            self.flood(now);
        }
    }

    /// Runs ten seconds in which these senders and forged new ones send without pause. Each tenth of a second an honest sender at an address of its own proves
    /// that address. Returns how many of these hundred pass, and how many of the attackers' messages.
    fn attacked_by(&mut self, attackers: &Proven) -> (usize, usize) {
        let (mut honest, mut taken, mut next) = (0, 0, 0);
        for moment in 0..1_000 {
            let now = at(10 * moment);
            for _ in 0..100 {
                let (source, message) = &attackers[next % attackers.len()];
                taken += usize::from(self.judge(*source, message, now) == HandshakeVerdict::Passed);
                next += 1;
            }
            if moment % 10 == 0 {
                let (source, message) =
                    self.proven(anywhere(0xc000_0000 + 0x0001_0000 * u32::try_from(moment).unwrap()), now);
                honest += usize::from(self.judge(source, &message, now) == HandshakeVerdict::Passed);
            }
            while self.ingress.poll_output().is_some() {}
        }
        (honest, taken)
    }
}

#[test]
fn fault_b12_thousands_of_ports_of_one_address_use_up_their_own_share() {
    let mut tested = test_ingress();
    let attackers = (1..2_000).map(|port| tested.proven(endpoint(9, port), at(0))).collect();
    let (honest, taken) = tested.attacked_by(&attackers);
    assert_eq!(honest, 100);
    assert!((480..=520).contains(&taken), "{taken} of one address in 10 s, and it may send 50 a second");
}

#[test]
fn fault_b12_all_addresses_of_one_customer_share_their_prefix() {
    let v6 = |number: u16| SocketAddr::from(([0x2001, 0xdb8, 7, number, 0, 0, 0, 1], 1));
    let v4 = |number: u16| endpoint(u8::try_from(number % 256).unwrap(), number / 256 + 1);
    for source in [v4 as fn(u16) -> SocketAddr, v6] {
        let mut tested = test_ingress();
        let attackers = (0..2_000).map(|number| tested.proven(source(number), at(0))).collect();
        let (honest, taken) = tested.attacked_by(&attackers);
        assert_eq!(honest, 100);
        assert!((1_000..=1_030).contains(&taken), "{taken} of one prefix in 10 s, and it may send 100 a second");
    }
}

#[test]
fn fault_b12_a_relay_that_invents_clients_uses_up_its_own_share() {
    let mut tested = test_ingress();
    let client = |id| Way::Relayed { relay: endpoint(9, 3478), id };
    let attackers = (1..2_000).map(|id| tested.proven(client(id), at(0))).collect();
    let (honest, taken) = tested.attacked_by(&attackers);
    assert_eq!(honest, 100);
    assert!((2_000..=2_030).contains(&taken), "{taken} by one relay in 10 s, and it may bring 200 a second");
}

#[test]
fn fault_b12_a_known_peer_does_not_compete_with_its_prefix() {
    let mut tested = test_ingress();
    let peer = tested.proven(endpoint(9, 8288), at(0));
    tested.ingress.peer_moved(PeerId(1), None, Some(peer.0));
    let attackers: Proven = (1..2_000).map(|port| tested.proven(endpoint(9, port), at(0))).collect();
    for (source, message) in &attackers {
        tested.judge(*source, message, at(0));
    }
    while tested.ingress.poll_output().is_some() {}
    assert_eq!(
        tested.judge(attackers[0].0, &attackers[0].1, at(1)),
        HandshakeVerdict::Dropped(DropReason::HandshakeRate)
    );
    assert_eq!(tested.judge(peer.0, &peer.1, at(1)), HandshakeVerdict::Passed, "with a cookie");
    assert_eq!(tested.ask(peer.0, at(1)), HandshakeVerdict::Passed, "and without");
    // Messages with the forged addresses of a hundred peers use up the limit of known senders. A peer is then asked for a cookie, and passes with it.
    let mut tested = test_ingress();
    let peer = tested.proven(endpoint(9, 8288), at(0));
    let peers: Vec<Way> = (0..100).map(|number| anywhere(0x0b00_0000 + number).into()).collect();
    for (number, way) in (2..).zip(&peers) {
        tested.ingress.peer_moved(PeerId(number), None, Some(*way));
    }
    tested.ingress.peer_moved(PeerId(1), None, Some(peer.0));
    let forged =
        peers.iter().cycle().take(1_000).filter(|way| tested.ask(**way, at(1)) == HandshakeVerdict::Passed).count();
    assert_eq!(forged, 48);
    assert!(matches!(tested.ask(peer.0, at(1)), HandshakeVerdict::Cookie(_)));
    assert_eq!(tested.judge(peer.0, &peer.1, at(1)), HandshakeVerdict::Passed);
}

#[test]
fn fault_b12_hosts_behind_one_carrier_nat_pass() {
    let mut tested = test_ingress();
    let mut waiting: Vec<Way> = (1..=200).map(|port| endpoint(9, port).into()).collect();
    // Each host tries again every 250 ms, with the cookie that it was asked for.
    for quarter in 0..12 {
        let now = at(250 * quarter);
        waiting.retain(|source| match tested.ask(*source, now) {
            HandshakeVerdict::Cookie(reply) => {
                let message = tested.with_cookie(&reply, now);
                tested.judge(*source, &message, now) != HandshakeVerdict::Passed
            }
            verdict => verdict != HandshakeVerdict::Passed,
        });
        while tested.ingress.poll_output().is_some() {}
    }
    assert_eq!(waiting, [], "two hundred pass in three seconds");
}

#[test]
fn fault_b12_a_flood_of_new_senders_does_not_stop_answers_to_us() {
    let mut tested = test_ingress();
    let mut reply = [0; cookie_reply::LEN];
    reply[0] = 3;
    reply[4..8].copy_from_slice(&0x4560_u32.to_le_bytes());
    let ours = initiation_of(&identity(1), &tested.remote, 0x4560);
    tested.ingress.sent(&ours);
    tested.flood(at(0));
    assert_eq!(tested.judge(endpoint(1, 1), &reply, at(0)), HandshakeVerdict::Passed);
    // The peer answers from thousands of ports, and uses up no other peer's share.
    let taken =
        (1..5_000).filter(|port| tested.judge(endpoint(9, *port), &reply, at(0)) == HandshakeVerdict::Passed).count();
    assert_eq!(taken, 15);
    // A reply to the index of no initiation is dropped.
    reply[4..8].copy_from_slice(&0_u32.to_le_bytes());
    assert_eq!(tested.judge(endpoint(1, 1), &reply, at(0)), HandshakeVerdict::Dropped(DropReason::UnknownIndex));
}
