//! Sets of address families whose elements end on their own, and the counters of rules.

use std::time::Duration;

use crate::abi;
use crate::error::NetlinkError;
use crate::message::NetlinkRequest;
use crate::parse::{self, Malformed, Message};

use super::NftTable;
use super::batch::{Batch, text};

/// Length of `struct nfgenmsg` before the attributes.
const FIXED_LEN: usize = 4;

/// Number of the one set of a transaction; the kernel wants each new one to have a number.
const SET_ID: u32 = 1;

/// The shortest time of an element, 10 ms: a tick of the slowest kernels (`CONFIG_HZ=100`). Linux 5.10 counts an element's time in ticks, rounded down, and an element with none
/// stays forever: with 250 ticks a second one of 3 ms did, and one of 4 ms ended.
const SHORTEST: Duration = Duration::from_millis(10);

impl NftTable {
    /// Adds both address families to a set, for a limited time after which the kernel itself removes them.
    ///
    /// # Errors
    /// If there is no such table or set.
    pub fn add_families(&mut self, set: &str, time: Duration) -> Result<(), NetlinkError> {
        self.remove_families(set)?;
        let mut batch = Batch::begin();
        let families = [abi::AF_INET, abi::AF_INET6];
        self.elements(&mut batch, abi::NFT_MSG_NEWSETELEM, set, &families, Some(timeout(time)));
        self.send("open the nftables set", batch)
    }

    /// Has both address families stay in a set for this time from now, whether they are in it or not. They are out of it at no moment.
    ///
    /// # Errors
    /// If there is no such table or set.
    pub fn renew_families(&mut self, set: &str, time: Duration) -> Result<(), NetlinkError> {
        let milliseconds = Some(timeout(time));
        let families = [abi::AF_INET, abi::AF_INET6];
        let mut batch = Batch::begin();
        // An element that is there keeps its time when it is added, and one that is not there cannot be removed.
        self.elements(&mut batch, abi::NFT_MSG_NEWSETELEM, set, &families, milliseconds);
        self.elements(&mut batch, abi::NFT_MSG_DELSETELEM, set, &families, None);
        self.elements(&mut batch, abi::NFT_MSG_NEWSETELEM, set, &families, milliseconds);
        self.send("renew the nftables set", batch)
    }

