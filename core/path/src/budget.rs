//! Limits on probes (protocol.md 5.6, fault D10).
//!
//! A coordinator or a peer that lists endpoints makes nodes send to them. Probes to an address that answered recently have consent and are counted
//! per peer only. All other probes have two limits for the whole node, whatever the lists contain and however many peers there are:
//!
//! ```text
//! per address   5/s, burst 24     an IPv6 /64 counts as one; 8 times as much where the same peer's authentic packets came from just before
//! in all      200/s, burst 400
//! ```
//! Guesses (protocol.md 5.7) are sent to ports that nothing has confirmed, at an address that the peer reports as its NAT's. They have limits of
//! their own:
//!
//! ```text
//! per address   2/s, burst 3,200     three rounds of a search, and then one in nine minutes, whichever peer asks for it
//! in all        8/s, burst 8,192; of these 500 in a second, 32 at once
//! sockets       one peer's at a time
//! ```
//! A burst of 24 is four candidates at one address (a port for each of the lanes and mappings) in a first burst of probes. 5/s of 96 bytes is less
//! than the background noise on a domestic line. 200/s is enough for 50 relayed peers with data.

use core::net::{IpAddr, Ipv6Addr};

use taut_base::{Bucket, ChunkedMap, MAX_MTU, Rate, Time};

const PER_ADDRESS: Rate = Rate::new(5, 24);
const PER_TRUSTED_ADDRESS: Rate = Rate::new(40, 192);
const IN_ALL: Rate = Rate::new(200, 400);

const GUESSES_PER_ADDRESS: Rate = Rate::new(2, 3_200);
const GUESSES_IN_ALL: Rate = Rate::new(8, 8_192);
/// Guesses in all: 46 kB per second while the burst lasts. A round of 1,024 takes two seconds, as long as the other side's sockets are open.
const GUESSES_AT_A_TIME: Rate = Rate::new(500, 32);

/// Addresses with a bucket of their own. A full bucket is dropped, so this many addresses were sent to within the last five seconds.
const ADDRESSES: usize = 4_096;

/// The limits of one node, for all its peers.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    in_all: Bucket,
    addresses: ChunkedMap<IpAddr, Bucket>,
    refused: u64,
    guesses: Guesses,
    /// Sockets that one search may open, and the time until which a search has them.
    sockets: u16,
    searched: Option<Time>,
    /// Bytes of the longest inner packet, if the user sets them.
    longest: Option<u16>,
}

#[derive(Clone, Debug, Default)]
struct Guesses {
    in_all: Bucket,
    at_a_time: Bucket,
    addresses: ChunkedMap<IpAddr, Bucket>,
}

/// The answer of a budget to one more guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// The guess may be sent now.
    Now,
    /// The guess may be sent in a moment.
    Soon,
    /// The guess may not be sent for minutes.
    No,
}

impl Budget {
    /// Returns limits that nothing was taken from.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the longest packet limit that is looked for; `None`, as before the first call, for [`MAX_MTU`].
    pub fn set_longest(&mut self, longest: Option<u16>) {
        self.longest = longest;
    }

    /// Returns the longest packet limit that is looked for.
    pub fn longest(&self) -> u16 {
        self.longest.unwrap_or(MAX_MTU).min(MAX_MTU)
    }

    /// Takes one probe to an address without consent. Returns true if there was room. `trusted`: authentic packets of the peer come from the address.
    pub(crate) fn take(&mut self, address: IpAddr, trusted: bool, now: Time) -> bool {
        let rate = if trusted { &PER_TRUSTED_ADDRESS } else { &PER_ADDRESS };
        let granted =
            self.in_all.has(&IN_ALL, now) && self.account(address, now).is_some_and(|account| account.take(rate, now));
        if granted {
            self.in_all.take(&IN_ALL, now);
        } else {
            self.refused += 1;
        }
        granted
    }

    /// Returns the number of probes that these limits refused or delayed.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes one guess to this address, if there is room.
    pub(crate) fn take_guess(&mut self, address: IpAddr, now: Time) -> Grant {
        let Guesses { in_all, at_a_time, addresses } = &mut self.guesses;
        if !at_a_time.has(&GUESSES_AT_A_TIME, now) {
            return Grant::Soon;
        }
        let granted = in_all.has(&GUESSES_IN_ALL, now)
            && account(addresses, address, now).is_some_and(|account| account.take(&GUESSES_PER_ADDRESS, now));
        if !granted {
            self.refused += 1;
            return Grant::No;
        }
        in_all.take(&GUESSES_IN_ALL, now);
        at_a_time.take(&GUESSES_AT_A_TIME, now);
        Grant::Now
    }

    /// Sets how many sockets a search may open; 0, as before the first call, for none.
    pub fn set_sockets(&mut self, most: u16) {
        self.sockets = most;
    }

