//! What the outside looks like from here: where relays see the first lane's socket, how far they are, and what follows from that.
//!
//! ```text
//! map, look around, time ──▶ NatReport ──▶ STUN requests: ToLane::Datagram         FromLane::Datagram ──▶ answers
//!                              ├─▶ those from a separate socket: Output::NatTest handle_nat_test    ──▶ answers
//!                              ├─▶ how far a relay is ──▶ HomeRelay ──▶ Relays: which two we are bound to
//!                              └─▶ where we are seen  ──▶ LocalEndpoints: what peers are told ──▶ Output::Endpoints: what the coordinator is told
//! ```

use std::net::SocketAddr;

use taut_base::{Entropy, LaneId, RelayId};
use taut_path::{NatReportView, Server};
use taut_wire::stun::{BindingResponse, REQUEST_LEN};

use super::Node;
use crate::contract::{Clocks, Datagram, ToLane};
use crate::output::Output;

impl<E: Entropy> Node<E> {
    /// What relays say of the NAT in front of us.
    pub fn nat_report(&self) -> NatReportView {
        self.nat_report.view()
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

    /// Takes a datagram that came to the socket of an [`Output::NatTest`].
    pub fn handle_nat_test(&mut self, source: SocketAddr, bytes: &[u8], clocks: Clocks) {
        self.set_clocks(clocks);
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
                self.outputs.push(Output::NatTest { destination: ask.to, request: bytes });
            } else {
                self.tell(LaneId::FIRST, ToLane::Datagram { destination: ask.to, bytes });
            }
        }
        if let Some(homes) = self.home.poll_change() {
            self.relays.set_homes(homes, self.now);
            self.drain_relays();
        }
        self.local_endpoints.set_foretold(self.nat_report.foretold());
        if let Some((reflexive, nat)) = self.nat_report.poll_change() {
            let changed = self.local_endpoints.set_reflexive(&reflexive, nat, &self.overlay);
            self.outside.set_reflexive(reflexive);
            self.tell_coordinator();
            if changed {
                self.tell_endpoints();
            }
        }
    }
}
