//! Sets of IP addresses as sorted, separate ranges.

use std::net::IpAddr;

use taut_base::Prefix;

/// A set of addresses of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AddressSet {
    four: Ranges<u32>,
    six: Ranges<u128>,
}

/// Sorted ranges, first and last included, with a gap between two neighbours.
type Ranges<N> = Vec<(N, N)>;

impl AddressSet {
    /// Returns the set of all addresses.
    pub fn all() -> Self {
        Self { four: vec![(0, u32::MAX)], six: vec![(0, u128::MAX)] }
    }

    /// Returns the union of inclusive ranges. A range whose ends are of two families, or in the wrong order, is empty.
    pub fn of_ranges(ranges: impl IntoIterator<Item = (IpAddr, IpAddr)>) -> Self {
        let (mut four, mut six) = (Vec::new(), Vec::new());
        for range in ranges {
            match range {
                (IpAddr::V4(first), IpAddr::V4(last)) => four.push((first.to_bits(), last.to_bits())),
                (IpAddr::V6(first), IpAddr::V6(last)) => six.push((first.to_bits(), last.to_bits())),
                _ => {}
            }
        }
        Self { four: sorted(four), six: sorted(six) }
    }

    /// Returns the union of prefixes.
    pub fn of_prefixes(prefixes: impl IntoIterator<Item = Prefix>) -> Self {
        Self::of_ranges(prefixes.into_iter().map(|prefix| (prefix.address(), last(prefix))))
    }

    /// Returns the set of these addresses.
    pub fn of_addresses(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self::of_ranges(addresses.into_iter().map(|address| (address, address)))
    }

    /// Returns true if the set has no address.
    pub fn is_empty(&self) -> bool {
        self.four.is_empty() && self.six.is_empty()
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.four.len() + self.six.len()
    }

    /// Returns true if the address is in the set.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(four) => within(&self.four, four.to_bits()),
            IpAddr::V6(six) => within(&self.six, six.to_bits()),
        }
    }

    /// Returns the addresses that are in one set or both.
    pub fn union(&self, other: &Self) -> Self {
        let joined = |one: &Ranges<u32>, other: &Ranges<u32>| sorted(one.iter().chain(other).copied().collect());
        let joined_six = |one: &Ranges<u128>, other: &Ranges<u128>| sorted(one.iter().chain(other).copied().collect());
        Self { four: joined(&self.four, &other.four), six: joined_six(&self.six, &other.six) }
    }

    /// Returns the addresses that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self { four: common(&self.four, &other.four), six: common(&self.six, &other.six) }
    }

    /// Returns the addresses that are in this set and not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        Self { four: common(&self.four, &complement(&other.four)), six: common(&self.six, &complement(&other.six)) }
    }

    /// Returns true if an address is in both sets.
    pub fn overlaps(&self, other: &Self) -> bool {
        touches(&self.four, &other.four) || touches(&self.six, &other.six)
    }

    /// Returns the inclusive ranges, IPv4 first.
    pub fn ranges(&self) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        let four = self.four.iter().map(|(first, last)| (IpAddr::V4((*first).into()), IpAddr::V4((*last).into())));
        four.chain(self.six.iter().map(|(first, last)| (IpAddr::V6((*first).into()), IpAddr::V6((*last).into()))))
    }

    /// Returns the fewest prefixes that have exactly these addresses, IPv4 first.
    pub fn prefixes(&self) -> Vec<Prefix> {
        let mut prefixes = Vec::new();
        for (first, last) in &self.four {
            cover(u128::from(*first), u128::from(*last), 32, &mut |address, length| {
                push(&mut prefixes, IpAddr::V4(u32::try_from(address).unwrap_or(u32::MAX).into()), length);
            });
        }
        for (first, last) in &self.six {
            cover(*first, *last, 128, &mut |address, length| push(&mut prefixes, IpAddr::V6(address.into()), length));
        }
        prefixes
    }
}

/// Returns the last address of a prefix.
pub(crate) fn last(prefix: Prefix) -> IpAddr {
    match prefix.address() {
        IpAddr::V4(first) => {
            IpAddr::V4((first.to_bits() | u32::MAX.checked_shr(prefix.length().into()).unwrap_or(0)).into())
        }
        IpAddr::V6(first) => {
            IpAddr::V6((first.to_bits() | u128::MAX.checked_shr(prefix.length().into()).unwrap_or(0)).into())
        }
    }
}

fn push(prefixes: &mut Vec<Prefix>, address: IpAddr, length: u8) {
    // The length is at most that of the address, so the prefix exists.
    prefixes.extend(Prefix::new(address, length));
}

