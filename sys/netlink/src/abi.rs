//! Numbers of the kernel's interface: include/uapi/linux/{netlink,rtnetlink,if_link,if_addr}.h. All integers are in the
//! host's byte order, addresses in the network's.

// Message types (netlink.h, rtnetlink.h).
pub(crate) const NLMSG_ERROR: u16 = 2;
pub(crate) const NLMSG_DONE: u16 = 3;
pub(crate) const NLMSG_OVERRUN: u16 = 4;
pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_DELLINK: u16 = 17;
pub(crate) const RTM_GETLINK: u16 = 18;
pub(crate) const RTM_NEWADDR: u16 = 20;
pub(crate) const RTM_DELADDR: u16 = 21;
pub(crate) const RTM_GETADDR: u16 = 22;
pub(crate) const RTM_NEWROUTE: u16 = 24;
pub(crate) const RTM_DELROUTE: u16 = 25;
pub(crate) const RTM_GETROUTE: u16 = 26;
pub(crate) const RTM_NEWRULE: u16 = 32;
pub(crate) const RTM_DELRULE: u16 = 33;
pub(crate) const RTM_GETRULE: u16 = 34;

// Flags of requests and answers (netlink.h).
pub(crate) const NLM_F_REQUEST: u16 = 0x01;
pub(crate) const NLM_F_ACK: u16 = 0x04;
pub(crate) const NLM_F_DUMP_INTR: u16 = 0x10;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
pub(crate) const NLM_F_REPLACE: u16 = 0x100;
pub(crate) const NLM_F_EXCL: u16 = 0x200;
pub(crate) const NLM_F_CREATE: u16 = 0x400;
pub(crate) const NLM_F_APPEND: u16 = 0x800;
/// On an error: the request's payload was not sent back.
pub(crate) const NLM_F_CAPPED: u16 = 0x100;
/// On an error: attributes follow.
pub(crate) const NLM_F_ACK_TLVS: u16 = 0x200;

// Options at `SOL_NETLINK` (netlink.h).
pub(crate) const NETLINK_CAP_ACK: libc::c_int = 10;
pub(crate) const NETLINK_EXT_ACK: libc::c_int = 11;
/// Dumps obey the fields of their request instead of ignoring them (Linux 4.20).
pub(crate) const NETLINK_GET_STRICT_CHK: libc::c_int = 12;

/// The kernel's explanation in an error (netlink.h, `enum nlmsgerr_attrs`).
pub(crate) const NLMSGERR_ATTR_MSG: u16 = 1;

// Attributes of links (if_link.h).
pub(crate) const IFLA_IFNAME: u16 = 3;
pub(crate) const IFLA_MTU: u16 = 4;
pub(crate) const IFLA_MASTER: u16 = 10;
pub(crate) const IFLA_TXQLEN: u16 = 13;
pub(crate) const IFLA_LINKINFO: u16 = 18;
/// Inside `IFLA_LINKINFO`.
pub(crate) const IFLA_INFO_KIND: u16 = 1;
/// `struct rtnl_link_stats64`.
pub(crate) const IFLA_STATS64: u16 = 23;
pub(crate) const IFLA_EXT_MASK: u16 = 29;
/// Leaves statistics, most of an answer's length, out of answers (rtnetlink.h).
pub(crate) const RTEXT_FILTER_SKIP_STATS: u32 = 8;
/// Offset of `tx_dropped` in `struct rtnl_link_stats64`, after seven counters of eight bytes.
pub(crate) const STATS64_TX_DROPPED: usize = 56;

// Flags of links (if.h).
pub(crate) const IFF_UP: u32 = 0x1;
pub(crate) const IFF_LOOPBACK: u32 = 0x8;
pub(crate) const IFF_RUNNING: u32 = 0x40;

// Attributes of addresses (if_addr.h).
pub(crate) const IFA_ADDRESS: u16 = 1;
pub(crate) const IFA_LOCAL: u16 = 2;
pub(crate) const IFA_FLAGS: u16 = 8;

