//! WireGuard's timers at their exact instants (paper, section 6): nothing happens a nanosecond before. And their rhythm over ten simulated years.
#![expect(clippy::panic, reason = "the helpers of tests may stop at the first surprise, as tests do")]

use std::time::Duration;

use taut_base::{ReceiverIndex, SessionId, Time};
use taut_tunnel::{
    Attempt, AttemptAction, Keyring, KeyringAction, Limits, REJECT_AFTER_MESSAGES, REKEY_AFTER_MESSAGES, Retry, Role,
    Session, SessionKeys,
};

const LIMITS: Limits = Limits::WIREGUARD;
const INDEX: ReceiverIndex = ReceiverIndex(16);
const NANOSECOND: Duration = Duration::from_nanos(1);
/// Start of the tests: some uptime, not a round number.
const BOOT: Time = Time(123_456_789_012_345);

fn session(number: u64, role: Role, born: Time) -> Session {
    let index = ReceiverIndex(u32::try_from(number % (1 << 27)).map_or(0, |number| number << 4));
    let keys = SessionKeys::stock(role, index, index, [1; 32].into(), [2; 32].into());
    Session::new(SessionId(number), keys, born)
}

/// Returns a keyring whose only session starts now and is in use.
fn ring(role: Role) -> Keyring {
    let mut ring = Keyring::new(None);
    ring.add(session(1, role, BOOT));
    if role == Role::Responder {
        assert!(
            ring.received(SessionId(1), false, &LIMITS, BOOT),
            "an empty packet confirms it and asks for no answer"
        );
    }
    ring
}

fn wishes(ring: &mut Keyring, now: Time) -> Vec<KeyringAction> {
    let mut wishes = Vec::new();
    ring.handle_timeout(&LIMITS, now, |wish| wishes.push(wish));
    wishes
}

/// An event that a keyring has at an instant, checked on a fresh keyring.
type Asked = fn(Time) -> bool;

/// The paper's rule, the seconds after which it applies, and the check.
const INSTANTS: [(&str, u64, Asked); 12] = [
    ("6.2: Rekey-After-Time, the initiator that sends makes a new session", 120, |now| {
        ring(Role::Initiator).needs_handshake_to_send(&LIMITS, now)
    }),
    // The paper seals until 180 s. Here a session seals for a second less, so that what is on the way at the end is still opened.
    (
        "6.2: the responder makes none by age; Reject-After-Time less 1 s makes it the one without a session",
        179,
        |now| ring(Role::Responder).needs_handshake_to_send(&LIMITS, now),
    ),
    ("6.2: the initiator that receives, Reject-After-Time less Keepalive-Timeout less Rekey-Timeout", 165, |now| {
        ring(Role::Initiator).needs_handshake_to_receive(&LIMITS, now)
    }),
    ("6.2: Reject-After-Time less 1 s, nothing is sealed", 179, |now| {
        ring(Role::Initiator).sending(&LIMITS, now).is_err()
    }),
    ("6.2: Reject-After-Time less 1 s, nothing is sealed by the responder", 179, |now| {
        ring(Role::Responder).sending(&LIMITS, now).is_err()
    }),
    ("6.2: Reject-After-Time, nothing is opened", 180, |now| {
        ring(Role::Initiator).receiving(INDEX, &LIMITS, now).is_none()
    }),
    ("6.2: Reject-After-Time, nothing is opened by the responder", 180, |now| {
        ring(Role::Responder).receiving(INDEX, &LIMITS, now).is_none()
    }),
    // The paper keeps an unusable session until 3 * Reject-After-Time, 540 s; here it is removed when it becomes unusable.
    ("6.3: keys are erased, at Reject-After-Time already", 180, |now| {
        let mut ring = ring(Role::Initiator);
        wishes(&mut ring, now);
        !ring.take_retired().is_empty()
    }),
    ("6.3: keys that the peer never used are erased, too", 180, |now| {
        let mut ring = Keyring::new(None);
        ring.add(session(1, Role::Responder, BOOT));
        wishes(&mut ring, now);
        !ring.take_retired().is_empty()
    }),
    ("6.5: Keepalive-Timeout after data that was not answered, an empty packet", 10, |now| {
        let mut ring = ring(Role::Initiator);
        ring.received(SessionId(1), true, &LIMITS, BOOT);
        wishes(&mut ring, now) == [KeyringAction::Keepalive]
    }),
    ("6.5: Keepalive-Timeout plus Rekey-Timeout after data without an answer, a new session", 15, |now| {
        let mut ring = ring(Role::Initiator);
        ring.sent(true, &LIMITS, BOOT);
        wishes(&mut ring, now) == [KeyringAction::Handshake]
    }),
    ("persistent keepalive, as configured", 25, |now| {
        let mut ring = Keyring::new(Some(Duration::from_secs(25)));
        ring.add(session(1, Role::Initiator, BOOT));
        ring.sent(false, &LIMITS, BOOT);
        wishes(&mut ring, now) == [KeyringAction::Keepalive]
    }),
];

