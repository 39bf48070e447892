//! Whether two programs run with one node's keys: a copied state directory, a cloned virtual machine (fault D14). Pure: time is an argument.
//!
//! Each start of a program draws a number, its *run*. One host shows one run after another, and an earlier one never again; a run that comes back after
//! another one took its place was alive all the time, so there are two. Then the later one stays, and the other is refused as long as that one is connected:
//! two that pushed each other out would be a storm. Both are told. Kept in memory only, as presence.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use taut_base::NodeId;

/// Earlier runs of a node that are remembered: as many copies are told apart.
const FORMER: usize = 4;

/// How long two count as two after the other one was last heard of: it asks again within a minute.
const MEMORY: Duration = Duration::from_secs(300);

/// The runs of each member that was connected since the start.
#[derive(Default)]
pub(crate) struct Twins {
    nodes: BTreeMap<NodeId, Runs>,
}

/// The runs of one node.
struct Runs {
    latest: u64,
    /// The oldest first.
    former: VecDeque<u64>,
    /// When one of them came back last.
    seen: Option<Instant>,
}

impl Twins {
    /// A program with this run wants to connect; `connected` says whether one of the node is now. False when it is refused for the sake of that one.
    /// Programs that say no run (0) are never told apart.
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

    /// Whether there are two of this node.
    pub(crate) fn are_two(&self, node: NodeId, now: Instant) -> bool {
        let seen = self.nodes.get(&node).and_then(|runs| runs.seen);
        seen.is_some_and(|seen| now.saturating_duration_since(seen) < MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(7);

    #[test]
    fn one_host_that_moves_and_starts_again_is_one() {
        let (mut twins, now) = (Twins::default(), Instant::now());
        for run in [1, 1, 2, 2, 3, 4, 5, 6, 7, 8] {
            for connected in [true, false] {
                assert!(twins.enter(NODE, run, connected, now));
            }
        }
        assert!(!twins.are_two(NODE, now));
        assert_eq!(twins.nodes[&NODE].former.len(), FORMER);
    }

    #[test]
    fn fault_d14_a_run_that_comes_back_is_a_second_host_and_the_later_one_stays() {
        let (mut twins, now) = (Twins::default(), Instant::now());
        assert!(twins.enter(NODE, 1, false, now));
        assert!(twins.enter(NODE, 2, true, now), "a restart, for all that is known");
        assert!(!twins.are_two(NODE, now));
        assert!(!twins.enter(NODE, 1, true, now));
        assert!(twins.are_two(NODE, now) && !twins.are_two(NodeId(8), now));
        assert!(twins.enter(NODE, 2, true, now), "its own channel broke");
        assert!(!twins.enter(NODE, 1, true, now + MEMORY / 2));
        assert!(twins.are_two(NODE, now + MEMORY), "asked again meanwhile");
        assert!(!twins.are_two(NODE, now + 2 * MEMORY));
        assert!(twins.enter(NODE, 1, false, now), "the other one is gone");
        assert!(!twins.enter(NODE, 2, true, now), "and is the former now");
        // Three of them.
        assert!(twins.enter(NODE, 3, true, now));
        assert_eq!([1, 2].map(|run| twins.enter(NODE, run, true, now)), [false, false]);
    }

    #[test]
    fn who_says_no_run_is_never_told_apart() {
        let (mut twins, now) = (Twins::default(), Instant::now());
        for run in [1, 0, 0, 1] {
            assert!(twins.enter(NODE, run, true, now));
        }
        assert!(!twins.are_two(NODE, now));
    }
}
