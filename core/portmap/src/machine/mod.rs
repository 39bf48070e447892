//! The state machine that asks a gateway for mappings.
//!
//! ```text
//! Idle ── ports and a gateway ──▶ TryingPcp ── PCP or NAT-PMP maps ──▶ Serving
//!                                     │ neither                         │ ▲
//!                                     ▼                                 │ │
//!                               SearchingUpnp ── UPnP maps ──────────────┼─┘
//!                                     │ nothing does      all mappings are lost: TryingPcp again
//!                                     ▼
//!                                  BackOff ── after 15 minutes, or on a check ──▶ TryingPcp
//! ```
//! - this file: the stages;
//! - `contract`: the gateway, sockets and outputs;
//! - `slot`: one local port, its mapping, and when it is requested again;
//! - `attempt`: requests by PCP and NAT-PMP; `responses`: their answers;
//! - `upnp`: search and description; `upnp_calls`: calls of the service found there;
//! - `release`: mappings that are given back.

mod attempt;
mod contract;
mod release;
mod responses;
mod slot;
#[cfg(test)]
mod tests;
mod upnp;
mod upnp_calls;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Entropy, Prefix, Time};

use crate::MAX_PORTS;
use crate::http::Answer;
use crate::report::PortmapReport;
use crate::status::{FetchError, Protocol, ProtocolStatus};
use attempt::Attempt;
pub use contract::{Gateway, GatewaySocket, LossReason, PortmapEvent, PortmapOutput};
use release::Release;
use slot::Slot;
use upnp::Upnp;

/// Pause after all protocols failed, 15 minutes. A user who has just enabled port mapping on the router asks for a check, or waits this long.
const BACK_OFF: Duration = Duration::from_secs(900);

/// Least time between two rounds of requests for one mapping, 30 s, whatever the gateway or the agent asks for.
const MIN_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    TryingPcp,
    SearchingUpnp { since: Time },
    Serving(Protocol),
    BackOff { since: Time },
}

/// Asks one gateway to map a few ports. Each call tells the time. After each call, [`Self::poll_output`] is called until it returns `None`;
/// [`Self::handle_timeout`] is due at [`Self::poll_timeout`].
pub struct PortMapper<E> {
    entropy: E,
    overlay: Vec<Prefix>,
    gateway: Option<Gateway>,
    slots: Vec<Slot>,
    releases: Vec<Release>,
    stage: Stage,
    attempt: Attempt,
    upnp: Upnp,
    report: PortmapReport,
    actions: VecDeque<PortmapOutput>,
    events: VecDeque<PortmapEvent>,
    /// The status of each protocol that was last reported by an event.
    reported: [ProtocolStatus; 3],
}

impl<E: Entropy> PortMapper<E> {
    /// Returns a machine without a gateway and without ports. Outer addresses inside `overlay` are never accepted.
    pub fn new(entropy: E, overlay: Vec<Prefix>) -> Self {
        Self {
            entropy,
            overlay,
            gateway: None,
            slots: Vec::new(),
            releases: Vec::new(),
            stage: Stage::Idle,
            attempt: Attempt::default(),
            upnp: Upnp::default(),
            report: PortmapReport::default(),
            actions: VecDeque::new(),
            events: VecDeque::new(),
            reported: [ProtocolStatus::NotAsked; 3],
        }
    }

    /// Sets the gateway. Another gateway is asked from scratch, and the mappings of the former one are lost; the same gateway is
    /// [checked](Self::check).
    pub fn set_gateway(&mut self, gateway: Option<Gateway>, now: Time) {
        if gateway == self.gateway {
            return self.check(now);
        }
        self.gateway = gateway;
        self.releases.clear();
        self.actions.clear();
        for number in 0..self.slots.len() {
            self.drop_lease(number, LossReason::GatewayChanged);
            self.slots[number] = Slot::new(self.slots[number].port, &mut self.entropy, now);
        }
        self.restart(now);
    }

    /// Sets the ports to map: the first [`MAX_PORTS`] that are not 0. Mappings of other ports are given back.
    pub fn set_ports(&mut self, ports: &[u16], now: Time) {
        let first = self.slots.first().map(|slot| slot.port);
        let gone: Vec<Slot> = self.slots.extract_if(.., |slot| !ports.contains(&slot.port)).collect();
        for slot in gone {
            self.give_back(&slot, LossReason::GivenBack, now);
        }
        for port in ports {
            let known = self.slots.iter().any(|slot| slot.port == *port);
            if *port != 0 && !known && self.slots.len() < MAX_PORTS {
                let mut slot = Slot::new(*port, &mut self.entropy, now);
                slot.nonce = self.keep(*port).unwrap_or(slot.nonce);
                self.slots.push(slot);
            }
        }
        let asking = matches!(self.stage, Stage::TryingPcp | Stage::SearchingUpnp { .. });
        let first_changed = first != self.slots.first().map(|slot| slot.port);
        if self.slots.is_empty() {
            self.stage = Stage::Idle;
        } else if self.stage == Stage::Idle || asking && first_changed {
            self.restart(now);
        }
        self.handle_timeout(now);
    }

    /// Renews the mappings now, or tries all protocols again, at most twice a minute: the caller doubts that they still exist.
    pub fn check(&mut self, now: Time) {
        match self.stage {
            Stage::BackOff { since } if now.since(since) >= MIN_INTERVAL => self.restart(now),
            Stage::Serving(_) => self.slots.iter_mut().for_each(|slot| slot.renew_soon(now)),
            _ => {}
        }
        self.handle_timeout(now);
    }