#[test]
fn fault_m8_each_timer_of_the_paper_fires_at_its_exact_instant() {
    for (what, seconds, asked) in INSTANTS {
        let instant = BOOT + Duration::from_secs(seconds);
        let before = Time(instant.0 - 1);
        assert_eq!([asked(before), asked(instant), asked(instant + NANOSECOND)], [false, true, true], "{what}");
    }
}

/// A caller that sleeps until [`Keyring::poll_timeout`] wakes up neither early nor late.
#[test]
fn the_next_instant_is_told_before_it_comes() {
    let at = |seconds| Some(BOOT + Duration::from_secs(seconds));
    let mut ring = ring(Role::Initiator);
    assert_eq!(ring.poll_timeout(&LIMITS), at(180));
    ring.sent(true, &LIMITS, BOOT);
    assert_eq!(ring.poll_timeout(&LIMITS), at(15));
    ring.received(SessionId(1), true, &LIMITS, BOOT);
    assert_eq!(ring.poll_timeout(&LIMITS), at(10), "an answer came, and is owed one");
    ring.sent(false, &LIMITS, BOOT);
    assert_eq!(ring.poll_timeout(&LIMITS), at(180), "an empty packet waits for no answer");
}

#[test]
fn the_limits_of_messages_are_the_papers() {
    assert_eq!(REKEY_AFTER_MESSAGES, 1 << 60);
    assert_eq!(u128::from(REJECT_AFTER_MESSAGES), (1_u128 << 64) - (1 << 13) - 1);
}

/// Returns the times at which an attempt sends and at which it gives up, in milliseconds after its start, with the smallest or the largest jitter.
fn tries(retry: Retry, jitter: u8) -> (Vec<u64>, u64) {
    let mut entropy = |bytes: &mut [u8]| bytes.fill(jitter);
    let mut attempt = Attempt::start(retry, &LIMITS, BOOT);
    let mut sent = Vec::new();
    for _ in 0..100 {
        let now = attempt.poll_timeout();
        let after = u64::try_from(now.since(BOOT).as_millis()).unwrap_or(u64::MAX);
        if after > 0 {
            assert_eq!(
                attempt.handle_timeout(&LIMITS, &mut entropy, Time(now.0 - 1)),
                AttemptAction::Wait,
                "not before"
            );
        }
        match attempt.handle_timeout(&LIMITS, &mut entropy, now) {
            AttemptAction::SendInitiation => sent.push(after),
            AttemptAction::GiveUp => return (sent, after),
            AttemptAction::Wait => panic!("{after} ms was announced, and nothing is due"),
        }
    }
    panic!("it never gives up");
}

#[test]
fn a_stock_peer_is_asked_by_rekey_timeout_with_jitter_for_rekey_attempt_time() {
    // 6.4: Rekey-Timeout 5 s, and up to a third of a second more, for Rekey-Attempt-Time 90 s.
    let every = |step: u64| (0..90_000).step_by(usize::try_from(step).unwrap_or(1)).collect::<Vec<u64>>();
    assert_eq!(tries(Retry::Stock, 0), (every(5_000), 90_000));
    assert_eq!(tries(Retry::Stock, 0xff), (every(5_333), 90_000));
}

