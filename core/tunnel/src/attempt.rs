//! An attempt at a handshake: when to send and retransmit an initiation, and when to give up (paper, section 6.4; protocol.md 2.2).

use std::time::Duration;

use taut_base::{Entropy, Time};

use crate::limits::Limits;

/// First retransmission interval with a Taut peer, 250 ms; it doubles up to the stock interval (protocol.md 2.2).
const TAUT_FIRST_RETRY: Duration = Duration::from_millis(250);

/// Largest random part of an interval, 333 ms, so that two nodes that start at once do not stay in step (paper, section 6.1).
const MAX_JITTER_MS: u32 = 333;

/// Back-off between initiations, by the kind of peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Every 5 s, as stock WireGuard: native peers limit the rate of initiations that they answer.
    Stock,
    /// 250 ms first, doubling to 5 s.
    Taut,
}

/// One attempt at a handshake, from its first initiation to its last.
pub struct Attempt {
    retry: Retry,
    interval: Duration,
    give_up: Time,
    next: Time,
}

/// What the caller has to do for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptAction {
    /// Nothing is due.
    Wait,
    /// Send an initiation: a new one, or the last one again while a response to it is still accepted (protocol.md 2.1).
    SendInitiation,
    /// Give up: no response came within [`Limits::attempt`].
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

    /// Returns what is due now. [`AttemptAction::SendInitiation`] schedules the next initiation.
    pub fn handle_timeout(&mut self, limits: &Limits, entropy: &mut impl Entropy, now: Time) -> AttemptAction {
        if now < self.next {
            return AttemptAction::Wait;
        }
        if now >= self.give_up {
            return AttemptAction::GiveUp;
        }
        // The first intervals of a Taut peer are shorter than the stock jitter, so theirs is a quarter of the interval.
        let most = u32::try_from(self.interval.as_millis() / 4).unwrap_or(MAX_JITTER_MS).min(MAX_JITTER_MS);
        let jitter = Duration::from_millis(u64::from(entropy.below(most + 1)));
        self.next = (now + self.interval + jitter).min(self.give_up);
        if self.retry == Retry::Taut {
            self.interval = (self.interval * 2).min(limits.retry);
        }
        AttemptAction::SendInitiation
    }

    /// Returns the time at which to call [`Self::handle_timeout`].
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
