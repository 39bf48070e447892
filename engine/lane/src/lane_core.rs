//! The lane core: everything of a lane that is not a system call, composed of machines that own their state. It has no thread, socket or clock.
//!
//! | machine | owns |
//! |---|---|
//! | [`PeerTable`] | peers with their sessions, receiver indices and timers; per peer a [`Path`](crate::path), a [`LaneSelector`](crate::selector) and limits |
//! | [`Staging`] | packets that wait for a session, or to learn whether the peer takes pieces |
//! | [`HeldPackets`] | packets that wait for a change of their peer's path or lanes |
//! | [`Ingress`] | limits on handshake messages, and those that passed |
//! | [`RelayLinks`] | addresses of relays and STUN servers, with what was sent to them |
//! | [`LocalAddresses`] | the source address for each endpoint |
//! | [`Reassembly`] | packets of which some pieces have arrived |
//! | [`Stub`] | answers to the host about names, with their TCP connections |
//! | [`PieceSender`], [`HostErrors`] | packets that are longer than their path carries |
//! | [`LoadMeter`] | the work of this lane, for the decision whether more lanes would help |
//! | [`QueueMarks`] | looks at the two queues of the kernel in front of the lane, and who fills them |
//! | [`Merger`] | packets that may leave to the TUN as one superpacket |
//! | [`Outbox`] | messages that wait for the agent |
//!
//! The machines do not know each other. `LaneCore` passes inputs to them and results between them:
//!
//! ```text
//! lane_core/commands.rs   ToLane ────────────▶┐            ┌▶ SendBatch      sealed datagrams
//! lane_core/outbound.rs   packets read ──────▶│  machines  │▶ InboundIo      packets for the TUN, datagrams for other lanes
//! lane_core/inbound.rs    runs received ─────▶│            │▶ HandOff        the packet in hand, for the first lane
//! lane_core.rs            handle_timeout ────▶┘            └▶ poll_output    messages for the agent
//! ```

mod commands;
pub(crate) mod inbound;
mod join_pieces;
mod loops;
pub(crate) mod outbound;
mod own_queues;
mod seal;
mod send_pieces;
mod stub;

use std::sync::Arc;
use std::time::Duration;

use taut_base::{LaneId, PeerId, Placement, ReceiverIndex, Time};
use taut_dns::Stub;
use taut_node::{FromLane, Routes};
use taut_tunnel::cookie::CookieChecker;
use taut_tunnel::{KeyringAction, Limits, Session};
use taut_udp::Local;
use taut_wire::ecn::Ecn;
use taut_wire::merge::{Merger, Offloads};

use crate::batch::SendBatch;
use crate::drops::{DropCounts, DropReason};
use crate::held::HeldPackets;
use crate::ingress::Ingress;
use crate::load::LoadMeter;
use crate::locals::{LocalAddresses, LocalTable};
use crate::outbox::Outbox;
use crate::peers::PeerTable;
use crate::queue_marks::QueueMarks;
use crate::reassembly::Reassembly;
use crate::relays::RelayLinks;
use crate::staging::Staging;
use crate::traffic::TrafficTable;
use send_pieces::{HostErrors, PieceSender};

/// A lane without its system calls. Sealed datagrams are appended to a [`SendBatch`]; messages for the agent wait in [`LaneCore::poll_output`].
pub struct LaneCore {
    /// This lane's number.
    own: LaneId,
    /// The lane of each flow that the host sends, among the node's lanes.
    placement: Placement,
    /// True if each peer belongs to one lane, which is the first one for it.
    by_peer: bool,
    limits: Limits,
    /// MTU of the TUN, in bytes.
    mtu: usize,
    /// True if packets of the TUN have a virtio header.
    vnet_header: bool,
    routes: Arc<Routes>,
    /// Congestion marks of the datagrams that are being received.
    congestion: Ecn,
    peers: PeerTable,
    staging: Staging,
    held: HeldPackets,
    ingress: Ingress,
    relays: RelayLinks,
    locals: LocalAddresses,
    reassembly: Reassembly,
    pieces: PieceSender,
    host_errors: HostErrors,
    stub: Stub,
    load: LoadMeter,
    /// The receive queue of the socket, and the queue of the TUN device.
    socket_queue: QueueMarks,
    tun_queue: QueueMarks,
    merger: Merger,
    outbox: Outbox,
    drops: Arc<DropCounts>,
}

