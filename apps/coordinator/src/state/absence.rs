//! Removal of ephemeral nodes after a time of absence. Absence counts only while a coordinator is up: a coordinator that was away for a day removes no node
//! because of that day.
//!
//! A count adds the time since the last count to every ephemeral node that is offline now and was offline at the last count. A node that joins, or comes back,
//! has no count, so that it can be removed only after it was seen offline at two counts that are its whole limit apart: it cannot be removed between its
//! registration and its first map (fault N12). Several coordinators on one database share the time of the last count, so that no second counts twice.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{State, StateError, random_bits};
use crate::clock::unix_now;
use crate::log;
use crate::store::{EphemeralRow, NetworkId, NodeRow, Party, Writing, undamaged};
use taut_base::NodeId;

/// Times of absence after which a node may be removed: 5 minutes to 30 days, in seconds. A node that changes its network needs some seconds, and a host that
/// boots again some minutes.
pub(super) const ABSENCE: RangeInclusive<i64> = 300..=30 * 24 * 3600;

/// Time between two counts, 30 s: a tenth of the shortest limit.
pub(super) const COUNT_EVERY: Duration = Duration::from_secs(30);

/// Longest time that one count adds, 90 s: three times [`COUNT_EVERY`]. A host that slept, or a program that was stopped, was not up.
const LONGEST: i64 = 90;

/// Nodes that are counted in one transaction, 256: that takes some milliseconds.
const PIECE: u32 = 256;

/// Result of a count for one node.
#[derive(Debug, PartialEq, Eq)]
enum Count {
    /// The stored count of the node stays as it is.
    Same,
    /// The node's new seconds of absence; `None` if it is present.
    Set(Option<i64>),
    /// The node was absent for its whole limit and is removed.
    Remove,
}

impl State {
    /// Counts the absence of ephemeral nodes, and removes those that were absent for long enough. `up` is the time for which this coordinator has been up since
    /// its last count.
    pub(crate) async fn count_absence(&self, up: Duration) -> Result<(), StateError> {
        if self.store.read(Party::Coordinator).await?.ephemeral_nodes(NodeId(0), 1).await?.1.is_none() {
            return Ok(());
        }
        let now = unix_now();
        let (mut after, mut passed) = (NodeId(0), None);
        loop {
            let mut tx = self.store.write(Party::Coordinator).await?;
            let passed = match passed {
                Some(passed) => passed,
                None => {
                    let time = self::passed(up, tx.counted_until().await?, now);
                    tx.set_counted_until(now).await?;
                    *passed.insert(time)
                }
            };
            let (rows, last) = tx.ephemeral_nodes(after, PIECE).await?;
            let mut removed = Vec::new();
            for row in rows {
                match count(&row, self.hub(row.network).is_online(row.id), passed) {
                    Count::Same => {}
                    Count::Set(absent) => tx.set_absent(row.id, absent).await?,
                    Count::Remove => removed.extend(remove(&mut tx, row.network, row.id, now).await?),
                }
            }
            tx.commit().await?;
            for (network, row, version) in removed {
                self.forget_members(network, std::slice::from_ref(&row), |_| {});
                self.hub(network).announce(version);
                tracing::info!(target: log::MEMBERS, event = "ephemeral-removed", node = row.id.0, name = row.name);
            }
            match last {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }
}

async fn remove(
    tx: &mut Writing,
    network: NetworkId,
    node: NodeId,
    now: i64,
) -> Result<Option<(NetworkId, NodeRow, u64)>, StateError> {
    // A damaged row, or one of a network that does not exist, stays until an operator removes it (fault O9).
    let Some(network) = undamaged(tx.network(network).await)?.map(|network| network.id) else { return Ok(None) };
    let Some(row) = undamaged(tx.node(node).await)? else { return Ok(None) };
    let version = tx.next_version(network, random_bits()).await?;
    tx.remove_node(node, version, now).await?;
    Ok(Some((network, row, version)))
}

/// Returns the seconds that a count adds. Another coordinator may have counted a part of them.
fn passed(up: Duration, counted_until: Option<i64>, now: i64) -> i64 {
    let up = i64::try_from(up.as_secs()).unwrap_or(LONGEST).min(LONGEST);
    match counted_until {
        // If the last count is in the future, the clock was set back, and the counts of other coordinators cannot be subtracted.
        Some(until) if until <= now => up.min(now - until),
        _ => up,
    }
}

fn count(row: &EphemeralRow, is_online: bool, passed: i64) -> Count {
    match (is_online, row.absent) {
        (true, None) => Count::Same,
        (true, Some(_)) => Count::Set(None),
        // The node may have been online between the last count and this one, so its count begins at 0.
        (false, None) => Count::Set(Some(0)),
        (false, Some(absent)) => {
            let absent = absent.max(0).saturating_add(passed);
            // A limit below the shortest valid one comes from a damaged row. The shortest valid one is used instead.
            if absent >= row.limit.max(*ABSENCE.start()) { Count::Remove } else { Count::Set(Some(absent)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(absent: Option<i64>) -> EphemeralRow {
        EphemeralRow { id: NodeId(1), network: NetworkId([1; 16]), limit: 300, absent }
    }

    #[test]
    fn fault_n12_a_node_without_a_count_is_never_removed() {
        for passed in [0, 30, LONGEST, i64::MAX] {
            assert_eq!(count(&row(None), false, passed), Count::Set(Some(0)));
            assert_eq!(count(&row(Some(i64::MAX)), true, passed), Count::Set(None));
        }
        assert_eq!(count(&row(Some(270)), false, 29), Count::Set(Some(299)));
        assert_eq!(count(&row(Some(270)), false, 30), Count::Remove);
        assert_eq!(count(&EphemeralRow { limit: -1, ..row(Some(0)) }, false, 90), Count::Set(Some(90)), "damaged");
    }

    #[test]
    fn fault_m7_only_time_in_which_a_coordinator_was_up_counts() {
        let seconds = Duration::from_secs;
        assert_eq!(passed(seconds(30), Some(1_000), 1_030), 30);
        assert_eq!(passed(seconds(30), Some(1_000), 1_000_000), 30, "it was away for days");
        assert_eq!(passed(seconds(30), Some(1_015), 1_030), 15, "another one counted the rest");
        assert_eq!(passed(seconds(86_400), Some(0), 86_400), LONGEST, "the host slept");
        assert_eq!(passed(seconds(30), Some(2_000), 1_030), 30, "the clock was set back");
        assert_eq!(passed(seconds(30), None, 1_030), 30);
    }
}