// Flags of addresses (if_addr.h).
pub(crate) const IFA_F_TEMPORARY: u32 = 0x01;
pub(crate) const IFA_F_NODAD: u32 = 0x02;
pub(crate) const IFA_F_DADFAILED: u32 = 0x08;
pub(crate) const IFA_F_DEPRECATED: u32 = 0x20;
pub(crate) const IFA_F_TENTATIVE: u32 = 0x40;

// Attributes of routes (rtnetlink.h).
pub(crate) const RTA_DST: u16 = 1;
pub(crate) const RTA_SRC: u16 = 2;
pub(crate) const RTA_OIF: u16 = 4;
pub(crate) const RTA_GATEWAY: u16 = 5;
pub(crate) const RTA_PRIORITY: u16 = 6;
pub(crate) const RTA_PREFSRC: u16 = 7;
pub(crate) const RTA_METRICS: u16 = 8;
pub(crate) const RTA_TABLE: u16 = 15;
pub(crate) const RTA_MARK: u16 = 16;
pub(crate) const RTA_VIA: u16 = 18;
/// Inside `RTA_METRICS`.
pub(crate) const RTAX_MTU: u16 = 2;
pub(crate) const RTAX_FEATURES: u16 = 12;
/// In `RTAX_FEATURES`: connections ask for explicit congestion notification.
pub(crate) const RTAX_FEATURE_ECN: u32 = 1;

// Attributes and fields of rules (fib_rules.h).
pub(crate) const FRA_DST: u16 = 1;
pub(crate) const FRA_SRC: u16 = 2;
pub(crate) const FRA_IIFNAME: u16 = 3;
pub(crate) const FRA_PRIORITY: u16 = 6;
pub(crate) const FRA_FWMARK: u16 = 10;
pub(crate) const FRA_FLOW: u16 = 11;
pub(crate) const FRA_SUPPRESS_IFGROUP: u16 = 13;
pub(crate) const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
pub(crate) const FRA_TABLE: u16 = 15;
pub(crate) const FRA_FWMASK: u16 = 16;
pub(crate) const FRA_OIFNAME: u16 = 17;
pub(crate) const FRA_PAD: u16 = 18;
pub(crate) const FRA_PROTOCOL: u16 = 21;
pub(crate) const FRA_IP_PROTO: u16 = 22;
/// `struct fib_rule_port_range`: first and last port, inclusive.
pub(crate) const FRA_SPORT_RANGE: u16 = 23;
pub(crate) const FRA_DPORT_RANGE: u16 = 24;
/// The rule is for packets that do not fulfil its conditions.
pub(crate) const FIB_RULE_INVERT: u32 = 2;
/// The rule's packets ask a table.
pub(crate) const FR_ACT_TO_TBL: u8 = 1;

// Fields of routes (rtnetlink.h).
pub(crate) const RTPROT_UNSPEC: u8 = 0;
pub(crate) const RTN_UNICAST: u8 = 1;
pub(crate) const RTN_LOCAL: u8 = 2;
pub(crate) const RT_SCOPE_UNIVERSE: u8 = 0;
pub(crate) const RT_SCOPE_LINK: u8 = 253;
pub(crate) const RT_SCOPE_HOST: u8 = 254;
pub(crate) const RT_SCOPE_NOWHERE: u8 = 255;
/// Marks a route as a copy in the kernel's cache (rtnetlink.h).
pub(crate) const RTM_F_CLONED: u32 = 0x200;

// Address families (socket.h).
pub(crate) const AF_UNSPEC: u8 = 0;
pub(crate) const AF_INET: u8 = 2;
pub(crate) const AF_INET6: u8 = 10;

