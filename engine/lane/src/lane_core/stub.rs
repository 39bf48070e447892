//! Packets of the host to the stub, which answers questions for names of the network.

use taut_base::Time;
use taut_dns::Client;
use taut_node::FromLane;
use taut_wire::ip;
use taut_wire::split::Split;
use taut_wire::vnet::VnetHeader;

use super::LaneCore;
use crate::drops::DropReason;

impl LaneCore {
    /// Takes a packet of the host whose destination no peer has: the stub's, or one to drop. Packets of peers never come here (fault H8).
    #[cold]
    pub(super) fn without_peer(&mut self, vnet: VnetHeader, packet: &ip::Packet<'_>, now: Time) {
        let Some(names) = self.routes.names_at(packet.destination()) else {
            let lacks_exit = self.routes.lacks_exit(packet.destination());
            return self.drops.add(if lacks_exit { DropReason::NoExit } else { DropReason::NoRoute }, 1);
        };
        // A superpacket is cut, and partial checksums are completed, as on the way to a peer.
        let Ok(mut split) = Split::new(vnet, packet.bytes()) else {
            return self.drops.add(DropReason::BadInner, 1);
        };
        let mut segment = vec![0; split.largest()];
        while let Some(length) = split.write_next(&mut segment) {
            let segment = segment.get(..length).unwrap_or_default();
            if !self.stub.handle(names, segment, self.mtu, now) {
                self.drops.add(DropReason::Names, 1);
            }
        }
        self.pass_questions();
    }

    /// Passes the answer of another server to the program that asked.
    pub(super) fn pass_answer(&mut self, client: Client, message: &[u8], now: Time) {
        if let Some(names) = self.routes.names() {
            self.stub.take_answer(names, client, message, now);
            // Further questions of a connection may have waited for it.
            self.pass_questions();
        }
    }

    fn pass_questions(&mut self) {
        while let Some(question) = self.stub.poll_question() {
            self.outbox.push(FromLane::Question(Box::new(question)));
        }
    }
}
