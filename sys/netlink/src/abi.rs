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

// Flags of requests and answers (netlink.h).
pub(crate) const NLM_F_REQUEST: u16 = 0x01;
pub(crate) const NLM_F_ACK: u16 = 0x04;
pub(crate) const NLM_F_DUMP_INTR: u16 = 0x10;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
pub(crate) const NLM_F_REPLACE: u16 = 0x100;
pub(crate) const NLM_F_EXCL: u16 = 0x200;
pub(crate) const NLM_F_CREATE: u16 = 0x400;
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
pub(crate) const RTMGRP_IPV6_IFADDR: u32 = 0x100;
pub(crate) const RTMGRP_IPV6_ROUTE: u32 = 0x400;
