//! Rules: conditions, and what happens to packets that fulfil all of them.

use std::net::IpAddr;

use taut_base::Prefix;

use crate::abi;

use super::batch::Batch;

/// A rule under construction: conditions first, then one verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NftRule(pub(super) Vec<Expression>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// A number about the packet is this one (`true`), or another one.
    Meta {
        key: u32,
        value: Vec<u8>,
        is: bool,
    },
    /// The source (`true`) or the destination is in the prefix.
    Address {
        is_source: bool,
        prefix: Prefix,
    },
    /// The connection has one of these states.
    State(u32),
    /// The packet goes in the direction of its connection's first packet.
    FirstDirection,
    /// The host's route to the source leads elsewhere than to the interface that the packet came by, or there is none.
    OtherWayBack,
    /// The mark of the packet, or of its connection, has this value under this mask.
    Marked {
        on: MarkOf,
        mark: u32,
        mask: u32,
    },
    /// Sets the bits of the mask to those of the mark.
    SetMark {
        on: MarkOf,
        mark: u32,
        mask: u32,
    },
    /// Bytes behind the network header have this value under this mask.
    Transport {
        offset: u32,
        value: Vec<u8>,
        mask: Vec<u8>,
    },
    /// The packet's address family is in this set.
    FamilyIn(String),
    /// The packet goes to an address of this host.
    ToHost,
    Count,
    ResetTcp,
    Verdict(u32),
    /// Answers that there is no route.
    AnswerNoRoute,
    Masquerade,
    /// Masquerades with a random port of this range.
    MasqueradeTo(u16, u16),
    /// Maps source (`true`) or destination into the prefix, one to one.
    Map {
        is_source: bool,
        into: Prefix,
    },
}

/// Whose mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkOf {
    Packet,
    Connection,
}

impl NftRule {
    /// Returns a rule without conditions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Condition: the packet came by this interface.
    #[must_use]
    pub fn from_interface(self, index: u32) -> Self {
        self.meta(abi::NFT_META_IIF, index, true)
    }

    /// Condition: the packet leaves by this interface.
    #[must_use]
    pub fn to_interface(self, index: u32) -> Self {
        self.meta(abi::NFT_META_OIF, index, true)
    }

    /// Condition: the packet leaves by another interface than this one.
    #[must_use]
    pub fn not_to_interface(self, index: u32) -> Self {
        self.meta(abi::NFT_META_OIF, index, false)
    }

    /// Condition: the packet came by an interface of another type than this one (`ARPHRD_…` of linux/if_arp.h).
    #[must_use]
    pub fn not_from_type(self, link_type: u16) -> Self {
        self.with(Expression::Meta { key: abi::NFT_META_IIFTYPE, value: link_type.to_ne_bytes().to_vec(), is: false })
    }

    /// Condition: this host would send packets to the source by another interface than the one that the packet came by. For IPv4: the kernel answers for IPv6 only whether there is a
    /// route by that interface.
    #[must_use]
    pub fn way_back_is_another(self) -> Self {
        self.with(Expression::OtherWayBack)
    }

    /// Condition: it is a packet of IPv4.
    #[must_use]
    pub fn of_ipv4(self) -> Self {
        self.of_family(abi::AF_INET)
    }

    /// Condition: it is a packet of IPv6.
    #[must_use]
    pub fn of_ipv6(self) -> Self {
        self.of_family(abi::AF_INET6)
    }

    /// Condition: the packet comes from this prefix.
    #[must_use]
    pub fn source(self, prefix: Prefix) -> Self {
        self.of_family(family(prefix)).with(Expression::Address { is_source: true, prefix })
    }

    /// Condition: the packet goes to this prefix.
    #[must_use]
    pub fn destination(self, prefix: Prefix) -> Self {
        self.of_family(family(prefix)).with(Expression::Address { is_source: false, prefix })
    }

    /// Condition: the packet belongs to a connection whose first packet passed, or is an error about one.
    #[must_use]
    pub fn of_known_connection(self) -> Self {
        self.with(Expression::State(abi::CT_ESTABLISHED | abi::CT_RELATED))
    }

    /// The packet passes.
    #[must_use]
    pub fn accept(self) -> Self {
        self.with(Expression::Verdict(abi::NF_ACCEPT))
    }

    /// The packet is dropped.
    #[must_use]
    pub fn drop(self) -> Self {
        self.with(Expression::Verdict(abi::NF_DROP))
    }

    /// The packet is dropped, and its sender told that there is no route. Before packets are forwarded this needs Linux 5.9.
    #[must_use]
    pub fn answer_no_route(self) -> Self {
        self.with(Expression::AnswerNoRoute)
    }

