//! Entry points for fuzz targets: parsers that are otherwise private to this crate. They touch no file or socket.

use std::collections::VecDeque;

use taut_dial::Url;
use taut_netmap::{NetworkMap, ToNode};

use crate::channel::{ReceivedMessage, read_message};
use crate::disk::{open_whole, whole};
use crate::event_log::keep;
use crate::identity::Membership;
use crate::state::SavedMap;

/// Parses a coordinator's URL. Returns three parts: true if it uses TLS, the host and port as in an HTTP request, and the path in front of the control path.
pub fn url(text: &str) -> Option<(bool, String, String)> {
    let url: Url = text.parse().ok()?;
    Some((url.secure, url.authority(), url.path))
}

/// Returns the body of a state file, if the file is whole.
pub fn state_file(bytes: &[u8]) -> Option<Vec<u8>> {
    open_whole(bytes.to_vec().into()).ok().map(|body| body.to_vec())
}

/// Returns the state file with this body.
pub fn whole_file(body: &[u8]) -> Vec<u8> {
    whole(body)
}

/// Parses a node's identity, and returns it serialized again.
pub fn identity(body: &[u8]) -> Option<Vec<u8>> {
    let membership: Membership = taut_json::from_slice(body).ok()?;
    taut_json::to_vec(&membership).ok()
}

/// Parses the last good map. Returns `None` if a node would not start with it.
pub fn saved_map(body: &[u8]) -> Option<NetworkMap> {
    let saved: SavedMap = taut_json::from_slice(body).ok()?;
    saved.map.check().ok().map(|()| saved.map)
}

/// Parses a coordinator's message. Returns `None` for an invalid message and `Some(None)` for one that only a later version knows.
pub fn message(bytes: &[u8]) -> Option<Option<ToNode>> {
    match read_message(bytes).ok()? {
        ReceivedMessage::Known(message) => Some(Some(*message)),
        ReceivedMessage::Unknown => Some(None),
    }
}

/// Returns the whole lines of an event log's file.
pub fn event_lines(file: &[u8]) -> Vec<String> {
    let mut lines = VecDeque::new();
    keep(file, usize::MAX, &mut lines);
    lines.into()
}
