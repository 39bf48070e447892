//! The rules of a relay and of its clients (docs/spec/relay.md): no socket, no clock, no thread.
//!
//! A relay forwards WireGuard datagrams between bound clients. A short number in front of each datagram names the other client. The relay sends only to
//! addresses that a client has proven to own (protocol.md 6), never to an address that it was told. The datagrams are encrypted end to end.
//!
//! ```text
//!   node A                              relay                              node B
//!   Client ── bind, with a ticket ───▶  Server   (B is bound, too, and of the same network)
//!          ◀── bound ────────────────
//!          ── open B, as number 7 ──▶   Server ── arrived: A, as number 9 ─▶ Client
//!          ── 7 ‖ WireGuard ────────▶   Forward ── 9 ‖ WireGuard ─────────▶
//! ```
//! - [`frame`]: the frames. [`ticket`]: the tickets that a coordinator signs, by which a relay knows members without asking the coordinator.
//! - [`Client`]: one node at one relay. It draws the numbers itself, so data may follow an `open` without waiting for an answer.
//! - [`Server`]: the rare work: bindings, addresses and channels. It reports each change of them as a [`Change`].
//! - [`Forward`]: the frequent work: one forwarding table per thread, kept current by changes: a frame in, the rewritten frame and its receiver out. The lanes of a client
//!   may arrive at different threads, so all threads count its bytes in one place, [`Shares`].
//!
//! Each of the three returns everything through one `poll_output`, which its owner drains after every input.
//!
//! Ownership: a relay has one [`Server`], behind a lock that no data waits for, and one [`Forward`] per thread. The thread that received a control frame
//! applies the changes to its own [`Forward`] before it handles the next datagram, so data behind an `open` finds the channel.

mod change;
mod client;
mod control;
mod forward;
pub mod frame;
pub mod fuzzing;
mod handshake;
mod server;
mod shares;
pub mod ticket;

#[cfg(test)]
mod tests;

pub use change::{Change, ClientAddress};
pub use client::{BindingState, Client, ClientDatagram, ClientOutput, Credentials, LostCause, RelayEvent};
pub use forward::{ClientLane, Forward, ForwardCounts, ForwardOutput, NoForward};
pub use server::{Refused, RelayLimits, Removal, Reply, Server, ServerClocks, ServerOutput, Tally};
pub use shares::{BadRate, ForwardRate, Shares};
pub use ticket::{BadTicket, NetworkTag, SigningKey, Terms, Ticket, VerifyingKey};
