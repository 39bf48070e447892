//! Changes of the forwarding tables: decided by [`Server`](crate::Server), carried out by each [`Forward`](crate::Forward).

use std::net::SocketAddr;

/// The address of a client, as the relay sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientAddress {
    /// The source address of the client's datagrams.
    Udp(SocketAddr),
    /// The number of the client's connection. Numbers are not reused while the relay runs.
    Stream(u64),
}

/// A change of the forwarding tables. Clients are named by slots: small numbers that are reused after [`Change::Gone`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A client was bound, or moved to another address.
    Client {
        /// The client's slot.
        slot: u32,
        /// The client's address from now on.
        address: ClientAddress,
    },
    /// A lane of a client beyond the first was bound at an address, moved, or ended.
    Lane {
        /// The client's slot.
        slot: u32,
        /// The lane, 1 to 15.
        lane: u8,
        /// The lane's address from now on; `None` if it ended.
        address: Option<ClientAddress>,
    },
    /// Another client has proven to be at this client's address. Nothing is sent to this client until it has proven another address.
    Displaced {
        /// The client's slot.
        slot: u32,
    },
    /// A client's binding ended. Its channels were closed before.
    Gone {
        /// The client's slot.
        slot: u32,
    },
    /// Data frames with `id` from the client in `slot` go to the client in `to`, with the number `to_id`.
    Open {
        /// The sender's slot.
        slot: u32,
        /// The number in the sender's frames.
        id: u32,
        /// The receiver's slot.
        to: u32,
        /// The number that the receiver has for the sender.
        to_id: u32,
    },
    /// The client's number no longer leads to a peer.
    Close {
        /// The client's slot.
        slot: u32,
        /// The number in the client's frames.
        id: u32,
    },
}