    /// Takes a datagram from a socket.
    pub fn handle_datagram(&mut self, socket: GatewaySocket, from: SocketAddr, bytes: &[u8], now: Time) {
        let Some(gateway) = self.gateway else { return };
        let expected = match socket {
            GatewaySocket::Pcp => from == SocketAddr::from((gateway.address, crate::pcp::PORT)),
            // A search may be answered from any port of the gateway.
            GatewaySocket::Ssdp => from.ip() == gateway.address,
        };
        match socket {
            _ if !expected => self.report.foreign_messages = self.report.foreign_messages.saturating_add(1),
            GatewaySocket::Pcp => self.handle_response(from, bytes, now),
            GatewaySocket::Ssdp => self.handle_search_response(from, bytes, now),
        }
    }

    /// Takes ICMP's report that the gateway's port for PCP and NAT-PMP is closed.
    pub fn handle_closed(&mut self, now: Time) {
        self.handle_port_closed(now);
    }

    /// Takes the result of [`PortmapOutput::Fetch`].
    pub fn handle_answer(&mut self, id: u32, answer: Result<Answer, FetchError>, now: Time) {
        self.handle_fetched(id, answer, now);
        self.handle_timeout(now);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.expire(now);
        self.release_due(now);
        match self.stage {
            Stage::Idle => {}
            Stage::TryingPcp => self.attempt(now),
            Stage::SearchingUpnp { .. } | Stage::Serving(Protocol::Upnp) => {}
            Stage::Serving(protocol) => self.renew(protocol, now),
            Stage::BackOff { since } if now.since(since) >= BACK_OFF => self.restart(now),
            Stage::BackOff { .. } => {}
        }
        self.upnp(now);
    }

    /// Returns when [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let stage = match self.stage {
            Stage::Idle => None,
            Stage::TryingPcp => Some(self.attempt.next),
            Stage::BackOff { since } => Some(since + BACK_OFF),
            Stage::SearchingUpnp { .. } | Stage::Serving(Protocol::Upnp) => self.upnp_timeout(),
            Stage::Serving(_) => self.slots.iter().map(|slot| slot.next).min(),
        };
        let ends = self.slots.iter().filter_map(|slot| slot.lease.map(|lease| lease.until));
        let pending = self.upnp.pending_until();
        ends.chain(stage).chain(pending).chain(self.release_timeout()).min()
    }

    /// Returns the next output. Call it after every input and at [`Self::poll_timeout`], until it returns `None`.
    pub fn poll_output(&mut self) -> Option<PortmapOutput> {
        self.actions.pop_front().or_else(|| self.events.pop_front().map(PortmapOutput::Event))
    }

    /// Returns the result of all requests so far.
    pub fn report(&self) -> PortmapReport {
        let mappings = self.slots.iter().filter_map(Slot::mapping).collect();
        PortmapReport { gateway: self.gateway.map(|gateway| gateway.address), mappings, ..self.report.clone() }
    }

    /// Returns true if no request is under way: after [`Self::set_ports`] without ports, the gateway was told everything.
    pub fn is_quiet(&self) -> bool {
        self.releases.is_empty() && self.upnp.pending_until().is_none() && self.actions.is_empty()
    }

    /// Tries all protocols from scratch.
    fn restart(&mut self, now: Time) {
        self.report = PortmapReport { foreign_messages: self.report.foreign_messages, ..PortmapReport::default() };
        self.attempt = Attempt::at(now);
        self.upnp = Upnp::after(&self.upnp);
        if self.gateway.is_none() || self.slots.is_empty() {
            self.stage = Stage::Idle;
            return;
        }
        for slot in &mut self.slots {
            (slot.tries, slot.next) = (0, now);
        }
        self.stage = Stage::TryingPcp;
        self.handle_timeout(now);
    }

    /// Goes on to the next protocol after `protocol` failed, or backs off after the last one.
    fn try_after(&mut self, protocol: Protocol, now: Time) {
        for slot in &mut self.slots {
            (slot.tries, slot.next) = (0, now);
        }
        self.stage = match protocol {
            Protocol::Pcp | Protocol::NatPmp => {
                self.upnp = Upnp::after(&self.upnp);
                self.upnp.search(now);
                Stage::SearchingUpnp { since: now }
            }
            Protocol::Upnp => Stage::BackOff { since: now },
        };
    }

    fn set_status(&mut self, protocol: Protocol, status: ProtocolStatus) {
        self.report.protocol_mut(protocol).status = status;
        let is_answer = !matches!(status, ProtocolStatus::NotAsked | ProtocolStatus::Asked);
        let reported = &mut self.reported[protocol as usize];
        if is_answer && *reported != status {
            *reported = status;
            self.events.push_back(PortmapEvent::Answered { protocol, status });
        }
    }

    fn holds_any(&self) -> bool {
        self.slots.iter().any(|slot| slot.lease.is_some())
    }

    /// Drops mappings whose lease ended.
    fn expire(&mut self, now: Time) {
        let mut lost = false;
        for number in 0..self.slots.len() {
            if self.slots[number].lease.is_some_and(|lease| lease.until <= now) {
                self.drop_lease(number, LossReason::Expired);
                lost = true;
            }
        }
        if lost && !self.holds_any() && matches!(self.stage, Stage::Serving(_)) {
            self.restart(now);
        }
    }

    fn drop_lease(&mut self, number: usize, reason: LossReason) {
        if self.slots[number].lease.take().is_some() {
            self.events.push_back(PortmapEvent::Lost { port: self.slots[number].port, reason });
        }
    }
}
