//! Tables of nftables that belong to this program: a few kinds of rules for forwarded packets.
//!
//! A table is made of chains and rules in one transaction: other programs see the former table or the new one, and packets never meet a part of it. Since Linux 5.12 the
//! kernel keeps the table for the socket that made it: other programs can neither change it nor flush it away, and it goes with the socket, also after a crash.

mod batch;
mod conditions;
mod others;
mod rule;
mod set;

use std::io;

use crate::abi;
use crate::error::NetlinkError;
use crate::message::NetlinkRequest;
use crate::parse;
use crate::request::{open_socket, read_datagram};
use crate::socket::{BUFFER_LEN, Socket};
use batch::Batch;

pub use others::{DroppingChain, chains_that_drop_forwarded};
pub use rule::NftRule;

pub(crate) use others::dropping;

/// Where packets pass a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NftHook {
    /// Forwarded packets, once their way is known: a chain that may drop them.
    Forward,
    /// As soon as a packet arrives, before connections are tracked: a chain that may drop it.
    Raw,
    /// Before the way of a packet is chosen: a chain that may change destinations.
    Prerouting,
    /// Before a packet leaves: a chain that may change sources.
    Postrouting,
    /// Packets that come in, before their way is chosen: a chain that may mark them.
    MarkIncoming,
    /// Packets of this host's own programs: a chain that may mark them, after which their way is chosen again.
    MarkOutgoing,
    /// Packets of this host's own programs: a chain that may drop them. The interface is the first choice, also if a chain has marked the packet and its way was chosen again.
    Output,
    /// As [`Self::Output`], behind it.
    LateOutput,
    /// Before any packet leaves, when its interface is final: a chain that may drop it.
    Leaving,
    /// As [`Self::Leaving`], behind it.
    LateLeaving,
}

/// A chain with its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NftChain {
    /// Its name.
    pub name: &'static str,
    /// Where packets pass it.
    pub hook: NftHook,
    /// Its rules, in order. A packet that none of them decides about passes.
    pub rules: Vec<NftRule>,
}

/// A table of the family `inet` that this program owns.
pub struct NftTable {
    socket: Socket,
    buffer: Vec<u8>,
    sequence: u32,
    name: String,
    /// True if the kernel protects the table from other programs.
    owned: bool,
    /// Number of rules that the table should have; `None` without a table.
    rules: Option<usize>,
}

impl std::fmt::Debug for NftTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NftTable").field("name", &self.name).field("owned", &self.owned).finish_non_exhaustive()
    }
}

/// Room for a whole table in one message, in bytes: the kernel takes it at once or not at all. The usual buffer, 208 KiB, has room for some hundred rules, and a host
/// with many bridges or networks behind it has a few for each.
const LONGEST_TABLE: libc::c_int = 8 << 20;

impl NftTable {
    /// Opens a connection for a table of this name. Nothing is changed yet.
    ///
    /// # Errors
    /// If the kernel has no such sockets.
    pub fn open(name: &str) -> Result<Self, NetlinkError> {
        let socket = open_socket(libc::NETLINK_NETFILTER)
            .map_err(|source| NetlinkError::Socket { operation: "open nftables", source })?;
        // Failing without the right to do so is no harm: a small table fits anyway, and a large one is refused when it is set.
        let _ = socket.set_int(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, LONGEST_TABLE);
        let name = String::from(name);
        Ok(Self { socket, buffer: vec![0; BUFFER_LEN], sequence: 0, name, owned: true, rules: None })
    }

