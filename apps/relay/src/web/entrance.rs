//! Connections that another web server accepted and passes on after the WebSocket handshake: the coordinator's, which has only one open port.

use std::sync::Arc;

use crate::shared::Shared;
use crate::streams::Arrival;

/// A handle that passes connections to a relay.
#[derive(Clone)]
pub struct Entrance(pub(crate) Arc<Shared>);

impl Entrance {
    /// Passes a connection to the relay. It counts as unauthenticated until a client is bound on it.
    pub fn take(&self, arrival: Arrival) {
        self.0.streams.arrive(arrival);
    }
}

/// Returns the server's answer to a `Sec-WebSocket-Key` (RFC 6455 section 4.2.2).
pub fn accept_key(key: &[u8]) -> String {
    tungstenite::handshake::derive_accept_key(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_answered_as_the_standard_says() {
        // The example of RFC 6455 section 1.3.
        assert_eq!(accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
