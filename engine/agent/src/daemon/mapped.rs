//! The router in front of this host: asked for ports while the network is up (`taut_gateway`), on a thread of its own, because routers are slow.
//!
//! What it says to have mapped is one more candidate: peers are told of it, and use it only after a probe through it was answered (fault D15).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Prefix, Time};
use taut_event::Waker;
use taut_gateway::{
    Command, LossReason, Options, Portmap, PortmapEvent, Protocol, ProtocolReport, ProtocolStatus, Report,
};

use crate::api::PortMapStatus;
use crate::log::{Kind, Value, kind};

/// Time between two looks at what the router answered, 5 s: its answers take a few, and nobody waits for this line.
const LOOKS_APART: Duration = Duration::from_secs(5);

/// Port mapping, switched on or off.
#[derive(Default)]
pub(super) struct Mapped {
    running: Option<Portmap>,
    /// The network is up.
    up: bool,
    /// The addresses of the overlay that the thread was started with.
    overlay: Vec<Prefix>,
    /// Why the thread could not be started.
    problem: Option<String>,
    /// Where the world reaches a port of ours, as the router says.
    outside: BTreeMap<u16, SocketAddr>,
    /// For the event log.
    events: Vec<(&'static Kind, Vec<Value>)>,
    /// The problem that was last told, and when the report was last looked at for another one.
    told: Option<String>,
    looked: Time,
}

impl Mapped {
    /// Has these ports mapped from now on.
    pub(super) fn start(&mut self, ports: Vec<u16>, overlay: &[Prefix], waker: &Waker) {
        self.up = true;
        if let Some(running) = self.running.take_if(|_| self.overlay == overlay) {
            running.send(Command::Ports(ports));
            self.running = Some(running);
            return;
        }
        self.overlay = overlay.to_vec();
        let options = Options { ports, mark: 0, overlay: overlay.to_vec() };
        match Portmap::start(options, waker.clone()) {
            Ok(running) => (self.running, self.problem) = (Some(running), None),
            // Nodes without it still meet by other ways.
            Err(error) => self.problem = Some(format!("the thread that asks the router could not be started: {error}")),
        }
    }

    /// Gives all ports back, without waiting for it: the network is down.
    pub(super) fn pause(&mut self) {
        if let Some(running) = &self.running {
            running.send(Command::Ports(Vec::new()));
        }
        self.outside.clear();
        (self.up, self.problem, self.told) = (false, None, None);
    }

    /// The daemon ends: waits until all ports are given back, two seconds at most.
    pub(super) fn end(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }

    /// The host's routes, addresses or links changed: perhaps there is another router.
    pub(super) fn look(&self) {
        if let Some(running) = &self.running {
            running.send(Command::Look);
        }
    }

    /// Takes what the thread said; true when something is mapped otherwise than before.
    pub(super) fn turn(&mut self) -> bool {
        let mut changed = false;
        while let Some(event) = self.running.as_ref().and_then(Portmap::try_event) {
            changed |= match event {
                // Said before it heard that the network is down.
                PortmapEvent::Mapped(_) if !self.up => false,
                PortmapEvent::Mapped(mapping) => {
                    let before = self.outside.insert(mapping.port, mapping.outside);
                    if before != Some(mapping.outside) {
                        self.note_mapped(mapping.port, mapping.outside, before.is_some());
                    }
                    before != Some(mapping.outside)
                }
                PortmapEvent::Lost { port, reason } => {
                    let was_mapped = self.outside.remove(&port).is_some();
                    if was_mapped {
                        self.events
                            .push((&kind::PORT_LOST, vec![Value::Number(port.into()), Value::Word(lost(reason))]));
                    }
                    was_mapped
                }
                PortmapEvent::Answered { protocol, status } => {
                    let values = vec![Value::Word(title(protocol)), Value::text(status)];
                    self.events.push((&kind::ROUTER_ANSWERED, values));
                    false
                }
            };
        }
        changed
    }

    fn note_mapped(&mut self, port: u16, outside: SocketAddr, again: bool) {
        let kind = if again { &kind::PORT_REMAPPED } else { &kind::PORT_MAPPED };
        let protocol = self.status().and_then(|status| status.protocol);
        self.events.push((kind, vec![Value::Number(port.into()), Value::text(outside), Value::maybe(protocol)]));
    }

