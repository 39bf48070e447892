use taut_base::LaneId;
use taut_wire::control::{Abilities, Suite};
use zeroize::Zeroizing;

use super::*;
use crate::exporter::Exporter;
use crate::session::SessionKeys;

const LIMITS: Limits = Limits::WIREGUARD;

fn keys(number: u32, role: Role) -> SessionKeys {
    let index = ReceiverIndex(number << 4);
    SessionKeys::stock(role, index, index, Zeroizing::new([1; 32]), Zeroizing::new([2; 32]))
}

fn session(number: u32, role: Role, born: Time) -> Session {
    Session::new(SessionId(u64::from(number)), keys(number, role), born)
}

/// Returns keys with a control pair, as between Taut nodes.
fn taut_keys(number: u32, role: Role) -> SessionKeys {
    let (state, index) = (taut_noise::Symmetric::new("a protocol", b""), ReceiverIndex(number << 4));
    SessionKeys { extension: Some(Exporter::of(&state, role, index, index)), ..keys(number, role) }
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn sends_with(ring: &mut Keyring, now: Time) -> Option<u64> {
    ring.sending(&LIMITS, now).ok().map(|session| session.id.0)
}

fn actions(ring: &mut Keyring, now: Time) -> Vec<KeyringAction> {
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
    assert!(ring.receiving(ReceiverIndex(1 << 4), &LIMITS, at(120)).is_some(), "the previous session still opens");
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
        // The agent learns of it, because it asks its questions in the session in use.
        assert_eq!(ring.received(SessionId(u64::from(answered)), true, &LIMITS, at(1)), answered == 1);
        assert!(!ring.received(SessionId(u64::from(answered)), true, &LIMITS, at(1)), "once");
        assert_eq!(sends_with(&mut ring, at(1)), Some(1));
    }

    // The same the other way round: the peer's session came into use first.
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    ring.add(session(2, Role::Responder, at(0)));
    assert!(ring.received(SessionId(2), true, &LIMITS, at(1)));
    assert_eq!(sends_with(&mut ring, at(1)), Some(2));
    assert!(ring.received(SessionId(1), true, &LIMITS, at(2)));
    assert_eq!(sends_with(&mut ring, at(2)), Some(1));

    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    ring.add(session(2, Role::Initiator, at(120)));
    ring.received(SessionId(1), true, &LIMITS, at(120));
    assert_eq!(sends_with(&mut ring, at(120)), Some(2), "a late packet of the former session changes nothing");
}

#[test]
fn which_of_two_is_used_is_the_same_on_all_lanes() {
    for lane in [LaneId::FIRST, LaneId(3)] {
        let mut ring = if lane == LaneId::FIRST { Keyring::new(None) } else { Keyring::for_extra_lane() };
        for (number, role) in [(1, Role::Responder), (2, Role::Initiator)] {
            let first = taut_keys(number, role);
            let name = Session::new(SessionId(0), taut_keys(number, role), at(0)).name();
            let keys = if lane == LaneId::FIRST { first } else { first.on_lane(lane).unwrap() };
            let session = Session::new(SessionId(u64::from(number)), keys, at(0));
            assert_eq!(session.name(), name);
            ring.add(session);
        }
        assert_eq!(sends_with(&mut ring, at(0)), Some(2));
        assert!(ring.confirm(SessionId(1)), "a packet of the session arrived on another lane");
        assert_eq!(sends_with(&mut ring, at(0)), Some(1));
        assert!(!ring.confirm(SessionId(2)));
    }
}

/// The peer seals with the session before both until it receives a packet in one of them.
#[test]
fn a_peer_that_renews_while_this_node_does_may_still_seal_with_the_session_before() {
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    ring.add(session(2, Role::Initiator, at(120)));
    // The peer sent this initiation before it received ours, and seals with session 1 until our response comes.
    ring.add(session(3, Role::Responder, at(121)));
    let mut opens = |number: u32| ring.receiving(ReceiverIndex(number << 4), &LIMITS, at(121)).is_some();
    assert_eq!([1, 2, 3].map(&mut opens), [true; 3]);
    // Handshakes that are further apart have not crossed.
    ring.add(session(4, Role::Responder, at(140)));
    assert!(ring.receiving(ReceiverIndex(1 << 4), &LIMITS, at(140)).is_none());
}

