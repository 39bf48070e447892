//! WireGuard's tunnel rules: handshake, sessions, replay window, timers.
//!
//! Pure: time, randomness and buffers are arguments. The pieces, in the order in which a session uses them:
//!
//! 1. [`handshake`]: `Noise_IKpsk2` as a chain of types. [`SentInitiation::start`](handshake::SentInitiation::start) →
//!    [`finish`](handshake::SentInitiation::finish), and on the other side [`ReceivedInitiation::read`](handshake::ReceivedInitiation::read) →
//!    [`authenticate`](handshake::ReceivedInitiation::authenticate) → [`respond`](handshake::AuthenticatedInitiation::respond). Both ends yield [`SessionKeys`].
//! 2. [`Attempt`]: when to retransmit an initiation, and when to give up. The agent uses it.
//! 3. [`Session`]: WireGuard's own [`Pair`] of keys with its counter and [`ReplayWindow`], and between Taut nodes the pairs that an [`Exporter`] derives
//!    from the handshake: one for control messages, one for data under another suite. Pairs seal and open in place.
//! 4. [`Keyring`]: the sessions of one peer (previous, current, next) and WireGuard's data timers. A lane uses it where it handles packets, and asks the
//!    agent only for handshakes (protocol.md 1.7).
//! 5. [`cookie`]: the checks of a handshake message before any key agreement is computed for it, and the cookies that an initiator received.
//!
//! Out of scope: load limits (the lane decides which senders need a cookie), and preshared keys other than zeros in network mode.

mod attempt;
pub mod cookie;
mod exporter;
pub mod handshake;
mod identity;
mod keyring;
mod limits;
mod long_messages;
mod pair;
mod role;
mod session;
mod window;

pub use attempt::{Attempt, AttemptAction, Retry};
pub use exporter::Exporter;
pub use keyring::{CROSSING, Keyring, KeyringAction, NoSession};
pub use limits::{Limits, REJECT_AFTER_BLOCKS, REJECT_AFTER_MESSAGES, REKEY_AFTER_BLOCKS, REKEY_AFTER_MESSAGES};
pub use pair::{Exhausted, OpenError, Pair, PairKeys};
pub use role::Role;
pub use session::{Acknowledged, Session, SessionIndices, SessionKeys};
// Not WireGuard's, but every user of this crate limits handshakes by a rate.
pub use taut_base::{Bucket, Rate};
pub use window::ReplayWindow;
