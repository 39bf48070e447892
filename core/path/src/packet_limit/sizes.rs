//! The sizes of inner packets that a search for the packet limit asks for.

use std::vec::Vec;

use taut_base::{DEFAULT_MTU, SAFE_PACKET};

use crate::way::Way;

/// Packet sizes of common links, in bytes: the smallest seen in the wild (fault I2), IPv6's minimum, mobile networks, WireGuard, VXLAN, clouds, tunnels of IPv4 or IPv6 in IPv4, PPPoE, Ethernet,
/// jumbo frames, and the longest IP packet. 1,508 and 9,008 are there because they do not pass Ethernet and jumbo frames: a search that knows the next size that
/// fails ends after its first round.
const LINKS: [u16; 13] = [1_124, 1_280, 1_400, 1_420, 1_450, 1_460, 1_480, 1_492, 1_500, 1_508, 9_000, 9_008, u16::MAX];

/// Bytes of the outer headers.
const IPV4: u16 = 20;
const IPV6: u16 = 40;
const UDP: u16 = 8;
const WIREGUARD: u16 = 32;
const RELAY: u16 = 8;

/// Least distance of two sizes, 8 bytes: a limit that is exact to 8 bytes costs half a per cent of Ethernet's speed at most.
pub(crate) const PRECISION: u16 = 8;

/// Sizes between two others that are asked for at the same time. A round of four divides the interval by five: from 1,500 to 9,000 bytes it takes five rounds.
const PARTS: u16 = 5;

/// Returns the bytes around an inner packet on this way, up to its first hop. What follows a relay is found by probes.
pub(crate) const fn overhead(way: Way) -> u16 {
    let ip = if way.first_hop().is_ipv4() { IPV4 } else { IPV6 };
    ip + UDP + WIREGUARD + if way.is_relayed() { RELAY } else { 0 }
}

/// Returns the longest size to look for on this way, if the user or the device allows `longest`. A WebSocket carries packets of any length in segments of TCP, each of
/// which waits for all before it: on a link of 10 Mbit/s, a packet of 64 KiB delays all others by 50 ms.
pub(crate) fn longest_on(way: Way, longest: u16) -> u16 {
    if way.is_bridged() { longest.min(DEFAULT_MTU) } else { longest }
}

/// Returns the sizes of the first round, in rising order: what common links leave, the safe packet, a size that passed before, and the longest size.
pub(crate) fn first(way: Way, before: Option<u16>, longest: u16) -> Vec<u16> {
    let left = LINKS.map(|link| link - overhead(way));
    let common = left.into_iter().chain([longest]).filter(|size| *size > SAFE_PACKET);
    let mut sizes: Vec<u16> = common.chain([SAFE_PACKET]).chain(before).filter(|size| *size <= longest).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Returns the next longer size after `size` that common links leave, at most `longest`; `None` if there is none.
pub(crate) fn next(way: Way, size: u16, longest: u16) -> Option<u16> {
    first(way, None, longest).into_iter().find(|next| *next > size)
}

/// Returns sizes between one that passes and one that does not, in rising order; none if they are as close as [`PRECISION`].
pub(crate) fn between(passes: u16, fails: u16) -> Vec<u16> {
    let distance = fails.saturating_sub(passes);
    let step = (distance / PARTS).max(PRECISION);
    (1..PARTS).map(|part| passes + step * part).filter(|size| distance > PRECISION && *size < fails).collect()
}
