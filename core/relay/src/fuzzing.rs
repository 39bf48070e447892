//! Access for fuzz targets: sealing under a binding's keys, and private parsers.

use crate::control::Message;
use crate::frame::{CONTROL_LEN, MESSAGE_LEN};
use crate::server::Place;
use crate::{Client, Server};

/// Seals any 40 bytes as a bound client's next control frame.
pub fn say(client: &mut Client, message: &[u8; MESSAGE_LEN]) -> Option<[u8; CONTROL_LEN]> {
    client.seal(message)
}

/// Seals any 40 bytes as the relay's next control frame for the client at `place`.
pub fn tell(server: &mut Server, place: Place, message: &[u8; MESSAGE_LEN]) -> Option<[u8; CONTROL_LEN]> {
    server.seal(place, message)
}

/// Reads a message and writes it again; `None` for a kind that this version does not know.
pub fn message(bytes: &[u8; MESSAGE_LEN]) -> Option<[u8; MESSAGE_LEN]> {
    Message::parse(bytes).map(|message| message.write())
}
