//! An attempt at a handshake: when to send an initiation (again), and when to give up (paper, section 6.4; protocol.md 2.2).

use std::time::Duration;

use taut_base::{Entropy, Time};

use crate::limits::Limits;

/// First interval between tries with a Taut peer, doubled each time up to the stock interval (protocol.md 2.2).
const TAUT_FIRST_RETRY: Duration = Duration::from_millis(250);

/// Random part of an interval, so that two ends that started together do not stay together (paper, section 6.1: 334 ms at most).
const MAX_JITTER_MS: u32 = 333;

/// How a peer likes to be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Every 5 s, as stock WireGuard does: native peers limit how many they answer.
    Stock,
    /// After 250 ms, doubling to 5 s.
    Taut,
}

/// One attempt at a handshake, from the first initiation to the last.
pub struct Attempt {
    retry: Retry,
    interval: Duration,
    give_up: Time,
    next: Time,
}

/// What an attempt wants at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptAction {
    /// Nothing yet.
    Wait,
    /// Send an initiation: a new one, or the last one again while it is young enough for the same response (protocol.md 2.1).
    SendInitiation,
    /// Stop: nobody answered for [`Limits::attempt`].
    GiveUp,
}

impl Attempt {
    /// Starts an attempt; the first initiation is due at once.
    pub fn start(retry: Retry, limits: &Limits, now: Time) -> Self {
        let interval = match retry {
            Retry::Stock => limits.retry,
            Retry::Taut => TAUT_FIRST_RETRY,
        };
        Self { retry, interval, give_up: now + limits.attempt, next: now }
    }

    /// What is due now. After [`AttemptAction::SendInitiation`] the next one is scheduled.
    pub fn handle_timeout(&mut self, limits: &Limits, entropy: &mut impl Entropy, now: Time) -> AttemptAction {
        if now < self.next {
            return AttemptAction::Wait;
        }
        if now >= self.give_up {
            return AttemptAction::GiveUp;
        }
        // A Taut peer's first intervals are shorter than the stock jitter: a quarter of the interval keeps their shape.
        let most = u32::try_from(self.interval.as_millis() / 4).unwrap_or(MAX_JITTER_MS).min(MAX_JITTER_MS);
        let jitter = Duration::from_millis(u64::from(entropy.below(most + 1)));
        self.next = (now + self.interval + jitter).min(self.give_up);
        if self.retry == Retry::Taut {
            self.interval = (self.interval * 2).min(limits.retry);
        }
        AttemptAction::SendInitiation
    }

    /// When [`Self::handle_timeout`] has something to say.
    pub fn poll_timeout(&self) -> Time {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries(retry: Retry) -> Vec<u64> {
        let limits = Limits::WIREGUARD;
        let mut no_jitter = |bytes: &mut [u8]| bytes.fill(0);
        let mut attempt = Attempt::start(retry, &limits, Time::ZERO);
        let mut sent = Vec::new();
        loop {
            let now = attempt.poll_timeout();
            match attempt.handle_timeout(&limits, &mut no_jitter, now) {
                AttemptAction::SendInitiation => sent.push(now.0 / 1_000_000),
                AttemptAction::GiveUp => return sent,
                AttemptAction::Wait => panic!("asked for {now:?}, then had nothing to do"),
            }
        }
    }

    #[test]
    fn stock_peers_are_asked_every_five_seconds_for_ninety() {
        let sent = tries(Retry::Stock);
        assert_eq!(sent[..3], [0, 5_000, 10_000]);
        assert_eq!(sent.len(), 18);
    }

    #[test]
    fn taut_peers_are_asked_sooner_first() {
        let sent = tries(Retry::Taut);
        assert_eq!(sent[..6], [0, 250, 750, 1_750, 3_750, 7_750]);
        assert_eq!(sent[6], 12_750);
    }
}
