//! Sizes that bound everything else.

/// Inner MTU without path MTU discovery: 1,500 less 40 (outer IPv6), 8 (UDP), 32 (WireGuard), as every WireGuard uses.
pub const DEFAULT_MTU: u16 = 1420;

/// Smallest MTU of the TUN device: IPv6 needs it (RFC 8200 section 5).
pub const MIN_MTU: u16 = 1280;

/// Largest inner MTU: 65,535 less 40 (IPv6), 8 (UDP), 32 (WireGuard), rounded down to the 16 that WireGuard pads to.
pub const MAX_MTU: u16 = 65_440;

/// Largest UDP payload (RFC 768 over IPv4 without options): 65,535 − 20 − 8.
pub const MAX_DATAGRAM: usize = 65_507;

/// UDP and TCP port of Taut unless told otherwise: T-A-U-T on a telephone's keys. WireGuard's 51820 would clash with a `wg0`.
pub const DEFAULT_PORT: u16 = 8288;

/// Lanes of one session; the receiver index has 4 bits for them (protocol.md 1.5).
pub const MAX_LANES: usize = 16;

/// Endpoints of a peer that are tried for one handshake (protocol.md 2.1).
pub const MAX_CANDIDATES: usize = 8;

/// Peers of one node. Far above figure R20's 10,000; keeps a hostile map from growing without bound (fault E17).
pub const MAX_PEERS: usize = 65_536;
