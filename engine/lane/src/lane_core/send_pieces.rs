//! Packets that are longer than their path carries, and that cannot be cut like TCP: they leave in pieces, or their sender is told.

use std::collections::VecDeque;

use taut_base::{DEFAULT_MTU, MIN_MTU};
use taut_tunnel::{Bucket, Rate, Session};
use taut_wire::icmp::{TOO_BIG_MAX, write_too_big};
use taut_wire::ip;
use taut_wire::pieces::Plan;
use taut_wire::relay;
use taut_wire::split::Split;
use taut_wire::wireguard::DATA_HEADER;

use super::seal::{Outgoing, Sealed, lower_segment_size};
use crate::batch::{SEALED_SUPERPACKET_MAX, SendBatch};
use crate::drops::{DropCounts, DropReason};
use crate::piece_support::PieceSupport;

/// ICMP errors to the host about packets to one peer: 10 per second, burst 20. A sender needs one; others of that peer may need one as well.
const ERRORS: Rate = Rate::new(10, 20);

/// ICMP errors that wait until the lane writes to the TUN, 16: a turn of the lane reads a few packets of few peers.
const MAX_WAITING: usize = 16;

/// How a packet passes its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// Each segment in one message.
    Whole,
    /// Segments that are too long in pieces of at most this many bytes.
    Pieces(usize),
    /// Not at all: its sender has to send at most this many bytes.
    TooLong(u16),
    /// That depends on whether the peer takes pieces, which it is about to tell.
    Unknown,
}

/// Makes the segments fit a path that carries `limit` bytes, if TCP allows that, and returns how they pass.
#[inline]
pub(super) fn fit(split: &mut Split<'_>, limit: Option<u16>, pieces: PieceSupport) -> Fit {
    let Some(limit) = limit else { return Fit::Whole };
    if split.limit_to(usize::from(limit)) {
        return Fit::Whole;
    }
    let has_plan = || Plan::new(split.largest(), usize::from(limit)).is_some();
    if pieces.is_open() {
        Fit::Unknown
    } else if pieces.takes() && has_plan() {
        Fit::Pieces(usize::from(limit))
    } else if split.largest() <= usize::from(DEFAULT_MTU) {
        // As long as any WireGuard may send. The network carries it, perhaps in fragments, or loses it.
        Fit::Whole
    } else {
        Fit::TooLong(limit.max(MIN_MTU))
    }
}

/// Seals packets in pieces.
#[derive(Default)]
pub(super) struct PieceSender {
    /// Number of the next packet.
    next: u32,
    /// The segment in hand. It takes memory after the first packet that needs pieces.
    segment: Vec<u8>,
}

impl PieceSender {
    /// Writes one segment after the other, and seals it in pieces of at most `limit` bytes. The copy is an exception to law 8.
    #[cold]
    pub(super) fn seal(
        &mut self,
        mut split: Split<'_>,
        limit: usize,
        session: &mut Session,
        outgoing: Outgoing,
        out: &mut SendBatch,
        drops: &DropCounts,
    ) -> Sealed {
        let mut sealed = Sealed::default();
        let longest = Plan::new(split.largest(), limit).map_or(0, |plan| plan.count() * message_len(plan, limit));
        if split.segments() * longest > SEALED_SUPERPACKET_MAX {
            drops.add(DropReason::BadInner, 1);
            return sealed;
        }
        if session.sends_partial_checksums() {
            split.allow_partial_checksums();
        }
        self.segment.resize(split.largest().max(self.segment.len()), 0);
        while let Some(length) = split.write_next(&mut self.segment) {
            let segment = self.segment.get_mut(..length).unwrap_or_default();
            if outgoing.opens_connection {
                lower_segment_size(segment, outgoing.mtu);
            }
            let id = self.next;
            self.next = self.next.wrapping_add(1);
            let Some(bytes) = seal_segment(segment, id, limit, session, outgoing, out) else {
                drops.add(DropReason::NoHandshake, split.remaining() as u64 + 1);
                break;
            };
            sealed.bytes += length;
            sealed.outer += bytes;
        }
        sealed
    }
}

/// Returns the bytes that each piece takes in the batch, through a relay.
fn message_len(plan: Plan, limit: usize) -> usize {
    relay::HEADER + Session::sealed_len(plan.longest(), limit)
}

/// Seals one packet: whole if it fits, which the last segment may, and otherwise in pieces, all of the same length so that they leave in one run. Returns the
/// bytes of the messages; `None` if the key is used up.
fn seal_segment(
    packet: &[u8],
    id: u32,
    limit: usize,
    session: &mut Session,
    outgoing: Outgoing,
    out: &mut SendBatch,
) -> Option<usize> {
    let Some(plan) = Plan::new(packet.len(), limit).filter(|_| packet.len() > limit) else {
        let size = Session::sealed_len(packet.len(), limit);
        let appended = out.append(outgoing.destination, size, |datagram| {
            datagram[DATA_HEADER..DATA_HEADER + packet.len()].copy_from_slice(packet);
            session.seal(datagram, packet.len())
        });
        return appended?.ok().map(|()| size);
    };
    let size = Session::sealed_len(plan.longest(), limit);
    for index in 0..plan.count() {
        let appended = out.append(outgoing.destination, size, |datagram| {
            let length = plan.write(index, id, packet, &mut datagram[DATA_HEADER..]).unwrap_or(0);
            session.seal(datagram, length)
        });
        appended?.ok()?;
    }
    Some(plan.count() * size)
}

/// ICMP errors for the host's programs, which wait until the lane writes to the TUN.
#[derive(Default)]
pub(super) struct HostErrors(VecDeque<Box<[u8]>>);

impl HostErrors {
    /// Tells the sender of `packet` that packets of at most `mtu` bytes pass. `left` is what is left of the peer's errors.
    pub(super) fn too_big(&mut self, packet: &ip::Packet<'_>, mtu: u16, left: &mut Bucket, now: taut_base::Time) {
        let mut error = [0; TOO_BIG_MAX];
        if self.0.len() < MAX_WAITING
            && left.take(&ERRORS, now)
            && let Some(length) = write_too_big(packet, mtu, &mut error)
        {
            self.0.push_back(error[..length].into());
        }
    }

    /// Returns the next error.
    pub(super) fn poll(&mut self) -> Option<Box<[u8]>> {
        self.0.pop_front()
    }
}
