//! The way in for fuzz targets: parsers that are nobody else's business. No file or socket is touched here.

use std::collections::VecDeque;

use taut_netmap::{NetworkMap, ToNode};

use crate::channel::{Received, read_message};
use crate::disk::{open_whole, whole};
use crate::event_log::keep;
use crate::identity::Membership;
use crate::state::SavedMap;
use crate::url::Url;

/// A coordinator's URL: whether TLS comes first, host and port as a request names them, what stands before the control path.
pub fn url(text: &str) -> Option<(bool, String, String)> {
    let url: Url = text.parse().ok()?;
    Some((url.secure, url.authority(), url.path))
}

/// The body of a state file that is whole.
pub fn state_file(bytes: &[u8]) -> Option<Vec<u8>> {
    open_whole(bytes.to_vec().into()).ok().map(|body| body.to_vec())
}

/// The state file with this body.
pub fn whole_file(body: &[u8]) -> Vec<u8> {
    whole(body)
}

/// Reads who a node is, and writes it again.
pub fn identity(body: &[u8]) -> Option<Vec<u8>> {
    let membership: Membership = serde_json::from_slice(body).ok()?;
    serde_json::to_vec(&membership).ok()
}

/// The last good map, if a node would start from it.
pub fn saved_map(body: &[u8]) -> Option<NetworkMap> {
    let saved: SavedMap = serde_json::from_slice(body).ok()?;
    saved.map.check().ok().map(|()| saved.map)
}

/// Reads what a coordinator says: `None` when it makes no sense, `Some(None)` when it is from the future.
pub fn message(bytes: &[u8]) -> Option<Option<ToNode>> {
    match read_message(bytes).ok()? {
        Received::Known(message) => Some(Some(*message)),
        Received::Unknown => Some(None),
    }
}

/// Returns the whole lines of an event log's file.
pub fn event_lines(file: &[u8]) -> Vec<String> {
    let mut lines = VecDeque::new();
    keep(file, usize::MAX, &mut lines);
    lines.into()
}
