//! The two queues in front of a lane, seen by its core: looks at them, and the marks for the flows that keep them long (`queue_marks`).

use taut_base::{PeerId, Time};
use taut_path::Way;
use taut_wire::vnet;
use taut_wire::{ecn, ip};

use super::LaneCore;

impl LaneCore {
    /// Notes that `bytes` waited in the socket's receive queue, and perhaps `more` than were received at once.
    pub fn socket_looked(&mut self, bytes: usize, more: bool, now: Time) {
        self.socket_queue.looked(bytes, more, now);
    }

    /// Notes that a packet of `bytes` was read from the TUN queue.
    pub fn tun_took(&mut self, bytes: usize, clock: impl FnOnce() -> Time) {
        self.tun_queue.took(bytes, clock);
    }

    /// Notes that the TUN queue is empty.
    pub fn tun_emptied(&mut self) {
        self.tun_queue.emptied();
    }

    /// Marks a packet that was read from the TUN, if its flow keeps that queue long. All segments of a superpacket get the mark.
    pub fn mark_read(&mut self, read: &mut [u8]) {
        if self.tun_queue.is_long() {
            self.mark_outbound(read);
        }
    }

    fn mark_outbound(&mut self, read: &mut [u8]) {
        let start = if self.vnet_header { vnet::LEN } else { 0 };
        let Some(packet) = read.get_mut(start..) else { return };
        let Some(id) = ip::Packet::parse(packet).ok().and_then(|inner| self.routes.lookup(inner.destination())) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(id) else { return };
        if self.tun_queue.marks(id, peer.base_round_trip.shortest(), packet) && ecn::mark(packet) {
            peer.traffic.add_marked_sent();
        }
    }

    /// Notes that a probe is sent to a peer, on this path or, without one, on the path of data. Only the path of data is measured.
    pub(super) fn probe_sent(&mut self, id: PeerId, way: Option<Way>, probe: u64, now: Time) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        if way.is_none() || way == peer.first.way {
            peer.base_round_trip.sent(probe, now);
        }
    }

    /// Marks a packet that a peer sent, if its flow keeps the socket's queue long.
    pub(super) fn mark_inbound(&mut self, id: PeerId, packet: &mut [u8]) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        if self.socket_queue.marks(id, peer.base_round_trip.shortest(), packet) && ecn::mark(packet) {
            peer.traffic.add_marked_received();
        }
    }
}