    /// The packet gets an address of this host as its source. For a chain at [`super::NftHook::Postrouting`].
    #[must_use]
    pub fn masquerade(self) -> Self {
        self.with(Expression::Masquerade)
    }

    /// As [`Self::masquerade`], with a source port of this range, which is drawn at random for each connection. Connections of protocols without ports keep what they have.
    #[must_use]
    pub fn masquerade_to(self, (first, last): (u16, u16)) -> Self {
        self.with(Expression::MasqueradeTo(first, last))
    }

    /// The packet's source is mapped one to one into a prefix of the same length. For a chain at [`super::NftHook::Postrouting`].
    #[must_use]
    pub fn map_source(self, into: Prefix) -> Self {
        self.with(Expression::Map { is_source: true, into })
    }

    /// The packet's destination is mapped one to one into a prefix of the same length. For a chain at [`super::NftHook::Prerouting`].
    #[must_use]
    pub fn map_destination(self, into: Prefix) -> Self {
        self.with(Expression::Map { is_source: false, into })
    }

    fn meta(self, key: u32, value: u32, is: bool) -> Self {
        self.with(Expression::Meta { key, value: value.to_ne_bytes().to_vec(), is })
    }

    fn of_family(self, family: u8) -> Self {
        self.with(Expression::Meta { key: abi::NFT_META_NFPROTO, value: vec![family], is: true })
    }

    pub(super) fn with(mut self, expression: Expression) -> Self {
        self.0.push(expression);
        self
    }

    pub(super) fn write(&self, batch: &mut Batch) {
        self.0.iter().for_each(|expression| expression.write(batch));
    }
}

impl Expression {
    fn write(&self, batch: &mut Batch) {
        match self {
            Self::Meta { key, value, is } => {
                batch.expression("meta", |batch| {
                    batch.number(abi::NFTA_META_KEY, *key);
                    batch.number(abi::NFTA_META_DREG, abi::NFT_REG_1);
                });
                compare(batch, value, *is);
            }
            Self::Address { is_source, prefix } => write_address(batch, *is_source, *prefix),
            Self::State(states) => {
                batch.expression("ct", |batch| {
                    batch.number(abi::NFTA_CT_KEY, abi::NFT_CT_STATE);
                    batch.number(abi::NFTA_CT_DREG, abi::NFT_REG_1);
                });
                mask(batch, &states.to_ne_bytes());
                compare(batch, &[0; 4], false);
            }
            Self::FirstDirection => {
                batch.expression("ct", |batch| {
                    batch.number(abi::NFTA_CT_KEY, abi::NFT_CT_DIRECTION);
                    batch.number(abi::NFTA_CT_DREG, abi::NFT_REG_1);
                });
                compare(batch, &[abi::IP_CT_DIR_ORIGINAL], true);
            }
            Self::OtherWayBack => {
                batch.expression("fib", |batch| {
                    batch.number(abi::NFTA_FIB_DREG, abi::NFT_REG_1);
                    batch.number(abi::NFTA_FIB_RESULT, abi::NFT_FIB_RESULT_OIF);
                    batch.number(abi::NFTA_FIB_FLAGS, abi::NFTA_FIB_F_SADDR | abi::NFTA_FIB_F_IIF);
                });
                compare(batch, &[0; 4], true);
            }
            Self::Verdict(code) => batch.expression("immediate", |batch| {
                batch.number(abi::NFTA_IMMEDIATE_DREG, abi::NFT_REG_VERDICT);
                let data = batch.nest(abi::NFTA_IMMEDIATE_DATA);
                let verdict = batch.nest(abi::NFTA_DATA_VERDICT);
                batch.number(abi::NFTA_VERDICT_CODE, *code);
                batch.close(verdict);
                batch.close(data);
            }),
            Self::AnswerNoRoute => batch.expression("reject", |batch| {
                batch.number(abi::NFTA_REJECT_TYPE, abi::NFT_REJECT_ICMPX_UNREACH);
                batch.attribute(abi::NFTA_REJECT_ICMP_CODE, &[abi::NFT_REJECT_ICMPX_NO_ROUTE]);
            }),
            Self::Masquerade => batch.expression("masq", |_| {}),
            Self::Marked { on, mark, mask: bits } => {
                load_mark(batch, *on);
                mask(batch, &bits.to_ne_bytes());
                compare(batch, &mark.to_ne_bytes(), true);
            }
            Self::SetMark { on, mark, mask } => {
                load_mark(batch, *on);
                bitwise(batch, &(!mask).to_ne_bytes(), &mark.to_ne_bytes());
                store_mark(batch, *on);
            }
            Self::Transport { offset, value, mask: bits } => {
                batch.expression("payload", |batch| {
                    batch.number(abi::NFTA_PAYLOAD_DREG, abi::NFT_REG_1);
                    batch.number(abi::NFTA_PAYLOAD_BASE, abi::NFT_PAYLOAD_TRANSPORT_HEADER);
                    batch.number(abi::NFTA_PAYLOAD_OFFSET, *offset);
                    batch.number(abi::NFTA_PAYLOAD_LEN, u32::try_from(value.len()).unwrap_or(0));
                });
                if bits.iter().any(|byte| *byte != 0xff) {
                    mask(batch, bits);
                }
                compare(batch, value, true);
            }
            Self::FamilyIn(set) => {
                batch.expression("meta", |batch| {
                    batch.number(abi::NFTA_META_KEY, abi::NFT_META_NFPROTO);
                    batch.number(abi::NFTA_META_DREG, abi::NFT_REG_1);
                });
                batch.expression("lookup", |batch| {
                    batch.attribute(abi::NFTA_LOOKUP_SET, &super::batch::text(set));
                    batch.number(abi::NFTA_LOOKUP_SREG, abi::NFT_REG_1);
                });
            }
            Self::ToHost => {
                batch.expression("fib", |batch| {
                    batch.number(abi::NFTA_FIB_DREG, abi::NFT_REG_1);
                    batch.number(abi::NFTA_FIB_RESULT, abi::NFT_FIB_RESULT_ADDRTYPE);
                    batch.number(abi::NFTA_FIB_FLAGS, abi::NFTA_FIB_F_DADDR);
                });
                compare(batch, &u32::from(abi::RTN_LOCAL).to_ne_bytes(), true);
            }
            Self::Count => batch.expression("counter", |_| {}),
            Self::ResetTcp => batch.expression("reject", |batch| {
                batch.number(abi::NFTA_REJECT_TYPE, abi::NFT_REJECT_TCP_RST);
            }),
            Self::MasqueradeTo(first, last) => write_masquerade(batch, *first, *last),
            Self::Map { is_source, into } => write_map(batch, *is_source, *into),
        }
    }
}

