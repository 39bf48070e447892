//! Access for fuzz targets: sealing under a binding's keys, and private parsers.

use crate::change::ClientAddress;
use crate::control::ControlMessage;
use crate::frame::{CONTROL_LEN, MESSAGE_LEN};
use crate::{Client, Server};

/// Seals any 40 bytes as a bound client's next control frame.
pub fn say(client: &mut Client, message: &[u8; MESSAGE_LEN]) -> Option<[u8; CONTROL_LEN]> {
    client.seal(message)
}

/// Seals any 40 bytes as the relay's next control frame for the client at `place`.
pub fn tell(server: &mut Server, address: ClientAddress, message: &[u8; MESSAGE_LEN]) -> Option<[u8; CONTROL_LEN]> {
    server.seal(address, message)
}

/// Reads a message and writes it again; `None` for a kind that this version does not know.
pub fn message(bytes: &[u8; MESSAGE_LEN]) -> Option<[u8; MESSAGE_LEN]> {
    ControlMessage::parse(bytes).map(|message| message.write())
}
