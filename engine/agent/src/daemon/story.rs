//! What the daemon tells of itself: its events, and their way to the log.

use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{NodeId, PeerId, PublicKey, RelayId, encode_base64};
use taut_control::{Left, LogDisk, MemberIdentity, OtherPrefixes};
use taut_netmap::NetworkMap;
use taut_node::NodeEvent;

use super::{DISK_SILENCE, Daemon};
use crate::api::{ApiResponse, Failure, LogPart};
use crate::basics::clocks;
use crate::host::{HostEvent, shown};
use crate::log::{EventSource, Kind, LOG_SCHEMA, Levels, Log, Names, Value, kind, listed, note_node_event};
use crate::overlay::Overlay;
use crate::status;

impl Daemon {
    /// Records an event that this node causes.
    pub(super) fn note(&mut self, kind: &'static Kind, values: &[Value]) {
        self.log.record(kind, EventSource::Node, values, clocks());
    }

    /// Records an event that the coordinator causes.
    pub(super) fn note_coordinator(&mut self, kind: &'static Kind, values: &[Value]) {
        self.log.record(kind, EventSource::Coordinator, values, clocks());
    }

    /// Records an event of the node's rules.
    pub(super) fn note_node(&mut self, event: &NodeEvent) {
        if let Some(overlay) = &self.overlay {
            note_node_event(&mut self.log, event, overlay, clocks());
        }
    }

    /// Records what happened since the last turn, and passes lines on to the disk.
    pub(super) fn turn_log(&mut self) {
        let clocks = clocks();
        self.log.check_clocks(clocks);
        if let Some(overlay) = &mut self.overlay {
            while let Some(event) = overlay.poll_host_event() {
                note_host_event(&mut self.log, event, overlay.interface());
            }
            if self.log.are_refusals_due(clocks.now) {
                self.log.note_refusals(&status::drop_counts(overlay), clocks);
            }
        }
        for (kind, values) in self.mapped.take_events(clocks.now) {
            // A router can cause these events at will.
            self.log.record(kind, EventSource::Underlay, &values, clocks);
        }
        self.log.handle_timeout(clocks);
        self.flush_log();
    }

    /// Passes lines on to the thread that may wait for the disk.
    pub(super) fn flush_log(&mut self) {
        let Some(control) = &self.control else { return };
        while let Some(mut waiting) = self.log.poll_line() {
            // The disk hangs. The line is in memory.
            if !control.log(std::mem::take(&mut waiting.line)) {
                self.log.count_lost(&waiting);
            }
        }
    }

    /// Answers a user who reads the log.
    pub(super) fn read_log(&self, from: Option<u64>) -> ApiResponse {
        let part = self.log.read(from);
        ApiResponse::Log(Box::new(LogPart {
            schema: LOG_SCHEMA,
            pid: std::process::id(),
            run: self.run,
            state_dir: std::path::absolute(&self.config.state_dir).unwrap_or_default().display().to_string(),
            levels: self.log.levels().to_string(),
            lines: part.lines,
            next: part.next,
            missed: part.missed,
        }))
    }

    /// Has other events recorded.
    pub(super) fn set_levels(&mut self, levels: &str) -> ApiResponse {
        match levels.parse::<Levels>() {
            Ok(levels) => {
                self.log.set_levels(levels, clocks());
                ApiResponse::Done
            }
            Err(error) => ApiResponse::Failed(Failure::new(error, "such as `info,path=debug`")),
        }
    }

    /// Records a network that came up.
    pub(super) fn note_up(&mut self, map: &NetworkMap) {
        let Some(overlay) = &self.overlay else { return };
        let (interface, mtu) = (Value::text(overlay.interface()), Value::Number(u64::from(overlay.tun().mtu)));
        let (port, lanes) = (Value::Number(u64::from(overlay.port)), Value::Number(overlay.ports().len() as u64));
        let network = Value::text(&map.network.name);
        self.log.begin_refusals(clocks().now);
        self.note(&kind::NETWORK_UP, &[network, interface, mtu, port, lanes, listed(&map.me.addresses)]);
    }

