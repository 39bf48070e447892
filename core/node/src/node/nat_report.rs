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
use taut_path::{Ask, HomeRelayOutput, NatReportOutput, NatReportView, Server};
use taut_wire::stun::{BindingResponse, REQUEST_LEN};

use super::Node;
use crate::contract::{Clocks, Datagram, ToLane};
use crate::event::NodeEvent;
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
        self.nat_report.handle_answer(source, &answer, self.now);
        self.nat_report_turn();
    }

    /// Does what is due, and what follows from what is known by now.
    pub(super) fn nat_report_turn(&mut self) {
        if self.relays.is_any_by_udp() {
            self.nat_report.handle_heard(self.now);
        }
        self.nat_report.handle_timeout(&mut self.entropy, self.now);
        self.local_endpoints.set_foretold(self.nat_report.foretold());
        while let Some(output) = self.nat_report.poll_output() {
            match output {
                NatReportOutput::Measured(measured) => {
                    self.home.measured(measured.distance.relay, measured.distance.round_trip, self.now);
                    self.relays.answered_by_udp(measured.source, &mut self.entropy, self.now);
                }
                NatReportOutput::Ask(ask) => self.ask_relay(&ask),
                NatReportOutput::Changed { reflexive, nat } => {
                    let changed = self.local_endpoints.set_reflexive(&reflexive, nat, &self.overlay);
                    self.outside.set_reflexive(reflexive);
                    self.tell_coordinator();
                    if changed {
                        self.tell_endpoints();
                    }
                }
                NatReportOutput::Event(event) => self.outputs.note(NodeEvent::Nat(event)),
            }
        }
        while let Some(output) = self.home.poll_output() {
            match output {
                HomeRelayOutput::Homes(homes) => {
                    self.relays.set_homes(&homes, self.now);
                    self.drain_relays();
                }
                HomeRelayOutput::Event(event) => self.outputs.note(NodeEvent::HomeRelay(event)),
            }
        }
    }

    fn ask_relay(&mut self, ask: &Ask) {
        let mut request = [0; REQUEST_LEN];
        ask.request.write(&mut request);
        let Some(bytes) = Datagram::new(&request) else { return };
        if ask.apart {
            self.outputs.push(Output::NatTest { destination: ask.to, request: bytes });
        } else {
            self.tell(LaneId::FIRST, ToLane::Datagram { destination: ask.to, bytes });
        }
    }
}
