//! What this host's kernel and other programs have of nftables.

use taut_netlink::{NetlinkError, NftTable};

/// Returns the reason why this process can make no rules of nftables, if there is one: the kernel has none, or the process may not use them.
pub(crate) fn probe_nftables() -> Result<(), NetlinkError> {
    // A table that does not exist is an answer of nftables, too.
    NftTable::open_unprotected("taut_probe")?.counted().map(drop)
}