    /// Removes both address families from a set. That they, the set or the table are not there is no error.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn remove_families(&mut self, set: &str) -> Result<(), NetlinkError> {
        // In batches of their own: one family that is gone would keep the other one in the set.
        for family in [abi::AF_INET, abi::AF_INET6] {
            let mut batch = Batch::begin();
            self.elements(&mut batch, abi::NFT_MSG_DELSETELEM, set, &[family], None);
            match self.send("close the nftables set", batch) {
                Err(error) if error.code() == Some(libc::ENOENT) => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Returns the time after which the last family leaves a set; `None` if it is empty, or there is no such table.
    ///
    /// # Errors
    /// If the set cannot be read.
    pub fn families_left(&mut self, set: &str) -> Result<Option<Duration>, NetlinkError> {
        let request = NetlinkRequest::dump_of(abi::NFT_MSG_GETSETELEM, &[abi::NFPROTO_INET, 0, 0, 0])
            .attribute(abi::NFTA_SET_ELEM_LIST_TABLE, &text(&self.name))
            .attribute(abi::NFTA_SET_ELEM_LIST_SET, &text(set));
        let mut left = None;
        let answer = self.exchange("read the nftables set", request, |message| {
            left = left.max(longest(message).ok().flatten());
        });
        match answer {
            Err(error) if error.code() == Some(libc::ENOENT) => Ok(None),
            other => other.map(|()| left.map(Duration::from_millis)),
        }
    }

    /// Returns the packets that the table's rules have counted ([`super::NftRule::count`]); `None` if there is no such table.
    ///
    /// # Errors
    /// If the rules cannot be read.
    pub fn counted(&mut self) -> Result<Option<u64>, NetlinkError> {
        let request = NetlinkRequest::dump_of(abi::NFT_MSG_GETRULE, &[abi::NFPROTO_INET, 0, 0, 0])
            .attribute(abi::NFTA_RULE_TABLE, &text(&self.name));
        let (mut rules, mut packets) = (0_u64, 0_u64);
        let answer = self.exchange("read the nftables rules", request, |message| {
            rules += 1;
            packets = packets.saturating_add(counted_by(message).unwrap_or_default());
        });
        match answer {
            Err(error) if error.code() == Some(libc::ENOENT) => Ok(None),
            other => other.map(|()| (rules > 0).then_some(packets)),
        }
    }

    fn elements(&self, batch: &mut Batch, kind: u16, set: &str, families: &[u8], milliseconds: Option<u64>) {
        batch.message(kind);
        batch.attribute(abi::NFTA_SET_ELEM_LIST_TABLE, &text(&self.name));
        batch.attribute(abi::NFTA_SET_ELEM_LIST_SET, &text(set));
        let list = batch.nest(abi::NFTA_SET_ELEM_LIST_ELEMENTS);
        for family in families {
            let element = batch.nest(abi::NFTA_LIST_ELEM);
            batch.value(abi::NFTA_SET_ELEM_KEY, &[*family]);
            if let Some(milliseconds) = milliseconds {
                batch.attribute(abi::NFTA_SET_ELEM_TIMEOUT, &milliseconds.to_be_bytes());
            }
            batch.close(element);
        }
        batch.close(list);
    }
}

/// Appends a new, empty set of address families.
pub(super) fn new_set(batch: &mut Batch, table: &str, set: &str) {
    batch.message(abi::NFT_MSG_NEWSET);
    batch.attribute(abi::NFTA_SET_TABLE, &text(table));
    batch.attribute(abi::NFTA_SET_NAME, &text(set));
    batch.number(abi::NFTA_SET_FLAGS, abi::NFT_SET_TIMEOUT);
    batch.number(abi::NFTA_SET_KEY_TYPE, abi::NFT_TYPE_NFPROTO);
    batch.number(abi::NFTA_SET_KEY_LEN, 1);
    batch.number(abi::NFTA_SET_ID, SET_ID);
}

/// Returns the longest time in milliseconds that an element of this message has left.
pub(crate) fn longest(message: Message<'_>) -> Result<Option<u64>, Malformed> {
    let mut longest = None;
    for list in within(message.payload.get(FIXED_LEN..).ok_or(Malformed("set"))?, abi::NFTA_SET_ELEM_LIST_ELEMENTS) {
        for element in within(list?, abi::NFTA_LIST_ELEM) {
            for left in within(element?, abi::NFTA_SET_ELEM_EXPIRATION) {
                longest = longest.max(Some(u64_be(left?)?));
            }
        }
    }
    Ok(longest)
}

/// Returns the packets that the rule in this message has counted.
pub(crate) fn counted_by(message: Message<'_>) -> Result<u64, Malformed> {
    let mut packets = 0_u64;
    for list in within(message.payload.get(FIXED_LEN..).ok_or(Malformed("rule"))?, abi::NFTA_RULE_EXPRESSIONS) {
        for expression in within(list?, abi::NFTA_LIST_ELEM) {
            let expression = expression?;
            let name = within(expression, abi::NFTA_EXPR_NAME).next().transpose()?;
            if name.map(parse::text).as_deref() != Some("counter") {
                continue;
            }
            for data in within(expression, abi::NFTA_EXPR_DATA) {
                for count in within(data?, abi::NFTA_COUNTER_PACKETS) {
                    packets = packets.saturating_add(u64_be(count?)?);
                }
            }
        }
    }
    Ok(packets)
}

/// Returns the values of the attributes of this type.
fn within(bytes: &[u8], kind: u16) -> impl Iterator<Item = Result<&[u8], Malformed>> {
    parse::attributes(bytes).filter_map(move |attribute| match attribute {
        Ok((found, value)) => (found == kind).then_some(Ok(value)),
        Err(error) => Some(Err(error)),
    })
}

fn u64_be(bytes: &[u8]) -> Result<u64, Malformed> {
    bytes.first_chunk().copied().map(u64::from_be_bytes).ok_or(Malformed("number"))
}

/// Returns the time of an element in milliseconds, as the kernel takes it.
fn timeout(time: Duration) -> u64 {
    u64::try_from(time.max(SHORTEST).as_millis()).unwrap_or(u64::MAX)
}
