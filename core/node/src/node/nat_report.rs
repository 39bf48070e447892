//! What the outside looks like from here: where relays see the first lane's socket, how far they are, and what follows from that.
//!
//! ```text
//! map, look around, time ──▶ NatReport ──▶ STUN requests: ToLane::Datagram         FromLane::Datagram ──▶ answers
//!                              ├─▶ those from a socket apart: poll_apart         handle_apart       ──▶ answers
//!                              ├─▶ how far a relay is ──▶ HomeRelay ──▶ Relays: which two we are bound to
//!                              └─▶ where we are seen  ──▶ LocalEndpoints: what peers are told ──▶ poll_endpoints: what the coordinator is told
//! ```

use std::net::SocketAddr;

use taut_base::{Entropy, LaneId, RelayId};
use taut_path::{NatReportView, Server};
use taut_wire::stun::{BindingResponse, REQUEST_LEN};

use super::Node;
use crate::contract::{Clocks, Datagram, ToLane};

/// STUN requests that are kept for the socket apart: those of one moment, two of each family. Older ones are dropped where no caller fetches them.
const APART: usize = 4;

impl<E: Entropy> Node<E> {
    /// What relays say of the NAT in front of us.
    pub fn nat_report(&self) -> NatReportView {
        self.nat_report.view()
    }

    /// Where we may be reached from outside, as gateways and relays say, the former first: what the coordinator is to be told beside our interfaces'
    /// addresses, when it is news.
    pub fn poll_endpoints(&mut self) -> Option<Vec<SocketAddr>> {
        let mut seen = self.mapped.clone();
        seen.extend(self.reflexive.iter().filter(|endpoint| !self.mapped.contains(endpoint)));
        let news = seen != self.told;
        self.told.clone_from(&seen);
        news.then_some(seen)
    }

    /// The relays of the map, to be asked and chosen from.
    pub(super) fn set_servers(&mut self, relays: &[taut_netmap::Relay]) {
        let server = |relay: &taut_netmap::Relay| Server {
            relay: relay.id,
            places: relay.endpoints.clone(),
            other_port: relay.stun_port,
        };
        let servers: Vec<Server> = relays.iter().map(server).collect();
        let ids: Vec<RelayId> = relays.iter().map(|relay| relay.id).collect();
        self.nat_report.set_servers(&servers, self.now);
        self.home.set_listed(&ids, self.now);
    }

    /// Returns the next STUN request for a socket that is used for nothing else: the request tests which datagrams the NAT lets in to such a socket. The
    /// socket has to stay open for two seconds.
    pub fn poll_apart(&mut self) -> Option<(SocketAddr, Datagram)> {
        self.apart.pop_back()
    }

    /// Takes a datagram that came to that socket.
    pub fn handle_apart(&mut self, source: SocketAddr, bytes: &[u8], clocks: Clocks) {
        self.now = clocks.now;
        self.handle_answer(source, bytes);
    }

    /// A STUN answer came from a relay's place; one that nobody waits for changes nothing.
    pub(super) fn handle_answer(&mut self, source: SocketAddr, bytes: &[u8]) {
        let Ok(answer) = BindingResponse::parse(bytes) else { return };
        if let Some(distance) = self.nat_report.handle_answer(source, &answer, self.now) {
            self.home.measured(distance.relay, distance.round_trip, self.now);
            self.relays.answered_by_udp(source, &mut self.entropy, self.now);
        }
        self.nat_report_turn();
    }

    /// Does what is due, and what follows from what is known by now.
    pub(super) fn nat_report_turn(&mut self) {
        if self.relays.is_any_by_udp() {
            self.nat_report.handle_heard(self.now);
        }
        for ask in self.nat_report.handle_timeout(&mut self.entropy, self.now) {
            let mut request = [0; REQUEST_LEN];
            ask.request.write(&mut request);
            let Some(bytes) = Datagram::new(&request) else { continue };
            if ask.apart {
                self.apart.truncate(APART - 1);
                self.apart.push_front((ask.to, bytes));
            } else {
                self.tell(LaneId::FIRST, ToLane::Datagram { destination: ask.to, bytes });
            }
        }
        while let Some(lost) = self.relays.poll_lost() {
            self.home.lost(lost, self.now);
        }
        if let Some(homes) = self.home.poll_change() {
            self.relays.set_homes(homes, self.now);
        }
        self.local_endpoints.set_foretold(self.nat_report.foretold());
        if let Some((reflexive, nat)) = self.nat_report.poll_change() {
            self.reflexive = reflexive;
            if self.local_endpoints.set_reflexive(&self.reflexive, nat, &self.overlay) {
                self.tell_endpoints();
            }
        }
    }
}
