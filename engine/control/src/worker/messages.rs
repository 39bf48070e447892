//! The coordinator's messages and their handling.

use std::net::IpAddr;
use std::sync::Arc;

use taut_base::Time;
use taut_dial::{Broken, Url};
use taut_netmap::{Delta, NetworkMap, Problem, ProblemCode, ToNode, resolve_relay_endpoints, resolve_relay_urls};
use taut_noise::public_key;

use super::Worker;
use crate::channel::ReceivedMessage;
use crate::event::ControlEvent;
use crate::state::Ticket;

impl Worker {
    /// Handles one message of the coordinator.
    pub(super) fn handle_message(&mut self, message: ReceivedMessage, now: Time) {
        let ReceivedMessage::Known(message) = message else { return };
        if *message == ToNode::Pong {
            self.connection.handle_pong();
        }
        if self.leaving.is_some() {
            self.handle_while_leaving(&message);
            return;
        }
        match *message {
            ToNode::Map(map) => self.handle_map(map, now),
            ToNode::Delta(delta) => self.handle_delta(&delta, now),
            ToNode::Presence { whole, nodes } => {
                // Only nodes that take part are told. A map alone does not say so: a node that waits gets one without peers first.
                self.end_waiting();
                self.emit(ControlEvent::Presence { whole, nodes });
            }
            ToNode::Pong => {}
            ToNode::Ticket { ticket, numbered, expires } => self.handle_ticket(ticket, numbered, expires, now),
            ToNode::Twin { problem } => self.emit(ControlEvent::Twin(problem)),
            ToNode::Waiting(waiting) => self.handle_waiting(waiting, now),
            ToNode::Welcome { network, urls } => self.handle_welcome(&network, &urls, now),
            ToNode::Expiry { left } => self.handle_expiry(left),
            ToNode::Decision(decision) => self.emit(ControlEvent::Decision(decision)),
            ToNode::Refused(problem) => self.handle_refusal(problem, now),
        }
    }

    fn handle_map(&mut self, mut map: NetworkMap, now: Time) {
        if let Some(earlier) = &self.map {
            map.keep_filter(earlier);
        }
        match map.check().map_err(|refusal| refusal.to_string()).and_then(|()| self.check_own_key(&map)) {
            Ok(()) if self.needs_consent(&map) => self.await_consent(map, now),
            Ok(()) => {
                self.withdraw_consent_request();
                self.store.set_named(map.relays.clone());
                self.apply_map(map, now);
            }
            Err(why) => self.reject(&why, now),
        }
    }

    fn handle_delta(&mut self, delta: &Delta, now: Time) {
        // While a map waits for consent, changes apply to that map.
        let base = self.prefixes.waiting.as_ref().or(self.map.as_deref());
        let applied = match base {
            Some(map) => map.apply(delta).map_err(|refusal| refusal.to_string()),
            None => Err(String::from("the coordinator sent a change of a network map that this node does not have")),
        };
        match applied.and_then(|map| self.check_own_key(&map).map(|()| map)) {
            Ok(map) if self.needs_consent(&map) => self.await_consent(map, now),
            Ok(map) => {
                if let Some(named) = &delta.relays {
                    self.store.set_named(named.clone());
                }
                self.apply_map(map, now);
            }
            Err(why) => self.reject(&why, now),
        }
    }

    /// Checks that the map gives this node its own key. With another key in the map, peers would encrypt to a key that this node does not hold.
    fn check_own_key(&self, map: &NetworkMap) -> Result<(), String> {
        match &self.membership {
            Some(membership) if membership.hello_key() == map.me.key => Ok(()),
            _ => Err(String::from(
                "the network map was refused and the last good one kept: it gives this node a key that is not its own",
            )),
        }
    }

    /// Notes that the coordinator sent this node a map: the node is a member, and forgets the enrolment secret.
    pub(super) fn note_accepted(&mut self, now: Time) {
        if self.accepted(now) {
            self.change_membership(|membership| {
                membership.accepted = true;
                membership.forget_secret();
            });
        }
    }

    /// Returns the coordinator's known addresses: the address in use first, then those of its host name and of its other URLs. All are needed, because a host
    /// that reaches the coordinator over IPv6 detects a NAT by also reaching the coordinator's relay over IPv4.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let urls = self.membership.iter().flat_map(|membership| &membership.urls);
        let literal = urls.filter_map(|url| url.parse::<Url>().ok()?.host.parse().ok());
        self.coordinator_addresses.iter().copied().chain(literal).collect()
    }

    /// Applies a checked map: passes it to the agent and saves it. Its relays' addresses are resolved each time, because the coordinator may have moved.
    pub(super) fn apply_map(&mut self, mut map: NetworkMap, now: Time) {
        map.replace_reserved_names();
        self.promote_key(map.me.key);
        map.relays = self.store.named().to_vec();
        resolve_relay_endpoints(&mut map.relays, &self.addresses(), &[map.network.ipv4, map.network.ipv6]);
        resolve_relay_urls(&mut map.relays, self.url());
        self.resume = true;
        self.note_accepted(now);
        // A coordinator whose map has not changed answers with the map that this node has.
        if self.map.as_ref().is_some_and(|present| **present == map) {
            return;
        }
        let map = Arc::new(map);
        self.map = Some(Arc::clone(&map));
        self.emit(ControlEvent::Map(map));
        self.store.map_changed(now);
        self.save_what_is_due(now);
    }

    /// Saves a ticket, for use while the coordinator is unreachable, and passes it to the agent. A ticket that is known already is not reported again.
    fn handle_ticket(&mut self, ticket: String, numbered: Option<String>, expires: u64, now: Time) {
        let Some(membership) = &self.membership else { return };
        let bind_key = public_key(&membership.bind_key());
        let ticket = Ticket { network: membership.network, bind_key, ticket, numbered, expires };
        if ticket.bytes().is_none() {
            self.lose(&Broken(String::from("the coordinator sent a relay ticket that cannot be decoded")), now);
            return;
        }
        if self.store.ticket() != Some(&ticket) {
            self.store.ticket_changed(Some(ticket), now);
            self.announce_ticket();
            self.save_what_is_due(now);
        }
    }

    /// Keeps the last good map, and requests a full map on a new channel (law 6).
    fn reject(&mut self, why: &str, now: Time) {
        self.resume = false;
        self.lose(&Broken(String::from(why)), now);
    }

    fn handle_refusal(&mut self, problem: Problem, now: Time) {
        let member = self.membership.as_ref().filter(|membership| membership.accepted);
        if problem.code == ProblemCode::Enrolment && member.is_some_and(|member| member.is_enrolling()) {
            // A member does not need an enrolment secret. A single-use secret in a container's environment, for example, was used up at the first start.
            self.change_membership(|membership| membership.forget_secret());
            self.start_over();
            return;
        }
        if self.give_up_key(&problem) {
            // The node goes on with its present key.
            self.emit(ControlEvent::Refused(Problem { code: ProblemCode::BadRequest, ..problem }));
            return self.start_over();
        }
        if problem.code.is_final() {
            self.change_membership(|membership| {
                // A node that is not a member may join another network with this state directory.
                membership.accepted &= problem.code != ProblemCode::NotAMember;
                membership.note_refusal();
            });
        }
        let (is_final, is_twin) = (problem.code.is_final(), problem.code == ProblemCode::Twin);
        let text = problem.to_string();
        self.emit(ControlEvent::Refused(problem));
        if is_final {
            self.drop_connection();
        } else if is_twin {
            self.pause_for_twin(&Broken(text), now);
        } else {
            self.lose(&Broken(text), now);
        }
    }
}
