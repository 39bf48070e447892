//! The private socket beside the one that every local user may open.

use std::path::{Path, PathBuf};

/// Returns where the daemon that answers on `socket` has its private socket, to which only root and the daemon's own user may connect. A daemon of
/// release 0.1.0 has none.
pub fn private_socket(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_os_string();
    path.push(".root");
    PathBuf::from(path)
}
