//! Port search (protocol.md 5.7): one end's NAT gives each destination another outer port, and the other end lets in only ports that it has sent to,
//! so no endpoint that the two know of each other works.
//!
//! ```text
//! the end with the hard NAT                                the other end
//! [`Rounds`]: data flows through a relay, nothing else works
//!    Control::Search through the relay ─────────────────▶  [`Guesses`]: probes to those ports, at the budget's pace
//!    its probes to the other's endpoint keep one mapping,
//!    or those of many sockets keep many  ───────────────▶  pass as soon as the port that they come from was guessed
//!                                     ◀──────────────────  a guess that hits a mapping is answered, and its source becomes a candidate
//! ```
//! A guess is a probe whose answer is not waited for. The answer shows where to probe, and only a probe on that path proves it (law 3).
//!
//! | NAT of the end that asks | of the other end | request |
//! |---|---|---|
//! | counts its ports up | a cone, or none | 64 ports from a few before the latest known one; then 256 after them; then as below |
//! | counts its ports up | counts, too | 64 ports in order: the ports of both rise with each guess, and they meet if one steps by one and the other by two |
//! | draws its ports | a cone, or none | 1,024 random ports, while up to [`SOCKETS`] sockets are open towards the other end |
//! | draws its ports | counts or draws | none: too many pairs of ports to meet by chance |
//!
//! **Both count.** The end with the lower address has the ports a, a + 1, …, the other b, b + 1, …, as far as the two know. Other flows have made
//! them a + e and b + f by now. The first end sends its n-th guess to b + 2n, the other its m-th to a + m. They meet where e + n = m and f + m = 2n,
//! which is n = e + f, whatever e and f are, if there are enough guesses. If both counted by one, they would meet only where e + f = 0.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use taut_base::{Entropy, Time};
use taut_wire::control::Search;

/// Sockets of one search. 256 mappings are a sixteenth of a small router's table (4,096), and expire with its timeout.
pub const SOCKETS: u16 = 256;

/// Ports guessed at random in one round: with 256 sockets one is hit in 98 of 100 rounds.
pub(crate) const RANDOM_PORTS: u16 = 1_024;

/// Ports of the first round at a NAT that counts, and how many of them lie before the latest known port, which may be newer than the mapping.
pub(crate) const NEAR_PORTS: u16 = 64;
pub(crate) const PORTS_BEFORE: u16 = 8;

/// Ports of the second round, after those of the first: as many as a household opens in some minutes.
pub(crate) const FAR_PORTS: u16 = 256;

/// The range of outer ports: lower ports are reserved, and no NAT uses them unasked.
const LOWEST: u16 = 1_024;
const PORTS: u32 = 65_536 - LOWEST as u32;

/// Step between random ports: no divisor of [`PORTS`] divides it, so no port is tried twice.
const STRIDE: u32 = 40_009;

/// Start of the rounds: the first one 2 s after a change, when ordinary probes had their 1.5 s and a round trip; the others after the round before.
const PAUSES: [Duration; ROUNDS as usize] = [Duration::from_secs(2), Duration::from_secs(8), Duration::from_secs(60)];

/// Rounds after a change, 3: what they do not find is blocked by something else.
pub(crate) const ROUNDS: u8 = 3;

/// Least time between two sets of rounds, 1 minute.
const NEWS_INTERVAL: Duration = Duration::from_secs(60);

/// Delay before a round that was not useful is planned again, 3 s: by then the NAT is known, or another peer has released the sockets.
const PLAN_RETRY: Duration = Duration::from_secs(3);

/// Delay of the next guesses when the budget of this moment is used up.
const GUESS_RETRY: Duration = Duration::from_millis(50);

/// The progress of a port search, for users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchProgress {
    /// Rounds made, by whichever end asks.
    pub rounds: u8,
    /// Rounds planned.
    pub of: u8,
    /// Chance of one round in per cent; 0 if it does not depend on chance.
    pub odds: u8,
}

