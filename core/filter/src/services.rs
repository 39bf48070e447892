//! Decides which flows in progress the host began; the crate's documentation explains why.

use taut_wire::ip::{TCP, UDP};

use crate::classified::{Classified, Transport};

/// Time after the rules became narrower during which datagrams from the host's service ports add no flow, 180 s: a client that was cut off gives up within three minutes.
const SETTLING: u32 = 180;

/// First ephemeral port of Linux unless the host says otherwise, 32,768 (net.ipv4.ip_local_port_range).
const EPHEMERAL: u16 = 32_768;

/// The ports on which the host offers services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePorts {
    /// One bit per port of TCP that the host listens on; `None` if that is unknown.
    listening: Option<Box<[u64; 1024]>>,
    /// The first ephemeral port: for flows that the host begins, the kernel chooses ports from here on.
    ephemeral: u16,
}

impl Default for ServicePorts {
    fn default() -> Self {
        Self { listening: None, ephemeral: EPHEMERAL }
    }
}

impl ServicePorts {
    /// Returns the ports of a host that listens on these ports of TCP, with its first ephemeral port.
    pub fn new(listening: impl IntoIterator<Item = u16>, ephemeral: u16) -> Self {
        let mut bits = Box::new([0_u64; 1024]);
        for port in listening {
            bits[usize::from(port >> 6)] |= 1 << (port & 63);
        }
        Self { listening: Some(bits), ephemeral }
    }

    fn listens(&self, port: u16) -> bool {
        match &self.listening {
            Some(bits) => bits[usize::from(port >> 6)] >> (port & 63) & 1 == 1,
            None => port < self.ephemeral,
        }
    }
}

/// Decides whether a packet of the host that belongs to no known flow adds one.
#[derive(Clone, Debug, Default)]
pub struct Services {
    ports: ServicePorts,
    /// The second in which the rules became narrower, if they did.
    narrowed: Option<u32>,
}

impl Services {
    /// Returns the decision for a host with these service ports, whose rules became narrower in the second `narrowed`, if they did.
    pub fn new(ports: ServicePorts, narrowed: Option<u32>) -> Self {
        Self { ports, narrowed }
    }

    /// Returns true if the packet adds its flow. `now` is in seconds.
    pub fn may_begin(&self, packet: &Classified, now: u32) -> bool {
        let Transport::Ports { source, opens, .. } = packet.transport else { return true };
        match packet.protocol {
            TCP => opens || !self.ports.listens(source),
            UDP if source < self.ports.ephemeral => {
                self.narrowed.is_none_or(|narrowed| now.saturating_sub(narrowed) >= SETTLING)
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, source: u16, opens: bool) -> Classified {
        let transport = Transport::Ports { source, destination: 9, opens, ends: false };
        Classified { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), protocol, transport }
    }

    #[test]
    fn a_connection_that_the_host_accepted_is_not_its_own() {
        let services = Services::new(ServicePorts::new([22, 50_000], 32_768), None);
        let begins = |source, opens| services.may_begin(&packet(TCP, source, opens), 7);
        assert!(begins(22, true), "a SYN begins a connection, whatever its port");
        assert!(!begins(22, false) && !begins(50_000, false));
        assert!(begins(23, false) && begins(50_001, false), "as after a restart of this program");
        let unknown = Services::default();
        assert!(!unknown.may_begin(&packet(TCP, 23, false), 7) && unknown.may_begin(&packet(TCP, 40_000, false), 7));
    }

    #[test]
    fn a_service_of_udp_begins_nothing_for_three_minutes_after_narrower_rules() {
        let narrowed = Services::new(ServicePorts::new([], 32_768), Some(100));
        let begins = |source, now| narrowed.may_begin(&packet(UDP, source, false), now);
        assert!(!begins(53, 100) && !begins(53, 279) && begins(53, 280) && begins(40_000, 100));
        assert!(Services::default().may_begin(&packet(UDP, 53, false), 0));
    }
}
