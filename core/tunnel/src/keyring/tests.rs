use taut_wire::control::{Abilities, Suite};
use zeroize::Zeroizing;

use super::*;
use crate::exporter::Exporter;
use crate::session::SessionKeys;

const LIMITS: Limits = Limits::WIREGUARD;

fn session(number: u32, role: Role, born: Time) -> Session {
    let index = ReceiverIndex(number << 4);
    let keys = SessionKeys::stock(role, index, index, Zeroizing::new([1; 32]), Zeroizing::new([2; 32]));
    Session::new(SessionId(u64::from(number)), keys, born)
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn sends_with(ring: &mut Keyring, now: Time) -> Option<u64> {
    ring.sending(&LIMITS, now).ok().map(|session| session.id.0)
}

fn wishes(ring: &mut Keyring, now: Time) -> Vec<Wish> {
    let mut wishes = Vec::new();
    ring.handle_timeout(&LIMITS, now, |wish| wishes.push(wish));
    wishes
}

#[test]
fn a_session_we_started_is_used_at_once() {
    let mut ring = Keyring::new(None);
    assert_eq!(sends_with(&mut ring, at(0)), None);
    ring.add(session(1, Role::Initiator, at(0)));
    assert_eq!(sends_with(&mut ring, at(0)), Some(1));
    ring.add(session(2, Role::Initiator, at(120)));
    assert_eq!(sends_with(&mut ring, at(120)), Some(2));
    assert!(ring.receiving(ReceiverIndex(1 << 4), &LIMITS, at(120)).is_some(), "the previous one still opens");
}

#[test]
fn a_session_we_answered_for_waits_for_the_peer() {
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    ring.add(session(2, Role::Responder, at(10)));
    assert_eq!(sends_with(&mut ring, at(10)), Some(1));
    assert!(!ring.received(SessionId(1), true, &LIMITS, at(11)));
    assert!(ring.received(SessionId(2), true, &LIMITS, at(12)));
    assert_eq!(sends_with(&mut ring, at(12)), Some(2));
    assert!(ring.receiving(ReceiverIndex(1 << 4), &LIMITS, at(12)).is_some());
}

#[test]
fn of_two_sessions_that_crossed_the_one_with_the_smaller_name_is_used() {
    for (answered, started) in [(1, 2), (2, 1)] {
        let mut ring = Keyring::new(None);
        ring.add(session(answered, Role::Responder, at(0)));
        ring.add(session(started, Role::Initiator, at(0)));
        assert_eq!(sends_with(&mut ring, at(0)), Some(u64::from(started)));
        assert!(!ring.received(SessionId(u64::from(answered)), true, &LIMITS, at(1)));
        assert_eq!(sends_with(&mut ring, at(1)), Some(1));
    }

    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    ring.add(session(2, Role::Initiator, at(120)));
    ring.received(SessionId(1), true, &LIMITS, at(120));
    assert_eq!(sends_with(&mut ring, at(120)), Some(2), "a late packet of the former session changes nothing");
}

/// What the peer said of its lanes in the former session may not be so any more.
#[test]
fn on_a_further_lane_the_former_session_seals_until_the_peer_told_its_lanes_in_the_next() {
    let agree = |ring: &mut Keyring, id| {
        ring.session(SessionId(id)).unwrap().use_suite(Suite::ChaCha20Poly1305, Abilities::OURS);
    };
    let mut ring = Keyring::further();
    ring.add(session(1, Role::Initiator, at(0)));
    assert_eq!(sends_with(&mut ring, at(0)), Some(1), "there is no other");
    agree(&mut ring, 1);
    ring.add(session(2, Role::Responder, at(120)));
    assert!(ring.confirm(SessionId(2)));
    assert_eq!(sends_with(&mut ring, at(120)), Some(1));
    ring.sent(true, &LIMITS, at(120));
    ring.received_control(SessionId(2), &LIMITS, at(121));
    assert!(wishes(&mut ring, at(122)).contains(&Wish::GiveUp), "nothing says that the former one is heard");
    agree(&mut ring, 2);
    assert_eq!(sends_with(&mut ring, at(122)), Some(2));

    ring.add(session(3, Role::Initiator, at(240)));
    assert_eq!(sends_with(&mut ring, at(240)), Some(2));
    assert_eq!(sends_with(&mut ring, at(120 + 180)), Some(3), "it is too old to be sent with");

    let mut first = Keyring::new(None);
    first.add(session(1, Role::Initiator, at(0)));
    agree(&mut first, 1);
    first.add(session(2, Role::Initiator, at(120)));
    assert_eq!(sends_with(&mut first, at(120)), Some(2), "on the first lane nothing waits");
}

/// Each session between Taut nodes has a control pair of its own.
#[test]
fn control_messages_open_under_every_session_that_is_held() {
    let state = taut_noise::Symmetric::new("a protocol", b"");
    let taut = |number: u32, role| {
        let index = ReceiverIndex(number << 4);
        let mut keys = SessionKeys::stock(role, index, index, Zeroizing::new([1; 32]), Zeroizing::new([2; 32]));
        keys.extension = Some(Exporter::of(&state, role, index, index));
        let control = keys.indices().control.unwrap();
        (control, Session::new(SessionId(u64::from(number)), keys, at(0)))
    };
    let mut ring = Keyring::new(None);
    let mut indices = Vec::new();
    for (number, role) in [(1, Role::Initiator), (2, Role::Initiator), (3, Role::Initiator), (4, Role::Responder)] {
        let (index, session) = taut(number, role);
        indices.push(index);
        ring.add(session);
    }
    let opened = |ring: &mut Keyring, index| Some(ring.control(index, &LIMITS, at(1))?.0.0);
    let held = indices.iter().map(|index| opened(&mut ring, *index)).collect::<Vec<_>>();
    assert_eq!(held, [None, None, Some(3), Some(4)], "an answered one pushes the previous one out");
    assert!(ring.received_control(SessionId(4), &LIMITS, at(2)));
    assert_eq!(opened(&mut ring, indices[2]), Some(3), "the previous one");
    assert_eq!(opened(&mut ring, ReceiverIndex(9)), None);
}

#[test]
fn at_most_three_are_held_and_each_other_one_is_retired() {
    let mut ring = Keyring::new(None);
    let mut retired = Vec::new();
    for number in 1..=20 {
        let role = if number % 3 == 0 { Role::Initiator } else { Role::Responder };
        ring.add(session(number, role, at(0)));
        if number % 5 == 0 {
            ring.received(SessionId(u64::from(number)), true, &LIMITS, at(0));
        }
        retired.extend(ring.take_retired());
        let held =
            (1..=20).filter(|number| ring.receiving(ReceiverIndex(number << 4), &LIMITS, at(0)).is_some()).count();
        assert_eq!(held + retired.len(), usize::try_from(number).unwrap());
        assert!(held <= 3);
    }
}

#[test]
fn only_the_initiator_renews_by_age_and_only_when_it_sends() {
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    assert!(!ring.wishes_handshake_to_send(&LIMITS, at(119)));
    assert!(ring.wishes_handshake_to_send(&LIMITS, at(120)));
    assert!(!ring.wishes_handshake_to_send(&LIMITS, at(120)), "the wish stands");
    assert!(ring.wishes_handshake_to_send(&LIMITS, at(121)));

    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Responder, at(0)));
    ring.received(SessionId(1), true, &LIMITS, at(0));
    assert!(!ring.wishes_handshake_to_send(&LIMITS, at(179)));
    assert!(ring.wishes_handshake_to_send(&LIMITS, at(180)), "too old to seal at all");
}

