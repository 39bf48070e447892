//! The control channel to the coordinator, the node's state files, and bridges to relays by WebSocket.
//!
//! One thread owns both, so that the agent never waits for a disk or a distant host (ARCHITECTURE.md). The agent starts it with
//! [`Control::start`], tells it what the user wants ([`Command`]) and is woken when something happened ([`Event`]).
//!
//! - **Channel** (protocol.md 8): WebSocket over http or https, in it `Noise_IK` between the machine key and the coordinator's pinned key,
//!   in it the messages of `taut_netmap`. Trust is the pinned key alone; the certificate of an https front is accepted whatever it says.
//!   A lost channel is opened again by itself: exponential backoff with full jitter, each URL of the join token in turn. Connecting is
//!   done by a short-lived thread of its own, so that even a resolver that hangs does not delay [`Command::Down`] or [`Control::stop`].
//! - **Disk**: `identity.json` (keys, membership) and `map.json` (last good map), each with a checksum and a previous copy, replaced
//!   only as a whole. A lock keeps a second daemon out. A damaged identity is an error, never a new identity. The lines of the event log are appended to
//!   `events.jsonl` ([`Control::log`], [`saved_events`]).
//!
//! A [`Bridge`] has a thread of its own, which shares nothing with that one but the code that speaks TLS and WebSocket.
//!
//! It promises: only a map that was checked reaches the agent; the last good one comes first, before the network is asked; private keys
//! are made here, from the operating system's randomness, and never leave the host.
//!
//! It refuses: proxies, certificate checks, more than one network per state directory.

mod backoff;
mod bridge;
mod channel;
mod control;
mod dial;
mod disk;
mod error;
mod event;
mod event_log;
pub mod fuzzing;
mod identity;
mod random;
mod state;
mod stream;
mod url;
mod worker;

pub use bridge::{Bridge, BridgeOptions, BridgeReport};
pub use control::{Control, Options};
pub use error::StartError;
pub use event::{Command, Event, Identity, Left, OtherPrefixes};
pub use event_log::{LogDisk, saved_events};
pub use state::saved_relays;
pub use url::{BadUrl, Url};