impl LaneCore {
    /// Returns the core of a node's only lane, without peers, for a TUN of this MTU. `checker` is the node's, `vnet_header` says whether packets of the TUN
    /// have a virtio header, and `offloads` which superpackets the TUN takes.
    pub fn new(
        limits: Limits,
        mtu: u16,
        checker: CookieChecker,
        vnet_header: bool,
        offloads: Offloads,
        drops: Arc<DropCounts>,
        traffic: Arc<TrafficTable>,
    ) -> Self {
        Self {
            own: LaneId::FIRST,
            placement: Placement::FIRST,
            by_peer: false,
            limits,
            mtu: usize::from(mtu),
            vnet_header,
            routes: Arc::default(),
            congestion: Ecn::NotEct,
            peers: PeerTable::new(traffic),
            staging: Staging::default(),
            held: HeldPackets::default(),
            ingress: Ingress::new(checker),
            relays: RelayLinks::default(),
            locals: LocalAddresses::default(),
            reassembly: Reassembly::default(),
            pieces: PieceSender::default(),
            host_errors: HostErrors::default(),
            stub: Stub::default(),
            load: LoadMeter::new(),
            socket_queue: QueueMarks::new(),
            tun_queue: QueueMarks::new(),
            merger: Merger::new(offloads),
            outbox: Outbox::new(Arc::clone(&drops)),
            drops,
        }
    }

    /// Makes this the core of lane `own` of `lanes` lanes of one node.
    #[must_use]
    pub fn as_lane(mut self, own: LaneId, lanes: u8) -> Self {
        (self.own, self.placement) = (own, Placement::new(lanes));
        self
    }

    /// Divides peers among the lanes, each to one of them ([`PeerId::only_lane`]): this lane serves its peers as if it were the only one, and has the caller hand off
    /// packets to the others.
    #[must_use]
    pub fn by_peer(mut self) -> Self {
        self.by_peer = true;
        self
    }

    /// Changes the number of lanes that run, and the lane of each flow.
    pub fn set_placement(&mut self, placement: Placement) {
        self.placement = placement;
    }

    /// Notes that a turn of the thread begins. Reports the work of the last turns to the agent from time to time. `wanted` is the time for which the thread ran or
    /// wanted to run.
    pub fn turn_begins(&mut self, now: Time, counted: impl FnOnce() -> Option<(Duration, Duration)>) {
        if let Some(load) = self.load.turn_begins(now, counted) {
            self.outbox.push(FromLane::Load(load));
        }
        self.socket_queue.set_waited(self.load.waited());
        self.tun_queue.set_waited(self.load.waited());
    }

    /// Notes that a turn of the thread ended and a wait begins.
    pub fn turn_ends(&mut self, now: Time) {
        self.load.turn_ends(now);
    }

    /// Notes that the thread polled for this time instead of waiting.
    pub(crate) fn polled(&mut self, time: Duration) {
        self.load.polled(time);
    }

    /// Counts datagrams that the thread received or sent, for the measurement of its load.
    pub fn count_datagrams(&mut self, datagrams: usize) {
        self.load.passed(datagrams);
    }

    /// Publishes the source addresses of this lane in `table`.
    pub fn share_locals(&mut self, table: Arc<LocalTable>) {
        self.locals.share(table);
    }

    /// Returns the next message for the agent. Handshake messages come last.
    pub fn poll_output(&mut self) -> Option<FromLane> {
        self.outbox.poll_output().or_else(|| self.ingress.poll_output())
    }

    /// Returns true if [`Self::poll_output`] has a message of the lane itself. Handshake messages that wait do not count.
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Takes back a message that the agent's queue had no room for. A message of the lane itself is the next output again. A handshake message is dropped
    /// and counted, with all that wait behind it: its sender repeats it.
    pub fn refused(&mut self, message: FromLane) {
        if matches!(message, FromLane::Handshake { .. }) {
            self.drops.add(DropReason::AgentBusy, 1);
        } else {
            self.outbox.put_back(message);
        }
        while self.ingress.poll_output().is_some() {
            self.drops.add(DropReason::AgentBusy, 1);
        }
    }

