//! The machine that asks for mappings.
//!
//! ```text
//! Idle ── ports and a gateway ──▶ Knocking ── PCP or NAT-PMP maps ──▶ Serving
//!                                    │ neither                          │ ▲
//!                                    ▼                                  │ │
//!                                 Seeking ── UPnP maps ─────────────────┼─┘
//!                                    │ nothing does       all are lost: Knocking again
//!                                    ▼
//!                                 Resting ── in a while, or asked to look ──▶ Knocking
//! ```
//! - this file: the stages;
//! - `contract`: what is said to the machine, and what it says;
//! - `slot`: one port of ours, its mapping, when to ask again;
//! - `knock`: asking by PCP and NAT-PMP, while none serves and when one does; `hear`: their answers;
//! - `upnp`: search and description; `calls`: what the service found there is asked for;
//! - `leave`: mappings that are to end.

mod calls;
mod contract;
mod hear;
mod knock;
mod leave;
mod slot;
#[cfg(test)]
mod tests;
mod upnp;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Entropy, Prefix, Time};

use crate::MAX_PORTS;
use crate::http::Answer;
use crate::report::Report;
use crate::status::{Failure, Protocol, ProtocolStatus};
pub use contract::{Door, Gateway, LossReason, PortmapEvent, PortmapOutput};
use knock::Knock;
use leave::Leaving;
use slot::Slot;
use upnp::Upnp;

/// How long the machine rests when nobody maps anything. A user who has just switched it on in the router asks for a look, or waits this long.
const REST: Duration = Duration::from_secs(900);

/// The least time between two rounds of asking for one mapping, whatever the gateway says or the agent wishes.
const PACE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    Knocking,
    Seeking { since: Time },
    Serving(Protocol),
    Resting { since: Time },
}

/// Asks one gateway for mappings of a few ports. Time is told with each call; afterwards [`Self::poll_output`] is to be
/// called until it returns `None`, and [`Self::handle_timeout`] is due at [`Self::poll_timeout`].
pub struct Machine<E> {
    entropy: E,
    overlay: Vec<Prefix>,
    gateway: Option<Gateway>,
    slots: Vec<Slot>,
    leaving: Vec<Leaving>,
    stage: Stage,
    knock: Knock,
    upnp: Upnp,
    report: Report,
    actions: VecDeque<PortmapOutput>,
    events: VecDeque<PortmapEvent>,
    /// The status of each protocol that was last reported by an event.
    reported: [ProtocolStatus; 3],
}

impl<E: Entropy> Machine<E> {
    /// A machine with nobody to ask and nothing to ask for. Outer addresses inside `overlay` are never believed.
    pub fn new(entropy: E, overlay: Vec<Prefix>) -> Self {
        Self {
            entropy,
            overlay,
            gateway: None,
            slots: Vec::new(),
            leaving: Vec::new(),
            stage: Stage::Idle,
            knock: Knock::default(),
            upnp: Upnp::default(),
            report: Report::default(),
            actions: VecDeque::new(),
            events: VecDeque::new(),
            reported: [ProtocolStatus::NotAsked; 3],
        }
    }

    /// Who is in front of us now. Another one is asked from the start, and what the former mapped is lost; the same one is [checked](Self::check).
    pub fn set_gateway(&mut self, gateway: Option<Gateway>, now: Time) {
        if gateway == self.gateway {
            return self.check(now);
        }
        self.gateway = gateway;
        self.leaving.clear();
        self.actions.clear();
        for number in 0..self.slots.len() {
            self.lose(number, LossReason::GatewayChanged);
            self.slots[number] = Slot::new(self.slots[number].port, &mut self.entropy, now);
        }
        self.begin(now);
    }

