//! The peers whose sessions have lanes that several local lanes serve. While there is one, the host's packets wait on the queues of all local lanes, otherwise on
//! the first queue.
//!
//! ```text
//! set ── no lanes of the peer closed a moment ago ───────────────▶ counts at once
//!     └─ lanes closed less than AFTER_CLOSE ago ── AFTER_CLOSE ──▶ counts
//! ```
//! Lanes hold the packets of a peer whose lanes close, and a change of the queues would make them release what they hold (`Steering` in engine/agent): these packets
//! could overtake others. So a peer whose lanes close counts as before until that wait is over. Each peer has its own time, so no peer delays the change for others.

use std::time::Duration;

use taut_base::{PeerId, SortedMap, Time};

/// Time after which no packet is held because lanes closed, 100 ms: the wait of 50 ms (protocol.md 5.4), and as long again for threads that are told late.
const AFTER_CLOSE: Duration = Duration::from_millis(100);

/// The peers that are spread over local lanes, and those that are about to be or were a moment ago.
#[derive(Default)]
pub(crate) struct SpreadPeers {
    peers: SortedMap<PeerId, SpreadPeer>,
}

#[derive(Clone, Copy, Default)]
struct SpreadPeer {
    /// Whether it is spread from `from` on.
    wanted: bool,
    /// Whether it counts as spread before.
    counts: bool,
    from: Time,
}

impl SpreadPeers {
    /// Notes whether a peer's newest session is spread.
    pub(crate) fn set(&mut self, id: PeerId, spread: bool, now: Time) {
        self.peers.entry(id).or_default().wanted = spread;
        self.handle_timeout(now);
    }

    /// Returns true if a peer's newest session is spread.
    pub(crate) fn contains(&self, id: PeerId) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.wanted)
    }

    /// Notes that a peer's lanes close now.
    pub(crate) fn lanes_close(&mut self, id: PeerId, now: Time) {
        self.handle_timeout(now);
        self.peers.entry(id).or_default().from = now + AFTER_CLOSE;
    }

    /// Forgets a peer that was removed.
    pub(crate) fn remove(&mut self, id: PeerId) {
        self.peers.remove(&id);
    }

    /// Returns true if a peer counts as spread.
    pub(crate) fn any(&self) -> bool {
        self.peers.values().any(|peer| peer.counts)
    }

    /// Returns the time at which [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.peers.values().filter(|peer| peer.counts != peer.wanted).map(|peer| peer.from).min()
    }

    /// Has peers count as noted whose wait is over.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.peers.retain(|_, peer| {
            if now >= peer.from {
                peer.counts = peer.wanted;
            }
            peer.counts || peer.wanted || now < peer.from
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PeerId = PeerId(1);
    const TWO: PeerId = PeerId(2);

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(1_000 + milliseconds)
    }

    #[test]
    fn a_peer_whose_lanes_did_not_close_counts_at_once() {
        let mut peers = SpreadPeers::default();
        peers.set(ONE, true, at(0));
        assert!(peers.contains(ONE) && peers.any());
        peers.set(ONE, false, at(2));
        assert!(!peers.contains(ONE) && !peers.any());
        assert!(peers.peers.is_empty() && peers.poll_timeout().is_none());
    }

    #[test]
    fn a_peer_whose_lanes_close_counts_as_before_until_nothing_is_held() {
        let mut peers = SpreadPeers::default();
        peers.lanes_close(ONE, at(0));
        peers.set(ONE, true, at(10));
        assert!(peers.contains(ONE) && !peers.any(), "it was not spread");
        assert_eq!(peers.poll_timeout(), Some(at(100)));
        peers.handle_timeout(at(99));
        assert!(!peers.any());
        peers.handle_timeout(at(100));
        assert!(peers.any() && peers.poll_timeout().is_none());

        peers.lanes_close(ONE, at(200));
        peers.set(ONE, false, at(200));
        assert!(!peers.contains(ONE) && peers.any(), "it was spread");
        peers.set(TWO, true, at(210));
        peers.remove(TWO);
        peers.handle_timeout(at(300));
        assert!(!peers.any() && peers.peers.is_empty());
    }

    #[test]
    fn fault_b11_lanes_of_one_peer_that_close_again_and_again_delay_no_other() {
        let mut peers = SpreadPeers::default();
        for step in 0..100 {
            peers.lanes_close(ONE, at(step * 40));
            peers.set(ONE, step % 2 == 0, at(step * 40));
            assert_eq!(peers.peers.len(), 1);
            assert!(!peers.any(), "it never waited for long enough");
        }
        peers.set(TWO, true, at(4_000));
        assert!(peers.any());
    }
}
