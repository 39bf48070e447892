//! Looking for ports that nobody can tell (protocol.md 5.7). One end's NAT gives each destination another outer port, and the other end lets in only ports
//! that it has sent to: none of the endpoints that they know of each other works.
//!
//! ```text
//! the hard end                                             the other end
//! [`Rounds`]: talking, by a relay, nothing else works
//!    Control::Search by the relay ──────────────────────▶  [`Guesses`]: probes to those ports, at the budget's pace
//!    its probes to the other's endpoint keep one mapping,
//!    or those of many sockets as many  ─────────────────▶  pass as soon as the port that they come from was guessed
//!                                     ◀──────────────────  the guess that meets a mapping is answered: a way like any other from there on
//! ```
//! A guess is a probe that nobody waits for. Its answer shows where to look, and only a probe of that way proves it (law 3).
//!
//! | NAT of the one who asks | of the other | what is asked for |
//! |---|---|---|
//! | counts its ports up | a cone, or none | 64 ports from a few before the latest that is known; 256 behind them; then as below |
//! | counts its ports up | counts, too | 64 ports, in order: the ports of both rise with each guess, and where one counts by one and the other by two they meet |
//! | draws its ports | a cone, or none | 1,024 ports at random, while so many [`SOCKETS`] are open towards the other |
//! | draws its ports | counts or draws | nothing: too many pairs of ports to meet by chance |
//!
//! **Where both count.** The one with the lower address has the ports a, a + 1, …, the other b, b + 1, …, as far as the two know; other flows made it
//! a + e and b + f by now. The first sends its n-th guess to b + 2n, the other one its m-th to a + m. They meet where e + n = m and f + m = 2n: n = e + f,
//! whatever e and f are, as long as there are enough guesses. Were both to count by one, they would meet only where e + f = 0.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use taut_base::{Entropy, Time};
use taut_wire::control::Search;

/// Sockets of one search. 256 mappings are a sixteenth of what a small router has room for (4,096), and are gone after its timeout.
pub const SOCKETS: u16 = 256;

/// Ports that are guessed at random in one round: with 256 sockets one is met in 98 of 100 rounds.
pub(crate) const AT_RANDOM: u16 = 1_024;

/// Ports of a first look at where the next mapping may be, and how many of them lie before the latest that is known: the mapping may be older than that.
pub(crate) const NEAR: u16 = 64;
pub(crate) const BEFORE: u16 = 8;

/// Ports of a second look, behind those: as many as a household opens in some minutes.
pub(crate) const FAR: u16 = 256;

/// Outer ports: those below are reserved, and no NAT gives them out by itself.
const LOWEST: u16 = 1_024;
const PORTS: u32 = 65_536 - LOWEST as u32;

/// From one random port to the next: no divisor of [`PORTS`] divides it, so that none is tried twice.
const STRIDE: u32 = 40_009;

/// When rounds begin: after news, when the ordinary probes had their 1.5 s and a round trip; and after the one before.
const PAUSES: [Duration; ROUNDS as usize] = [Duration::from_secs(2), Duration::from_secs(8), Duration::from_secs(60)];

/// Rounds after news. What three did not find is kept away by something else.
pub(crate) const ROUNDS: u8 = 3;

/// News that come sooner than this after the last do not begin another three.
const RENEWED: Duration = Duration::from_secs(60);

/// How soon it is asked again whether a round makes sense, when it did not: our NAT is known after a while, or another peer has the sockets.
const AGAIN: Duration = Duration::from_secs(3);

/// How soon the next guesses follow when those of one moment are used up.
const PAUSE: Duration = Duration::from_millis(50);

/// How far looking for a peer's port has come, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guessed {
    /// Rounds, of either end.
    pub rounds: u8,
    /// How many there are to be.
    pub of: u8,
    /// In how many of a hundred such rounds one is found; 0 where that is no matter of chance.
    pub odds: u8,
}

impl fmt::Display for Guessed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, of, odds } = self;
        match rounds {
            0 => return f.write_str("its port was not guessed so far"),
            rounds if rounds < of => write!(f, "round {rounds} of {of} of guessing its port has found none")?,
            _ => write!(
                f,
                "{rounds} rounds of guessing its port have found none, and no more are made until something changes"
            )?,
        }
        if *odds > 0 { write!(f, " (each finds one in {odds} of 100 cases)") } else { Ok(()) }
    }
}

/// In how many of a hundred rounds one of so many ports, drawn once each, is that of one of so many sockets.
pub(crate) fn odds(sockets: u16, ports: u16) -> u8 {
    // The share that misses, in 2^-32.
    let miss = (0..u32::from(ports)).fold(1_u64 << 32, |miss, tried| {
        let left = u64::from(PORTS.saturating_sub(tried).max(1));
        miss - (miss * u64::from(sockets) / left).min(miss)
    });
    u8::try_from((((1_u64 << 32) - miss) * 100) >> 32).unwrap_or(100)
}