/// Calls `found` with the prefixes that together are this range of addresses of `bits` bits.
fn cover(mut first: u128, last: u128, bits: u32, found: &mut impl FnMut(u128, u8)) {
    loop {
        // The largest block that starts here and does not end behind the range.
        let aligned = first.trailing_zeros().min(bits);
        let room = match (last - first).checked_add(1) {
            Some(addresses) => 127 - addresses.leading_zeros(),
            None => 128,
        };
        let size = aligned.min(room);
        found(first, u8::try_from(bits - size).unwrap_or(u8::MAX));
        let Some(next) = 1_u128.checked_shl(size).and_then(|block| first.checked_add(block)) else { return };
        if next > last {
            return;
        }
        first = next;
    }
}

/// A number that addresses are: `u32` or `u128`.
trait Number: Copy + Ord {
    const MIN: Self;
    const MAX: Self;
    /// Returns the next number, or `None` after the last.
    fn next(self) -> Option<Self>;
    /// Returns the number before, or `None` before the first.
    fn previous(self) -> Option<Self>;
}

impl Number for u32 {
    const MIN: Self = 0;
    const MAX: Self = u32::MAX;
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }
}

impl Number for u128 {
    const MIN: Self = 0;
    const MAX: Self = u128::MAX;
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }
}

/// Sorts ranges and joins those that overlap or touch.
fn sorted<N: Number>(mut ranges: Ranges<N>) -> Ranges<N> {
    ranges.retain(|(first, last)| first <= last);
    ranges.sort_unstable();
    let mut joined: Ranges<N> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(before) if before.1.next().is_none_or(|next| first <= next) => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}

fn within<N: Number>(ranges: &[(N, N)], number: N) -> bool {
    let behind = ranges.partition_point(|(first, _)| *first <= number);
    behind > 0 && ranges[behind - 1].1 >= number
}

fn common<N: Number>(one: &[(N, N)], other: &[(N, N)]) -> Ranges<N> {
    let mut both = Vec::new();
    overlaps(one, other, |first, last| {
        both.push((first, last));
        true
    });
    both
}

fn touches<N: Number>(one: &[(N, N)], other: &[(N, N)]) -> bool {
    let mut found = false;
    overlaps(one, other, |_, _| {
        found = true;
        false
    });
    found
}

/// Calls `found` with each range that is in both, in order, until it returns false.
fn overlaps<N: Number>(mut one: &[(N, N)], mut other: &[(N, N)], mut found: impl FnMut(N, N) -> bool) {
    while let (Some(a), Some(b)) = (one.first(), other.first()) {
        let (first, last) = (a.0.max(b.0), a.1.min(b.1));
        if first <= last && !found(first, last) {
            return;
        }
        if a.1 < b.1 {
            one = &one[1..];
        } else {
            other = &other[1..];
        }
    }
}