    /// Which ports are to be mapped: the first [`MAX_PORTS`] that are not 0. Those that were and are no longer are given back.
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
                slot.nonce = self.stay(*port).unwrap_or(slot.nonce);
                self.slots.push(slot);
            }
        }
        let asking = matches!(self.stage, Stage::Knocking | Stage::Seeking { .. });
        let first_changed = first != self.slots.first().map(|slot| slot.port);
        if self.slots.is_empty() {
            self.stage = Stage::Idle;
        } else if self.stage == Stage::Idle || asking && first_changed {
            self.begin(now);
        }
        self.handle_timeout(now);
    }

    /// Something makes us doubt: mappings are renewed now, or asked for again, but not more often than twice a minute.
    pub fn check(&mut self, now: Time) {
        match self.stage {
            Stage::Resting { since } if now.since(since) >= PACE => self.begin(now),
            Stage::Serving(_) => self.slots.iter_mut().for_each(|slot| slot.hurry(now)),
            _ => {}
        }
        self.handle_timeout(now);
    }

    /// A datagram came.
    pub fn handle_datagram(&mut self, door: Door, from: SocketAddr, bytes: &[u8], now: Time) {
        let Some(gateway) = self.gateway else { return };
        let expected = match door {
            Door::Pcp => from == SocketAddr::from((gateway.address, crate::pcp::PORT)),
            // A search may be answered from any port of the gateway.
            Door::Ssdp => from.ip() == gateway.address,
        };
        match door {
            _ if !expected => self.report.strangers = self.report.strangers.saturating_add(1),
            Door::Pcp => self.hear(from, bytes, now),
            Door::Ssdp => self.found(from, bytes, now),
        }
    }

    /// The gateway's port for PCP and NAT-PMP is closed, as ICMP says.
    pub fn handle_closed(&mut self, now: Time) {
        self.closed(now);
    }

    /// What became of a request.
    pub fn handle_answer(&mut self, id: u32, answer: Result<Answer, Failure>, now: Time) {
        self.answered(id, answer, now);
        self.handle_timeout(now);
    }

    /// It is time.
    pub fn handle_timeout(&mut self, now: Time) {
        self.expire(now);
        self.leave(now);
        match self.stage {
            Stage::Idle => {}
            Stage::Knocking => self.knock(now),
            Stage::Seeking { .. } | Stage::Serving(Protocol::Upnp) => {}
            Stage::Serving(protocol) => self.renew(protocol, now),
            Stage::Resting { since } if now.since(since) >= REST => self.begin(now),
            Stage::Resting { .. } => {}
        }
        self.upnp(now);
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let stage = match self.stage {
            Stage::Idle => None,
            Stage::Knocking => Some(self.knock.next),
            Stage::Resting { since } => Some(since + REST),
            Stage::Seeking { .. } | Stage::Serving(Protocol::Upnp) => self.upnp_timeout(),
            Stage::Serving(_) => self.slots.iter().map(|slot| slot.next).min(),
        };
        let ends = self.slots.iter().filter_map(|slot| slot.held.map(|held| held.until));
        let busy = self.upnp.busy_until();
        ends.chain(stage).chain(busy).chain(self.leave_timeout()).min()
    }

    /// Returns the next thing to do or to know of. Call it after every input and at [`Self::poll_timeout`], until it returns `None`.
    pub fn poll_output(&mut self) -> Option<PortmapOutput> {
        self.actions.pop_front().or_else(|| self.events.pop_front().map(PortmapOutput::Event))
    }

    /// What became of the asking so far.
    pub fn report(&self) -> Report {
        let mappings = self.slots.iter().filter_map(Slot::mapping).collect();
        Report { gateway: self.gateway.map(|gateway| gateway.address), mappings, ..self.report.clone() }
    }

    /// Whether nothing is on its way: after [`Self::set_ports`] with none, the gateway has been told everything.
    pub fn is_quiet(&self) -> bool {
        self.leaving.is_empty() && self.upnp.busy_until().is_none() && self.actions.is_empty()
    }

    /// From the start.
    fn begin(&mut self, now: Time) {
        self.report = Report { strangers: self.report.strangers, ..Report::default() };
        self.knock = Knock::at(now);
        self.upnp = Upnp::after(&self.upnp);
        if self.gateway.is_none() || self.slots.is_empty() {
            self.stage = Stage::Idle;
            return;
        }
        for slot in &mut self.slots {
            (slot.tries, slot.next) = (0, now);
        }
        self.stage = Stage::Knocking;
        self.handle_timeout(now);
    }

    /// `protocol` maps nothing: the next one, or rest.
    fn go_on_from(&mut self, protocol: Protocol, now: Time) {
        for slot in &mut self.slots {
            (slot.tries, slot.next) = (0, now);
        }
        self.stage = match protocol {
            Protocol::Pcp | Protocol::NatPmp => {
                self.upnp = Upnp::after(&self.upnp);
                self.upnp.seek(now);
                Stage::Seeking { since: now }
            }
            Protocol::Upnp => Stage::Resting { since: now },
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
        self.slots.iter().any(|slot| slot.held.is_some())
    }

    /// Mappings whose time is over.
    fn expire(&mut self, now: Time) {
        let mut lost = false;
        for number in 0..self.slots.len() {
            if self.slots[number].held.is_some_and(|held| held.until <= now) {
                self.lose(number, LossReason::Expired);
                lost = true;
            }
        }
        if lost && !self.holds_any() && matches!(self.stage, Stage::Serving(_)) {
            self.begin(now);
        }
    }

    fn lose(&mut self, number: usize, reason: LossReason) {
        if self.slots[number].held.take().is_some() {
            self.events.push_back(PortmapEvent::Lost { port: self.slots[number].port, reason });
        }
    }
}
