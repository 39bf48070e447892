//! Limits on attempts to sign in, per source and per account (fault E13).

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use taut_base::{KeyedHash, Meter, Rate, Time};

use super::super::random;

/// Attempts of one IPv4 address or IPv6 /64: 20 at once, then one in 6 s. Colleagues behind one NAT sign in without waiting.
const OF_SOURCE: Rate = Rate::every(Duration::from_secs(6), 20);

/// Attempts for one account from all sources: 10 at once, then one a minute. A guesser has half a million attempts a year.
const OF_ACCOUNT: Rate = Rate::every(Duration::from_secs(60), 10);

/// Rate of requests for the result of terminals' sign-ins from one IPv4 address or IPv6 /64: 30 at once, then one a second, enough for five terminals behind one NAT. Requests with a wrong
/// secret are limited separately, at the same rate, so that they do not delay honest terminals at the same address.
const POLLS_OF_SOURCE: Rate = Rate::every(Duration::from_secs(1), 30);

/// Rate of requests for the result of one terminal's sign-in: 3 at once, then one in 4 s. A terminal asks every 5 s. Each request is passed on to the provider, which refuses a client that
/// asks without pause.
const POLLS_OF_SIGN_IN: Rate = Rate::every(Duration::from_secs(4), 3);

/// Limit on the pairs of account and source that signed in recently, 1,024. The limit of the account does not apply to them: otherwise anyone could lock an account out.
const FAMILIAR: usize = 1_024;

/// Guard of a question about a sign-in: until it is dropped, no other one about it is passed on.
pub(super) struct AskedGuard<'a> {
    limits: &'a SignInLimits,
    id: String,
}

impl Drop for AskedGuard<'_> {
    fn drop(&mut self) {
        self.limits.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// Attempts by source and by account, in tables of fixed size, and questions under way, at most one for each connection.
pub(super) struct SignInLimits {
    start: Instant,
    hash: KeyedHash,
    sources: Mutex<Meter>,
    accounts: Mutex<Meter>,
    polling_sources: Mutex<Meter>,
    guessing_sources: Mutex<Meter>,
    polled_sign_ins: Mutex<Meter>,
    /// Sign-ins about which the provider is being asked.
    asked: Mutex<HashSet<String>>,
    familiar: Mutex<VecDeque<u64>>,
}

impl SignInLimits {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            hash: KeyedHash::new(random()),
            sources: Mutex::new(Meter::new(OF_SOURCE)),
            accounts: Mutex::new(Meter::new(OF_ACCOUNT)),
            polling_sources: Mutex::new(Meter::new(POLLS_OF_SOURCE)),
            guessing_sources: Mutex::new(Meter::new(POLLS_OF_SOURCE)),
            polled_sign_ins: Mutex::new(Meter::new(POLLS_OF_SIGN_IN)),
            asked: Mutex::default(),
            familiar: Mutex::default(),
        }
    }

    /// Counts an attempt that names no account. Returns false if it must not be made.
    pub(super) fn take_source(&self, source: [u8; 8], now: Instant) -> bool {
        self.take_from(&self.sources, &source, now)
    }

    /// Counts a question of a terminal. Returns false if it came too soon after others of this source.
    pub(super) fn take_polling_source(&self, source: [u8; 8], now: Instant) -> bool {
        self.take_from(&self.polling_sources, &source, now)
    }

    /// Counts a question about a sign-in that no terminal began. Returns false if it came too soon after others of this source.
    pub(super) fn take_guessing_source(&self, source: [u8; 8], now: Instant) -> bool {
        self.take_from(&self.guessing_sources, &source, now)
    }

    /// Counts a question about a sign-in. Returns `None` if it came too soon after others, or while the provider is asked about the same one: it may take a second use of a device code for
    /// theft.
    pub(super) fn take_polled_sign_in(&self, id: &str, now: Instant) -> Option<AskedGuard<'_>> {
        let in_time = self.take_from(&self.polled_sign_ins, &id, now);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        (in_time && asked.insert(String::from(id))).then(|| AskedGuard { limits: self, id: String::from(id) })
    }

    fn take_from(&self, meter: &Mutex<Meter>, what: &impl Hash, now: Instant) -> bool {
        meter.lock().unwrap_or_else(PoisonError::into_inner).take(self.hash.of(what), self.time(now))
    }

    fn time(&self, now: Instant) -> Time {
        Time::from_duration(now.saturating_duration_since(self.start))
    }

    /// Counts an attempt to sign in. Returns false if it exceeds a limit and must be refused. The account need not exist.
    pub(super) fn take(&self, account: &str, source: [u8; 8], now: Instant) -> bool {
        if !self.take_source(source, now) {
            return false;
        }
        let pair = self.hash.of(&(account, source));
        if self.familiar.lock().unwrap_or_else(PoisonError::into_inner).contains(&pair) {
            return true;
        }
        self.take_from(&self.accounts, &account, now)
    }

    /// Remembers a successful sign-in to this account from this source.
    pub(super) fn succeeded(&self, account: &str, source: [u8; 8]) {
        let pair = self.hash.of(&(account, source));
        let mut familiar = self.familiar.lock().unwrap_or_else(PoisonError::into_inner);
        familiar.retain(|known| *known != pair);
        if familiar.len() >= FAMILIAR {
            familiar.pop_front();
        }
        familiar.push_back(pair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e13_guesses_are_limited_per_source_and_per_account() {
        let (limits, now) = (SignInLimits::new(), Instant::now());
        let of_one = (0..1_000).filter(|name| limits.take(&format!("user{name}"), [1; 8], now)).count();
        assert_eq!(of_one, 20, "one source, many accounts");
        let for_one = (0..=255).filter(|source| limits.take("ann", [*source, 2, 0, 0, 0, 0, 0, 0], now)).count();
        assert_eq!(for_one, 10, "many sources, one account");
        assert!(limits.take("bob", [7; 8], now), "other accounts are not affected");
        assert!(limits.take("ann", [8; 8], now + Duration::from_secs(61)), "a minute later");
    }

    #[test]
    fn fault_e13_nobody_locks_a_person_out_of_a_place_where_it_signed_in() {
        let (limits, now) = (SignInLimits::new(), Instant::now());
        limits.succeeded("ann", [1; 8]);
        for source in 0..=255 {
            limits.take("ann", [source, 2, 0, 0, 0, 0, 0, 0], now);
        }
        assert!(!limits.take("ann", [2; 8], now));
        assert!(limits.take("ann", [1; 8], now));
    }

    #[test]
    fn fault_e13_a_terminal_that_asks_without_pause_is_slowed_down_and_no_other() {
        let (limits, now) = (SignInLimits::new(), Instant::now());
        let asked = (0..1_000).filter(|_| limits.take_polled_sign_in("one", now).is_some()).count();
        assert_eq!(asked, 3, "one sign-in");
        let guard = limits.take_polled_sign_in("two", now);
        assert!(guard.is_some(), "another sign-in");
        assert!(limits.take_polled_sign_in("two", now).is_none(), "at the same time");
        drop(guard);
        assert!(limits.take_polled_sign_in("two", now).is_some(), "one after the other");
        assert!(limits.take_polled_sign_in("one", now + Duration::from_secs(5)).is_some(), "5 s later");
        assert_eq!((0..1_000).filter(|_| limits.take_guessing_source([1; 8], now)).count(), 30, "guesses");
        assert_eq!((0..1_000).filter(|_| limits.take_polling_source([1; 8], now)).count(), 30, "one source");
        assert!(limits.take_polling_source([2; 8], now), "another source");
        assert!(limits.take_source([1; 8], now), "other attempts of the source");
    }
}