#[test]
fn while_handshakes_cross_the_session_before_them_still_opens() {
    let opens = |ring: &mut Keyring, now| {
        (1..=5_u32)
            .filter(|number| ring.receiving(ReceiverIndex(number << 4), &LIMITS, now).is_some())
            .collect::<Vec<_>>()
    };
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    ring.add(session(2, Role::Responder, at(120)));
    ring.add(session(3, Role::Initiator, at(120)));
    assert_eq!((opens(&mut ring, at(120)), ring.take_retired()), (vec![1, 2, 3], vec![]));
    assert_eq!(opens(&mut ring, at(180)), [2, 3], "the earlier session expires after 180 s as usual");
    assert!(actions(&mut ring, at(180)).is_empty());
    assert_eq!(ring.take_retired().len(), 1);

    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Responder, at(0)));
    ring.confirm(SessionId(1));
    ring.add(session(2, Role::Responder, at(100)));
    ring.add(session(3, Role::Initiator, at(100)));
    ring.received(SessionId(2), true, &LIMITS, at(100));
    assert_eq!(opens(&mut ring, at(100)), [1, 2, 3]);
    ring.add(session(4, Role::Responder, at(102)));
    assert_eq!(
        opens(&mut ring, at(102)),
        [2, 3, 4],
        "at most three sessions are kept, and the peer may use either of the two that crossed"
    );
    ring.confirm(SessionId(4));
    assert_eq!((opens(&mut ring, at(102)), ring.take_retired().len()), (vec![2, 3, 4], 1));
    ring.add(session(5, Role::Responder, at(200)));
    assert_eq!((opens(&mut ring, at(200)), ring.take_retired().len()), (vec![4, 5], 2));

    // This node was initiator, responder and initiator again. The peer may use the session in which this node was the responder, and does if its name
    // is the smallest.
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Responder, at(0)));
    ring.add(session(3, Role::Initiator, at(0)));
    ring.add(session(2, Role::Initiator, at(1)));
    assert_eq!((opens(&mut ring, at(1)), ring.take_retired()), (vec![1, 2, 3], vec![]));
    assert!(ring.received(SessionId(1), true, &LIMITS, at(1)));
    assert_eq!(sends_with(&mut ring, at(1)), Some(1));
    ring.add(session(5, Role::Initiator, at(120)));
    assert_eq!(
        opens(&mut ring, at(120)),
        [1, 3, 5],
        "the newest one, and two that crossed, of which the peer may use either"
    );
    assert_eq!(ring.take_retired().len(), 1);
}

/// Two minutes ago handshakes crossed, and this node has sent nothing since, so the peer does not know that this node uses session 2.
#[test]
fn a_peer_that_heard_nothing_since_handshakes_crossed_is_still_understood_while_this_node_renews() {
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Responder, at(0)));
    ring.add(session(2, Role::Initiator, at(0)));
    ring.add(session(3, Role::Initiator, at(120)));
    assert!([1, 2, 3].iter().all(|number| ring.receiving(ReceiverIndex(number << 4), &LIMITS, at(120)).is_some()));
    assert_eq!(sends_with(&mut ring, at(120)), Some(3));
    ring.add(session(4, Role::Initiator, at(240)));
    assert!(ring.receiving(ReceiverIndex(1 << 4), &LIMITS, at(240)).is_none());
}

/// A restarted peer may have other lanes than it told in the session before.
#[test]
fn on_an_extra_lane_the_previous_session_seals_until_the_peer_told_its_lanes_in_the_next() {
    let agree = |ring: &mut Keyring, id| {
        ring.session(SessionId(id)).unwrap().use_suite(Suite::ChaCha20Poly1305, Abilities::OURS);
    };
    let mut ring = Keyring::for_extra_lane();
    ring.add(session(1, Role::Initiator, at(0)));
    assert_eq!(sends_with(&mut ring, at(0)), Some(1), "the only session");
    agree(&mut ring, 1);
    ring.add(session(2, Role::Responder, at(120)));
    assert!(ring.confirm(SessionId(2)));
    assert_eq!(sends_with(&mut ring, at(120)), Some(1));
    ring.sent(true, &LIMITS, at(120));
    ring.received_control(SessionId(2), &LIMITS, at(121));
    assert!(
        actions(&mut ring, at(122)).contains(&KeyringAction::AbandonLane),
        "nothing acknowledges data of the previous session"
    );
    agree(&mut ring, 2);
    assert_eq!(sends_with(&mut ring, at(122)), Some(2));

    ring.add(session(3, Role::Initiator, at(240)));
    assert_eq!(sends_with(&mut ring, at(240)), Some(2));
    assert_eq!(sends_with(&mut ring, at(120 + 180)), Some(3), "the previous session is too old to seal with");

    let mut first = Keyring::new(None);
    first.add(session(1, Role::Initiator, at(0)));
    agree(&mut first, 1);
    first.add(session(2, Role::Initiator, at(120)));
    assert_eq!(sends_with(&mut first, at(120)), Some(2), "the first lane uses a new session at once");
}

/// A Taut peer that sends in another session may not have the one that this node seals with; stock WireGuard acknowledges nothing.
#[test]
fn only_a_packet_in_the_session_that_seals_counts_as_an_answer() {
    for (taut, wish) in [(true, vec![KeyringAction::Handshake]), (false, vec![])] {
        let mut ring = Keyring::new(None);
        for number in [1, 2] {
            let keys = if taut { taut_keys(number, Role::Initiator) } else { keys(number, Role::Initiator) };
            ring.add(Session::new(SessionId(u64::from(number)), keys, at(0)));
        }
        ring.sent(true, &LIMITS, at(1));
        ring.received(SessionId(1), true, &LIMITS, at(2));
        let mut seen = actions(&mut ring, at(17));
        seen.retain(|wish| *wish == KeyringAction::Handshake);
        assert_eq!(seen, wish, "taut: {taut}");
        ring.sent(true, &LIMITS, at(20));
        ring.received(SessionId(2), false, &LIMITS, at(21));
        assert!(!actions(&mut ring, at(40)).contains(&KeyringAction::Handshake), "taut: {taut}");
    }
}