// Multicast groups as bits (rtnetlink.h).
pub(crate) const RTMGRP_LINK: u32 = 0x1;
pub(crate) const RTMGRP_IPV4_IFADDR: u32 = 0x10;
pub(crate) const RTMGRP_IPV4_ROUTE: u32 = 0x40;
/// `RTNLGRP_IPV4_RULE` and `RTNLGRP_IPV6_RULE`, 8 and 19, as bits.
pub(crate) const RTMGRP_IPV4_RULE: u32 = 1 << 7;
pub(crate) const RTMGRP_IPV6_RULE: u32 = 1 << 18;
pub(crate) const RTMGRP_IPV6_IFADDR: u32 = 0x100;
pub(crate) const RTMGRP_IPV6_ROUTE: u32 = 0x400;

// Transactions of netfilter (nfnetlink.h).
pub(crate) const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
pub(crate) const NFNL_MSG_BATCH_END: u16 = 0x11;
pub(crate) const NFNL_SUBSYS_NFTABLES: u16 = 10;
/// Bit of an attribute that contains others (netlink.h).
pub(crate) const NLA_F_NESTED: u16 = 0x8000;

// Message types of nftables, with the subsystem in the upper byte (nf_tables.h, `enum nf_tables_msg_types`).
pub(crate) const NFT_MSG_NEWTABLE: u16 = NFNL_SUBSYS_NFTABLES << 8;
pub(crate) const NFT_MSG_DELTABLE: u16 = NFT_MSG_NEWTABLE | 2;
pub(crate) const NFT_MSG_NEWCHAIN: u16 = NFT_MSG_NEWTABLE | 3;
pub(crate) const NFT_MSG_GETCHAIN: u16 = NFT_MSG_NEWTABLE | 4;
pub(crate) const NFT_MSG_NEWRULE: u16 = NFT_MSG_NEWTABLE | 6;
pub(crate) const NFT_MSG_GETRULE: u16 = NFT_MSG_NEWTABLE | 7;
pub(crate) const NFT_MSG_NEWSET: u16 = NFT_MSG_NEWTABLE | 9;
pub(crate) const NFT_MSG_NEWSETELEM: u16 = NFT_MSG_NEWTABLE | 12;
pub(crate) const NFT_MSG_GETSETELEM: u16 = NFT_MSG_NEWTABLE | 13;
pub(crate) const NFT_MSG_DELSETELEM: u16 = NFT_MSG_NEWTABLE | 14;

