//! The node's endpoints and its NAT as relays see them, the round-trip times of relays, and what follows: the home relays, and the endpoints that peers and
//! the coordinator are told of.
//!
//! ```text
//! map, network change, time ─▶ NatReport ──▶ STUN requests: ToLane::Datagram         FromLane::Datagram ──▶ answers
//!                              ├─▶ those from a separate socket: Output::NatTest handle_nat_test    ──▶ answers
//!                              ├─▶ round-trip times   ──▶ HomeRelay ──▶ Relays: the two home relays
//!                              └─▶ reflexive endpoints ─▶ LocalEndpoints: what peers are told ──▶ Output::Endpoints: what the coordinator is told
//! ```

use std::net::SocketAddr;

use taut_base::{Entropy, LaneId, RelayId};
use taut_path::{HomeRelayOutput, NatReportOutput, NatReportView, StunQuery, StunServer};
use taut_wire::stun::{BindingResponse, REQUEST_LEN};

use super::Node;
use crate::contract::{Clocks, Datagram, ToLane};
use crate::event::NodeEvent;
use crate::output::Output;

impl<E: Entropy> Node<E> {
    /// Returns what relays say of the NAT in front of this host.
    pub fn nat_report(&self) -> NatReportView {
        self.nat_report.view()
    }

    /// Takes the relays of the map: their STUN servers are asked, and the home relays are chosen from them.
    pub(super) fn set_servers(&mut self, relays: &[taut_netmap::Relay]) {
        let server = |relay: &taut_netmap::Relay| StunServer {
            relay: relay.id,
            places: relay.endpoints.clone(),
            other_port: relay.stun_port,
        };
        let servers: Vec<StunServer> = relays.iter().map(server).collect();
        let listed: Vec<(RelayId, bool)> = relays.iter().map(|relay| (relay.id, relay.busy)).collect();
        self.nat_report.set_servers(&servers, self.now);
        self.home.set_listed(&listed, self.now);
    }

    /// Takes a datagram that came to the socket of an [`Output::NatTest`].
    pub fn handle_nat_test(&mut self, source: SocketAddr, bytes: &[u8], clocks: Clocks) {
        self.set_clocks(clocks);
        self.handle_answer(source, bytes);
    }

    /// Takes a STUN answer from a relay's address. An answer to no outstanding request is ignored.
    pub(super) fn handle_answer(&mut self, source: SocketAddr, bytes: &[u8]) {
        let Ok(answer) = BindingResponse::parse(bytes) else { return };
        self.nat_report.handle_answer(source, &answer, self.now);
        self.nat_report_turn();
    }

    /// Sends the STUN requests that are due, and passes on the home relays and the endpoints if they changed.
    pub(super) fn nat_report_turn(&mut self) {
        if self.relays.is_any_by_udp() {
            self.nat_report.handle_heard(self.now);
        }
        self.nat_report.handle_timeout(&mut self.entropy, self.now);
        self.local_endpoints.set_prediction(self.nat_report.prediction());
        while let Some(output) = self.nat_report.poll_output() {
            match output {
                NatReportOutput::Measured(measured) => {
                    self.home.measured(measured.distance.relay, measured.distance.round_trip, self.now);
                    self.relays.answered_by_udp(measured.source, &mut self.entropy, self.now);
                }
                NatReportOutput::Query(query) => self.ask_relay(&query),
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

    fn ask_relay(&mut self, query: &StunQuery) {
        let mut request = [0; REQUEST_LEN];
        query.request.write(&mut request);
        let Some(bytes) = Datagram::new(&request) else { return };
        if query.from_test_socket {
            self.outputs.push(Output::NatTest { destination: query.to, request: bytes });
        } else {
            self.tell(LaneId::FIRST, ToLane::Datagram { destination: query.to, bytes });
        }
    }
}
