//! The rules of a relay and of its clients (docs/spec/relay.md): no socket, no clock, no thread.
//!
//! A relay hands WireGuard's datagrams from one bound client to another, by short numbers that stand in front of them. It never sends to an address
//! that it was told: only to where a client has proven to be (protocol.md 6). What it carries is sealed end to end.
//!
//! ```text
//!   node A                              relay                              node B
//!   Client ── bind, with a ticket ───▶  Server   (a peer of the same network that is bound, too)
//!          ◀── bound ────────────────
//!          ── open B, as number 7 ──▶   Server ── arrived: A, as number 9 ─▶ Client
//!          ── 7 ‖ WireGuard ────────▶   Forward ── 9 ‖ WireGuard ─────────▶
//! ```
//! - [`frame`]: the bytes. [`ticket`]: what the coordinator signs, so that a relay knows members without asking anybody.
//! - [`Client`]: one node at one relay. It draws the numbers itself, so data may follow an `open` at once, without waiting for an answer.
//! - [`Server`]: the rare work: who is bound, from where, who has opened whom. It says each change of that as a [`Change`].
//! - [`Forward`]: the frequent work: one per thread, fed by changes, asks nobody: `frame in → frame out, whereto`.
//!
//! Who owns what: a relay has one [`Server`], behind a lock that no data waits for, and one [`Forward`] per thread. The thread that a control frame came
//! to changes its own [`Forward`] before it looks at the next datagram, so what follows an `open` finds it done.

mod change;
mod client;
mod control;
mod forward;
pub mod frame;
pub mod fuzzing;
mod handshake;
mod server;
pub mod ticket;

#[cfg(test)]
mod tests;

pub use change::{Change, ClientAddress};
pub use client::{BindingState, Client, ClientDatagram, ClientOutput, Credentials, LostCause, RelayEvent};
pub use forward::{Forward, ForwardCounts, ForwardOutput, ForwardRate, NoForward};
pub use server::{Refused, RelayLimits, Removal, Reply, Server, ServerClocks, ServerOutput, Tally};
pub use ticket::{BadTicket, NetworkTag, SigningKey, Terms, Ticket, VerifyingKey};
