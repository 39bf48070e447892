//! The packet limits of all peers, and the MTUs that follow from them for the device and for routes (docs/internals/mtu.md).
//!
//! The device gets the largest limit, so that a jumbo link is used, and a peer with a smaller one gets it as the `mtu` of its routes. A peer whose limit flaps costs the host two
//! changes a second at most (law 15): a lower limit takes effect at once, a higher one [`RAISE_INTERVAL`] after the last change. Meanwhile the lane cuts what is too long.

use std::time::Duration;

use taut_base::{DEFAULT_MTU, MAX_MTU, MIN_MTU, PeerId, SortedMap, Time};

/// Shortest time between a change of a peer's MTU and the next rise, 1 s.
const RAISE_INTERVAL: Duration = Duration::from_secs(1);

/// The packet limits of the peers.
#[derive(Debug)]
pub(crate) struct PacketLimits {
    /// The device's MTU that the user fixed (`--mtu`).
    fixed: Option<u16>,
    peers: SortedMap<PeerId, PeerLimit>,
}

#[derive(Debug)]
struct PeerLimit {
    /// The MTU that the host follows: the limit, but at least 1,280.
    applied: u16,
    /// The latest limit.
    latest: u16,
    /// From this time on the applied limit may rise.
    rises_from: Time,
}

impl PacketLimits {
    /// Returns no limits, for a device whose MTU is `fixed` or follows the limits.
    pub(crate) fn new(fixed: Option<u16>) -> Self {
        Self { fixed, peers: SortedMap::new() }
    }

    /// Returns true if the user fixed the device's MTU.
    pub(crate) fn is_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// Takes the limit of a peer. Returns true if the host has to follow now.
    pub(crate) fn set(&mut self, peer: PeerId, limit: u16, now: Time) -> bool {
        let known = self.peers.entry(peer).or_insert(PeerLimit { applied: 0, latest: limit, rises_from: now });
        known.latest = limit;
        known.apply(now)
    }

    /// Forgets all peers for which `is_known` is false. Returns true if the host has to follow.
    pub(crate) fn keep_only(&mut self, is_known: impl Fn(PeerId) -> bool) -> bool {
        let before = self.peers.len();
        self.peers.retain(|peer, _| is_known(*peer));
        self.peers.len() != before
    }

    /// Applies the rises that waited. Returns true if the host has to follow.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        // All of them, not only the first.
        self.peers.values_mut().filter_map(|limit| limit.apply(now).then_some(())).count() > 0
    }

    /// Returns when [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.peers.values().filter(|limit| limit.wanted() != limit.applied).map(|limit| limit.rises_from).min()
    }

    /// Returns the device's MTU. Peers without a limit count as [`DEFAULT_MTU`]; `all` is the number of peers.
    pub(crate) fn device(&self, all: usize) -> u16 {
        let others = (self.peers.len() < all || self.peers.is_empty()).then_some(DEFAULT_MTU);
        let largest = self.peers.values().map(|limit| limit.applied).chain(others).max();
        self.fixed.or(largest).unwrap_or(DEFAULT_MTU)
    }

    /// Returns the `mtu` of the routes to a peer, if they need one on a device of this MTU. A native peer cannot be measured and keeps [`DEFAULT_MTU`]. The routes to a Taut peer
    /// without a limit need none: the lane cuts what is too long until the limit is known.
    pub(crate) fn route(&self, peer: PeerId, is_native: bool, device: u16) -> Option<u16> {
        let limit = self.peers.get(&peer).map(|limit| limit.applied).or(is_native.then_some(DEFAULT_MTU));
        limit.filter(|limit| *limit < device)
    }
}

impl PeerLimit {
    /// Follows the latest limit, if that may be now.
    fn apply(&mut self, now: Time) -> bool {
        let wanted = self.wanted();
        let may = wanted < self.applied || wanted > self.applied && now >= self.rises_from;
        if may {
            (self.applied, self.rises_from) = (wanted, now + RAISE_INTERVAL);
        }
        may
    }

    /// Returns the MTU that the latest limit asks for. IPv6 needs 1,280 bytes; the lane sends in parts what a shorter path does not carry.
    fn wanted(&self) -> u16 {
        self.latest.clamp(MIN_MTU, MAX_MTU)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerId = PeerId(1);
    const B: PeerId = PeerId(2);
    const NATIVE: PeerId = PeerId(3);

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_device_follows_the_largest_limit_and_routes_the_smaller_ones() {
        let mut limits = PacketLimits::new(None);
        assert_eq!((limits.device(0), limits.device(3)), (1_420, 1_420));
        assert!(limits.set(A, 1_440, at(0)));
        assert_eq!((limits.device(1), limits.device(3)), (1_440, 1_440));
        assert!(limits.set(B, 8_920, at(0)));
        let device = limits.device(3);
        assert_eq!(device, 8_920);
        assert_eq!([A, B].map(|peer| limits.route(peer, false, device)), [Some(1_440), None]);
        assert_eq!(limits.route(NATIVE, true, device), Some(1_420), "a native peer cannot be measured");
        assert_eq!(limits.route(PeerId(9), false, device), None, "the lane cuts until its limit is known");
        assert!(limits.keep_only(|peer| peer != B) && !limits.keep_only(|peer| peer != B));
        assert_eq!((limits.device(1), limits.route(A, false, 1_440)), (1_440, None));
    }

    #[test]
    fn a_path_below_1280_bytes_gets_1280_and_a_network_of_short_paths_less_than_1420() {
        let mut limits = PacketLimits::new(None);
        assert!(limits.set(A, 1_040, at(0)));
        assert_eq!((limits.device(1), limits.device(2)), (1_280, 1_420));
    }

    #[test]
    fn a_fixed_mtu_stays_and_routes_are_lowered() {
        let mut limits = PacketLimits::new(Some(8_900));
        assert!(limits.set(A, 1_440, at(0)) && limits.set(B, 9_000, at(0)));
        assert_eq!(limits.device(2), 8_900);
        assert_eq!([A, B].map(|peer| limits.route(peer, false, 8_900)), [Some(1_440), None]);
    }

    #[test]
    fn fault_p5_a_flapping_limit_changes_the_host_twice_a_second_at_most() {
        let mut limits = PacketLimits::new(None);
        let mut changes = 0;
        for step in 0..1_000 {
            let limit = if step % 2 == 0 { 8_920 } else { 1_440 };
            changes += u32::from(limits.set(A, limit, at(step * 10)));
            changes += u32::from(
                limits.poll_timeout().is_some_and(|due| due <= at(step * 10)) && limits.handle_timeout(at(step * 10)),
            );
        }
        assert!((10..=21).contains(&changes), "{changes} within 10 s");
        assert!(limits.set(A, 1_300, at(10_000)), "a lower limit takes effect at once");
        assert!(!limits.set(A, 1_440, at(10_100)));
        assert_eq!(limits.poll_timeout(), Some(at(11_000)));
        assert!(limits.handle_timeout(at(11_000)) && limits.poll_timeout().is_none());
        assert_eq!(limits.device(1), 1_440);
    }
}