// Attributes of nftables (nf_tables.h).
pub(crate) const NFTA_LIST_ELEM: u16 = 1;
pub(crate) const NFTA_TABLE_NAME: u16 = 1;
pub(crate) const NFTA_TABLE_FLAGS: u16 = 2;
pub(crate) const NFTA_CHAIN_TABLE: u16 = 1;
pub(crate) const NFTA_CHAIN_NAME: u16 = 3;
pub(crate) const NFTA_CHAIN_HOOK: u16 = 4;
pub(crate) const NFTA_CHAIN_POLICY: u16 = 5;
pub(crate) const NFTA_CHAIN_TYPE: u16 = 7;
pub(crate) const NFTA_HOOK_HOOKNUM: u16 = 1;
pub(crate) const NFTA_HOOK_PRIORITY: u16 = 2;
pub(crate) const NFTA_RULE_TABLE: u16 = 1;
pub(crate) const NFTA_RULE_CHAIN: u16 = 2;
pub(crate) const NFTA_RULE_EXPRESSIONS: u16 = 4;
pub(crate) const NFTA_EXPR_NAME: u16 = 1;
pub(crate) const NFTA_EXPR_DATA: u16 = 2;
pub(crate) const NFTA_DATA_VALUE: u16 = 1;
pub(crate) const NFTA_DATA_VERDICT: u16 = 2;
pub(crate) const NFTA_VERDICT_CODE: u16 = 1;
pub(crate) const NFTA_IMMEDIATE_DREG: u16 = 1;
pub(crate) const NFTA_IMMEDIATE_DATA: u16 = 2;
pub(crate) const NFTA_META_DREG: u16 = 1;
pub(crate) const NFTA_META_KEY: u16 = 2;
pub(crate) const NFTA_META_SREG: u16 = 3;
pub(crate) const NFTA_CT_DREG: u16 = 1;
pub(crate) const NFTA_CT_KEY: u16 = 2;
pub(crate) const NFTA_CT_SREG: u16 = 4;
pub(crate) const NFTA_COUNTER_PACKETS: u16 = 2;
pub(crate) const NFTA_LOOKUP_SET: u16 = 1;
pub(crate) const NFTA_LOOKUP_SREG: u16 = 2;
pub(crate) const NFTA_REJECT_TYPE: u16 = 1;
pub(crate) const NFTA_REJECT_ICMP_CODE: u16 = 2;
pub(crate) const NFTA_FIB_DREG: u16 = 1;
pub(crate) const NFTA_FIB_RESULT: u16 = 2;
pub(crate) const NFTA_FIB_FLAGS: u16 = 3;
pub(crate) const NFTA_SET_TABLE: u16 = 1;
pub(crate) const NFTA_SET_NAME: u16 = 2;
pub(crate) const NFTA_SET_FLAGS: u16 = 3;
pub(crate) const NFTA_SET_KEY_TYPE: u16 = 4;
pub(crate) const NFTA_SET_KEY_LEN: u16 = 5;
pub(crate) const NFTA_SET_ID: u16 = 10;
pub(crate) const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
pub(crate) const NFTA_SET_ELEM_LIST_SET: u16 = 2;
pub(crate) const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
pub(crate) const NFTA_SET_ELEM_KEY: u16 = 1;
pub(crate) const NFTA_SET_ELEM_TIMEOUT: u16 = 4;
pub(crate) const NFTA_SET_ELEM_EXPIRATION: u16 = 5;
pub(crate) const NFTA_CMP_SREG: u16 = 1;
pub(crate) const NFTA_CMP_OP: u16 = 2;
pub(crate) const NFTA_CMP_DATA: u16 = 3;
pub(crate) const NFTA_BITWISE_SREG: u16 = 1;
pub(crate) const NFTA_BITWISE_DREG: u16 = 2;
pub(crate) const NFTA_BITWISE_LEN: u16 = 3;
pub(crate) const NFTA_BITWISE_MASK: u16 = 4;
pub(crate) const NFTA_BITWISE_XOR: u16 = 5;
pub(crate) const NFTA_PAYLOAD_DREG: u16 = 1;
pub(crate) const NFTA_PAYLOAD_BASE: u16 = 2;
pub(crate) const NFTA_PAYLOAD_OFFSET: u16 = 3;
pub(crate) const NFTA_PAYLOAD_LEN: u16 = 4;
pub(crate) const NFTA_MASQ_FLAGS: u16 = 1;
pub(crate) const NFTA_MASQ_REG_PROTO_MIN: u16 = 2;
pub(crate) const NFTA_MASQ_REG_PROTO_MAX: u16 = 3;
pub(crate) const NFTA_NAT_TYPE: u16 = 1;
pub(crate) const NFTA_NAT_FAMILY: u16 = 2;
pub(crate) const NFTA_NAT_REG_ADDR_MIN: u16 = 3;
pub(crate) const NFTA_NAT_REG_ADDR_MAX: u16 = 4;
pub(crate) const NFTA_NAT_FLAGS: u16 = 7;

