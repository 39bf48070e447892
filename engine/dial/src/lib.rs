//! Connections to coordinators and relays by `http`, `https`, `ws` and `wss`: URL, TCP, TLS, WebSocket, the sealed channel inside, and the pauses between attempts.
//!
//! Nodes use it for the control channel and for bridges, relays for their channels to coordinators. Trust is in the pinned key of the `Noise_IK` handshake alone;
//! any certificate of an https front is accepted.
//!
//! - [`Dial`] opens a [`SealedChannel`] on a short-lived thread, and can be cancelled at any moment;
//! - [`connect`] opens the [`Stream`] below, for other uses of a [`WebSocket`];
//! - [`resolve`] finds the addresses of a name, also where the host cannot;
//! - [`Backoff`] tells the pause before the next attempt.
//!
//! - [`fetch()`] returns a short answer of a server whose key is not pinned yet, and checks its certificate; [`download()`] writes a file.
//!
//! Without the feature `tls`, https URLs are refused before anything is sent ([`check_scheme`]).
//!
//! Not supported: HTTP proxies; certificate checks of channels, where the pinned key decides.

mod answer;
mod backoff;
mod broken;
mod dial;
mod fetch;
mod names;
mod random;
mod scheme;
mod sealed_channel;
mod stream;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod url;
mod websocket;

pub use backoff::Backoff;
pub use broken::{Broken, Server};
pub use dial::{Cancel, Dial, Stage, check_scheme, connect};
pub use fetch::{AUTHORITIES, download, fetch};
pub use names::{LookUp, MAX_ADDRESSES, look_up, look_up_by, resolve};
pub use random::{Jitter, private_key};
pub use scheme::WITHOUT_TLS;
pub use sealed_channel::{ChannelTarget, Received, SealedChannel};
pub use stream::Stream;
pub use url::{BadUrl, Url};
pub use websocket::{Message, WebSocket, WebSocketError, WebSocketLimits};