    /// Records a network that cannot come up, once per reason.
    pub(super) fn note_not_up(&mut self, problem: &Failure) {
        if self.problems.network.as_ref() != Some(problem) {
            self.note(&kind::NETWORK_FAILED, &[Value::text(&problem.message)]);
        }
    }

    /// Records other keys than before.
    pub(super) fn note_identity(&mut self, identity: &MemberIdentity) {
        let before = self.member.identity.as_ref();
        let is_new_key = before.map_or(identity.is_new, |before| before.node_key != identity.node_key);
        let former = before.filter(|before| before.network == identity.network).map(|before| before.coordinator);
        if is_new_key {
            self.note(&kind::NODE_KEY_CHANGED, &[]);
        }
        if let Some(former) = former.filter(|former| *former != identity.coordinator) {
            let text = |key: PublicKey| Value::text(encode_base64(key.as_bytes()));
            self.note(&kind::COORDINATOR_KEY_CHANGED, &[text(former), text(identity.coordinator)]);
        }
    }

    /// Records the end of a channel, or an attempt that failed: the first one of several as a warning.
    pub(super) fn note_disconnected(&mut self, why: &str, retry: Duration) {
        let kind = match (self.coordinator.connected, &self.coordinator.last_error) {
            (true, _) => &kind::COORDINATOR_LOST,
            (false, None) => &kind::COORDINATOR_UNREACHABLE,
            (false, Some(_)) => &kind::COORDINATOR_RETRY,
        };
        self.note_coordinator(kind, &[Value::text(&self.coordinator.url), Value::text(why), Value::s(retry)]);
    }

    /// Records that another host uses this node's keys, or that it does not any more.
    pub(super) fn note_twin(&mut self, problem: Option<&Failure>) {
        match (self.problems.duplicate.is_some(), problem) {
            (false, Some(problem)) => {
                self.note_coordinator(&kind::DUPLICATE_NODE, &[Value::text(&problem.message)]);
            }
            (true, None) => self.note_coordinator(&kind::DUPLICATE_NODE_GONE, &[]),
            _ => {}
        }
    }

    /// Records that the coordinator wants other prefixes, or that this is settled.
    pub(super) fn note_prefixes(&mut self, other: Option<&OtherPrefixes>) {
        match (&self.coordinator.other_prefixes, other) {
            (None, Some(OtherPrefixes { pinned, wanted })) => {
                self.note_coordinator(&kind::PREFIXES_REFUSED, &[Value::text(pinned), Value::text(wanted)]);
            }
            (Some(_), None) => self.note_coordinator(&kind::PREFIXES_SETTLED, &[]),
            _ => {}
        }
    }

    /// Records a problem of the state directory, once while it lasts.
    pub(super) fn note_disk(&mut self, problem: &Failure) {
        let now = clocks().now;
        let is_known = self
            .problems
            .disk
            .as_ref()
            .is_some_and(|(known, said)| known == problem && now.since(*said) < DISK_SILENCE);
        if !is_known {
            self.note(&kind::STATE_NOT_SAVED, &[Value::text(&problem.message)]);
        }
    }

    /// Records that events do not reach the disk, or that they do again.
    pub(super) fn note_log_disk(&mut self, news: LogDisk) {
        match news {
            LogDisk::Failed(reason) => self.note(&kind::LOG_NOT_WRITTEN, &[Value::Text(reason)]),
            LogDisk::Works { missing } => self.note(&kind::LOG_WRITTEN, &[Value::Number(missing)]),
            LogDisk::Replaced => self.note(&kind::LOG_REPLACED, &[]),
        }
    }

