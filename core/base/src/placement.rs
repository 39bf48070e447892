//! The lane of each flow that the host sends.

use crate::ids::LaneId;
use crate::limits::MAX_LANES;

/// Which of a node's lanes reads a flow's packets: a rule from the flow's number alone, so that a flow keeps its lane as long as the rule holds.
///
/// A node that opens lanes for flows that run already chooses the rule that spreads these flows best ([`Self::candidates`]); other flows are spread as chance
/// has it. Both the steering program of the kernel and the lanes use this rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    lanes: u8,
    factor: u16,
}

impl Placement {
    /// All flows on the first lane.
    pub const FIRST: Self = Self::new(1);

    /// Different rules for one number of lanes, 16: with four flows on two lanes, a single rule puts all on one lane once in eight times, and two on each lane
    /// three times in eight. Of 16 rules, one puts two on each lane 1,999 times of 2,000.
    const CHOICES: u16 = 16;

    /// Returns the usual rule for this number of lanes, 1 to [`MAX_LANES`].
    #[must_use]
    pub const fn new(lanes: u8) -> Self {
        Self { lanes, factor: 1 }
    }

    /// Returns several rules for this number of lanes, the usual one first.
    pub fn candidates(lanes: u8) -> impl Iterator<Item = Self> {
        // Odd factors, so that no two flows become equal; their steps have no pattern.
        (0..Self::CHOICES).map(move |number| Self { lanes, factor: number.wrapping_mul(0x2f16) | 1 })
    }

    /// Returns the number of lanes, at least 1.
    #[must_use]
    pub const fn lanes(self) -> u8 {
        if self.lanes == 0 { 1 } else { self.lanes }
    }

    /// Returns the odd factor by which the flow's number is multiplied, modulo 2¹⁶. The upper eight bits of the product, modulo the number of lanes, are the
    /// lane.
    #[must_use]
    pub const fn factor(self) -> u16 {
        self.factor
    }

    /// Returns the lane of the flow with this number.
    #[must_use]
    pub const fn lane(self, flow: u16) -> LaneId {
        LaneId((flow.wrapping_mul(self.factor) >> 8) as u8 % self.lanes())
    }

    /// Returns the weight of the busiest lane, for flows with these weights.
    pub fn busiest(self, flows: &[(u16, u32)]) -> u64 {
        let mut sums = [0; MAX_LANES];
        for (flow, weight) in flows {
            if let Some(sum) = sums.get_mut(usize::from(self.lane(*flow).0)) {
                *sum += u64::from(*weight);
            }
        }
        sums.into_iter().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_spreads_all_flows_evenly() {
        for lanes in 1..=16 {
            for placement in Placement::candidates(lanes) {
                let mut counts = vec![0; usize::from(lanes)];
                (0..=u16::MAX).for_each(|flow| counts[usize::from(placement.lane(flow).0)] += 1);
                let fair = 65_536 / usize::from(lanes);
                assert!(
                    counts.iter().all(|count| count * 10 >= fair * 9 && count * 10 <= fair * 11),
                    "{placement:?} {counts:?}"
                );
            }
        }
    }

    #[test]
    fn some_rule_spreads_any_few_flows() {
        let mut state = 1_u32;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as u16
        };
        let mut uneven = 0;
        for _ in 0..1_000 {
            let flows = [(); 4].map(|()| (draw(), 1));
            let best = Placement::candidates(2).map(|placement| placement.busiest(&flows)).min();
            uneven += u32::from(best != Some(2));
        }
        assert!(uneven < 10, "{uneven} of 1,000");
        assert!(Placement::candidates(3).all(|placement| placement.lanes() == 3));
        assert_eq!(Placement::candidates(3).next(), Some(Placement::new(3)));
    }
}
