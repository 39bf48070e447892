//! Checks of what the tables mean, the same for every database.

use super::StoreError;
use super::database::Transaction;

/// What `migrate` leaves behind in the database that a coordinator moved from.
pub(crate) const WAS_MOVED: &str = "the coordinator was moved to another database by `migrate`: nothing changes in this one any more, so name the other one (--database, TAUT_DATABASE)";

/// Damages that no correct change leaves behind, each with a statement that counts them. The database itself checks the constraints of the tables (no
/// duplicate address, name or key).
const CHECKS: [(&str, &str); 10] = [
    (WAS_MOVED, "SELECT count(*) FROM meta WHERE name = 'moved'"),
    (
        "the coordinator's key is missing: this is not a coordinator's database, or its first start was interrupted",
        "SELECT NOT EXISTS (SELECT 1 FROM meta WHERE name = 'coordinator-key' AND length(value) = 32)",
    ),
    (
        "a key of the coordinator's, or of its own relay, has a wrong length",
        "SELECT count(*) FROM meta WHERE name IN ('ticket-key', 'relay-key') AND length(value) <> 32",
    ),
    (
        "a network's version is missing in its history",
        "SELECT count(*) FROM networks n WHERE NOT EXISTS \
         (SELECT 1 FROM history h WHERE h.network = n.id AND h.version = n.version)",
    ),
    (
        "a history goes beyond its network's version",
        "SELECT count(*) FROM history h JOIN networks n ON n.id = h.network WHERE h.version > n.version",
    ),
    (
        "a history has gaps",
        "SELECT count(*) FROM networks n WHERE (SELECT count(*) - 1 FROM history h WHERE h.network = n.id) \
         <> (n.version >> 20) - (SELECT min(h.version) >> 20 FROM history h WHERE h.network = n.id)",
    ),
    (
        "a node changed at a version that its network never had",
        "SELECT count(*) FROM nodes d WHERE d.version >= (SELECT min(h.version) FROM history h WHERE h.network = d.network) \
         AND NOT EXISTS (SELECT 1 FROM history h WHERE h.network = d.network AND h.version = d.version)",
    ),
    (
        "a history belongs to a network that does not exist",
        "SELECT count(*) FROM history h WHERE NOT EXISTS (SELECT 1 FROM networks n WHERE n.id = h.network)",
    ),
    ("a one-off key was used more than once", "SELECT count(*) FROM keys WHERE reusable = 0 AND used > 1"),
    (
        "there are more nodes than keys were used",
        "SELECT (SELECT count(*) FROM nodes) > (SELECT coalesce(sum(used), 0) FROM keys)",
    ),
];

/// Damages of the tables for relays, which a database of an earlier release does not have.
const CHECKS_OF_RELAYS: [(&str, &str); 2] = [
    (
        "there are relays, and no key that signs leave to use them",
        "SELECT EXISTS (SELECT 1 FROM relays) AND NOT EXISTS (SELECT 1 FROM meta WHERE name = 'ticket-key')",
    ),
    (
        "a network's relays changed at a version after its last",
        "SELECT count(*) FROM networks WHERE relays_version > version",
    ),
];

/// Returns descriptions of all damages. `knows_relays` is false for a database of an earlier release without relays.
pub(super) async fn violations(tx: &mut dyn Transaction, knows_relays: bool) -> Result<Vec<String>, StoreError> {
    let of_relays = knows_relays.then_some(CHECKS_OF_RELAYS).into_iter().flatten();
    let mut found = Vec::new();
    for (what, count) in CHECKS.into_iter().chain(of_relays) {
        let rows = tx.rows(count, &[]).await?;
        let count: i64 = rows.first().ok_or(StoreError::Damaged("a count is missing"))?.first()?;
        if count != 0 {
            found.push(String::from(what));
        }
    }
    Ok(found)
}