fn complement<N: Number>(ranges: &[(N, N)]) -> Ranges<N> {
    let mut gaps = Vec::new();
    let mut from = Some(N::MIN);
    for (first, last) in ranges {
        if let (Some(from), Some(to)) = (from, first.previous())
            && from <= to
        {
            gaps.push((from, to));
        }
        from = last.next();
    }
    if let Some(from) = from {
        gaps.push((from, N::MAX));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(text: &str) -> AddressSet {
        AddressSet::of_ranges(text.split_whitespace().map(|range| match range.split_once('-') {
            Some((first, last)) => (first.parse().unwrap(), last.parse().unwrap()),
            None => {
                let prefix: Prefix = range.parse().unwrap();
                (prefix.address(), last(prefix))
            }
        }))
    }

    fn text(set: &AddressSet) -> String {
        let prefixes: Vec<String> = set.prefixes().iter().map(Prefix::to_string).collect();
        prefixes.join(" ")
    }

    #[test]
    fn ranges_become_prefixes() {
        for (ranges, prefixes) in [
            ("", ""),
            ("192.0.2.50-192.0.2.57", "192.0.2.50/31 192.0.2.52/30 192.0.2.56/31"),
            ("10.0.0.0-10.0.0.255 10.0.1.0/24", "10.0.0.0/23"),
            ("0.0.0.0-255.255.255.255", "0.0.0.0/0"),
            ("255.255.255.254-255.255.255.255", "255.255.255.254/31"),
            ("0.0.0.1-255.255.255.255 128.0.0.0/1", &text(&set("0.0.0.1-255.255.255.255"))),
            ("::/0", "::/0"),
            (
                "::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                &text(&AddressSet::all().difference(&set("0.0.0.0/0 ::/128"))),
            ),
            ("fd00::5-fd00::9", "fd00::5/128 fd00::6/127 fd00::8/127"),
            ("10.0.0.9-10.0.0.1 10.0.0.1-fd00::1", ""),
            ("10.0.0.0/8 10.1.0.0/16 fd00::/8", "10.0.0.0/8 fd00::/8"),
        ] {
            assert_eq!(text(&set(ranges)), prefixes, "{ranges}");
        }
    }

    #[test]
    fn operations() {
        let (one, other) = (set("10.0.0.0/8 192.168.0.0/16 fd00::/64"), set("10.255.0.0/16 11.0.0.0/8 fd00::/128"));
        assert_eq!(text(&one.intersection(&other)), "10.255.0.0/16 fd00::/128");
        assert_eq!(text(&set("10.0.0.0/30").difference(&set("10.0.0.1/32"))), "10.0.0.0/32 10.0.0.2/31");
        assert_eq!(text(&one.union(&other)), "10.0.0.0/7 192.168.0.0/16 fd00::/64");
        assert!(
            one.overlaps(&other)
                && !one.overlaps(&set("12.0.0.0/8 fe80::/10"))
                && !one.overlaps(&AddressSet::default())
        );
        assert!(one.contains("10.255.255.255".parse().unwrap()) && !one.contains("11.0.0.0".parse().unwrap()));
        assert!(
            !AddressSet::default().contains("::".parse().unwrap()) && AddressSet::all().contains("::".parse().unwrap())
        );
        assert!(AddressSet::all().difference(&AddressSet::all()).is_empty());
        assert_eq!(AddressSet::all().difference(&AddressSet::default()), AddressSet::all());
        assert_eq!((one.len(), one.is_empty()), (3, false));
        assert_eq!(AddressSet::of_ranges(one.ranges()), one);
    }

    /// A few small ranges near both ends of the address space, so that they touch, overlap and reach the ends.
    fn ranges() -> impl Strategy<Value = Vec<(IpAddr, IpAddr)>> {
        let end = (0_u32..24, 0_u32..12, any::<bool>()).prop_map(|(start, length, high)| {
            let first = if high { u32::MAX - 30 + start } else { start };
            let last = first.saturating_add(length);
            (IpAddr::V4(first.into()), IpAddr::V4(last.into()))
        });
        let six = (0_u128..24, 0_u128..12, any::<bool>()).prop_map(|(start, length, high)| {
            let first = if high { u128::MAX - 30 + start } else { start };
            (IpAddr::V6(first.into()), IpAddr::V6(first.saturating_add(length).into()))
        });
        prop::collection::vec(prop_oneof![end, six], 0..6)
    }

    fn candidates() -> impl Iterator<Item = IpAddr> {
        let four = (0..40).chain(u32::MAX - 40..=u32::MAX).map(|bits| IpAddr::V4(bits.into()));
        four.chain((0..40).chain(u128::MAX - 40..=u128::MAX).map(|bits| IpAddr::V6(bits.into())))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(taut_testkit::cases(200)))]

        #[test]
        fn operations_mean_what_they_say(one in ranges(), other in ranges()) {
            let has = |ranges: &[(IpAddr, IpAddr)], address: IpAddr| ranges.iter().any(|(first, last)| {
                first.is_ipv4() == address.is_ipv4() && (*first..=*last).contains(&address)
            });
            let (a, b) = (AddressSet::of_ranges(one.clone()), AddressSet::of_ranges(other.clone()));
            let (both, any, only) = (a.intersection(&b), a.union(&b), a.difference(&b));
            for address in candidates() {
                let (in_a, in_b) = (has(&one, address), has(&other, address));
                prop_assert_eq!(a.contains(address), in_a);
                prop_assert_eq!(both.contains(address), in_a && in_b);
                prop_assert_eq!(any.contains(address), in_a || in_b);
                prop_assert_eq!(only.contains(address), in_a && !in_b);
            }
            prop_assert_eq!(a.overlaps(&b), !both.is_empty());
            for set in [&a, &both, &any, &only] {
                let prefixes = set.prefixes();
                prop_assert_eq!(&AddressSet::of_prefixes(prefixes.iter().copied()), set);
                for (place, prefix) in prefixes.iter().enumerate() {
                    prop_assert!(prefixes[..place].iter().all(|before| !before.overlaps(*prefix)), "{:?}", prefixes);
                }
            }
        }
    }
}
