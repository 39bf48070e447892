//! The control channel to the coordinator, the node's state files, and bridges to relays by WebSocket.
//!
//! One thread owns the channel and the files, so that the agent never waits for a disk or a distant host (ARCHITECTURE.md). The agent starts it with
//! [`Control::start`], sends it [`Command`]s, and is woken for each [`ControlEvent`].
//!
//! - **Channel** (protocol.md 8): WebSocket over http or https, in it `Noise_IK` between the machine key and the coordinator's pinned key,
//!   in it the messages of `taut_netmap`. Trust is in the pinned key alone; any certificate of an https front is accepted.
//!   A lost channel is reopened automatically: exponential back-off with full jitter, each URL of the join token in turn. A short-lived
//!   thread of its own connects, so that even a resolver that hangs does not delay [`Command::Down`] or [`Control::stop`].
//! - **Disk**: `identity.json` (keys, membership) and `map.json` (last good map), each with a checksum and a previous copy, replaced
//!   only as a whole. A lock keeps a second daemon out. A damaged identity is an error, never a new identity. The lines of the event log are appended to
//!   `events.jsonl` ([`Control::log`], [`saved_events`]).
//!
//! A [`Bridge`] has a thread of its own. It shares only the code of `taut_dial` with the control thread.
//!
//! Guarantees: only a checked map reaches the agent; the last good map comes first, before any connection; private keys are generated here, from the
//! operating system's randomness, and never leave the host.
//!
//! Not supported: proxies, certificate checks, more than one network per state directory.

mod bridge;
mod channel;
mod control;
mod disk;
mod error;
mod event;
mod event_log;
pub mod fuzzing;
mod identity;
mod state;
mod worker;

pub use bridge::{Bridge, BridgeOptions, BridgeReport};
pub use control::{Control, Options};
pub use error::StartError;
pub use event::{Command, ControlEvent, Left, MemberIdentity, OtherPrefixes, Place};
pub use event_log::{LogDisk, saved_events};
pub use state::{forget_kill_switch, saved_kill_switch, saved_relays, saved_settings};
pub use taut_dial::{
    AUTHORITIES, BadUrl, LookUp, Url, WITHOUT_TLS, check_scheme, download, fetch, look_up, look_up_by,
};
