//! Limits that several crates share.

/// Inner MTU without path MTU discovery, 1,420 bytes: 1,500 less 40 (outer IPv6), 8 (UDP) and 32 (WireGuard), the default of every WireGuard.
pub const DEFAULT_MTU: u16 = 1420;

/// Smallest MTU of the TUN device, 1,280 bytes: the minimum for IPv6 (RFC 8200 section 5).
pub const MIN_MTU: u16 = 1280;

/// The longest inner packet that is sent on a path before a longer one was shown to pass, 1,000 bytes. An underlay of 1,124 bytes, the smallest seen in the wild (fault I2), carries
/// it over IPv6 and through a relay: 1,124 less 40 (IPv6), 8 (UDP), 8 (relay) and 32 (WireGuard) are 1,036.
pub const SAFE_PACKET: u16 = 1_000;

/// Largest inner MTU, 65,440 bytes: 65,535 less 40 (IPv6), 8 (UDP) and 32 (WireGuard), rounded down to WireGuard's padding of 16.
pub const MAX_MTU: u16 = 65_440;

/// Largest UDP payload, 65,507 bytes: 65,535 − 20 − 8 (RFC 768 over IPv4 without options).
pub const MAX_DATAGRAM: usize = 65_507;

/// Default UDP and TCP port, 8288: T-A-U-T on a telephone's keys. WireGuard's 51820 would clash with a `wg0`.
pub const DEFAULT_PORT: u16 = 8288;

/// Limit on the lanes of a session, 16: the receiver index has 4 bits for the lane (protocol.md 1.5).
pub const MAX_LANES: usize = 16;

/// Limit on the endpoints of a peer that are tried for one handshake, 8 (protocol.md 2.1).
pub const MAX_CANDIDATES: usize = 8;

/// Limit on the peers of a node, 65,536: far above the 10,000 of figure R20. It bounds the size of a hostile map (fault E17).
pub const MAX_PEERS: usize = 65_536;
