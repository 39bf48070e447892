use taut_base::{PresharedKey, PrivateKey, ReceiverIndex};
use taut_wire::wireguard::{Message, classify};

use super::*;
use crate::handshake::{Identity, SentInitiation, Timestamp};

fn at(seconds: u64) -> Time {
    // Periods are counted from boot; 0 is the beginning of one.
    Time::ZERO + 10 * LIFETIME + Duration::from_secs(seconds)
}

fn place(address: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, address], port))
}

struct Ends {
    remote: Remote,
    checker: CookieChecker,
    message: [u8; 148],
}

/// An initiation from host 1 and the checker of its receiver.
fn ends() -> Ends {
    let here = Identity::new(PrivateKey::from_bytes([1; 32]));
    let there = Identity::new(PrivateKey::from_bytes([2; 32]));
    let remote = Remote::new(&here, there.public(), PresharedKey::NONE).unwrap();
    let stamp = Timestamp::from_wall_clock(Duration::from_secs(1));
    let ephemeral = PrivateKey::from_bytes([3; 32]);
    let (_, message) = SentInitiation::start(&here, &remote, ReceiverIndex(0x1230), stamp, ephemeral).unwrap();
    Ends { remote, checker: there.checker([7; 32]), message }
}

fn take(cookies: &mut Cookies, ends: &Ends, source: SocketAddr, reply: &[u8], now: Time) -> bool {
    let Ok(Message::CookieReply(reply)) = classify(reply) else { panic!("no cookie reply") };
    cookies.take(&ends.remote, mac1(&ends.message).unwrap(), source, &reply, now)
}

/// Returns the store of an initiator that received a cookie for `source` at `now`.
fn given(ends: &mut Ends, source: SocketAddr, now: Time) -> Cookies {
    let mut cookies = Cookies::default();
    let reply = ends.checker.reply(&ends.message, source, now).unwrap();
    assert!(take(&mut cookies, ends, place(2, 8288), &reply, now));
    cookies
}

fn with_mac2(ends: &Ends, cookies: &Cookies, now: Time) -> [u8; 148] {
    let mut message = ends.message;
    cookies.write_mac2(place(2, 8288), &mut message, now);
    message
}

#[test]
fn a_cookie_proves_an_address_until_the_secret_changes() {
    let mut ends = ends();
    assert!(!ends.checker.proves_address(&ends.message, place(1, 1), at(0)), "no mac2");
    let cookies = given(&mut ends, place(1, 1), at(0));
    let message = with_mac2(&ends, &cookies, at(1));
    assert!(ends.checker.is_for_us(&message), "mac1 does not cover mac2");
    assert!(ends.checker.proves_address(&message, place(1, 1), at(119)));
    assert!(!ends.checker.proves_address(&message, place(1, 1), at(120)));
    assert_eq!(with_mac2(&ends, &cookies, at(120)), ends.message, "a cookie is kept for two minutes");
}

#[test]
fn a_reply_is_shorter_than_what_it_answers_and_names_it() {
    let mut ends = ends();
    let reply = ends.checker.reply(&ends.message, place(1, 1), at(0)).unwrap();
    assert!(reply.len() < 92, "shorter than the shorter of the two messages that it may answer");
    let Ok(Message::CookieReply(parsed)) = classify(&reply) else { panic!("no cookie reply") };
    assert_eq!(parsed.receiver, 0x1230);
    let again = ends.checker.reply(&ends.message, place(1, 1), at(0)).unwrap();
    assert_ne!(reply[8..], again[8..], "a nonce is used once");
}

#[test]
fn fault_b5_a_cookie_is_bound_to_address_and_port() {
    let mut ends = ends();
    let cookies = given(&mut ends, place(1, 1), at(0));
    let message = with_mac2(&ends, &cookies, at(1));
    assert!(ends.checker.proves_address(&message, place(1, 1), at(1)));
    assert!(!ends.checker.proves_address(&message, place(1, 2), at(1)));
    assert!(!ends.checker.proves_address(&message, place(3, 1), at(1)));
    let mapped = SocketAddr::from((std::net::Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped(), 1));
    assert!(
        ends.checker.proves_address(&message, mapped, at(1)),
        "the same address, as a socket for both families shows it"
    );
}

#[test]
fn fault_b8_forged_and_old_cookie_replies_change_nothing() {
    let mut ends = ends();
    let reply = ends.checker.reply(&ends.message, place(1, 1), at(0)).unwrap();
    let mut cookies = Cookies::default();
    for bit in 8 * 8..64 * 8 {
        let mut forged = reply;
        forged[bit / 8] ^= 1 << (bit % 8);
        assert!(!take(&mut cookies, &ends, place(2, 8288), &forged, at(0)), "bit {bit}");
    }
    // The reply to another message, with another mac1.
    let other = Ends {
        message: {
            let mut other = ends.message;
            other[120] ^= 1;
            other
        },
        ..self::ends()
    };
    assert!(!take(&mut cookies, &other, place(2, 8288), &reply, at(0)));
    assert_eq!(with_mac2(&ends, &cookies, at(0)), ends.message);
    assert!(take(&mut cookies, &ends, place(2, 8288), &reply, at(0)));
    assert_ne!(with_mac2(&ends, &cookies, at(0)), ends.message);
}

#[test]
fn fault_a16_every_bit_of_a_mac2_counts() {
    let mut ends = ends();
    let cookies = given(&mut ends, place(1, 1), at(0));
    let message = with_mac2(&ends, &cookies, at(0));
    for bit in 0..148 * 8 {
        let mut altered = message;
        altered[bit / 8] ^= 1 << (bit % 8);
        assert!(!ends.checker.proves_address(&altered, place(1, 1), at(0)), "bit {bit}");
    }
}

#[test]
fn a_bounded_number_of_cookies_is_kept_one_per_path() {
    let mut ends = ends();
    let mut cookies = Cookies::default();
    for port in 1..1_000 {
        let reply = ends.checker.reply(&ends.message, place(1, 1), at(0)).unwrap();
        assert!(take(&mut cookies, &ends, place(2, port), &reply, at(0)));
        assert!(take(&mut cookies, &ends, place(2, port), &reply, at(0)));
        assert!(cookies.kept.len() <= MAX_KEPT);
    }
    let mut message = ends.message;
    cookies.write_mac2(place(2, 5), &mut message, at(0));
    assert_eq!(message, ends.message, "pushed out");
    cookies.write_mac2(place(2, 999), &mut message, at(0));
    assert!(ends.checker.proves_address(&message, place(1, 1), at(0)));
}
