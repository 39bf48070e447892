//! The random draws for a packet: whether an event happens to it, and its delay.
//!
//! Draws may depend on the one before (`correlation`, 0 to 1). There are two formulas:
//! - **A chain** (default). An event happens with probability p + c(1 − p) after a packet to which it happened, and with p(1 − c) after any other: the
//!   configured rate results, and two neighbouring draws have the correlation c. A delay is that of the packet before with probability c, else a new draw.
//! - **As netem does it** (`--netem-compat`; `get_crandom` in net/sched/sch_netem.c): each draw is the weighted mean of a fresh number and the draw
//!   before. Means concentrate around the middle, so events of small probability hardly happen: with c = 50 %, a configured 0.5 %
//!   results in none. The formula is there to reproduce measurements that were made with netem.

use std::time::Duration;

/// A seeded random number generator: SplitMix64 (Steele, Lea and Flood, 2014). It is not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Returns the generator of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns 32 random bits.
    fn word(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// Returns a number from 0 to below 1, in steps of 2^-53, the precision of the type.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The formula by which a draw depends on the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Memory {
    /// A Markov chain, which reaches the configured rate.
    #[default]
    Chain,
    /// The formula of netem.
    Netem,
}

/// A share between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub(crate) struct Share(f64);

impl Share {
    /// Returns `None` for a number outside of 0 to 1.
    pub(crate) fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// Returns the number.
    pub(crate) fn get(self) -> f64 {
        self.0
    }

    /// Returns the share in netem's unit: parts of 2^32 − 1.
    fn scaled(self) -> u32 {
        (self.0 * f64::from(u32::MAX)).round() as u32
    }
}

/// Random numbers by netem's formula.
#[derive(Clone, Copy, Debug)]
struct NetemState {
    correlation: u32,
    last: u32,
}

impl NetemState {
    fn new(correlation: Share, rng: &mut Rng) -> Self {
        Self { correlation: correlation.scaled(), last: rng.word() }
    }

    fn draw(&mut self, rng: &mut Rng) -> u32 {
        let fresh = rng.word();
        if self.correlation == 0 {
            return fresh;
        }
        let weight = u64::from(self.correlation) + 1;
        let mean =
            (u128::from(fresh) * u128::from((1_u64 << 32) - weight) + u128::from(self.last) * u128::from(weight)) >> 32;
        self.last = mean as u32;
        self.last
    }
}

/// The draws of an event.
#[derive(Clone, Debug)]
pub(crate) enum Chance {
    /// See [`Memory::Chain`]: the probability after it happened, and after it did not.
    Chain {
        /// The configured rate.
        share: f64,
        /// The correlation with the draw before.
        correlation: f64,
        /// True if the event happened to the packet before.
        last: Option<bool>,
    },
    /// See [`Memory::Netem`].
    Netem {
        /// Greatest number at which the event happens.
        threshold: u32,
        /// The random numbers.
        numbers: NetemNumbers,
    },
}

/// Numbers that only [`Chance`] and [`Spread`] draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetemNumbers(NetemState);

impl Chance {
    /// Returns the draws of an event that happens to this share of packets.
    pub(crate) fn new(share: Share, correlation: Share, memory: Memory, rng: &mut Rng) -> Self {
        match memory {
            Memory::Chain => Self::Chain { share: share.0, correlation: correlation.0, last: None },
            Memory::Netem => {
                Self::Netem { threshold: share.scaled(), numbers: NetemNumbers(NetemState::new(correlation, rng)) }
            }
        }
    }

    /// Returns true if the event happens to the next packet.
    pub(crate) fn happens(&mut self, rng: &mut Rng) -> bool {
        match self {
            Self::Chain { share, .. } if *share == 0.0 => false,
            Self::Chain { share, correlation, last } => {
                let probability = match last {
                    None => *share,
                    Some(true) => *share + *correlation * (1.0 - *share),
                    Some(false) => *share * (1.0 - *correlation),
                };
                let now = rng.unit() < probability;
                *last = Some(now);
                now
            }
            Self::Netem { threshold: 0, .. } => false,
            Self::Netem { threshold, numbers } => *threshold >= numbers.0.draw(rng),
        }
    }
}

/// The draws of a delay: evenly between `mean − jitter` and `mean + jitter`, and never negative.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    mean: u64,
    jitter: u64,
    draws: Draws,
}

#[derive(Clone, Debug)]
enum Draws {
    Chain { correlation: f64, last: Option<f64> },
    Netem(NetemNumbers),
}

impl Spread {
    /// Returns the draws of these delays.
    pub(crate) fn new(mean: Duration, jitter: Duration, correlation: Share, memory: Memory, rng: &mut Rng) -> Self {
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let draws = match memory {
            Memory::Chain => Draws::Chain { correlation: correlation.0, last: None },
            Memory::Netem => Draws::Netem(NetemNumbers(NetemState::new(correlation, rng))),
        };
        Self { mean: nanoseconds(mean), jitter: nanoseconds(jitter), draws }
    }

