//! What is drawn for a packet: whether something happens to it, and for how long it is under way.
//!
//! Draws may depend on the one before (`correlation`, 0 to 1). Two ways to make them do so:
//! - **A chain** (default). Something that happened happens again with probability p + c(1 − p), and something that did not with p(1 − c): the asked
//!   rate comes out, and two neighbouring draws have the correlation c. A delay is that of the packet before with probability c, and a new one else.
//! - **As netem does it** (`--netem-compat`; `get_crandom` in net/sched/sch_netem.c): each draw is the weighted mean of a fresh number and the draw
//!   before. Means crowd around the middle, so at small probabilities next to nothing happens: with c = 50 %, what is asked for at 0.5 % comes out as
//!   nought. It is there to reproduce what others measured.

use std::time::Duration;

/// A seeded generator of numbers: SplitMix64 (Steele, Lea and Flood, 2014). No secret may ever come from it.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The generator of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 32 random bits.
    fn word(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// From 0 up to and without 1, in steps of 2^-53: all that the type can tell apart there.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// How draws depend on the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Memory {
    /// The asked rate comes out.
    #[default]
    Chain,
    /// The formula of netem.
    Netem,
}

/// A share between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub(crate) struct Share(f64);

impl Share {
    /// `None` for what is no share.
    pub(crate) fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// The number.
    pub(crate) fn get(self) -> f64 {
        self.0
    }

    /// As netem has it: in parts of 2^32 − 1.
    fn scaled(self) -> u32 {
        (self.0 * f64::from(u32::MAX)).round() as u32
    }
}

/// Numbers after the formula of netem.
#[derive(Clone, Copy, Debug)]
struct Crowded {
    correlation: u32,
    last: u32,
}

impl Crowded {
    fn new(correlation: Share, dice: &mut Dice) -> Self {
        Self { correlation: correlation.scaled(), last: dice.word() }
    }