/// Compares the address with a prefix: its whole bytes, or all of it behind a mask.
fn write_address(batch: &mut Batch, is_source: bool, prefix: Prefix) {
    let bytes = octets(prefix.address());
    let offset = match (bytes.len(), is_source) {
        (4, true) => 12,
        (4, false) => 16,
        (_, true) => 8,
        (_, false) => 24,
    };
    let (length, is_whole) = (usize::from(prefix.length()), prefix.length().is_multiple_of(8));
    let read = if is_whole { length / 8 } else { bytes.len() };
    batch.expression("payload", |batch| {
        batch.number(abi::NFTA_PAYLOAD_DREG, abi::NFT_REG_1);
        batch.number(abi::NFTA_PAYLOAD_BASE, abi::NFT_PAYLOAD_NETWORK_HEADER);
        batch.number(abi::NFTA_PAYLOAD_OFFSET, offset);
        batch.number(abi::NFTA_PAYLOAD_LEN, u32::try_from(read).unwrap_or(0));
    });
    if !is_whole {
        mask(batch, &first_and_last(prefix).2);
    }
    compare(batch, &bytes[..read], true);
}

fn write_masquerade(batch: &mut Batch, first: u16, last: u16) {
    for (register, port) in [(abi::NFT_REG_1, first), (abi::NFT_REG_2, last)] {
        batch.expression("immediate", |batch| {
            batch.number(abi::NFTA_IMMEDIATE_DREG, register);
            batch.value(abi::NFTA_IMMEDIATE_DATA, &port.to_be_bytes());
        });
    }
    let flags = abi::NF_NAT_RANGE_PROTO_SPECIFIED | abi::NF_NAT_RANGE_PROTO_RANDOM_FULLY;
    batch.expression("masq", |batch| {
        batch.number(abi::NFTA_MASQ_FLAGS, flags);
        batch.number(abi::NFTA_MASQ_REG_PROTO_MIN, abi::NFT_REG_1);
        batch.number(abi::NFTA_MASQ_REG_PROTO_MAX, abi::NFT_REG_2);
    });
}

