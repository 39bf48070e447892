//! Superpackets of the test kit, with this crate's virtio header.

pub(crate) use taut_testkit::packets::{Ip, Tcp, is_right, naive_sum, payload, upper_layer};

use crate::vnet::VnetHeader;

/// Superpackets as a kernel passes them to a TUN reader.
pub(crate) trait Superpackets {
    /// Returns a TCP superpacket with a partial checksum.
    fn tcp_super(&self, tcp: &Tcp, gso_size: u16) -> (VnetHeader, Vec<u8>);

    /// Returns a UDP superpacket with a partial checksum.
    fn udp_super(&self, ports: (u16, u16), payload: &[u8], gso_size: u16) -> (VnetHeader, Vec<u8>);
}

impl Superpackets for Ip {
    fn tcp_super(&self, tcp: &Tcp, gso_size: u16) -> (VnetHeader, Vec<u8>) {
        let (header, packet) = self.tcp_superpacket(tcp, gso_size);
        (VnetHeader::decode(&header.encode()), packet)
    }

    fn udp_super(&self, ports: (u16, u16), payload: &[u8], gso_size: u16) -> (VnetHeader, Vec<u8>) {
        let (header, packet) = self.udp_superpacket(ports, payload, gso_size);
        (VnetHeader::decode(&header.encode()), packet)
    }
}