    /// The same without the kernel's protection, as on Linux before 5.12.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_unprotected(name: &str) -> Result<Self, NetlinkError> {
        Ok(Self { owned: false, ..Self::open(name)? })
    }

    /// Returns true if other programs cannot change the table.
    pub fn is_protected(&self) -> bool {
        self.owned
    }

    /// Makes the table, or replaces it, with these chains.
    ///
    /// # Errors
    /// If the kernel refuses it; the former table stays then.
    pub fn replace(&mut self, chains: &[NftChain]) -> Result<(), NetlinkError> {
        self.replace_with(None, chains)
    }

    /// The same with an empty set of address families, whose elements end on their own ([`Self::add_families`]).
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn replace_with(&mut self, set: Option<&str>, chains: &[NftChain]) -> Result<(), NetlinkError> {
        let made = match self.send("set the nftables table", self.whole(set, chains)) {
            // The kernel does not know the protection.
            Err(error) if self.owned && is_unknown(&error) => {
                self.owned = false;
                self.send("set the nftables table", self.whole(set, chains))
            }
            other => other,
        };
        made?;
        self.rules = Some(chains.iter().map(|chain| chain.rules.len()).sum());
        Ok(())
    }

    /// Removes the table. One that does not exist is no error.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn remove(&mut self) -> Result<(), NetlinkError> {
        self.rules = None;
        let mut batch = Batch::begin();
        batch.table(abi::NFT_MSG_NEWTABLE, &self.name, self.owned);
        batch.table(abi::NFT_MSG_DELTABLE, &self.name, false);
        self.send("remove the nftables table", batch)
    }

    /// Returns true if the table has all its rules, or if it should not exist.
    ///
    /// # Errors
    /// If the rules cannot be read.
    pub fn is_complete(&mut self) -> Result<bool, NetlinkError> {
        let Some(wanted) = self.rules else { return Ok(true) };
        let operation = "read the nftables rules";
        let request = NetlinkRequest::dump_of(abi::NFT_MSG_GETRULE, &[abi::NFPROTO_INET, 0, 0, 0])
            .attribute(abi::NFTA_RULE_TABLE, &batch::text(&self.name));
        let mut found = 0;
        match self.exchange(operation, request, |_| found += 1) {
            Err(error) if error.code() == Some(libc::ENOENT) => Ok(false),
            other => other.map(|()| found == wanted),
        }
    }

    /// Takes a table of this name that is there already, with this number of rules, as the one that [`Self::is_complete`] is about.
    pub fn expect(&mut self, chains: &[NftChain]) {
        self.rules = Some(chains.iter().map(|chain| chain.rules.len()).sum());
    }

    fn whole(&self, set: Option<&str>, chains: &[NftChain]) -> Batch {
        let mut batch = Batch::begin();
        // Deleting needs a table; this one is new or the former one.
        batch.table(abi::NFT_MSG_NEWTABLE, &self.name, self.owned);
        batch.table(abi::NFT_MSG_DELTABLE, &self.name, false);
        batch.table(abi::NFT_MSG_NEWTABLE, &self.name, self.owned);
        if let Some(set) = set {
            set::new_set(&mut batch, &self.name, set);
        }
        for chain in chains {
            batch.chain(&self.name, chain);
            chain.rules.iter().for_each(|rule| batch.rule(&self.name, chain.name, |batch| rule.write(batch)));
        }
        batch
    }

    /// Sends a transaction and waits for the kernel's verdict.
    fn send(&mut self, operation: &'static str, batch: Batch) -> Result<(), NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = batch.finish(self.sequence);
        self.socket.send(&bytes).map_err(|source| NetlinkError::Socket { operation, source })?;
        self.answer(operation, |_| {})
    }

    fn exchange(
        &mut self,
        operation: &'static str,
        request: NetlinkRequest,
        take: impl FnMut(parse::Message<'_>),
    ) -> Result<(), NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.finish(self.sequence);
        self.socket.send(&bytes).map_err(|source| NetlinkError::Socket { operation, source })?;
        self.answer(operation, take)
    }

    /// Waits for the end of the answer. The first error of a transaction comes first.
    fn answer(
        &mut self,
        operation: &'static str,
        mut take: impl FnMut(parse::Message<'_>),
    ) -> Result<(), NetlinkError> {
        let mut consistent = true;
        loop {
            let length =
                self.socket.receive(&mut self.buffer).map_err(|source| NetlinkError::Socket { operation, source })?;
            let datagram = self.buffer.get(..length).unwrap_or_default();
            let mut count = |message: parse::Message<'_>| {
                take(message);
                Ok(())
            };
            match read_datagram(datagram, self.sequence, &mut consistent, &mut count)
                .map_err(NetlinkError::malformed(operation))?
            {
                None => {}
                Some((0, _)) => return Ok(()),
                Some((code, detail)) => {
                    let (object, source) = (self.name.clone(), io::Error::from_raw_os_error(code.saturating_neg()));
                    return Err(NetlinkError::Refused { operation, object, source, detail });
                }
            }
        }
    }
}

/// Returns true for the answers of kernels that do not know a flag of a table.
fn is_unknown(error: &NetlinkError) -> bool {
    matches!(error.code(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}