fn write_map(batch: &mut Batch, is_source: bool, into: Prefix) {
    let (first, last, _) = first_and_last(into);
    for (register, value) in [(abi::NFT_REG_1, &first), (abi::NFT_REG_2, &last)] {
        batch.expression("immediate", |batch| {
            batch.number(abi::NFTA_IMMEDIATE_DREG, register);
            batch.value(abi::NFTA_IMMEDIATE_DATA, value);
        });
    }
    batch.expression("nat", |batch| {
        batch.number(abi::NFTA_NAT_TYPE, if is_source { abi::NFT_NAT_SNAT } else { abi::NFT_NAT_DNAT });
        batch.number(abi::NFTA_NAT_FAMILY, family(into).into());
        batch.number(abi::NFTA_NAT_REG_ADDR_MIN, abi::NFT_REG_1);
        batch.number(abi::NFTA_NAT_REG_ADDR_MAX, abi::NFT_REG_2);
        batch.number(abi::NFTA_NAT_FLAGS, abi::NF_NAT_RANGE_NETMAP);
    });
}

/// Compares the first register with a value.
fn compare(batch: &mut Batch, value: &[u8], is: bool) {
    batch.expression("cmp", |batch| {
        batch.number(abi::NFTA_CMP_SREG, abi::NFT_REG_1);
        batch.number(abi::NFTA_CMP_OP, if is { abi::NFT_CMP_EQ } else { abi::NFT_CMP_NEQ });
        batch.value(abi::NFTA_CMP_DATA, value);
    });
}

fn load_mark(batch: &mut Batch, on: MarkOf) {
    let (name, key_kind, key, register) = match on {
        MarkOf::Packet => ("meta", abi::NFTA_META_KEY, abi::NFT_META_MARK, abi::NFTA_META_DREG),
        MarkOf::Connection => ("ct", abi::NFTA_CT_KEY, abi::NFT_CT_MARK, abi::NFTA_CT_DREG),
    };
    batch.expression(name, |batch| {
        batch.number(key_kind, key);
        batch.number(register, abi::NFT_REG_1);
    });
}

fn store_mark(batch: &mut Batch, on: MarkOf) {
    let (name, key_kind, key, register) = match on {
        MarkOf::Packet => ("meta", abi::NFTA_META_KEY, abi::NFT_META_MARK, abi::NFTA_META_SREG),
        MarkOf::Connection => ("ct", abi::NFTA_CT_KEY, abi::NFT_CT_MARK, abi::NFTA_CT_SREG),
    };
    batch.expression(name, |batch| {
        batch.number(key_kind, key);
        batch.number(register, abi::NFT_REG_1);
    });
}

/// Clears the bits of the first register that are not in `mask`.
fn mask(batch: &mut Batch, mask: &[u8]) {
    bitwise(batch, mask, &vec![0; mask.len()]);
}

/// Clears the bits of the first register that are not in `mask`, and then inverts those in `invert`.
fn bitwise(batch: &mut Batch, mask: &[u8], invert: &[u8]) {
    batch.expression("bitwise", |batch| {
        batch.number(abi::NFTA_BITWISE_SREG, abi::NFT_REG_1);
        batch.number(abi::NFTA_BITWISE_DREG, abi::NFT_REG_1);
        batch.number(abi::NFTA_BITWISE_LEN, u32::try_from(mask.len()).unwrap_or(0));
        batch.value(abi::NFTA_BITWISE_MASK, mask);
        batch.value(abi::NFTA_BITWISE_XOR, invert);
    });
}

/// Returns the first and the last address of a prefix, and its mask.
fn first_and_last(prefix: Prefix) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let first = octets(prefix.address());
    let mask: Vec<u8> = (0..first.len())
        .map(|byte| {
            let kept = usize::from(prefix.length()).saturating_sub(byte * 8).min(8);
            u8::try_from(0xff00_u16 >> kept & 0xff).unwrap_or(0)
        })
        .collect();
    let last = first.iter().zip(&mask).map(|(byte, mask)| byte | !mask).collect();
    (first, last, mask)
}

fn octets(address: IpAddr) -> Vec<u8> {
    crate::address::octets(address).to_vec()
}

fn family(prefix: Prefix) -> u8 {
    if prefix.address().is_ipv4() { abi::AF_INET } else { abi::AF_INET6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_a_first_and_a_last_address() {
        for (text, last, mask) in [
            ("10.201.0.0/24", [10, 201, 0, 255], [255, 255, 255, 0]),
            ("10.0.0.0/9", [10, 127, 255, 255], [255, 128, 0, 0]),
            ("10.0.0.4/30", [10, 0, 0, 7], [255, 255, 255, 252]),
            ("10.0.0.4/32", [10, 0, 0, 4], [255; 4]),
        ] {
            let prefix: Prefix = text.parse().unwrap();
            assert_eq!(first_and_last(prefix), (octets(prefix.address()), last.to_vec(), mask.to_vec()), "{text}");
        }
    }
}
