//! A transaction: messages between a beginning and an end, which the kernel carries out together or not at all.

use crate::abi;

use super::{NftChain, NftHook};

/// A transaction under construction. All messages have one sequence number, so that an error of any of them answers the whole.
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Where the last message begins.
    last: usize,
}

impl Batch {
    /// Starts a transaction of nftables.
    pub(super) fn begin() -> Self {
        let mut batch = Self { bytes: Vec::with_capacity(4_096), last: 0 };
        batch.start(abi::NFNL_MSG_BATCH_BEGIN, 0, abi::AF_UNSPEC, abi::NFNL_SUBSYS_NFTABLES);
        batch
    }

    /// Appends a message about a table.
    pub(super) fn table(&mut self, kind: u16, name: &str, owned: bool) {
        self.message(kind);
        self.attribute(abi::NFTA_TABLE_NAME, &text(name));
        if owned {
            self.number(abi::NFTA_TABLE_FLAGS, abi::NFT_TABLE_F_OWNER);
        }
    }

    /// Appends a new chain.
    pub(super) fn chain(&mut self, table: &str, chain: &NftChain) {
        let (kind, hook, priority) = match chain.hook {
            NftHook::Raw => ("filter", abi::NF_INET_PRE_ROUTING, abi::NF_IP_PRI_RAW),
            NftHook::Forward => ("filter", abi::NF_INET_FORWARD, abi::NF_IP_PRI_FILTER),
            NftHook::Prerouting => ("nat", abi::NF_INET_PRE_ROUTING, abi::NF_IP_PRI_NAT_DST),
            NftHook::Postrouting => ("nat", abi::NF_INET_POST_ROUTING, abi::NF_IP_PRI_NAT_SRC),
            NftHook::MarkIncoming => ("filter", abi::NF_INET_PRE_ROUTING, abi::NF_IP_PRI_MANGLE),
            NftHook::MarkOutgoing => ("route", abi::NF_INET_LOCAL_OUT, abi::NF_IP_PRI_MANGLE),
            NftHook::Leaving => ("filter", abi::NF_INET_POST_ROUTING, abi::NF_IP_PRI_FILTER),
            NftHook::LateLeaving => ("filter", abi::NF_INET_POST_ROUTING, abi::NF_IP_PRI_FILTER + 1),
            NftHook::Output => ("filter", abi::NF_INET_LOCAL_OUT, abi::NF_IP_PRI_FILTER),
            NftHook::LateOutput => ("filter", abi::NF_INET_LOCAL_OUT, abi::NF_IP_PRI_FILTER + 1),
        };
        self.message(abi::NFT_MSG_NEWCHAIN);
        self.attribute(abi::NFTA_CHAIN_TABLE, &text(table));
        self.attribute(abi::NFTA_CHAIN_NAME, &text(chain.name));
        let place = self.nest(abi::NFTA_CHAIN_HOOK);
        self.number(abi::NFTA_HOOK_HOOKNUM, hook);
        self.number(abi::NFTA_HOOK_PRIORITY, priority.cast_unsigned());
        self.close(place);
        self.attribute(abi::NFTA_CHAIN_TYPE, &text(kind));
    }

    /// Appends a rule at the end of a chain; `write` appends its expressions.
    pub(super) fn rule(&mut self, table: &str, chain: &str, write: impl FnOnce(&mut Self)) {
        self.message(abi::NFT_MSG_NEWRULE);
        self.attribute(abi::NFTA_RULE_TABLE, &text(table));
        self.attribute(abi::NFTA_RULE_CHAIN, &text(chain));
        let list = self.nest(abi::NFTA_RULE_EXPRESSIONS);
        write(self);
        self.close(list);
    }

    /// Appends an expression of a rule, whose attributes `write` appends.
    pub(super) fn expression(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        let element = self.nest(abi::NFTA_LIST_ELEM);
        self.attribute(abi::NFTA_EXPR_NAME, &text(name));
        let data = self.nest(abi::NFTA_EXPR_DATA);
        write(self);
        self.close(data);
        self.close(element);
    }

    /// Appends an attribute.
    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let place = self.nest(kind);
        self.bytes[place + 2..place + 4].copy_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.close(place);
    }

    /// Appends a number, in the network's byte order as nftables wants it.
    pub(super) fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    /// Appends data of an expression: a value for a register.
    pub(super) fn value(&mut self, kind: u16, value: &[u8]) {
        let place = self.nest(kind);
        self.attribute(abi::NFTA_DATA_VALUE, value);
        self.close(place);
    }

    /// Begins an attribute that contains others. Returns its place.
    pub(super) fn nest(&mut self, kind: u16) -> usize {
        let place = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&(kind | abi::NLA_F_NESTED).to_ne_bytes());
        place
    }

    /// Ends the attribute at this place.
    pub(super) fn close(&mut self, place: usize) {
        let length = u16::try_from(self.bytes.len() - place).unwrap_or(u16::MAX);
        self.bytes[place..place + 2].copy_from_slice(&length.to_ne_bytes());
        self.align();
    }

    /// Returns the finished transaction. Its last message asks for the answer.
    pub(super) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let place = self.last + 6;
        let flags = u16::from_ne_bytes([self.bytes[place], self.bytes[place + 1]]) | abi::NLM_F_ACK;
        self.bytes[place..place + 2].copy_from_slice(&flags.to_ne_bytes());
        self.start(abi::NFNL_MSG_BATCH_END, 0, abi::AF_UNSPEC, abi::NFNL_SUBSYS_NFTABLES);
        self.end();
        let mut place = 0;
        while let Some(length) = self.bytes.get(place..place + 4).and_then(|bytes| bytes.first_chunk::<4>()) {
            let length = usize::try_from(u32::from_ne_bytes(*length)).unwrap_or(0);
            self.bytes[place + 8..place + 12].copy_from_slice(&sequence.to_ne_bytes());
            place += length.max(4);
        }
        self.bytes
    }

    pub(super) fn message(&mut self, kind: u16) {
        // A rule goes to the end of its chain; the flag says nothing to other messages.
        let flags = abi::NLM_F_CREATE | if kind == abi::NFT_MSG_NEWRULE { abi::NLM_F_APPEND } else { 0 };
        self.start(kind, flags, abi::NFPROTO_INET, 0);
    }

    /// Begins a message: `struct nlmsghdr`, then `struct nfgenmsg` (family, version, resource).
    fn start(&mut self, kind: u16, flags: u16, family: u8, resource: u16) {
        self.end();
        self.last = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&(flags | abi::NLM_F_REQUEST).to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(&[family, 0]);
        self.bytes.extend_from_slice(&resource.to_be_bytes());
    }

    /// Writes the length of the last message.
    fn end(&mut self) {
        let length = u32::try_from(self.bytes.len() - self.last).unwrap_or(u32::MAX);
        if length > 0 {
            self.bytes[self.last..self.last + 4].copy_from_slice(&length.to_ne_bytes());
        }
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// Returns a text as the kernel wants it: with a zero byte at its end.
pub(super) fn text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}
