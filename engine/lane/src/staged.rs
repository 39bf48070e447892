//! Packets that wait for a handshake.
//!
//! Any program on the host can make packets wait, for each peer that does not answer. So there is a bound for each peer and one for all peers of a lane. A
//! peer never has more than half of what is left of the second (a dynamic threshold, as in switches with shared memory): however many peers do not
//! answer, the next one finds room.

use std::collections::VecDeque;

/// Bytes that wait for one peer at most: four full superpackets, or some hundred ordinary packets. Kernel WireGuard keeps 128 packets.
const PER_PEER: usize = 256 * 1024;

/// Bytes that wait in one lane for all its peers at most: sixteen peers that are sent bulk data have what [`PER_PEER`] allows, thousands of peers that
/// are sent a ping each have room, too.
const PER_LANE: usize = 4 * 1024 * 1024;

/// Bytes that a packet costs beside its own: its place in the queue and the allocator's header.
const ENTRY: usize = 64;

/// Superpackets of one peer, as read from the TUN with their virtio header. The oldest go first when there are too many: whoever sent them
/// has the least use for them.
#[derive(Default)]
pub(crate) struct Staged {
    packets: VecDeque<Box<[u8]>>,
    cost: usize,
}

impl Staged {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

/// What waits in one lane for all its peers.
#[derive(Default)]
pub(crate) struct Stage {
    cost: usize,
}

impl Stage {
    /// Keeps a copy of a packet, and returns how many packets of the peer that pushed out; the packet itself, if there is no room for it.
    pub(crate) fn push(&mut self, staged: &mut Staged, packet: &[u8]) -> u64 {
        let cost = ENTRY + packet.len();
        let mut dropped = 0;
        loop {
            let room = PER_PEER.min((PER_LANE - self.cost) / 2);
            if staged.cost + cost <= room {
                break;
            }
            dropped += 1;
            if self.pop(staged).is_none() {
                return dropped;
            }
        }
        staged.cost += cost;
        self.cost += cost;
        staged.packets.push_back(packet.into());
        dropped
    }

    /// Takes the oldest of a peer.
    pub(crate) fn pop(&mut self, staged: &mut Staged) -> Option<Box<[u8]>> {
        let packet = staged.packets.pop_front()?;
        let cost = ENTRY + packet.len();
        staged.cost -= cost;
        self.cost -= cost;
        Some(packet)
    }

    /// Throws all of a peer away, and returns how many there were.
    pub(crate) fn clear(&mut self, staged: &mut Staged) -> u64 {
        let dropped = staged.packets.len() as u64;
        self.cost -= staged.cost;
        *staged = Staged::default();
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let (mut stage, mut staged) = (Stage::default(), Staged::default());
        let dropped: u64 = (0..10_u8).map(|number| stage.push(&mut staged, &vec![number; 60_000])).sum();
        assert_eq!(dropped, 6);
        assert_eq!(stage.pop(&mut staged).unwrap()[0], 6);
        assert_eq!(stage.clear(&mut staged), 3);
        assert!(stage.pop(&mut staged).is_none());
        assert_eq!(stage.cost, 0);
    }

    #[test]
    fn fault_p1_thousands_of_peers_that_do_not_answer_share_what_a_lane_keeps() {
        for length in [0, 84, 1_420, 65_000] {
            let mut stage = Stage::default();
            let mut peers: Vec<Staged> = (0..10_000).map(|_| Staged::default()).collect();
            for _ in 0..20 {
                for staged in &mut peers {
                    stage.push(staged, &vec![7; length]);
                    assert!(stage.cost <= PER_LANE && staged.cost <= PER_PEER);
                }
            }
            let waiting = peers.iter().filter(|staged| !staged.is_empty()).count();
            assert!(waiting == peers.len() || length > 84, "{waiting} have a packet of {length} bytes that waits");
            // A peer that comes later finds room for something small.
            let mut late = Staged::default();
            assert_eq!(stage.push(&mut late, &[7; 20]), 0, "{length}: {} are left", PER_LANE - stage.cost);
        }
    }
}
