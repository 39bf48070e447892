//! The way out: TUN → route → segment → seal → send batch.

use std::net::SocketAddr;

use taut_base::{PeerId, Time};
use taut_node::FromLane;
use taut_tunnel::{Limits, Session};
use taut_wire::ip;
use taut_wire::split::Split;
use taut_wire::vnet::VnetHeader;
use taut_wire::wireguard::DATA_HEADER;

use crate::batch::{SEALED_SUPERPACKET_MAX, SendBatch};
use crate::drops::Drop;
use crate::heart::Heart;
use crate::tables::LanePeer;

impl Heart {
    /// One packet or superpacket, as read from the TUN, becomes sealed datagrams in `out`, which [has room](SendBatch::has_room).
    pub fn outbound(&mut self, read: &[u8], out: &mut SendBatch, now: Time) {
        self.send_out(read, false, out, now);
    }

    /// `waited` tells a packet that was staged: the others queue up behind those, so that their order is kept.
    fn send_out(&mut self, read: &[u8], waited: bool, out: &mut SendBatch, now: Time) {
        // What did the host send, and to whom?
        let Some((vnet, packet)) = self.take_header(read) else { return self.drops.add(Drop::BadInner, 1) };
        let Ok(inner) = ip::Packet::parse(packet) else { return self.drops.add(Drop::BadInner, 1) };
        let Some(id) = self.routes.lookup(inner.destination()) else { return self.drops.add(Drop::NoRoute, 1) };
        let Ok(split) = Split::new(vnet, packet) else { return self.drops.add(Drop::BadInner, 1) };
        let Some(peer) = self.peers.get_mut(&id) else { return self.drops.add(Drop::NoRoute, 1) };

        // Is there a session to send with, and how long yet?
        let wishes_handshake = peer.keyring.wishes_handshake_to_send(&self.limits, now);
        let endpoint = peer.endpoint;
        let in_order = waited || peer.staged.is_empty();
        match (peer.keyring.sending(&self.limits, now), endpoint) {
            (Ok(session), Some(endpoint)) if in_order => {
                // Each segment is written into the batch and sealed there.
                let (bytes, outer) = seal_segments(split, session, endpoint, self.mtu, out, &self.drops);
                peer.traffic.add_sent(bytes, outer);
                peer.keyring.sent(true, &self.limits, now);
            }
            _ => {
                let pushed_out = peer.staged.push(read);
                self.drops.add(Drop::StagedOverflow, pushed_out);
            }
        }

        if wishes_handshake {
            self.say(FromLane::WantsHandshake(id));
        }
        self.schedule(id);
    }

    /// Sends what waited for a session; false when nothing did. What does not fit in the batch goes on in [`Self::send_backlog`].
    pub(crate) fn send_staged(&mut self, id: PeerId, out: &mut SendBatch, now: Time) -> bool {
        let mut any = false;
        while let Some(peer) = self.peers.get_mut(&id) {
            if !out.has_room() && !peer.staged.is_empty() {
                self.backlog.push(id);
                return true;
            }
            if peer.endpoint.is_none() || peer.keyring.sending(&self.limits, now).is_err() {
                break;
            }
            let Some(packet) = peer.staged.pop() else { break };
            self.send_out(&packet, true, out, now);
            any = true;
        }
        any
    }

    /// Goes on with what waited and did not fit, after `out` was sent. False when nothing was left.
    pub fn send_backlog(&mut self, out: &mut SendBatch, now: Time) -> bool {
        let waiting = std::mem::take(&mut self.backlog);
        for id in &waiting {
            self.send_staged(*id, out, now);
        }
        !waiting.is_empty()
    }

    /// Sends an empty packet, if there is a session and a path; otherwise asks for a handshake.
    pub(crate) fn send_keepalive(&mut self, id: PeerId, out: &mut SendBatch, now: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if seal_empty(peer, &self.limits, out, now) {
            peer.keyring.sent(false, &self.limits, now);
        }
        // Without a session there is nothing to send with; an old one is renewed by whatever is sent (paper, section 6.2).
        if peer.keyring.wishes_handshake_to_send(&self.limits, now) {
            self.say(FromLane::WantsHandshake(id));
        }
    }

    fn take_header<'a>(&self, read: &'a [u8]) -> Option<(VnetHeader, &'a [u8])> {
        if self.vnet_header { VnetHeader::parse(read) } else { Some((VnetHeader::NONE, read)) }
    }
}

/// Writes and seals one segment after the other; returns the bytes of inner packets, and of the messages made of them.
fn seal_segments(
    mut split: Split<'_>,
    session: &mut Session,
    endpoint: SocketAddr,
    mtu: usize,
    out: &mut SendBatch,
    drops: &crate::drops::DropCounts,
) -> (usize, usize) {
    if split.segments() * Session::sealed_len(split.largest(), mtu) > SEALED_SUPERPACKET_MAX {
        drops.add(Drop::BadInner, 1);
        return (0, 0);
    }
    // The session authenticates what our own kernel vouches for.
    if session.may_mark() {
        split.vouch();
    }
    let (mut bytes, mut outer) = (0, 0);
    while let Some(length) = split.next_len() {
        let size = Session::sealed_len(length, mtu);
        let sealed = out.append(endpoint, size, |datagram| {
            split.write_next(&mut datagram[DATA_HEADER..]);
            session.seal(datagram, length)
        });
        match sealed {
            Some(Ok(())) => {
                bytes += length;
                outer += size;
            }
            // The key is used up in the middle of a superpacket: the rest is lost, and the next packet asks for a handshake.
            Some(Err(_)) | None => {
                drops.add(Drop::NoHandshake, split.remaining() as u64 + 1);
                break;
            }
        }
    }
    (bytes, outer)
}

fn seal_empty(peer: &mut LanePeer, limits: &Limits, out: &mut SendBatch, now: Time) -> bool {
    let (Ok(session), Some(endpoint)) = (peer.keyring.sending(limits, now), peer.endpoint) else { return false };
    let size = Session::sealed_len(0, 0);
    let sealed = matches!(out.append(endpoint, size, |datagram| session.seal(datagram, 0)), Some(Ok(())));
    if sealed {
        peer.traffic.add_sent(0, size);
    }
    sealed
}