impl fmt::Display for SearchProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, of, odds } = self;
        match rounds {
            0 => return f.write_str("its port was not guessed so far"),
            rounds if rounds < of => write!(f, "round {rounds} of {of} of guessing its port found nothing")?,
            _ => write!(f, "{rounds} rounds of guessing its port found nothing; more follow only after a change")?,
        }
        if *odds > 0 { write!(f, " (each succeeds in {odds} of 100 cases)") } else { Ok(()) }
    }
}

/// Returns the chance in per cent that `ports` different random ports include a port of one of `sockets` sockets.
pub(crate) fn odds(sockets: u16, ports: u16) -> u8 {
    // The chance of no hit, in units of 2^-32.
    let miss = (0..u32::from(ports)).fold(1_u64 << 32, |miss, tried| {
        let left = u64::from(PORTS.saturating_sub(tried).max(1));
        miss - (miss * u64::from(sockets) / left).min(miss)
    });
    u8::try_from((((1_u64 << 32) - miss) * 100) >> 32).unwrap_or(100)
}

/// The rounds of the end that asks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounds {
    made: u8,
    /// The change that the rounds belong to.
    since: Option<Time>,
    next: Option<Time>,
    /// When a report of the peer last started them again.
    peer_news: Option<Time>,
}

impl Rounds {
    /// Starts again if something changed since the last set of rounds.
    pub(crate) fn renew(&mut self, news: Time) {
        if self.since.is_none_or(|since| news >= since + NEWS_INTERVAL) {
            *self = Self { made: 0, since: Some(news), next: Some(news + PAUSES[0]), peer_news: self.peer_news };
        }
    }

    /// Starts again at once: another NAT is in front of one of the two ends.
    pub(crate) fn start_over(&mut self) {
        *self = Self { peer_news: self.peer_news, ..Self::default() };
    }

    /// Starts again because the peer reports another NAT, at most once in [`NEWS_INTERVAL`]: a peer that reports changes all the time must not get
    /// the sockets of all searches.
    pub(crate) fn start_over_for_peer(&mut self, now: Time) {
        if self.peer_news.is_none_or(|peer_news| now >= peer_news + NEWS_INTERVAL) {
            *self = Self { peer_news: Some(now), ..Self::default() };
        }
    }

    /// Returns when the next round is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.next
    }

    /// Returns the number of rounds made.
    pub(crate) fn made(&self) -> u8 {
        self.made
    }

    /// Delays the round: it would not be useful now.
    pub(crate) fn put_off(&mut self, now: Time) {
        self.next = Some(now + PLAN_RETRY);
    }

    /// Counts a round that begins.
    pub(crate) fn begin(&mut self, now: Time) {
        self.made += 1;
        self.next = PAUSES.get(usize::from(self.made)).map(|pause| now + *pause);
    }
}

/// The guesses of the other end, for one round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guesses {
    asked: Option<Search>,
    /// Ports of this round that were tried.
    tried: u16,
    /// The first random port.
    start: Option<u32>,
    next: Option<Time>,
    /// Rounds that the peer asked for.
    pub(crate) rounds: u8,
    /// The chance of the last round in per cent.
    pub(crate) odds: u8,
    /// Guesses sent.
    pub(crate) sent: u64,
}

impl Guesses {
    /// Starts a round that the peer asks for; the round before ends.
    pub(crate) fn begin(&mut self, asked: Search, now: Time) {
        let asked = Search { ports: asked.ports.min(RANDOM_PORTS), ..asked };
        (self.asked, self.tried, self.start, self.next) = (Some(asked), 0, None, Some(now));
        self.rounds = self.rounds.saturating_add(1);
        self.odds = if asked.step == 0 { odds(asked.sockets, asked.ports) } else { 0 };
    }

    /// Ends the round.
    pub(crate) fn end(&mut self) {
        (self.asked, self.next) = (None, None);
    }

