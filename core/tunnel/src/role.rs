//! The two sides of a handshake.

/// This node's side of a session's handshake. Only the initiator renews the session because of its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This node sent the initiation.
    Initiator,
    /// This node sent the response.
    Responder,
}