/// The rounds of the hard end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounds {
    made: u8,
    /// The news that they belong to.
    since: Option<Time>,
    next: Option<Time>,
    /// When they last began anew because of what the peer said.
    told: Option<Time>,
}

impl Rounds {
    /// Something changed at `news`: what did not work may do so now.
    pub(crate) fn renew(&mut self, news: Time) {
        if self.since.is_none_or(|since| news >= since + RENEWED) {
            *self = Self { made: 0, since: Some(news), next: Some(news + PAUSES[0]), told: self.told };
        }
    }

    /// Begins at once, whatever was tried before: another NAT is in front of one of the two.
    pub(crate) fn start_over(&mut self) {
        *self = Self { told: self.told, ..Self::default() };
    }

    /// The same because the peer says so: once in [`RENEWED`], or a peer that says another NAT all the time would have the sockets of all searches for
    /// itself.
    pub(crate) fn start_over_for_peer(&mut self, now: Time) {
        if self.told.is_none_or(|told| now >= told + RENEWED) {
            *self = Self { told: Some(now), ..Self::default() };
        }
    }

    /// When the next one is to begin.
    pub(crate) fn due(&self) -> Option<Time> {
        self.next
    }

    /// How many there were.
    pub(crate) fn made(&self) -> u8 {
        self.made
    }

    /// It makes no sense now.
    pub(crate) fn put_off(&mut self, now: Time) {
        self.next = Some(now + AGAIN);
    }

    /// A round begins.
    pub(crate) fn begin(&mut self, now: Time) {
        self.made += 1;
        self.next = PAUSES.get(usize::from(self.made)).map(|pause| now + *pause);
    }
}

/// The guesses of the other end: those of one round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guesses {
    asked: Option<Search>,
    /// Ports of this round that were passed.
    tried: u16,
    /// Where random ones begin.
    start: Option<u32>,
    next: Option<Time>,
    /// Rounds of the peer.
    pub(crate) rounds: u8,
    /// The odds of the last one.
    pub(crate) odds: u8,
    /// Guesses sent.
    pub(crate) sent: u64,
}

impl Guesses {
    /// The peer asks for a round; what is left of the one before is given up.
    pub(crate) fn begin(&mut self, asked: Search, now: Time) {
        let asked = Search { ports: asked.ports.min(AT_RANDOM), ..asked };
        (self.asked, self.tried, self.start, self.next) = (Some(asked), 0, None, Some(now));
        self.rounds = self.rounds.saturating_add(1);
        self.odds = if asked.step == 0 { odds(asked.sockets, asked.ports) } else { 0 };
    }

    /// No more of this round.
    pub(crate) fn end(&mut self) {
        (self.asked, self.next) = (None, None);
    }

    /// When the next guess is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.next
    }

    /// Where the next one goes, if it is due.
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

    /// It was sent.
    pub(crate) fn sent(&mut self) {
        self.tried += 1;
        self.sent += 1;
    }

    /// It may be sent in a moment.
    pub(crate) fn wait(&mut self, now: Time) {
        self.next = Some(now + PAUSE);
    }
}

/// The port that comes so far behind another one: behind the last comes the lowest.
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
    fn random_ports_are_all_others_and_spread() {
        let all = ports(0, 5, u16::MAX);
        assert_eq!(all.len(), 1_024, "whatever the peer asks for");
        let different: BTreeSet<u16> = all.iter().copied().collect();
        assert_eq!(different.len(), all.len());
        assert!(different.first().is_some_and(|lowest| *lowest >= 1_024));
        let low = different.iter().filter(|port| **port < 33_280).count();
        assert!((450..575).contains(&low), "{low} of them in the lower half");
    }

    #[test]
    fn counted_ports_follow_each_other_and_go_round_as_a_nat_does() {
        assert_eq!(ports(2, 65_533, 4), [65_533, 65_535, 1_025, 1_027]);
        assert_eq!(ports(1, 3, 2), [1_024, 1_025], "reserved ones are none");
    }

    #[test]
    fn odds_are_those_of_the_formula() {
        assert_eq!([odds(256, 1_024), odds(256, 100), odds(64, 1_024), odds(1, 1), odds(0, 1_024)], [98, 32, 64, 0, 0]);
        assert_eq!(odds(u16::MAX, u16::MAX), 100);
    }

    #[test]
    fn rounds_are_three_until_there_is_news() {
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
