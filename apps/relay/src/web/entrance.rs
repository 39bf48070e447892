//! Connections that come by somebody else's web server, which has shaken hands on them: the coordinator's, on the one port that is open to the world.

use std::net::TcpStream;
use std::sync::Arc;

use crate::admission::Pass;
use crate::shared::Shared;

/// Gives connections to a relay.
#[derive(Clone)]
pub struct Entrance(pub(crate) Arc<Shared>);

impl Entrance {
    /// Has the relay serve this connection. `read` came behind the handshake of RFC 6455. The connection keeps its place among the unauthenticated until a
    /// client is bound on it.
    pub fn take(&self, tcp: TcpStream, read: Vec<u8>, pass: Arc<Pass>) {
        self.0.streams.arrive(tcp, read, pass);
    }
}

/// What the server answers to a `Sec-WebSocket-Key` (RFC 6455 section 4.2.2).
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
