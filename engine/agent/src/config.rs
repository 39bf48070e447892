//! What a daemon is told at its start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::log::LogOptions;

/// Sockets of one search, where nobody says otherwise: see [`Config::search_sockets`].
pub const SEARCH_SOCKETS: u16 = taut_path::SOCKETS;

/// How a daemon runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where keys, membership and the last good map are kept.
    pub state_dir: PathBuf,
    /// Where the local API answers.
    pub socket: PathBuf,
    /// UDP port; `None` lets the daemon choose: that of the last run, the usual one, or any.
    pub port: Option<u16>,
    /// Lanes, 1 to 16: threads that move packets, each with a UDP port and a queue of the TUN device.
    pub lanes: u8,
    /// Name of the TUN device.
    pub tun_name: String,
    /// MTU of the TUN device, in bytes.
    pub mtu: u16,
    /// Kill switch of the TUN's offloads.
    pub tun_offload: bool,
    /// Kill switch of the program that has the kernel steer flows to lanes.
    pub tun_steering: bool,
    /// Kill switch of GSO on the UDP socket.
    pub udp_gso: bool,
    /// Kill switch of GRO on the UDP socket.
    pub udp_gro: bool,
    /// Wait for packets without sleeping, for 50 ms after each: sooner there, at the price of up to a core per lane.
    pub low_latency: bool,
    /// Kill switch of AES-256-GCM between nodes that both have it in hardware.
    pub aes: bool,
    /// Kill switch of port mapping: nothing is asked of the router in front of this host.
    pub portmap: bool,
    /// Sockets that are opened at most, for some seconds, to find a peer that no other way leads to; 0 for none.
    pub search_sockets: u16,
    /// Where a Prometheus may read the figures, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// End the daemon when a user says `down`: for a daemon that a user's `up` started.
    pub exit_when_down: bool,
    /// Tests only: shortens the life of sessions.
    pub rekey_after: Option<Duration>,
    /// Which events are recorded, and where they are printed.
    pub log: LogOptions,
    /// Version of the program, for users and the coordinator.
    pub version: String,
}
