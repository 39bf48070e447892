//! Port mappings of the router in front of this host (`taut_gateway`), while the network is up. They have a thread of their own, because routers are slow.
//!
//! A mapped endpoint is one more candidate: peers are told of it, and use it only after a probe through it was answered (fault D15).

use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Prefix, SOCKET_MARK, SortedMap, Time};
use taut_event::Waker;
use taut_gateway::{
    LossReason, Portmap, PortmapCommand, PortmapEvent, PortmapOptions, PortmapReport, Protocol, ProtocolReport,
    ProtocolStatus,
};

use crate::api::PortMapStatus;
use crate::log::{Kind, Value, kind};

/// Time between two looks at what the router answered, 5 s: its answers take a few, and nobody waits for this line.
const LOOKS_APART: Duration = Duration::from_secs(5);

/// The port mappings; idle while the network is down.
#[derive(Default)]
pub(super) struct Mapped {
    running: Option<Portmap>,
    /// Whether the network is up.
    up: bool,
    /// The overlay prefixes that the thread was started with.
    overlay: Vec<Prefix>,
    /// The reason why the thread could not be started.
    problem: Option<String>,
    /// The outside endpoint of each local port, as the router reports it.
    outside: SortedMap<u16, SocketAddr>,
    /// For the event log.
    events: Vec<(&'static Kind, Vec<Value>)>,
    /// The problem that was last told, and when the report was last looked at for another one.
    told: Option<String>,
    looked: Time,
}

impl Mapped {
    /// Requests mappings of these ports.
    pub(super) fn start(&mut self, ports: Vec<u16>, overlay: &[Prefix], waker: &Waker) {
        self.up = true;
        if let Some(running) = self.running.take_if(|_| self.overlay == overlay) {
            running.send(PortmapCommand::Ports(ports));
            self.running = Some(running);
            return;
        }
        self.overlay = overlay.to_vec();
        let options = PortmapOptions { ports, mark: SOCKET_MARK, overlay: overlay.to_vec() };
        match Portmap::start(options, waker.clone()) {
            Ok(running) => (self.running, self.problem) = (Some(running), None),
            // Without port mappings, nodes still reach each other in other ways.
            Err(error) => self.problem = Some(format!("the thread that asks the router could not be started: {error}")),
        }
    }

    /// Releases all mappings without waiting, because the network is down.
    pub(super) fn pause(&mut self) {
        if let Some(running) = &self.running {
            running.send(PortmapCommand::Ports(Vec::new()));
        }
        self.outside.clear();
        (self.up, self.problem, self.told) = (false, None, None);
    }

    /// Releases all mappings, and waits for this for at most two seconds, because the daemon ends.
    pub(super) fn end(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }

    /// Looks for another router, because the host's routes, addresses or links changed.
    pub(super) fn check(&self) {
        if let Some(running) = &self.running {
            running.send(PortmapCommand::Look);
        }
    }

    /// Takes the events of the thread. Returns true if a mapping changed.
    pub(super) fn turn(&mut self) -> bool {
        let mut changed = false;
        while let Some(event) = self.running.as_ref().and_then(Portmap::try_event) {
            changed |= match event {
                // An event from before the thread learned that the network is down.
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

    /// Returns the outside endpoint of a local port, as the router reports it.
    pub(super) fn of(&self, port: u16) -> Vec<SocketAddr> {
        self.outside.get(&port).copied().into_iter().collect()
    }

    /// Returns the state for users; `None` while port mapping is switched off.
    pub(super) fn status(&self) -> Option<PortMapStatus> {
        if let Some(problem) = &self.problem {
            return Some(PortMapStatus { problem: Some(problem.clone()), ..PortMapStatus::default() });
        }
        self.running.as_ref().filter(|_| self.up).map(|running| describe(&running.report()))
    }
}

fn describe(report: &PortmapReport) -> PortMapStatus {
    let serving = report.protocols.iter().find(|part| part.status == ProtocolStatus::Serves);
    let waiting = report.protocols.iter().any(|part| part.status == ProtocolStatus::Asked);
    let describe = |part: &ProtocolReport| format!("{}: {}", title(part.protocol), part.status);
    let problem = match (report.gateway, serving, waiting) {
        (None, ..) => Some(String::from("no router in front of this host was found")),
        (Some(_), None, false) => {
            let asked = report.protocols.iter().filter(|part| part.status != ProtocolStatus::NotAsked);
            Some(asked.map(describe).collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
        }
        (Some(_), None, true) => None,
        (Some(_), Some(_), _) => {
            let text = "another NAT is in front of the router: the outside address is not an Internet address";
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

/// Returns the protocol's usual spelling.
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

    fn with(protocol: Protocol, status: ProtocolStatus) -> PortmapReport {
        let mut report = PortmapReport { gateway: Some([192, 168, 1, 1].into()), ..PortmapReport::default() };
        for part in report.protocols.iter_mut().filter(|part| part.protocol == protocol) {
            part.status = status;
        }
        report
    }

    #[test]
    fn the_routers_state_is_described_in_a_line() {
        assert!(describe(&PortmapReport::default()).problem.unwrap().starts_with("no router"));
        let told = describe(&with(Protocol::Upnp, ProtocolStatus::Unusable(Defect::NoService)));
        assert_eq!(
            (told.protocol, told.problem.as_deref()),
            (None, Some("UPnP-IGD: useless answer: it has no service that maps ports"))
        );
        assert_eq!(describe(&with(Protocol::Pcp, ProtocolStatus::Asked)).problem, None);
        let told = describe(&with(Protocol::NatPmp, ProtocolStatus::Serves));
        assert_eq!((told.protocol.as_deref(), told.gateway), (Some("NAT-PMP"), Some([192, 168, 1, 1].into())));
    }

    #[test]
    fn a_switched_off_port_mapping_has_no_state() {
        let mut mapped = Mapped::default();
        assert!(!mapped.turn() && mapped.of(8288).is_empty());
        assert_eq!(mapped.status(), None);
    }
}
