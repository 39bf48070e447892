//! Chains of other programs that drop forwarded packets.

use std::fmt;

use crate::abi;
use crate::error::NetlinkError;
use crate::message::NetlinkRequest;
use crate::parse::{self, Malformed, Message};

use super::NftTable;
use super::batch::text;

/// Length of `struct nfgenmsg` before the attributes.
const FIXED_LEN: usize = 4;

/// Limit on the chains that are looked at, 16: a host has one or two that drop.
const MOST_CHAINS: usize = 16;

/// A chain that drops forwarded packets, unless one of its rules accepts them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DroppingChain {
    family: u8,
    table: String,
    chain: String,
}

impl fmt::Display for DroppingChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            abi::AF_INET => "ip",
            abi::AF_INET6 => "ip6",
            _ => "inet",
        };
        write!(f, "{family} {} {}", self.table, self.chain)
    }
}

/// Returns the chains whose policy drops forwarded packets, in tables without a rule that names an interface like this one. Rules that accept packets by other conditions are not understood, so such a
/// chain may let some pass.
///
/// # Errors
/// If the rules cannot be read.
pub fn chains_that_drop_forwarded(interface: &str) -> Result<Vec<DroppingChain>, NetlinkError> {
    let mut netlink = NftTable::open_unprotected("")?;
    let mut found = Vec::new();
    let request = NetlinkRequest::dump_of(abi::NFT_MSG_GETCHAIN, &[abi::AF_UNSPEC, 0, 0, 0]);
    netlink.exchange("read the nftables chains", request, |message| found.extend(dropping(message).ok().flatten()))?;
    found.truncate(MOST_CHAINS);
    // `taut+` and `taut*` name `taut0`, too.
    let stem = interface.trim_end_matches(|letter: char| letter.is_ascii_digit()).as_bytes();
    let mut kept = Vec::new();
    for chain in found {
        let request = NetlinkRequest::dump_of(abi::NFT_MSG_GETRULE, &[chain.family, 0, 0, 0])
            .attribute(abi::NFTA_RULE_TABLE, &text(&chain.table));
        let mut is_named = false;
        netlink.exchange("read the nftables rules", request, |message| {
            is_named |= !stem.is_empty() && message.payload.windows(stem.len()).any(|part| part == stem);
        })?;
        if !is_named {
            kept.push(chain);
        }
    }
    Ok(kept)
}

/// Returns the chain in a message if its policy drops forwarded packets of IPv4 or IPv6.
pub(crate) fn dropping(message: Message<'_>) -> Result<Option<DroppingChain>, Malformed> {
    if message.kind != abi::NFT_MSG_NEWCHAIN {
        return Ok(None);
    }
    let family = parse::u8_at(message.payload, 0)?;
    let (mut hook, mut policy, mut table, mut chain) = (None, None, String::new(), String::new());
    for attribute in parse::attributes(message.payload.get(FIXED_LEN..).ok_or(Malformed("chain"))?) {
        let (kind, value) = attribute?;
        match kind {
            abi::NFTA_CHAIN_TABLE => table = parse::text(value),
            abi::NFTA_CHAIN_NAME => chain = parse::text(value),
            abi::NFTA_CHAIN_POLICY => policy = Some(u32_be(value)?),
            abi::NFTA_CHAIN_HOOK => {
                for attribute in parse::attributes(value) {
                    let (kind, value) = attribute?;
                    if kind == abi::NFTA_HOOK_HOOKNUM {
                        hook = Some(u32_be(value)?);
                    }
                }
            }
            _ => {}
        }
    }
    let is_ip = matches!(family, abi::NFPROTO_INET | abi::AF_INET | abi::AF_INET6);
    let drops = is_ip && hook == Some(abi::NF_INET_FORWARD) && policy == Some(abi::NF_DROP);
    Ok(drops.then_some(DroppingChain { family, table, chain }))
}

fn u32_be(bytes: &[u8]) -> Result<u32, Malformed> {
    bytes.first_chunk().copied().map(u32::from_be_bytes).ok_or(Malformed("number"))
}
