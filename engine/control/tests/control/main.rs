//! The control thread against the coordinator's side of the channel, over loopback.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of tests may stop at the first surprise, as tests do"
)]

mod channel;
mod coordinator;
#[cfg(feature = "tls")]
mod https;
mod leave;
mod node;
mod prefixes;
mod relays;