#[test]
fn a_taut_peer_is_asked_sooner_and_for_as_long() {
    // protocol.md 2.2: 250 ms, doubling to 5 s; the jitter is a quarter of the interval, and never more than the paper's.
    let (sent, given_up) = tries(Retry::Taut, 0);
    assert_eq!((sent[..7].to_vec(), given_up), (vec![0, 250, 750, 1_750, 3_750, 7_750, 12_750], 90_000));
    let (sent, given_up) = tries(Retry::Taut, 0xff);
    assert_eq!((sent[..6].to_vec(), given_up), (vec![0, 312, 937, 2_187, 4_520, 8_853], 90_000));
    assert!(sent[6..].windows(2).all(|pair| pair[1] - pair[0] == 5_333), "{sent:?}");
}

/// Ten years of an initiator that sends a packet a minute and receives one: a session every two minutes, 2,628,000 of them.
#[test]
fn fault_m8_ten_years_of_renewals_neither_drift_nor_gather_anything() {
    let (minute, years) = (Duration::from_secs(60), 2_629_800);
    let start = Time(u64::from(u32::MAX));
    let mut ring = Keyring::new(None);
    let (mut now, mut made, mut gone) = (start, 0, 0);
    for number in 0..2 * years {
        now = Time(start.0 + number * 60_000_000_000);
        if ring.needs_handshake_to_send(&LIMITS, now) {
            assert_eq!(now.since(start), Duration::from_secs(120) * u32::try_from(made).unwrap_or(0), "session {made}");
            ring.add(session(made, Role::Initiator, now));
            made += 1;
        }
        let Ok(session) = ring.sending(&LIMITS, now) else { panic!("minute {number} has no session") };
        let id = session.id;
        ring.sent(true, &LIMITS, now);
        ring.received(id, true, &LIMITS, now);
        // The deadline is the answer's, or the end of the session before.
        assert!(ring.poll_timeout(&LIMITS).is_some_and(|due| now <= due && due <= now + LIMITS.keepalive));
        assert_eq!(wishes(&mut ring, now + LIMITS.keepalive), [KeyringAction::Keepalive]);
        ring.sent(false, &LIMITS, now + LIMITS.keepalive);
        gone += ring.take_retired().len() as u64;
        assert!(made - gone <= 2, "{} sessions are held", made - gone);
    }
    assert_eq!(made, years);
    assert_eq!(now.since(start), minute * u32::try_from(2 * years - 1).unwrap_or(0));
}

/// The largest time, 584 years after boot: later deadlines are never reached, and nothing panics, repeats or opens again.
#[test]
fn fault_m8_at_the_end_of_counting_time_nothing_wraps() {
    let end = Time(u64::MAX);
    let born = Time(u64::MAX - 100_000_000_000);
    let mut ring = Keyring::new(Some(Duration::from_secs(25)));
    ring.add(session(1, Role::Initiator, born));
    assert!(!ring.needs_handshake_to_send(&LIMITS, Time(u64::MAX - 1)), "it is not 100 s old");
    assert!(ring.sending(&LIMITS, Time(u64::MAX - 1)).is_ok());
    assert!(ring.sending(&LIMITS, end).is_err(), "in the last nanosecond everything is due");
    ring.sent(true, &LIMITS, Time(u64::MAX - 1));
    ring.received(SessionId(1), true, &LIMITS, Time(u64::MAX - 1));
    assert_eq!(ring.poll_timeout(&LIMITS), Some(end), "never before now");
    assert!(wishes(&mut ring, Time(u64::MAX - 1)).is_empty());
    let mut attempt = Attempt::start(Retry::Stock, &LIMITS, Time(u64::MAX - 1));
    assert_eq!(
        attempt.handle_timeout(&LIMITS, &mut |bytes: &mut [u8]| bytes.fill(0xff), Time(u64::MAX - 1)),
        AttemptAction::SendInitiation
    );
    assert_eq!(attempt.poll_timeout(), end);
    assert_eq!(attempt.handle_timeout(&LIMITS, &mut |bytes: &mut [u8]| bytes.fill(0xff), end), AttemptAction::GiveUp);
}
