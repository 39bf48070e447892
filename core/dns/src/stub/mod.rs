//! The stub: answers packets that the host sends to the stub's addresses.

mod connection;
mod connections;
mod outbox;
mod packet;

use std::net::SocketAddr;

use taut_base::Time;
use taut_wire::ip::{self, Packet, Version};
use taut_wire::tcp::Segment;
use taut_wire::udp::{self, Datagram};

use crate::answer::{Transport, cut_to, respond};
use crate::names::Names;
use crate::query::{Header, Query};
use connections::Connections;
use outbox::Outbox;
pub use outbox::{Client, Question};
use packet::Flow;

/// The port of DNS.
pub const PORT: u16 = 53;

/// The port at the overlay address of an exit node at which its peers ask it for names of the internet, UDP and TCP. Not 53: programs of that host may have that one. Below 1,024, so that no
/// unprivileged user of that host can open it first and answer in the exit node's place (fault H8); IANA assigns 253 to nothing.
pub const EXIT_PORT: u16 = 253;
const _: () = assert!(EXIT_PORT < 1_024, "ports from 1,024 on belong to unprivileged users");

/// The stub of one lane. Its packets come from the host alone: the caller never passes a packet of a peer (fault H8).
#[derive(Debug, Default)]
pub struct Stub {
    connections: Connections,
    out: Outbox,
}

impl Stub {
    /// Takes a packet to one of the stub's addresses, with complete checksums; `mtu` is that of the device that the answer leaves by, in bytes. Returns false if the packet was dropped:
    /// it is malformed, a fragment, no UDP or TCP to [`PORT`], to another address, or from one that is not the node's own; or too many replies wait.
    pub fn handle(&mut self, names: &Names, packet: &[u8], mtu: usize, now: Time) -> bool {
        let Ok(packet) = Packet::parse(packet) else { return false };
        let is_for_us = names.is_stub(packet.destination()) && names.may_ask(packet.source());
        if !is_for_us || packet.is_fragment() || !self.out.has_room() {
            return false;
        }
        match packet.protocol() {
            ip::UDP => self.datagram(names, &packet, mtu),
            ip::TCP => self.segment(names, &packet, mtu, now),
            _ => false,
        }
    }

    /// Returns the time at which [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.connections.poll_timeout()
    }

    /// Sends segments again that were lost, and ends idle connections.
    pub fn handle_timeout(&mut self, now: Time) {
        self.connections.handle_timeout(&mut self.out, now);
    }

    /// Returns the next question for other servers. [`Self::take_answer`] takes what they answer.
    pub fn poll_question(&mut self) -> Option<Question> {
        self.out.next_question()
    }

    /// Takes the answer of another server to a question of [`Self::poll_question`], which the caller has checked. An answer that does not fit a datagram is cut, and the client asks over TCP.
    pub fn take_answer(&mut self, names: &Names, client: Client, answer: &[u8], now: Time) {
        match client.transport {
            Transport::Udp(room) => {
                let answer = cut_to(answer, usize::from(room));
                self.out.push(client.flow.datagram(&answer));
            }
            Transport::Tcp => self.connections.take_answer(client.flow, answer, names, &mut self.out, now),
        }
    }

    /// Returns the next packet for the host.
    pub fn poll_output(&mut self) -> Option<Box<[u8]>> {
        self.out.pop()
    }

    fn datagram(&mut self, names: &Names, packet: &Packet<'_>, mtu: usize) -> bool {
        let Ok(datagram) = Datagram::parse(packet.payload()) else { return false };
        // Over IPv4 a datagram may have none (RFC 768).
        let is_right = datagram.checksum_ok(packet.pseudo_header(datagram.length() as u16))
            || packet.version() == Version::V4 && datagram.without_checksum();
        if !is_right || datagram.destination() != PORT {
            return false;
        }
        let flow = flow(packet, datagram.source(), PORT);
        let room = mtu.saturating_sub(flow.ip_header() + udp::HEADER);
        let transport = Transport::Udp(u16::try_from(room).unwrap_or(u16::MAX));
        if let Some(question) = question(names, datagram.payload(), flow, transport) {
            return self.out.ask(question);
        }
        let answer = respond(names, datagram.payload(), transport);
        let is_answered = answer.is_some();
        self.out.push(answer.and_then(|answer| flow.datagram(&answer)));
        is_answered
    }

    fn segment(&mut self, names: &Names, packet: &Packet<'_>, mtu: usize, now: Time) -> bool {
        let payload = packet.payload();
        let Ok(segment) = Segment::parse(payload) else { return false };
        let Ok(length) = u16::try_from(payload.len()) else { return false };
        if !segment.checksum_ok(packet.pseudo_header(length)) {
            return false;
        }
        let flow = flow(packet, segment.source(), segment.destination());
        self.connections.handle(flow, &segment, names, mtu, &mut self.out, now);
        true
    }
}

/// Returns the question in a message that other servers answer, with the longest answer to it.
fn question(names: &Names, message: &[u8], flow: Flow, transport: Transport) -> Option<Question> {
    Header::parse(message).filter(|header| !header.is_response && header.opcode == 0)?;
    let query = Query::parse(message)?;
    let servers = names.servers(&query)?;
    let transport = match transport {
        Transport::Udp(_) => Transport::Udp(transport.limit(query.edns) as u16),
        Transport::Tcp => Transport::Tcp,
    };
    Some(Question { client: Client { flow, transport }, message: message.to_vec(), servers })
}

fn flow(packet: &Packet<'_>, client: u16, stub: u16) -> Flow {
    Flow { client: SocketAddr::new(packet.source(), client), stub: SocketAddr::new(packet.destination(), stub) }
}

#[cfg(test)]
mod tests;
