//! Conditions and verdicts for packets of this host's own programs: names of interfaces, marks, ports.

use crate::abi;

use super::NftRule;
use super::rule::{Expression, MarkOf};

/// Length of an interface's name in a register, with its zero bytes (if.h, `IFNAMSIZ`).
const NAME_LEN: usize = 16;

impl NftRule {
    /// Condition: the packet leaves by the interface of this name, or, with a `*` at its end, by one whose name begins so. The interface need not exist.
    #[must_use]
    pub fn to_named(self, name: &str) -> Self {
        self.named(abi::NFT_META_OIFNAME, name)
    }

    /// Condition: the packet came by the interface of this name, as in [`Self::to_named`].
    #[must_use]
    pub fn from_named(self, name: &str) -> Self {
        self.named(abi::NFT_META_IIFNAME, name)
    }

    /// Condition: the packet has this mark under this mask.
    #[must_use]
    pub fn marked(self, mark: u32, mask: u32) -> Self {
        self.with(Expression::Marked { on: MarkOf::Packet, mark, mask })
    }

    /// Condition: the packet's connection has this mark under this mask.
    #[must_use]
    pub fn of_marked_connection(self, mark: u32, mask: u32) -> Self {
        self.with(Expression::Marked { on: MarkOf::Connection, mark, mask })
    }

    /// Condition: the packet goes to an address of this host, before other programs' rules change where it goes.
    #[must_use]
    pub fn to_host(self) -> Self {
        self.with(Expression::ToHost)
    }

    /// Condition: it is the first packet of a connection that the kernel sees.
    #[must_use]
    pub fn of_new_connection(self) -> Self {
        self.with(Expression::State(abi::CT_NEW))
    }

    /// Condition: the packet goes in the direction of the first packet of its connection that the kernel saw.
    #[must_use]
    pub fn in_first_direction(self) -> Self {
        self.with(Expression::FirstDirection)
    }

    /// Condition: it is a UDP datagram between these ports, of this family.
    #[must_use]
    pub fn udp(self, ipv4: bool, from: u16, to: u16) -> Self {
        let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
        self.family(ipv4).protocol(libc::IPPROTO_UDP).transport(0, ports)
    }

    /// Condition: it is a TCP segment.
    #[must_use]
    pub fn tcp(self) -> Self {
        self.protocol(libc::IPPROTO_TCP)
    }

    /// Condition: it is a TCP segment from this port that begins no connection.
    #[must_use]
    pub fn tcp_within(self, from: u16) -> Self {
        let flags = Expression::Transport { offset: 13, value: vec![0], mask: vec![0x02] };
        self.tcp().transport(0, from.to_be_bytes().to_vec()).with(flags)
    }

    /// Condition: it is an ICMPv6 message of this type.
    #[must_use]
    pub fn icmpv6(self, kind: u8) -> Self {
        self.family(false).protocol(libc::IPPROTO_ICMPV6).transport(0, vec![kind])
    }

    /// Condition: the packet's address family is in this set of the table ([`super::NftTable::replace_with`]).
    #[must_use]
    pub fn family_in(self, set: &str) -> Self {
        self.with(Expression::FamilyIn(String::from(set)))
    }

    /// Sets the packet's mark under this mask; its other bits stay.
    #[must_use]
    pub fn set_mark(self, mark: u32, mask: u32) -> Self {
        self.with(Expression::SetMark { on: MarkOf::Packet, mark, mask })
    }

    /// Sets the mark of the packet's connection under this mask; its other bits stay.
    #[must_use]
    pub fn set_connection_mark(self, mark: u32, mask: u32) -> Self {
        self.with(Expression::SetMark { on: MarkOf::Connection, mark, mask })
    }

    /// Counts the packet ([`super::NftTable::counted`]).
    #[must_use]
    pub fn count(self) -> Self {
        self.with(Expression::Count)
    }

    /// The TCP segment is dropped, and its sender gets a reset: it fails at once. (An ICMP error would come while its socket is in use, and be ignored; other protocols learn of a drop by
    /// `EPERM`.)
    #[must_use]
    pub fn reject_tcp(self) -> Self {
        self.tcp().with(Expression::ResetTcp)
    }

    fn named(self, key: u32, name: &str) -> Self {
        let mut value = name.as_bytes().to_vec();
        match value.pop_if(|last| *last == b'*') {
            // The beginning alone is compared.
            Some(_) => value.truncate(NAME_LEN),
            None => value.resize(NAME_LEN, 0),
        }
        self.with(Expression::Meta { key, value, is: true })
    }

    fn family(self, ipv4: bool) -> Self {
        let value = vec![if ipv4 { abi::AF_INET } else { abi::AF_INET6 }];
        self.with(Expression::Meta { key: abi::NFT_META_NFPROTO, value, is: true })
    }

    fn protocol(self, number: libc::c_int) -> Self {
        let value = vec![u8::try_from(number).unwrap_or_default()];
        self.with(Expression::Meta { key: abi::NFT_META_L4PROTO, value, is: true })
    }

    fn transport(self, offset: u32, value: Vec<u8>) -> Self {
        let mask = vec![0xff; value.len()];
        self.with(Expression::Transport { offset, value, mask })
    }
}
