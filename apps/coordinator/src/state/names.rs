//! Names of nodes that are valid and free.

use taut_netmap::{MAX_NAME, name_from_host};

use super::StateError;
use crate::store::{NetworkId, Reading};

/// Returns true if a name has only digits. Such a name would be mistaken for a node's number.
pub(super) fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the name that a node asks for, turned into a permitted DNS label (faults E10, E20) that no other member has.
pub(super) async fn free_name(tx: &mut Reading, network: NetworkId, requested: &str) -> Result<String, StateError> {
    let mut base = name_from_host(requested);
    if is_number(&base) {
        base = name_from_host(&format!("node-{base}"));
    }
    unique_name(tx, network, &base).await
}

/// Returns `base`, followed by a number if a member of the network has that name already.
pub(super) async fn unique_name(tx: &mut Reading, network: NetworkId, base: &str) -> Result<String, StateError> {
    if !tx.is_name_taken(network, base).await? {
        return Ok(String::from(base));
    }
    let taken = tx.names(network).await?;
    let numbered = |number: u32| {
        let tail = format!("-{number}");
        let head = &base[..base.len().min(MAX_NAME - tail.len())];
        format!("{}{tail}", head.trim_end_matches('-'))
    };
    (2..).map(numbered).find(|name| !taken.contains(name)).ok_or(StateError::Full)
}
