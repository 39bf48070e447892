//! Methods of [`LaneThreads`] that `taut wg` calls, and a daemon with a network does not.

use std::sync::Arc;

use taut_base::{LaneId, PeerId};
use taut_node::ToLane;
use taut_udp::UdpSocket;

use super::LaneThreads;

impl LaneThreads {
    /// Adds a command of a node whose peers are divided among the lanes: it goes to the lane of its peer, or to all lanes. An initiation leaves from the lane that its
    /// answer comes to, which its index names.
    pub(crate) fn push_by_peer(&mut self, lane: LaneId, command: ToLane) {
        let lanes = u8::try_from(self.lanes.len()).unwrap_or(1);
        let owner = command.peer().map(|peer| peer.only_lane(lanes));
        match command {
            ToLane::Routes(routes) => {
                (0..lanes).for_each(|lane| self.push(LaneId(lane), ToLane::Routes(Arc::clone(&routes))));
            }
            ToLane::Send { way, message } => {
                let sender = message.initiation_sender().map(|sender| sender.lane().served_by(lanes));
                self.push(sender.unwrap_or(lane), ToLane::Send { way, message });
            }
            command => self.push(owner.unwrap_or(lane), command),
        }
    }

    /// Has the lanes forget all local addresses: the routes choose them until peers are heard again.
    pub(crate) fn forget_locals(&self) {
        for running in &self.lanes {
            // If the queue is full, the lane forgets each address at the second retransmission of the peer's next handshake.
            let _ = running.queue.send(ToLane::ForgetLocals);
            running.queue.wake();
        }
    }

    /// Gives each lane another socket. Its sessions stay.
    pub(crate) fn replace_sockets(&self, sockets: Vec<UdpSocket>) {
        for (running, udp) in self.lanes.iter().zip(sockets) {
            running.lane.replace_socket(udp);
        }
    }

    /// Returns the bytes of data messages received from a peer and sent to it, on all lanes.
    pub(crate) fn outer_of(&self, peer: PeerId) -> (u64, u64) {
        let all = self.all_shared().map(|shared| shared.traffic.outer_of(peer));
        all.fold((0, 0), |(received, sent), (here, there)| (received + here, sent + there))
    }
}
