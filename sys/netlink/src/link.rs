//! Links: network interfaces.

use crate::abi;
use crate::error::NetlinkError;
use crate::message::NetlinkRequest;
use crate::parse::{self, Malformed, Message};
use crate::request::Netlink;

/// `struct ifinfomsg` (rtnetlink.h): family, padding, type, index, flags, change mask.
const FIXED_LEN: usize = 16;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceLink {
    /// Its number in this network namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Most packets that wait in its queue.
    pub tx_queue_len: u32,
    /// True if it is switched on.
    pub up: bool,
    /// True if it can carry packets: it is switched on, and its cable is plugged in.
    pub running: bool,
    /// True for a loopback interface.
    pub loopback: bool,
    /// The driver, as `ip -d link` shows it: `tun` (TAP devices, too), `wireguard`, `veth`, `bridge`, …. `None` for most hardware.
    pub kind: Option<String>,
    /// The bridge, or another device, that it is a port of.
    pub master: Option<u32>,
}

impl Netlink {
    /// Returns the interface `name`; `None` if it does not exist.
    pub fn link(&mut self, name: &str) -> Result<Option<InterfaceLink>, NetlinkError> {
        let request = NetlinkRequest::new(abi::RTM_GETLINK, 0, &fixed(0, 0, 0))
            .attribute(abi::IFLA_IFNAME, &zero_terminated(name));
        self.find(request, || name.to_owned())
    }

    /// Returns the interface with this number; `None` if it does not exist.
    pub fn link_at(&mut self, index: u32) -> Result<Option<InterfaceLink>, NetlinkError> {
        self.find(NetlinkRequest::new(abi::RTM_GETLINK, 0, &fixed(index, 0, 0)), || interface(index))
    }

    fn find(
        &mut self,
        request: NetlinkRequest,
        object: impl FnOnce() -> String,
    ) -> Result<Option<InterfaceLink>, NetlinkError> {
        let mut found = None;
        let answer = self.exchange(
            "read the interface",
            object,
            request.number(abi::IFLA_EXT_MASK, abi::RTEXT_FILTER_SKIP_STATS),
            |message| {
                found = read(message)?;
                Ok(())
            },
        );
        match answer {
            Ok(_) => Ok(found),
            Err(error) if error.code() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all interfaces.
    pub fn links(&mut self) -> Result<Vec<InterfaceLink>, NetlinkError> {
        let request = || {
            NetlinkRequest::new(abi::RTM_GETLINK, abi::NLM_F_DUMP, &fixed(0, 0, 0))
                .number(abi::IFLA_EXT_MASK, abi::RTEXT_FILTER_SKIP_STATS)
        };
        self.dump("read the interfaces", request, read)
    }

    /// Returns the number of packets that were dropped before an interface since its creation, because its queue was full or it was down; a
    /// superpacket counts as one. `None` if the kernel does not report it.
    pub fn tx_dropped(&mut self, index: u32) -> Result<Option<u64>, NetlinkError> {
        let request = NetlinkRequest::new(abi::RTM_GETLINK, 0, &fixed(index, 0, 0));
        let mut dropped = None;
        self.exchange(
            "read the counters",
            || interface(index),
            request,
            |message| {
                dropped = dropped_before(message)?.or(dropped);
                Ok(())
            },
        )?;
        Ok(dropped)
    }

    /// Switches an interface on or off.
    pub fn set_link_up(&mut self, index: u32, up: bool) -> Result<(), NetlinkError> {
        let flags = if up { abi::IFF_UP } else { 0 };
        let operation = if up { "set up" } else { "set down" };
        self.change(
            operation,
            || interface(index),
            NetlinkRequest::new(abi::RTM_NEWLINK, 0, &fixed(index, flags, abi::IFF_UP)),
        )
    }

    /// Sets the MTU of an interface in bytes. Below 1,280 the kernel removes IPv6 from it.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), NetlinkError> {
        let request = NetlinkRequest::new(abi::RTM_NEWLINK, 0, &fixed(index, 0, 0)).number(abi::IFLA_MTU, mtu);
        self.change("set the MTU", || format!("{mtu} of {}", interface(index)), request)
    }

    /// Sets the length of an interface's queue, in packets.
    pub fn set_tx_queue_len(&mut self, index: u32, packets: u32) -> Result<(), NetlinkError> {
        let request = NetlinkRequest::new(abi::RTM_NEWLINK, 0, &fixed(index, 0, 0)).number(abi::IFLA_TXQLEN, packets);
        self.change("set the queue length", || format!("{packets} of {}", interface(index)), request)
    }
}

/// Returns the name of an interface for errors.
pub(crate) fn interface(index: u32) -> String {
    format!("interface {index}")
}

fn fixed(index: u32, flags: u32, mask: u32) -> [u8; FIXED_LEN] {
    let mut bytes = [0; FIXED_LEN];
    bytes[0] = abi::AF_UNSPEC;
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..16].copy_from_slice(&mask.to_ne_bytes());
    bytes
}

fn zero_terminated(name: &str) -> Vec<u8> {
    name.bytes().take_while(|byte| *byte != 0).chain([0]).collect()
}

/// Returns the number of dropped packets in a message about a link; `None` if it is missing.
pub(crate) fn dropped_before(message: Message<'_>) -> Result<Option<u64>, Malformed> {
    if message.kind != abi::RTM_NEWLINK {
        return Ok(None);
    }
    for attribute in parse::attributes(message.payload.get(FIXED_LEN..).ok_or(Malformed("interface"))?) {
        if let (abi::IFLA_STATS64, counters) = attribute? {
            return parse::u64_at(counters, abi::STATS64_TX_DROPPED).map(Some);
        }
    }
    Ok(None)
}

/// Parses the link in a message; `None` if it is about something else.
pub(crate) fn read(message: Message<'_>) -> Result<Option<InterfaceLink>, Malformed> {
    if message.kind != abi::RTM_NEWLINK {
        return Ok(None);
    }
    let flags = parse::u32_at(message.payload, 8)?;
    let mut link = InterfaceLink {
        index: parse::u32_at(message.payload, 4)?,
        name: String::new(),
        mtu: 0,
        tx_queue_len: 0,
        up: flags & abi::IFF_UP != 0,
        running: flags & abi::IFF_RUNNING != 0,
        loopback: flags & abi::IFF_LOOPBACK != 0,
        kind: None,
        master: None,
    };
    for attribute in parse::attributes(message.payload.get(FIXED_LEN..).ok_or(Malformed("interface"))?) {
        match attribute? {
            (abi::IFLA_IFNAME, name) => link.name = parse::text(name),
            (abi::IFLA_MTU, mtu) => link.mtu = parse::u32_at(mtu, 0)?,
            (abi::IFLA_TXQLEN, packets) => link.tx_queue_len = parse::u32_at(packets, 0)?,
            (abi::IFLA_MASTER, master) => link.master = Some(parse::u32_at(master, 0)?),
            (abi::IFLA_LINKINFO, info) => link.kind = kind(info)?,
            _ => {}
        }
    }
    Ok(Some(link))
}

fn kind(info: &[u8]) -> Result<Option<String>, Malformed> {
    for attribute in parse::attributes(info) {
        if let (abi::IFLA_INFO_KIND, kind) = attribute? {
            return Ok(Some(parse::text(kind)));
        }
    }
    Ok(None)
}
