//! The offloads of a device, and the order in which they are dropped.

/// Offloads of a device, requested or granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// Each packet has a header of [`HEADER_LEN`](crate::HEADER_LEN) bytes in front. Without it there are no
    /// other offloads.
    pub vnet_header: bool,
    /// Checksums may be partial. Without it there is neither TSO nor USO: the kernel grants them only together with it.
    pub checksum: bool,
    /// TCP superpackets, IPv4 and IPv6, also those whose first segment tells that its sender slowed down (CWR, RFC 3168).
    pub tso: bool,
    /// UDP superpackets, IPv4 and IPv6; Linux 6.2 and later.
    pub uso: bool,
}

impl Offload {
    /// All offloads that this crate supports.
    pub const ALL: Self = Self { vnet_header: true, checksum: true, tso: true, uso: true };
    /// What the two ends of a [packet socket](crate::packet_pair()) pass to each other: superpackets of TCP. UDP superpackets would need a reader that splits them.
    pub const PACKET_SOCKET: Self = Self { vnet_header: true, checksum: true, tso: true, uso: false };
    /// Bare packets, one per read and write.
    pub const NONE: Self = Self { vnet_header: false, checksum: false, tso: false, uso: false };

    /// Returns these offloads without those that lack what they depend on.
    pub(crate) fn consistent(self) -> Self {
        let checksum = self.checksum && self.vnet_header;
        Self { vnet_header: self.vnet_header, checksum, tso: self.tso && checksum, uso: self.uso && checksum }
    }

    /// Returns the sets to request, in this order, until the kernel grants one. It never refuses the last, a header alone.
    pub(crate) fn ladder(self) -> [Self; 4] {
        let no_uso = Self { uso: false, ..self };
        let no_tso = Self { tso: false, ..no_uso };
        [self, no_uso, no_tso, Self { checksum: false, ..no_tso }]
    }

    /// Returns the argument of `TUNSETOFFLOAD` (include/uapi/linux/if_tun.h).
    pub(crate) fn bits(self) -> libc::c_uint {
        let mut bits = 0;
        if self.checksum {
            bits |= libc::TUN_F_CSUM;
        }
        if self.tso {
            bits |= libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        }
        if self.uso {
            bits |= libc::TUN_F_USO4 | libc::TUN_F_USO6;
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::Offload;

    #[test]
    fn what_cannot_be_had_alone_is_not_asked_for() {
        assert_eq!(Offload::ALL.consistent(), Offload::ALL);
        assert_eq!(Offload { vnet_header: false, ..Offload::ALL }.consistent(), Offload::NONE);
        let bare_header = Offload { vnet_header: true, ..Offload::NONE };
        assert_eq!(Offload { checksum: false, ..Offload::ALL }.consistent(), bare_header);
    }

    #[test]
    fn the_ladder_gives_up_the_youngest_first_and_ends_with_nothing() {
        let bits: Vec<_> = Offload::ALL.ladder().iter().map(|step| step.bits()).collect();
        assert_eq!(bits, [0x01 | 0x0e | 0x60, 0x01 | 0x0e, 0x01, 0]);
        let only_uso = Offload { tso: false, ..Offload::ALL };
        assert_eq!(only_uso.ladder()[0].bits(), 0x01 | 0x60);
        assert!(only_uso.ladder().iter().all(|step| step.vnet_header && !step.tso));
    }
}