    /// Records how a `taut leave` ended.
    pub(super) fn note_left(&mut self, left: &Left) {
        let problem = left.leftover.as_ref().or(left.listed.as_ref());
        self.note_coordinator(&kind::LEAVE_DONE, &[Value::maybe(problem)]);
    }

    /// Records which peers are connected to the coordinator now, as far as that changed.
    pub(super) fn note_presence(&mut self, nodes: &[(NodeId, bool)]) {
        let (Some(map), clocks) = (&self.member.map, clocks()) else { return };
        for (id, is_online) in nodes {
            let Some(peer) = map.peers.get(id) else { continue };
            let kind = if *is_online { &kind::PEER_ONLINE } else { &kind::PEER_OFFLINE };
            self.log.record(kind, EventSource::Peer(id.0), &[Value::text(&peer.name)], clocks);
        }
    }

    /// Records the first line of this run.
    pub(super) fn note_start(&mut self, previous: Option<&'static str>) {
        let levels = Value::text(self.log.levels());
        let previous = Value::Word(previous.unwrap_or("none"));
        self.note(&kind::DAEMON_STARTED, &[Value::text(&self.config.version), previous, levels]);
    }
}

impl Names for Overlay {
    fn peer(&self, id: PeerId) -> Option<(u64, String)> {
        self.node().peer_name(id).map(|(number, name)| (number.0, String::from(name)))
    }

    fn relay(&self, id: RelayId) -> Option<String> {
        self.node().relays().find(|relay| relay.id == id).map(|relay| String::from(relay.name))
    }

    fn relay_at(&self, place: SocketAddr) -> Option<String> {
        self.node().relays().find(|relay| relay.place == Some(place)).map(|relay| String::from(relay.name))
    }
}

/// Records an event of the host's configuration.
fn note_host_event(log: &mut Log, event: HostEvent, interface: &str) {
    let count = |count: usize| Value::Number(count as u64);
    let device = || Value::text(interface);
    let number = |mtu: u16| Value::Number(u64::from(mtu));
    let (kind, values) = match event {
        HostEvent::RoutesAdded(routes, first) => (&kind::ROUTES_ADDED, vec![count(routes), Value::Text(shown(first))]),
        HostEvent::RoutesRemoved(routes, first) => {
            (&kind::ROUTES_REMOVED, vec![count(routes), Value::Text(shown(first))])
        }
        HostEvent::RouteRefused(reason) => (&kind::ROUTE_REFUSED, vec![Value::Text(reason)]),
        HostEvent::RouteTaken(address) => (&kind::ROUTE_TAKEN, vec![Value::Text(shown(address))]),
        HostEvent::RouteFreed(address) => (&kind::ROUTE_FREED, vec![Value::Text(shown(address))]),
        HostEvent::Restored(missing) => (&kind::DEVICE_RESTORED, vec![device(), Value::Text(missing)]),
        HostEvent::Contested(missing) => (&kind::DEVICE_CONTESTED, vec![device(), Value::Text(missing)]),
        HostEvent::Calm => (&kind::DEVICE_CALM, vec![device()]),
        HostEvent::Mtu(from, to) => (&kind::MTU_CHANGED, vec![device(), number(from), number(to)]),
        HostEvent::MtuTaken(from, to) => (&kind::MTU_TAKEN, vec![device(), number(from), number(to)]),
        HostEvent::MtuRefused(reason) => (&kind::MTU_REFUSED, vec![device(), Value::Text(reason)]),
        HostEvent::GuardFailed(reason) => (&kind::GUARD_FAILED, vec![Value::text(reason)]),
        HostEvent::ForwardingDropped(chains) => (&kind::FORWARDING_DROPPED, vec![Value::text(chains)]),
        HostEvent::RulesRestored => (&kind::RULES_RESTORED, vec![device()]),
        HostEvent::Ipv6(on) => (&kind::IPV6_CHANGED, vec![device(), Value::Word(if on { "on" } else { "off" })]),
    };
    log.record(kind, EventSource::Node, &values, clocks());
}
