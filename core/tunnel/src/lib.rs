//! WireGuard's tunnel rules: handshake, sessions, replay window, timers.
//!
//! Pure: time, randomness and buffers are arguments. The pieces, in the order in which a packet's life needs them:
//!
//! 1. [`handshake`]: `Noise_IKpsk2` as a chain of types. [`SentInitiation::start`](handshake::SentInitiation::start) →
//!    [`finish`](handshake::SentInitiation::finish), and on the other side [`ReceivedInitiation::read`](handshake::ReceivedInitiation::read) →
//!    [`authenticate`](handshake::ReceivedInitiation::authenticate) → [`respond`](handshake::AuthenticatedInitiation::respond). Both ends yield [`SessionKeys`].
//! 2. [`Attempt`]: when to send an initiation again, and when to give up. The agent's part.
//! 3. [`Session`]: what a handshake made: WireGuard's own [`Pair`] of keys with its counter and replay [`ReplayWindow`], and between Taut nodes the pairs that
//!    an [`Exporter`] derives beside it: one for control messages, one for data under another suite. Pairs seal and open in place.
//! 4. [`Keyring`]: the sessions of one peer (previous, current, next) and WireGuard's data timers. The lane's part: it lives where the
//!    packets are, and asks the agent only for handshakes (protocol.md 1.7).
//!
//! Beside them [`cookie`]: what a lane judges handshake messages by before anybody computes for them, and what an initiator does with a cookie.
//!
//! What is missing on purpose: load limits (who has to show a cookie is the lane's decision), preshared keys beyond zeros in network mode.

mod attempt;
pub mod cookie;
mod exporter;
pub mod handshake;
mod keyring;
mod limits;
mod pair;
mod session;
mod window;

pub use attempt::{Attempt, AttemptAction, Retry};
pub use exporter::Exporter;
pub use keyring::{Keyring, KeyringAction, NoSession};
pub use limits::{Limits, REJECT_AFTER_BLOCKS, REJECT_AFTER_MESSAGES, REKEY_AFTER_BLOCKS, REKEY_AFTER_MESSAGES};
pub use pair::{Exhausted, OpenError, Pair, PairKeys};
pub use session::{Role, Session, SessionIndices, SessionKeys};
// A rate is no matter of WireGuard; whoever has a limit on what it tunnels finds it here, too.
pub use taut_base::{Bucket, Rate};
pub use window::ReplayWindow;