    fn draw(&mut self, dice: &mut Dice) -> u32 {
        let fresh = dice.word();
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

/// Whether something happens to a packet.
#[derive(Clone, Debug)]
pub(crate) enum Chance {
    /// See [`Memory::Chain`]: the probability after it happened, and after it did not.
    Chain {
        /// What is asked for.
        share: f64,
        /// How much depends on the one before.
        correlation: f64,
        /// Whether it happened to the packet before.
        last: Option<bool>,
    },
    /// See [`Memory::Netem`].
    Netem {
        /// It happens up to this number.
        threshold: u32,
        /// The numbers.
        numbers: NetemNumbers,
    },
}

/// Numbers that only [`Chance`] and [`Spread`] draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetemNumbers(Crowded);

impl Chance {
    /// Something that happens to this share of packets.
    pub(crate) fn new(share: Share, correlation: Share, memory: Memory, dice: &mut Dice) -> Self {
        match memory {
            Memory::Chain => Self::Chain { share: share.0, correlation: correlation.0, last: None },
            Memory::Netem => {
                Self::Netem { threshold: share.scaled(), numbers: NetemNumbers(Crowded::new(correlation, dice)) }
            }
        }
    }

    /// Whether it happens to the next packet.
    pub(crate) fn happens(&mut self, dice: &mut Dice) -> bool {
        match self {
            Self::Chain { share, .. } if *share == 0.0 => false,
            Self::Chain { share, correlation, last } => {
                let probability = match last {
                    None => *share,
                    Some(true) => *share + *correlation * (1.0 - *share),
                    Some(false) => *share * (1.0 - *correlation),
                };
                let now = dice.unit() < probability;
                *last = Some(now);
                now
            }
            Self::Netem { threshold: 0, .. } => false,
            Self::Netem { threshold, numbers } => *threshold >= numbers.0.draw(dice),
        }
    }
}

/// How long a packet is under way: evenly between `mean − jitter` and `mean + jitter`, and never less than nothing.
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
    /// Of these delays.
    pub(crate) fn new(mean: Duration, jitter: Duration, correlation: Share, memory: Memory, dice: &mut Dice) -> Self {
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let draws = match memory {
            Memory::Chain => Draws::Chain { correlation: correlation.0, last: None },
            Memory::Netem => Draws::Netem(NetemNumbers(Crowded::new(correlation, dice))),
        };
        Self { mean: nanoseconds(mean), jitter: nanoseconds(jitter), draws }
    }

    /// The next packet's.
    pub(crate) fn draw(&mut self, dice: &mut Dice) -> Duration {
        if self.jitter == 0 {
            return Duration::from_nanos(self.mean);
        }
        let width = self.jitter.saturating_mul(2);
        let above = match &mut self.draws {
            Draws::Chain { correlation, last } => {
                let place = last.filter(|_| dice.unit() < *correlation).unwrap_or_else(|| dice.unit());
                *last = Some(place);
                (place * width as f64) as u64
            }
            Draws::Netem(numbers) => u64::from(numbers.0.draw(dice)) % width,
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

    /// How often it happens, and how often it does right after it did.
    fn rates(asked: f64, correlation: f64, memory: Memory) -> (f64, f64) {
        let mut dice = Dice::new(7);
        let mut chance = Chance::new(share(asked), share(correlation), memory, &mut dice);
        let (mut often, mut again, mut before) = (0, 0, false);
        for _ in 0..DRAWS {
            let now = chance.happens(&mut dice);
            often += usize::from(now);
            again += usize::from(now && before);
            before = now;
        }
        (often as f64 / DRAWS as f64, again as f64 / often.max(1) as f64)
    }

    #[test]
    fn split_mix_gives_the_numbers_of_its_definition() {
        assert_eq!(Dice::new(0).next(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn the_asked_rate_comes_out_of_a_chain_and_so_does_the_correlation() {
        for (asked, correlation) in [(0.0025, 0.0), (0.005, 0.25), (0.025, 0.5), (0.05, 0.5), (0.5, 0.9), (1.0, 0.3)] {
            let (rate, after) = rates(asked, correlation, Memory::Chain);
            // Standard error of a correlated rate, four of them.
            let error = 4.0 * (asked * (1.0 - asked) * (1.0 + correlation) / (1.0 - correlation) / DRAWS as f64).sqrt();
            assert!((rate - asked).abs() <= error + 1e-9, "{asked} asked, {rate} came");
            let wanted = asked + correlation * (1.0 - asked);
            assert!((after - wanted).abs() < 0.05, "{after} after one, instead of {wanted}");
        }
        assert_eq!(rates(0.0, 0.5, Memory::Chain).0, 0.0);
    }

    #[test]
    fn netem_reaches_its_rate_without_correlation_and_next_to_nothing_with_it() {
        let (rate, _) = rates(0.005, 0.0, Memory::Netem);
        assert!((rate - 0.005).abs() < 0.0005, "{rate}");
        let (rate, _) = rates(0.005, 0.25, Memory::Netem);
        assert!(rate < 0.002, "{rate}");
        let (rate, _) = rates(0.025, 0.5, Memory::Netem);
        assert!(rate < 0.002, "{rate}");
    }

    #[test]
    fn delays_are_spread_evenly_and_cut_at_nothing() {
        let milliseconds = Duration::from_millis;
        for memory in [Memory::Chain, Memory::Netem] {
            for correlation in [0.0, 0.5] {
                if memory == Memory::Netem && correlation > 0.0 {
                    continue;
                }
                let mut dice = Dice::new(3);
                let mut spread = Spread::new(milliseconds(4), milliseconds(7), share(correlation), memory, &mut dice);
                let delays: Vec<f64> = (0..DRAWS / 4).map(|_| spread.draw(&mut dice).as_secs_f64() * 1e3).collect();
                let least = delays.iter().filter(|delay| **delay == 0.0).count() as f64 / delays.len() as f64;
                assert!((least - 3.0 / 14.0).abs() < 0.01, "three of fourteen are cut: {least}");
                let mean = delays.iter().sum::<f64>() / delays.len() as f64;
                // Of what is not cut, the mean is half of 11.
                assert!((mean - 11.0 / 14.0 * 5.5).abs() < 0.05, "{mean}");
                assert!(delays.iter().all(|delay| *delay < 11.0));
            }
        }
    }

    #[test]
    fn without_jitter_every_delay_is_the_same() {
        let mut dice = Dice::new(1);
        let mut spread = Spread::new(Duration::from_micros(300), Duration::ZERO, share(0.5), Memory::Chain, &mut dice);
        assert!((0..100).all(|_| spread.draw(&mut dice) == Duration::from_micros(300)));
    }

    #[test]
    fn equal_seeds_draw_equally() {
        let draws = |seed| {
            let mut dice = Dice::new(seed);
            let mut chance = Chance::new(share(0.5), share(0.2), Memory::Chain, &mut dice);
            (0..64).map(|_| chance.happens(&mut dice)).collect::<Vec<_>>()
        };
        assert_eq!(draws(5), draws(5));
        assert_ne!(draws(5), draws(6));
    }
}