    /// Returns events for the log: what was mapped or lost, and, every few seconds, another problem than was told before.
    pub(super) fn take_events(&mut self, now: Time) -> Vec<(&'static Kind, Vec<Value>)> {
        let mut events = std::mem::take(&mut self.events);
        if self.up && now.since(self.looked) >= LOOKS_APART {
            self.looked = now;
            let problem = self.status().and_then(|status| status.problem);
            if problem.is_some() && problem != self.told {
                events.push((&kind::PORT_REFUSED, vec![Value::maybe(problem.clone())]));
            }
            self.told = problem;
        }
        events
    }

    /// Where the world reaches this port of ours, as the router says.
    pub(super) fn of(&self, port: u16) -> Vec<SocketAddr> {
        self.outside.get(&port).copied().into_iter().collect()
    }

    /// For users; `None` while it is switched off.
    pub(super) fn status(&self) -> Option<PortMapStatus> {
        if let Some(problem) = &self.problem {
            return Some(PortMapStatus { problem: Some(problem.clone()), ..PortMapStatus::default() });
        }
        self.running.as_ref().filter(|_| self.up).map(|running| describe(&running.report()))
    }
}

fn describe(report: &Report) -> PortMapStatus {
    let serving = report.protocols.iter().find(|part| part.status == ProtocolStatus::Serves);
    let waiting = report.protocols.iter().any(|part| part.status == ProtocolStatus::Asked);
    let said = |part: &ProtocolReport| format!("{}: {}", title(part.protocol), part.status);
    let problem = match (report.gateway, serving, waiting) {
        (None, ..) => Some(String::from("no router in front of this host was found")),
        (Some(_), None, false) => {
            let asked = report.protocols.iter().filter(|part| part.status != ProtocolStatus::NotAsked);
            Some(asked.map(said).collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
        }
        (Some(_), None, true) => None,
        (Some(_), Some(_), _) => {
            let text = "another NAT stands before the router: the outside address is not one of the Internet";
            report.is_nested().then(|| String::from(text))
        }
    };
    PortMapStatus {
        protocol: serving.map(|part| String::from(title(part.protocol))),
        gateway: report.gateway.map(Into::into),
        mapped: report.mappings.iter().map(|mapping| mapping.outside).collect(),
        problem,
    }
}

/// The reason of a lost mapping, for the event log.
fn lost(reason: LossReason) -> &'static str {
    match reason {
        LossReason::Expired => "expired",
        LossReason::GatewayChanged => "router-changed",
        LossReason::GivenBack => "given-back",
        LossReason::Unusable => "unusable",
    }
}

/// As people write it.
fn title(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Pcp => "PCP",
        Protocol::NatPmp => "NAT-PMP",
        Protocol::Upnp => "UPnP-IGD",
    }
}

#[cfg(test)]
mod tests {
    use taut_gateway::Defect;

    use super::*;

    fn with(protocol: Protocol, status: ProtocolStatus) -> Report {
        let mut report = Report { gateway: Some([192, 168, 1, 1].into()), ..Report::default() };
        for part in report.protocols.iter_mut().filter(|part| part.protocol == protocol) {
            part.status = status;
        }
        report
    }

    #[test]
    fn what_the_router_said_is_told_in_a_line() {
        assert!(describe(&Report::default()).problem.unwrap().starts_with("no router"));
        let told = describe(&with(Protocol::Upnp, ProtocolStatus::Unusable(Defect::NoService)));
        assert_eq!(
            (told.protocol, told.problem.as_deref()),
            (None, Some("UPnP-IGD: of no use: it has no service that maps ports"))
        );
        assert_eq!(describe(&with(Protocol::Pcp, ProtocolStatus::Asked)).problem, None);
        let told = describe(&with(Protocol::NatPmp, ProtocolStatus::Serves));
        assert_eq!((told.protocol.as_deref(), told.gateway), (Some("NAT-PMP"), Some([192, 168, 1, 1].into())));
    }

    #[test]
    fn switched_off_there_is_nothing_to_tell() {
        let mut mapped = Mapped::default();
        assert!(!mapped.turn() && mapped.of(8288).is_empty());
        assert_eq!(mapped.status(), None);
    }
}