    /// Returns when [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let own = [self.peers.poll_timeout(), self.reassembly.poll_timeout(), self.stub.poll_timeout()];
        own.into_iter().flatten().min()
    }

    /// Returns the next packet of the lane itself for the TUN: an ICMP error about a packet that no path carries, or an answer of the stub. If the TUN has
    /// virtio headers, the caller writes one of zeros in front of it.
    pub fn poll_host_packet(&mut self) -> Option<Box<[u8]>> {
        self.host_errors.poll().or_else(|| self.stub.poll_output())
    }

    /// Does what is due: sends keepalives and receipts, asks for handshakes, ends old sessions, releases held packets.
    pub fn handle_timeout(&mut self, out: &mut SendBatch, now: Time) {
        self.stub.handle_timeout(now);
        self.reassembly.handle_timeout(now);
        self.drops.add(DropReason::Incomplete, self.reassembly.take_dropped());
        while let Some(id) = self.peers.pop_due(now) {
            let Some(peer) = self.peers.get_mut(id) else { continue };
            let (mut keepalive, mut handshake, mut receipt, mut silent) = (false, false, false, false);
            for lane in peer.lanes() {
                lane.keyring.handle_timeout(&self.limits, now, |wish| match wish {
                    KeyringAction::Keepalive => keepalive = true,
                    KeyringAction::Handshake => handshake = true,
                    KeyringAction::Receipt => receipt = true,
                    KeyringAction::AbandonLane => silent = true,
                });
            }
            let suspect = peer.path.handle_timeout(&mut peer.first.way, out, now);
            let ends_wait = peer.pieces.handle_timeout(now);
            self.held.retry(id);
            self.report_retired(id);
            if suspect {
                self.outbox.push(FromLane::Suspect { peer: id });
            }
            if ends_wait {
                self.send_staged(id, out, now);
            }
            if keepalive {
                self.send_keepalive(id, out, now);
            }
            if handshake {
                self.outbox.push(FromLane::WantsHandshake(id));
            }
            if receipt && let Some(peer) = self.peers.get_mut(id) {
                peer.send_receipts(out);
            }
            if silent {
                self.close_silent_lanes(id, now);
            }
            self.schedule(id);
        }
    }

    /// Schedules the next timer of a peer, after an input that may have set one.
    #[inline]
    fn schedule(&mut self, id: PeerId) {
        let holds = self.held.has(id) && !self.held.is_ready(id);
        self.peers.schedule(id, &self.limits, holds);
    }

    /// Frees the indices of a peer's sessions that ended, and tells the agent.
    fn report_retired(&mut self, id: PeerId) {
        self.peers.take_retired(id, |session, indices| {
            self.outbox.push(FromLane::Retired { peer: id, id: session, indices });
        });
    }

    /// Returns the source address of a message, or of a run of messages, to `destination`; `None` where the routes choose.
    pub fn local_for(&self, destination: std::net::SocketAddr, message: &[u8]) -> Option<Local> {
        self.locals.source_for(destination, message)
    }

    /// Forgets a source address that the kernel refused.
    pub fn local_refused(&mut self, refused: Local) {
        self.locals.forget(&mut |_, local| local == refused);
    }

    /// Forgets all source addresses, because the lane got another socket. To every NAT and firewall, another port is another flow (fault D19).
    pub(crate) fn socket_replaced(&mut self) {
        self.locals.forget(&mut |_, _| true);
    }

    /// Returns the highest counter of our data that the peer acknowledged in the session in use.
    pub fn acknowledged(&self, id: PeerId) -> Option<u64> {
        Some(self.sending_session(id)?.acknowledged()?.1)
    }

    /// Returns the receiver indices that identify the session which data to this peer is sealed with: both ends return the same pair.
    pub fn session_name(&self, id: PeerId) -> Option<(ReceiverIndex, ReceiverIndex)> {
        Some(self.sending_session(id)?.name())
    }

    /// Returns true if packets to the peer may keep a [partial checksum](taut_wire::partial_checksum).
    pub fn sends_partial_checksums(&self, id: PeerId) -> bool {
        self.sending_session(id).is_some_and(Session::sends_partial_checksums)
    }

    fn sending_session(&self, id: PeerId) -> Option<&Session> {
        self.peers.get(id)?.first.keyring.current()
    }
}

#[cfg(test)]
mod tests;
