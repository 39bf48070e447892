//! Detection of two programs with the keys of one node, such as after copying a state directory or cloning a virtual machine (fault D14). Pure: time is an
//! argument.
//!
//! Each start of a program draws a random number, its *run*. One host uses one run after the other and never an earlier one again. A run that returns after
//! another one replaced it therefore belongs to a second host. The program that started later stays, and the other one is refused as long as the later one is
//! connected; otherwise the two would replace each other without end. Both are told. The runs are only in memory, like presence.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use taut_base::NodeId;

/// Earlier runs of a node that are remembered, 4: as many copies of it are detected.
const FORMER: usize = 4;

/// Time for which a node counts as duplicate after the other program last asked, 5 min. That program asks again within a minute.
const MEMORY: Duration = Duration::from_secs(300);

/// Runs of the members that were connected since the start of the coordinator.
#[derive(Default)]
pub(crate) struct Duplicates {
    nodes: BTreeMap<NodeId, Runs>,
}

/// The runs of one node.
struct Runs {
    latest: u64,
    /// The oldest first.
    former: VecDeque<u64>,
    /// Time at which a former run last returned.
    seen: Option<Instant>,
}

impl Duplicates {
    /// Notes that a program with this run connects. `connected` is true if a program of the node is connected. Returns false if the new one is refused in
    /// favour of that one. Programs that report no run (0) are not told apart.
    pub(crate) fn enter(&mut self, node: NodeId, run: u64, connected: bool, now: Instant) -> bool {
        if run == 0 {
            return true;
        }
        let runs = self.nodes.entry(node).or_insert(Runs { latest: run, former: VecDeque::new(), seen: None });
        if runs.latest == run {
            return true;
        }
        if let Some(place) = runs.former.iter().position(|former| *former == run) {
            runs.seen = Some(now);
            if connected {
                return false;
            }
            runs.former.remove(place);
        }
        runs.former.push_back(std::mem::replace(&mut runs.latest, run));
        if runs.former.len() > FORMER {
            runs.former.pop_front();
        }
        true
    }

    /// Forgets a node.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// Returns true if two programs used this node's keys recently.
    pub(crate) fn has_duplicate(&self, node: NodeId, now: Instant) -> bool {
        let seen = self.nodes.get(&node).and_then(|runs| runs.seen);
        seen.is_some_and(|seen| now.saturating_duration_since(seen) < MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(7);

    #[test]
    fn a_host_that_moves_and_restarts_is_no_duplicate() {
        let (mut duplicates, now) = (Duplicates::default(), Instant::now());
        for run in [1, 1, 2, 2, 3, 4, 5, 6, 7, 8] {
            for connected in [true, false] {
                assert!(duplicates.enter(NODE, run, connected, now));
            }
        }
        assert!(!duplicates.has_duplicate(NODE, now));
        assert_eq!(duplicates.nodes[&NODE].former.len(), FORMER);
    }

    #[test]
    fn fault_d14_a_run_that_returns_is_a_second_host_and_the_later_one_stays() {
        let (mut duplicates, now) = (Duplicates::default(), Instant::now());
        assert!(duplicates.enter(NODE, 1, false, now));
        assert!(duplicates.enter(NODE, 2, true, now), "a restart, for all that is known");
        assert!(!duplicates.has_duplicate(NODE, now));
        assert!(!duplicates.enter(NODE, 1, true, now));
        assert!(duplicates.has_duplicate(NODE, now) && !duplicates.has_duplicate(NodeId(8), now));
        assert!(duplicates.enter(NODE, 2, true, now), "its own channel broke");
        assert!(!duplicates.enter(NODE, 1, true, now + MEMORY / 2));
        assert!(duplicates.has_duplicate(NODE, now + MEMORY), "asked again meanwhile");
        assert!(!duplicates.has_duplicate(NODE, now + 2 * MEMORY));
        assert!(duplicates.enter(NODE, 1, false, now), "the other one is gone");
        assert!(!duplicates.enter(NODE, 2, true, now), "and is the former now");
        // Three of them.
        assert!(duplicates.enter(NODE, 3, true, now));
        assert_eq!([1, 2].map(|run| duplicates.enter(NODE, run, true, now)), [false, false]);
    }

    #[test]
    fn programs_without_a_run_are_no_duplicates() {
        let (mut duplicates, now) = (Duplicates::default(), Instant::now());
        for run in [1, 0, 0, 1] {
            assert!(duplicates.enter(NODE, run, true, now));
        }
        assert!(!duplicates.has_duplicate(NODE, now));
    }
}