// Values of nftables (nf_tables.h).
/// The table belongs to the socket that made it (Linux 5.12).
pub(crate) const NFT_TABLE_F_OWNER: u32 = 2;
pub(crate) const NFT_REG_VERDICT: u32 = 0;
pub(crate) const NFT_REG_1: u32 = 1;
pub(crate) const NFT_REG_2: u32 = 2;
pub(crate) const NFT_META_MARK: u32 = 3;
pub(crate) const NFT_META_IIF: u32 = 4;
pub(crate) const NFT_META_OIF: u32 = 5;
pub(crate) const NFT_META_IIFNAME: u32 = 6;
pub(crate) const NFT_META_OIFNAME: u32 = 7;
pub(crate) const NFT_META_IIFTYPE: u32 = 8;
pub(crate) const NFT_META_NFPROTO: u32 = 15;
/// The packet is answered by an ICMP error of its own family: there is no route (nf_tables.h).
pub(crate) const NFT_REJECT_ICMPX_UNREACH: u32 = 2;
pub(crate) const NFT_REJECT_ICMPX_NO_ROUTE: u8 = 0;
pub(crate) const NFT_META_L4PROTO: u32 = 16;
/// Looks up the route back to the source, and its interface (nf_tables.h, Linux 4.10).
pub(crate) const NFT_FIB_RESULT_OIF: u32 = 1;
pub(crate) const NFTA_FIB_F_SADDR: u32 = 1;
pub(crate) const NFTA_FIB_F_IIF: u32 = 1 << 3;
pub(crate) const NFT_CT_STATE: u32 = 0;
/// One byte: 0 for packets in the direction of the connection's first packet (nf_conntrack_tuple_common.h, `IP_CT_DIR_ORIGINAL`).
pub(crate) const NFT_CT_DIRECTION: u32 = 1;
pub(crate) const IP_CT_DIR_ORIGINAL: u8 = 0;
pub(crate) const NFT_CT_MARK: u32 = 3;
pub(crate) const NFT_CMP_EQ: u32 = 0;
pub(crate) const NFT_CMP_NEQ: u32 = 1;
pub(crate) const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
pub(crate) const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;
/// Elements of a set may end on their own.
pub(crate) const NFT_SET_TIMEOUT: u32 = 0x10;
/// The number by which `nft` shows a set of address families (nftables, src/datatype.c, `TYPE_NFPROTO`); the kernel gives it no meaning.
pub(crate) const NFT_TYPE_NFPROTO: u32 = 2;
pub(crate) const NFT_REJECT_TCP_RST: u32 = 1;
/// The kind of route to an address, such as `RTN_LOCAL`.
pub(crate) const NFT_FIB_RESULT_ADDRTYPE: u32 = 3;
pub(crate) const NFTA_FIB_F_DADDR: u32 = 1 << 1;
pub(crate) const NFT_NAT_SNAT: u32 = 0;
pub(crate) const NFT_NAT_DNAT: u32 = 1;
/// Addresses are mapped one to one (nf_nat.h, Linux 5.8).
pub(crate) const NF_NAT_RANGE_NETMAP: u32 = 1 << 6;
/// The range has ports (nf_nat.h). The kernel ignores those of a masquerade without it.
pub(crate) const NF_NAT_RANGE_PROTO_SPECIFIED: u32 = 1 << 1;
/// Ports are drawn at random (nf_nat.h, Linux 3.14).
pub(crate) const NF_NAT_RANGE_PROTO_RANDOM_FULLY: u32 = 1 << 4;
/// States of a connection as bits (nf_conntrack_common.h, `NF_CT_STATE_BIT`).
pub(crate) const CT_ESTABLISHED: u32 = 1 << 1;
pub(crate) const CT_RELATED: u32 = 1 << 2;
pub(crate) const CT_NEW: u32 = 1 << 3;

// Hooks, priorities and verdicts of netfilter (netfilter.h, netfilter_ipv4.h).
pub(crate) const NFPROTO_INET: u8 = 1;
pub(crate) const NF_INET_PRE_ROUTING: u32 = 0;
pub(crate) const NF_INET_FORWARD: u32 = 2;
pub(crate) const NF_INET_LOCAL_OUT: u32 = 3;
pub(crate) const NF_INET_POST_ROUTING: u32 = 4;
pub(crate) const NF_IP_PRI_RAW: i32 = -300;
pub(crate) const NF_IP_PRI_MANGLE: i32 = -150;
pub(crate) const NF_IP_PRI_NAT_DST: i32 = -100;
pub(crate) const NF_IP_PRI_FILTER: i32 = 0;
pub(crate) const NF_IP_PRI_NAT_SRC: i32 = 100;
pub(crate) const NF_DROP: u32 = 0;
pub(crate) const NF_ACCEPT: u32 = 1;