    /// Takes the sockets for one search until that time; `None` if another search has them, or none are allowed.
    pub(crate) fn take_sockets(&mut self, until: Time, now: Time) -> Option<u16> {
        if self.sockets == 0 || self.searched.is_some_and(|until| now < until) {
            return None;
        }
        self.searched = Some(until);
        Some(self.sockets)
    }

    fn account(&mut self, address: IpAddr, now: Time) -> Option<&mut Bucket> {
        account(&mut self.addresses, address, now)
    }
}

/// Returns the bucket of an address; `None` if too many addresses are busy.
fn account(addresses: &mut ChunkedMap<IpAddr, Bucket>, address: IpAddr, now: Time) -> Option<&mut Bucket> {
    let network = network(address);
    if addresses.len() >= ADDRESSES && !addresses.contains_key(&network) {
        addresses.retain(|_, account| !account.is_full(now));
        if addresses.len() >= ADDRESSES {
            return None;
        }
    }
    Some(addresses.get_or_insert(network, Bucket::default()))
}

/// Returns the unit that counts as one address: a host may choose any address of an IPv6 /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    fn victim(number: u32) -> IpAddr {
        core::net::Ipv4Addr::from(0xcb00_7100 + number).into()
    }

    #[test]
    fn fault_d10_a_victim_gets_five_a_second_whoever_lists_it() {
        let mut budget = Budget::new();
        let sent = (0..10_000).filter(|now| budget.take(victim(1), false, at(*now))).count();
        assert!((73..=74).contains(&sent), "{sent}: 24 at once, 5 a second for ten");
        assert_eq!(budget.refused(), 10_000 - sent as u64);
        let sent = (0..10_000u16)
            .filter(|now| {
                budget.take(
                    Ipv6Addr::new(0x2001, 0xdb8, 0, 1, *now, 0, 0, 1).into(),
                    false,
                    at(20_000 + u64::from(*now)),
                )
            })
            .count();
        assert!((73..=74).contains(&sent), "{sent}: one /64");
    }

    #[test]
    fn fault_d10_a_thousand_victims_get_two_hundred_a_second() {
        let mut budget = Budget::new();
        let sent = (0..10_000_u64)
            .flat_map(|now| (0..10_u64).map(move |each| (now, each)))
            .filter(|(now, each)| budget.take(victim(u32::try_from(now * 10 + each).unwrap() % 1_000), false, at(*now)))
            .count();
        assert!((2_395..=2_400).contains(&sent), "{sent}");
    }

    #[test]
    fn an_address_that_packets_come_from_gets_a_larger_budget() {
        let mut budget = Budget::new();
        assert_eq!((0..1_000_u64).filter(|_| budget.take(victim(1), true, at(0))).count(), 192);
        assert!(!budget.take(victim(1), false, at(0)), "what was taken counts for all");
    }

    #[test]
    fn fault_d10_guesses_to_one_address_are_three_rounds_whoever_asks() {
        let mut budget = Budget::new();
        let mut sent = 0;
        for now in 0..60_000 {
            sent += u64::from(budget.take_guess(victim(1), at(now)) == Grant::Now);
            assert!(sent <= 32 + now / 2 + 1, "500 a second");
        }
        assert!((3_200..=3_320).contains(&sent), "{sent}");
        assert_eq!(budget.take_guess(victim(2), at(60_000)), Grant::Now, "another one has an account of its own");
        let all = (0..60_000_u32)
            .filter(|now| budget.take_guess(victim(now % 900), at(u64::from(*now) + 60_000)) == Grant::Now);
        assert!((5_400..=6_100).contains(&all.count()), "and all together one");
    }

    #[test]
    fn one_search_has_sockets_at_a_time() {
        let mut budget = Budget::new();
        assert_eq!(budget.take_sockets(at(5_000), at(0)), None, "nobody said how many");
        budget.set_sockets(64);
        assert_eq!(budget.take_sockets(at(5_000), at(0)), Some(64));
        assert_eq!(
            (budget.take_sockets(at(9_000), at(4_999)), budget.take_sockets(at(9_000), at(5_000))),
            (None, Some(64))
        );
    }

    #[test]
    fn the_state_is_bounded() {
        let mut budget = Budget::new();
        for number in 0..20_000 {
            budget.take(victim(number), false, at(u64::from(number)));
            assert!(budget.addresses.len() <= ADDRESSES);
        }
        for number in 0..20_000 {
            budget.account(victim(number), at(30_000)).map(|account| account.take(&PER_ADDRESS, at(30_000)));
        }
        assert_eq!(budget.addresses.len(), ADDRESSES);
        assert!(!budget.take(victim(30_000), false, at(30_001)), "all of them are busy");
        assert!(budget.take(victim(30_000), false, at(100_000)));
    }
}
