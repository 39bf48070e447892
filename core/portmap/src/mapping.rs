//! A port that the gateway maps.

use std::net::SocketAddr;

use taut_base::Time;

use crate::status::Protocol;

/// A port of this host that the gateway says to have mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// This host's port.
    pub port: u16,
    /// The endpoint where the world reaches the port, if the gateway tells the truth.
    pub outside: SocketAddr,
    /// The protocol that made the mapping.
    pub protocol: Protocol,
    /// The end of the lease, unless it is renewed.
    pub until: Time,
}
