//! The words of the userspace network: what programs say to its proxies, and what a daemon and the program with the TCP/IP stack tell each other.
//!
//! - [`socks5`] reads requests of SOCKS5 (RFC 1928) and writes the replies;
//! - [`http`] does the same for an HTTP proxy: `CONNECT`, and requests with an absolute URL (RFC 9110 section 9.3.6, RFC 9112 section 3.2.2);
//! - [`Target`] is where a program wants to go, and [`Refusal`] the reason why it cannot;
//! - [`Forward`] and [`Publish`] are port forwards as users write them;
//! - [`Setup`] goes from the daemon to the program, [`Report`] back.
//!
//! It promises: no panic on any input, no IO, no clock; a parser says how much more it may need, and never asks for more than its bound.
//!
//! It refuses: names, addresses and ports that mean nothing, methods and commands that are not known, and a request that is longer than its bound.

mod forward;
pub mod http;
mod refusal;
mod setup;
pub mod socks5;
mod target;

/// The local ports of connections that `taut-userspace` begins: those that Linux uses by default (`ip_local_port_range`). The daemon has to know which flows are answers.
pub const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;

pub use forward::{Forward, MAX_FORWARDS, Publish};
pub use refusal::Refusal;
pub use setup::{MAX_LINE, Report, Service, ServiceReport, Setup};
pub use target::{BadTarget, Host, Target};

/// The result of reading the start of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed<T, E> {
    /// The message is not complete: read more.
    More,
    /// A message, and the number of bytes that it took. Bytes behind it belong to what follows.
    Done(T, usize),
    /// No bytes that follow can make this a message.
    Wrong(E),
}