#[test]
fn who_only_receives_renews_before_the_end() {
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    assert!(!ring.wishes_handshake_to_receive(&LIMITS, at(164)));
    assert!(ring.wishes_handshake_to_receive(&LIMITS, at(165)));
}

#[test]
fn nothing_is_sealed_or_opened_after_180_seconds() {
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    assert!(ring.receiving(ReceiverIndex(16), &LIMITS, at(179)).is_some());
    assert!(ring.receiving(ReceiverIndex(16), &LIMITS, at(180)).is_none());
    assert_eq!(sends_with(&mut ring, at(180)), None);
    assert_eq!(ring.poll_timeout(&LIMITS), Some(at(180)));
    assert!(wishes(&mut ring, at(180)).is_empty());
    let indices = SessionIndices { stock: ReceiverIndex(16), control: None, fast: None };
    assert_eq!(ring.take_retired(), [(SessionId(1), indices)]);
    assert_eq!(ring.poll_timeout(&LIMITS), None);
}

#[test]
fn received_data_is_answered_after_ten_silent_seconds() {
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    ring.received(SessionId(1), true, &LIMITS, at(1));
    ring.received(SessionId(1), true, &LIMITS, at(5));
    assert_eq!(ring.poll_timeout(&LIMITS), Some(at(11)));
    assert!(wishes(&mut ring, at(10)).is_empty());
    assert_eq!(wishes(&mut ring, at(11)), [Wish::Keepalive]);
    assert!(wishes(&mut ring, at(60)).is_empty());

    ring.received(SessionId(1), true, &LIMITS, at(61));
    ring.sent(true, &LIMITS, at(62));
    assert!(!wishes(&mut ring, at(75)).contains(&Wish::Keepalive), "data is an answer, too");
}

#[test]
fn keepalives_are_not_answered() {
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    ring.received(SessionId(1), false, &LIMITS, at(1));
    assert!(wishes(&mut ring, at(100)).is_empty());
}

#[test]
fn data_without_answer_for_fifteen_seconds_wants_a_new_session() {
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    ring.sent(true, &LIMITS, at(1));
    ring.sent(true, &LIMITS, at(9));
    assert!(wishes(&mut ring, at(15)).is_empty());
    assert_eq!(wishes(&mut ring, at(16)), [Wish::Handshake]);

    ring.add(session(2, Role::Initiator, at(20)));
    ring.sent(true, &LIMITS, at(20));
    ring.received(SessionId(2), false, &LIMITS, at(30));
    assert!(wishes(&mut ring, at(60)).is_empty(), "a keepalive is an answer");
}

#[test]
fn persistent_keepalives_come_whatever_happens() {
    let mut ring = Keyring::new(Some(Duration::from_secs(25)));
    ring.add(session(1, Role::Initiator, at(0)));
    ring.sent(false, &LIMITS, at(0));
    assert_eq!(wishes(&mut ring, at(25)), [Wish::Keepalive]);
    assert_eq!(ring.poll_timeout(&LIMITS), Some(at(50)));
}
