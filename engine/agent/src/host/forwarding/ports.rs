//! The ports that an exit node gives to the connections of its clients.
//!
//! A connection keeps its source port when it is masqueraded, unless another port is asked for. A client could then send from the port of a server that listens at the exit node, to an
//! address of its choice, and what that address sends to the server would reach the client instead (port shadow, CVE-2021-3773, fault G12). So each connection gets a port from a
//! range of its own, drawn at random: above the ports that the kernel gives to this host's own connections, and without ports on which the host listens, the daemon's own
//! UDP ports among them.

use std::fs;

/// The kernel's ports for the host's own connections where /proc does not tell: its default (net.ipv4.ip_local_port_range).
const USUAL_EPHEMERAL: (u16, u16) = (32_768, 60_999);

/// Lowest port that is given to a connection: those below belong to the system's services.
const FIRST: u16 = 1_024;

/// Least number of ports for the connections to one server, 1,024: with fewer the other side of the kernel's own range is looked at, too.
const ENOUGH: u16 = 1_024;

/// The range where the kernel's own takes everything.
const LAST_RESORT: (u16, u16) = (61_000, 65_535);

/// Reads the range that the kernel takes ports from for the host's own connections.
pub(super) fn ephemeral() -> (u16, u16) {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let numbers: Vec<u16> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    if let [first, last] = numbers[..] { (first, last) } else { USUAL_EPHEMERAL }
}

/// Returns the first and the last port for masqueraded connections. `ephemeral` is the kernel's range, `taken` are the ports on which the host listens. `present` stays while it
/// is good, so that the rules do not change with every port that is opened elsewhere.
pub(super) fn choose(ephemeral: (u16, u16), taken: &[u16], present: Option<(u16, u16)>) -> (u16, u16) {
    let is_free = |range: (u16, u16)| !taken.iter().any(|port| (range.0..=range.1).contains(port));
    let is_apart = |range: (u16, u16)| range.0 > ephemeral.1 || range.1 < ephemeral.0;
    if let Some(present) = present.filter(|range| is_free(*range) && is_apart(*range) && length(*range) >= ENOUGH) {
        return present;
    }
    let above = ephemeral.1.checked_add(1).map(|first| longest_gap((first.max(FIRST), u16::MAX), taken));
    let below = ephemeral.0.checked_sub(1).map(|last| longest_gap((FIRST, last), taken));
    let found = above.filter(|range| length(*range) >= ENOUGH);
    let found = found.or_else(|| above.into_iter().chain(below).max_by_key(|range| length(*range)));
    found.filter(|range| length(*range) >= ENOUGH).unwrap_or_else(|| longest_gap(LAST_RESORT, taken))
}

/// Returns the longest part of a range without any of these ports.
fn longest_gap((first, last): (u16, u16), taken: &[u16]) -> (u16, u16) {
    let mut inside: Vec<u16> = taken.iter().copied().filter(|port| (first..=last).contains(port)).collect();
    inside.sort_unstable();
    let begins = std::iter::once(first).chain(inside.iter().map(|port| port.saturating_add(1)));
    let ends = inside.iter().map(|port| port.saturating_sub(1)).chain([last]);
    begins.zip(ends).max_by_key(|range| length(*range)).unwrap_or((first, last))
}

/// Returns the number of ports.
fn length((first, last): (u16, u16)) -> u16 {
    if first > last { 0 } else { (last - first).saturating_add(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_g12_ports_are_apart_from_the_kernels_own_and_from_servers() {
        assert_eq!(choose(USUAL_EPHEMERAL, &[], None), (61_000, 65_535));
        assert_eq!(choose(USUAL_EPHEMERAL, &[22, 8_288, 62_000], None), (62_001, 65_535));
        assert_eq!(choose((1_024, 65_000), &[], None), LAST_RESORT, "nothing else is left");
        assert_eq!(choose((20_000, 65_535), &[8_288], None), (8_289, 19_999), "below, beside the daemon's port");
        assert_eq!(choose((20_000, 65_000), &[], None), (1_024, 19_999), "above there is too little");
        assert_eq!(choose((1, 65_535), &[61_000], None), (61_001, 65_535));
    }

    #[test]
    fn fault_g12_a_range_stays_until_a_server_listens_in_it() {
        let present = choose(USUAL_EPHEMERAL, &[62_000], None);
        assert_eq!(choose(USUAL_EPHEMERAL, &[], Some(present)), present);
        let next = choose(USUAL_EPHEMERAL, &[63_000], Some(present));
        assert_eq!(next, (63_001, 65_535));
        assert_eq!(choose((32_768, 64_000), &[], Some(present)), (64_001, 65_535), "the kernel's range grew");
    }
}
