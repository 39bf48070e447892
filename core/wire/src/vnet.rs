//! The header in front of every packet that is read from or written to a TUN opened with `IFF_VNET_HDR`.
//!
//! Layout: `struct virtio_net_hdr` in the kernel's `include/uapi/linux/virtio_net.h`, 10 bytes. A TUN uses the
//! *legacy* form, whose integers are in the machine's byte order, unless `TUNSETVNETLE` is set. This module always uses little-endian: on a big-endian machine
//! the device must be opened with `TUNSETVNETLE`.

/// Length of the header, 10 bytes: the default of a TUN, without `TUNSETVNETHDRSZ`. The form with `num_buffers` has 12.
pub const LEN: usize = 10;

/// Flag: the checksum is partial. The field at `csum_start + csum_offset` has the sum of the pseudo header and needs the checksum of the bytes from
/// `csum_start` to the end.
pub const NEEDS_CSUM: u8 = 1;
/// Flag: the writer of the packet has verified its checksum.
pub const DATA_VALID: u8 = 2;

/// Kind: one ordinary packet.
pub const GSO_NONE: u8 = 0;
/// Kind: a TCP superpacket over IPv4.
pub const GSO_TCPV4: u8 = 1;
/// Kind: a UDP datagram for fragmentation by IP (UFO). Never enabled, and refused by [`crate::split`].
pub const GSO_UDP: u8 = 3;
/// Kind: a TCP superpacket over IPv6.
pub const GSO_TCPV6: u8 = 4;
/// Kind: a UDP superpacket of datagrams of one size (USO), over IPv4 or IPv6.
pub const GSO_UDP_L4: u8 = 5;
/// Bit added to a TCP kind: the first segment has CWR. Only with `TUN_F_TSO_ECN`.
pub const GSO_ECN: u8 = 0x80;

/// The header's fields, as in the kernel's `struct virtio_net_hdr`. Offsets count from the start of the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    /// [`NEEDS_CSUM`] and [`DATA_VALID`].
    pub flags: u8,
    /// One of the `GSO_*` kinds; a TCP kind may have [`GSO_ECN`] added.
    pub gso_type: u8,
    /// Length of all headers. The kernel's value is a hint that may include payload.
    pub hdr_len: u16,
    /// Payload bytes of each segment but the last.
    pub gso_size: u16,
    /// Offset of the bytes that a partial checksum covers.
    pub csum_start: u16,
    /// Offset of the checksum field, from `csum_start`.
    pub csum_offset: u16,
}

impl VnetHeader {
    /// The header of an ordinary packet with a complete checksum: all zeros.
    pub const NONE: VnetHeader =
        VnetHeader { flags: 0, gso_type: GSO_NONE, hdr_len: 0, gso_size: 0, csum_start: 0, csum_offset: 0 };

    /// Splits bytes read from the TUN into header and packet. Returns `None` for fewer than [`LEN`] bytes.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<(VnetHeader, &[u8])> {
        let (header, packet) = bytes.split_first_chunk::<LEN>()?;
        Some((VnetHeader::decode(header), packet))
    }

    /// Reads the fields. Any values are accepted here; invalid ones are refused where they are used.
    #[must_use]
    pub const fn decode(bytes: &[u8; LEN]) -> VnetHeader {
        let [flags, gso_type, h0, h1, g0, g1, s0, s1, o0, o1] = *bytes;
        VnetHeader {
            flags,
            gso_type,
            hdr_len: u16::from_le_bytes([h0, h1]),
            gso_size: u16::from_le_bytes([g0, g1]),
            csum_start: u16::from_le_bytes([s0, s1]),
            csum_offset: u16::from_le_bytes([o0, o1]),
        }
    }

    /// Returns the ten bytes before a packet.
    #[must_use]
    pub const fn encode(self) -> [u8; LEN] {
        let [h0, h1] = self.hdr_len.to_le_bytes();
        let [g0, g1] = self.gso_size.to_le_bytes();
        let [s0, s1] = self.csum_start.to_le_bytes();
        let [o0, o1] = self.csum_offset.to_le_bytes();
        [self.flags, self.gso_type, h0, h1, g0, g1, s0, s1, o0, o1]
    }

    /// Returns true if the checksum is partial.
    #[must_use]
    pub const fn needs_checksum(self) -> bool {
        self.flags & NEEDS_CSUM != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_have_the_kernels_offsets() {
        let header = VnetHeader {
            flags: NEEDS_CSUM,
            gso_type: GSO_TCPV6 | GSO_ECN,
            hdr_len: 0x0102,
            gso_size: 0x0304,
            csum_start: 0x0506,
            csum_offset: 0x0708,
        };
        assert_eq!(header.encode(), [1, 0x84, 2, 1, 4, 3, 6, 5, 8, 7]);
        assert_eq!(VnetHeader::NONE.encode(), [0; LEN]);
    }

    proptest! {
        #[test]
        fn decode_and_encode_are_inverse(bytes: [u8; LEN]) {
            prop_assert_eq!(VnetHeader::decode(&bytes).encode(), bytes);
        }

        #[test]
        fn parse_takes_any_bytes(bytes: Vec<u8>) {
            match VnetHeader::parse(&bytes) {
                Some((_, packet)) => prop_assert_eq!(packet.len() + LEN, bytes.len()),
                None => prop_assert!(bytes.len() < LEN),
            }
        }
    }
}
