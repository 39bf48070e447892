//! The system calls behind the way in.

use std::io::IoSlice;
use std::net::SocketAddr;

use taut_base::LaneId;
use taut_node::ToLane;
use taut_tun::Tun;
use taut_wire::merge::{MAX_RUN, Run};
use taut_wire::vnet::GSO_UDP_L4;

use crate::inbound_io::InboundIo;
use crate::queue::LaneEnd;
use crate::ring::{DatagramMeta, Rings};
use crate::shared::LaneShared;

/// The TUN, the rings and the command queue, for one received batch.
pub(super) struct ThreadIo<'a> {
    tun: &'a Tun,
    queues: &'a LaneEnd,
    vnet_header: bool,
    rings: &'a mut Rings,
    shared: &'a LaneShared,
    /// True while strays are received: nothing is handed off a second time, so nothing goes in circles.
    pub(super) handed_off: bool,
    /// What the socket told about the datagrams that are being received.
    pub(super) meta: DatagramMeta,
    /// UDP datagrams that were written since the host's programs last had a chance to read.
    pub(super) unread: usize,
    /// Commands for the thread. It carries them out after this batch.
    pub(super) later: Vec<ToLane>,
}

impl<'a> ThreadIo<'a> {
    pub(super) fn new(tun: &'a Tun, queues: &'a LaneEnd, rings: &'a mut Rings, shared: &'a LaneShared) -> Self {
        let vnet_header = tun.offload().vnet_header;
        let meta = DatagramMeta::UNKNOWN;
        Self { tun, queues, vnet_header, rings, shared, handed_off: false, meta, unread: 0, later: Vec::new() }
    }
}

impl InboundIo for ThreadIo<'_> {
    fn write(&mut self, run: Run<'_>) -> bool {
        if run.header().gso_type == GSO_UDP_L4 {
            self.unread += run.packets();
        }
        let header = run.header().encode();
        let mut pieces = [IoSlice::new(&[]); 1 + MAX_RUN];
        pieces[0] = IoSlice::new(if self.vnet_header { &header } else { &[] });
        let mut count = 1;
        for (place, slice) in pieces[1..].iter_mut().zip(run.slices()) {
            *place = IoSlice::new(slice);
            count += 1;
        }
        self.tun.write_vectored(&pieces[..count]).is_ok()
    }

    fn hand_off(&mut self, to: LaneId, source: SocketAddr, datagram: &[u8]) -> bool {
        let taken = !self.handed_off && self.rings.hand_off_stray(to, source, self.meta, datagram);
        if taken {
            self.shared.add_stray();
        }
        taken
    }

    fn next_command(&mut self) -> Option<ToLane> {
        loop {
            match self.queues.command()? {
                command @ (ToLane::Read(_)
                | ToLane::Drain
                | ToLane::Lanes(_)
                | ToLane::OpenSearch { .. }
                | ToLane::CloseSearch(_)) => {
                    self.later.push(command);
                }
                command => return Some(command),
            }
        }
    }
}