    /// Returns the delay of the next packet.
    pub(crate) fn draw(&mut self, rng: &mut Rng) -> Duration {
        if self.jitter == 0 {
            return Duration::from_nanos(self.mean);
        }
        let width = self.jitter.saturating_mul(2);
        let above = match &mut self.draws {
            Draws::Chain { correlation, last } => {
                let place = last.filter(|_| rng.unit() < *correlation).unwrap_or_else(|| rng.unit());
                *last = Some(place);
                (place * width as f64) as u64
            }
            Draws::Netem(numbers) => u64::from(numbers.0.draw(rng)) % width,
        };
        Duration::from_nanos((self.mean + above).saturating_sub(self.jitter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 1_000_000;

    fn share(share: f64) -> Share {
        Share::new(share).unwrap()
    }

    /// Returns the rate of the event, and its rate directly after an event.
    fn rates(asked: f64, correlation: f64, memory: Memory) -> (f64, f64) {
        let mut rng = Rng::new(7);
        let mut chance = Chance::new(share(asked), share(correlation), memory, &mut rng);
        let (mut often, mut again, mut before) = (0, 0, false);
        for _ in 0..DRAWS {
            let now = chance.happens(&mut rng);
            often += usize::from(now);
            again += usize::from(now && before);
            before = now;
        }
        (often as f64 / DRAWS as f64, again as f64 / often.max(1) as f64)
    }

    #[test]
    fn split_mix_gives_the_numbers_of_its_definition() {
        assert_eq!(Rng::new(0).next(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn a_chain_reaches_the_configured_rate_and_correlation() {
        for (asked, correlation) in [(0.0025, 0.0), (0.005, 0.25), (0.025, 0.5), (0.05, 0.5), (0.5, 0.9), (1.0, 0.3)] {
            let (rate, after) = rates(asked, correlation, Memory::Chain);
            // Four standard errors of a correlated rate.
            let error = 4.0 * (asked * (1.0 - asked) * (1.0 + correlation) / (1.0 - correlation) / DRAWS as f64).sqrt();
            assert!((rate - asked).abs() <= error + 1e-9, "configured {asked}, measured {rate}");
            let wanted = asked + correlation * (1.0 - asked);
            assert!((after - wanted).abs() < 0.05, "rate after an event: {after} instead of {wanted}");
        }
        assert_eq!(rates(0.0, 0.5, Memory::Chain).0, 0.0);
    }

    #[test]
    fn netem_reaches_its_rate_without_correlation_and_almost_no_events_with_it() {
        let (rate, _) = rates(0.005, 0.0, Memory::Netem);
        assert!((rate - 0.005).abs() < 0.0005, "{rate}");
        let (rate, _) = rates(0.005, 0.25, Memory::Netem);
        assert!(rate < 0.002, "{rate}");
        let (rate, _) = rates(0.025, 0.5, Memory::Netem);
        assert!(rate < 0.002, "{rate}");
    }

    #[test]
    fn delays_are_spread_evenly_and_never_negative() {
        let milliseconds = Duration::from_millis;
        for memory in [Memory::Chain, Memory::Netem] {
            for correlation in [0.0, 0.5] {
                if memory == Memory::Netem && correlation > 0.0 {
                    continue;
                }
                let mut rng = Rng::new(3);
                let mut spread = Spread::new(milliseconds(4), milliseconds(7), share(correlation), memory, &mut rng);
                let delays: Vec<f64> = (0..DRAWS / 4).map(|_| spread.draw(&mut rng).as_secs_f64() * 1e3).collect();
                let least = delays.iter().filter(|delay| **delay == 0.0).count() as f64 / delays.len() as f64;
                assert!(
                    (least - 3.0 / 14.0).abs() < 0.01,
                    "three of fourteen delays must be cut to zero, but the share is {least}"
                );
                let mean = delays.iter().sum::<f64>() / delays.len() as f64;
                // The mean of the delays that are not cut is half of 11 ms.
                assert!((mean - 11.0 / 14.0 * 5.5).abs() < 0.05, "{mean}");
                assert!(delays.iter().all(|delay| *delay < 11.0));
            }
        }
    }

    #[test]
    fn without_jitter_every_delay_is_the_same() {
        let mut rng = Rng::new(1);
        let mut spread = Spread::new(Duration::from_micros(300), Duration::ZERO, share(0.5), Memory::Chain, &mut rng);
        assert!((0..100).all(|_| spread.draw(&mut rng) == Duration::from_micros(300)));
    }

    #[test]
    fn equal_seeds_give_equal_draws() {
        let draws = |seed| {
            let mut rng = Rng::new(seed);
            let mut chance = Chance::new(share(0.5), share(0.2), Memory::Chain, &mut rng);
            (0..64).map(|_| chance.happens(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(draws(5), draws(5));
        assert_ne!(draws(5), draws(6));
    }
}