/// Each session between Taut nodes has a control pair of its own.
#[test]
fn control_messages_open_under_every_session_that_is_held() {
    let taut = |number, role| {
        let keys = taut_keys(number, role);
        let control = keys.indices().control.unwrap();
        (control, Session::new(SessionId(u64::from(number)), keys, at(10 * u64::from(number))))
    };
    let mut ring = Keyring::new(None);
    let mut indices = Vec::new();
    for (number, role) in [(1, Role::Initiator), (2, Role::Initiator), (3, Role::Initiator), (4, Role::Responder)] {
        let (index, session) = taut(number, role);
        indices.push(index);
        ring.add(session);
    }
    let opened = |ring: &mut Keyring, index| Some(ring.control(index, &LIMITS, at(41))?.0.0);
    let held = indices.iter().map(|index| opened(&mut ring, *index)).collect::<Vec<_>>();
    assert_eq!(held, [None, None, Some(3), Some(4)], "a session as responder replaces the oldest session");
    assert!(ring.received_control(SessionId(4), &LIMITS, at(42)));
    assert_eq!(opened(&mut ring, indices[2]), Some(3), "the previous session still opens");
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
    assert!(!ring.needs_handshake_to_send(&LIMITS, at(119)));
    assert!(ring.needs_handshake_to_send(&LIMITS, at(120)));
    assert!(!ring.needs_handshake_to_send(&LIMITS, at(120)), "less than a second after the last request");
    assert!(ring.needs_handshake_to_send(&LIMITS, at(121)));

    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Responder, at(0)));
    ring.received(SessionId(1), true, &LIMITS, at(0));
    assert!(!ring.needs_handshake_to_send(&LIMITS, at(178)));
    assert!(ring.needs_handshake_to_send(&LIMITS, at(179)), "too old to seal at all");
}

#[test]
fn a_node_that_only_receives_renews_before_the_end() {
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    assert!(!ring.needs_handshake_to_receive(&LIMITS, at(164)));
    assert!(ring.needs_handshake_to_receive(&LIMITS, at(165)));
}

#[test]
fn nothing_is_sealed_or_opened_after_180_seconds() {
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    assert_eq!(sends_with(&mut ring, at(178)), Some(1));
    assert_eq!(
        sends_with(&mut ring, at(179)),
        None,
        "the peer may have received the response long before, and stop opening soon"
    );
    assert!(ring.receiving(ReceiverIndex(16), &LIMITS, at(179)).is_some());
    assert!(ring.receiving(ReceiverIndex(16), &LIMITS, at(180)).is_none());
    assert_eq!(sends_with(&mut ring, at(180)), None);
    assert_eq!(ring.poll_timeout(&LIMITS), Some(at(180)));
    assert!(actions(&mut ring, at(180)).is_empty());
    let indices = SessionIndices { stock: ReceiverIndex(16), control: None, fast: [None; 2] };
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
    assert!(actions(&mut ring, at(10)).is_empty());
    assert_eq!(actions(&mut ring, at(11)), [KeyringAction::Keepalive]);
    assert!(actions(&mut ring, at(60)).is_empty());

    ring.received(SessionId(1), true, &LIMITS, at(61));
    ring.sent(true, &LIMITS, at(62));
    assert!(!actions(&mut ring, at(75)).contains(&KeyringAction::Keepalive), "data is an answer, too");
}

#[test]
fn keepalives_are_not_answered() {
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    ring.received(SessionId(1), false, &LIMITS, at(1));
    assert!(actions(&mut ring, at(100)).is_empty());
}

#[test]
fn data_without_answer_for_fifteen_seconds_asks_for_a_new_session() {
    let mut ring = Keyring::new(None);
    ring.add(session(1, Role::Initiator, at(0)));
    ring.sent(true, &LIMITS, at(1));
    ring.sent(true, &LIMITS, at(9));
    assert!(actions(&mut ring, at(15)).is_empty());
    assert_eq!(actions(&mut ring, at(16)), [KeyringAction::Handshake]);

    ring.add(session(2, Role::Initiator, at(20)));
    ring.sent(true, &LIMITS, at(20));
    ring.received(SessionId(2), false, &LIMITS, at(30));
    assert!(actions(&mut ring, at(60)).is_empty(), "a keepalive is an answer");
}

#[test]
fn persistent_keepalives_come_whatever_happens() {
    let mut ring = Keyring::new(Some(Duration::from_secs(25)));
    ring.add(session(1, Role::Initiator, at(0)));
    ring.sent(false, &LIMITS, at(0));
    assert_eq!(actions(&mut ring, at(25)), [KeyringAction::Keepalive]);
    assert_eq!(ring.poll_timeout(&LIMITS), Some(at(50)));
}