    /// Returns when the next guess is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.next
    }

    /// Returns the destination of the next guess, if one is due.
    pub(crate) fn peek(&mut self, entropy: &mut impl Entropy, now: Time) -> Option<SocketAddr> {
        let asked = self.asked.filter(|_| self.next.is_some_and(|next| now >= next))?;
        if self.tried >= asked.ports {
            self.end();
            return None;
        }
        let port = if asked.step == 0 {
            let start = *self.start.get_or_insert_with(|| entropy.below(PORTS));
            outer(start + u32::from(self.tried) * (STRIDE % PORTS))
        } else {
            counted(asked.from.port(), u32::from(self.tried) * u32::from(asked.step))
        };
        Some(SocketAddr::new(asked.from.ip(), port))
    }

    /// Counts a guess that was sent.
    pub(crate) fn sent(&mut self) {
        self.tried += 1;
        self.sent += 1;
    }

    /// Delays the next guess until the budget has room.
    pub(crate) fn wait(&mut self, now: Time) {
        self.next = Some(now + GUESS_RETRY);
    }
}

/// Returns the port that is `further` ports after another one; the lowest port follows the last.
pub(crate) fn counted(port: u16, further: u32) -> u16 {
    outer(u32::from(port).saturating_sub(u32::from(LOWEST)) + further)
}

fn outer(number: u32) -> u16 {
    u16::try_from(u32::from(LOWEST) + number % PORTS).unwrap_or(LOWEST)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::vec::Vec;

    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    fn ports(step: u8, from: u16, ports: u16) -> Vec<u16> {
        let mut guesses = Guesses::default();
        let from = SocketAddr::from(([192, 0, 2, 1], from));
        guesses.begin(Search { from, step, ports, sockets: 256 }, at(0));
        let mut all = Vec::new();
        let mut entropy = |bytes: &mut [u8]| bytes.fill(0xa7);
        while let Some(place) = guesses.peek(&mut entropy, at(0)) {
            assert_eq!(place.ip(), from.ip());
            guesses.sent();
            all.push(place.port());
        }
        assert_eq!((guesses.sent, guesses.due()), (all.len() as u64, None));
        all
    }

    #[test]
    fn random_ports_differ_and_are_spread() {
        let all = ports(0, 5, u16::MAX);
        assert_eq!(all.len(), 1_024, "whatever the peer asks for");
        let different: BTreeSet<u16> = all.iter().copied().collect();
        assert_eq!(different.len(), all.len());
        assert!(different.first().is_some_and(|lowest| *lowest >= 1_024));
        let low = different.iter().filter(|port| **port < 33_280).count();
        assert!((450..575).contains(&low), "{low} of them in the lower half");
    }

    #[test]
    fn counted_ports_wrap_around_as_in_a_nat() {
        assert_eq!(ports(2, 65_533, 4), [65_533, 65_535, 1_025, 1_027]);
        assert_eq!(ports(1, 3, 2), [1_024, 1_025], "reserved ports are skipped");
    }

    #[test]
    fn odds_are_those_of_the_formula() {
        assert_eq!([odds(256, 1_024), odds(256, 100), odds(64, 1_024), odds(1, 1), odds(0, 1_024)], [98, 32, 64, 0, 0]);
        assert_eq!(odds(u16::MAX, u16::MAX), 100);
    }

    #[test]
    fn three_rounds_are_made_until_something_changes() {
        let mut rounds = Rounds::default();
        rounds.renew(at(0));
        let mut begun = Vec::new();
        while let Some(due) = rounds.due() {
            rounds.begin(due);
            begun.push(due);
            rounds.renew(at(0));
        }
        assert_eq!(begun, [at(2_000), at(10_000), at(70_000)]);
        rounds.renew(at(59_999));
        assert_eq!((rounds.due(), rounds.made()), (None, 3), "no news so soon");
        rounds.renew(at(60_000));
        assert_eq!((rounds.due(), rounds.made()), (Some(at(62_000)), 0));
    }

    #[test]
    fn fault_d16_a_peer_that_says_another_nat_all_the_time_gets_three_rounds_a_minute() {
        let mut rounds = Rounds::default();
        let mut begun = 0;
        for now in (0..600_000).step_by(20) {
            rounds.start_over_for_peer(at(now));
            rounds.renew(at(0));
            if rounds.due().is_some_and(|due| at(now) >= due) {
                rounds.begin(at(now));
                begun += 1;
            }
        }
        assert!((10..=30).contains(&begun), "{begun} rounds in ten minutes");
    }
}
