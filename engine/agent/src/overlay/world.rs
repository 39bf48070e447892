//! The addresses that the internet sees of this host while it uses an exit node: measured, by asking a relay through that exit node.
//!
//! The sockets have this node's overlay address as their source. No network but the overlay brings an answer to that address back, so an answer shows that the request went through the exit
//! node and was masqueraded. The relay's word for the address is as good as the exit node that carries it.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use taut_base::{Entropy, PeerId, Time, is_internet};
use taut_node::ExitRoute;
use taut_wire::stun::{BindingRequest, BindingResponse, MAX_LEN, REQUEST_LEN, Transaction};

/// Interval of measurements, 60 s: an exit node's address changes rarely, and two datagrams cost little.
const AGAIN: Duration = Duration::from_secs(60);

/// Time after which a request without an answer is repeated, 500 ms.
const REPEAT: Duration = Duration::from_millis(500);

/// Requests of one measurement, 6: a session with the exit node may have to be made first.
const ATTEMPTS: u8 = 6;

/// Maximum number of datagrams that are read from one socket per turn, 16.
const READ: usize = 16;

/// The measurement of one address family.
#[derive(Default)]
struct Question {
    socket: Option<UdpSocket>,
    transaction: Transaction,
    to: Option<SocketAddr>,
    /// The address that the last answer told.
    seen: Option<IpAddr>,
}

/// The measurement through one exit node.
#[derive(Default)]
pub(super) struct World {
    exit: Option<PeerId>,
    families: [Question; 2],
    attempts: u8,
    due: Option<Time>,
}

impl World {
    /// Begins, continues or ends measurements. `relays` are endpoints of relays, `own` are this node's overlay addresses.
    pub(super) fn turn(
        &mut self,
        exit: ExitRoute,
        relays: &[SocketAddr],
        own: &[IpAddr],
        entropy: &mut impl Entropy,
        now: Time,
    ) {
        let exit = if let ExitRoute::Through(exit) = exit { Some(exit) } else { None };
        if exit != self.exit {
            *self = Self { exit, due: exit.map(|_| now), ..Self::default() };
        }
        self.families.iter_mut().for_each(Question::read);
        let is_open = self.families.iter().any(|question| question.socket.is_some());
        if self.attempts > 0 && !is_open {
            (self.attempts, self.due) = (0, Some(now + AGAIN));
        }
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        if self.attempts >= ATTEMPTS {
            // What was not answered is not known any more.
            self.families.iter_mut().for_each(Question::give_up);
            (self.attempts, self.due) = (0, Some(now + AGAIN));
            return;
        }
        for (question, is_ipv4) in self.families.iter_mut().zip([true, false]) {
            let is_it = |address: &IpAddr| address.is_ipv4() == is_ipv4;
            let public: Vec<SocketAddr> =
                relays.iter().copied().filter(|relay| is_it(&relay.ip()) && is_internet(relay.ip())).collect();
            let own = own.iter().copied().find(is_it);
            if self.attempts == 0 {
                question.open(own, entropy);
            }
            question.ask(&public, usize::from(self.attempts));
        }
        (self.attempts, self.due) = (self.attempts + 1, Some(now + REPEAT));
    }

    /// Returns the addresses that were measured, IPv4 first.
    pub(super) fn seen(&self) -> impl Iterator<Item = IpAddr> {
        self.families.iter().filter_map(|question| question.seen)
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.due
    }
}

impl Question {
    fn open(&mut self, own: Option<IpAddr>, entropy: &mut impl Entropy) {
        entropy.fill(&mut self.transaction);
        let bound = own.and_then(|own| UdpSocket::bind((own, 0)).ok());
        self.socket = bound.filter(|socket| socket.set_nonblocking(true).is_ok());
    }

    /// Sends the request to one of the relays, another one at each second attempt.
    fn ask(&mut self, relays: &[SocketAddr], attempt: usize) {
        let Some(to) = relays.get(attempt / 2 % relays.len().max(1)) else {
            self.socket = None;
            self.seen = None;
            return;
        };
        let mut request = [0; REQUEST_LEN];
        BindingRequest { transaction: self.transaction, change_port: false }.write(&mut request);
        self.to = Some(*to);
        if let Some(socket) = &self.socket {
            // A request that cannot be sent is lost, and repeated.
            let _ = socket.send_to(&request, to);
        }
    }

    /// Reads answers. Only that of the relay that was asked last counts.
    fn read(&mut self) {
        let Some(socket) = &self.socket else { return };
        let mut bytes = [0; MAX_LEN];
        for _ in 0..READ {
            let Ok((length, source)) = socket.recv_from(&mut bytes) else { return };
            let answer = bytes.get(..length).and_then(|bytes| BindingResponse::parse(bytes).ok());
            let is_it = |answer: &BindingResponse| answer.transaction == self.transaction && Some(source) == self.to;
            if let Some(answer) = answer.filter(is_it) {
                // A relay on the exit node itself sees the overlay's address.
                self.seen = Some(answer.mapped.ip().to_canonical()).filter(|address| is_internet(*address));
                self.socket = None;
                return;
            }
        }
    }

    fn give_up(&mut self) {
        if self.socket.take().is_some() {
            self.seen = None;
        }
    }
}
