//! The packet filter at one peer of one lane: decides over each packet that the peer sends, and notes the flows that the host begins with it.
//!
//! Most packets belong to the flow of the packet before, and cost one comparison. Another flow costs a look into the table of flows that all lanes share, and, if it is not there, a
//! look at the rules for its source, which are prepared once and kept. Nothing here locks or allocates per packet.

use std::net::IpAddr;
use std::time::Duration;

use taut_base::{Bucket, PeerId, Rate, Time};
use taut_filter::{
    Answer, Classified, DEFAULT_PROTOCOLS, FlowClass, FlowKey, Gate, Refusal, Remembered, SourceRules, Transport,
    seconds,
};
use taut_wire::ip;

use crate::drops::DropReason;

/// Sources of which a peer keeps the prepared rules: its IPv4 and its IPv6 address, and two hosts behind it.
const SOURCES: usize = 4;

/// Packets in fragments of one peer that may arrive at the same time. The host sends the fragments of a packet in a row.
const FRAGMENTED: usize = 8;

/// Reports of dropped packets of one peer: one in ten seconds, after three at once.
const REPORTS: Rate = Rate::every(Duration::from_secs(10), 3);

/// The fields that all packets of a flow have in common: both addresses, the protocol and both ports. They are read without a full look at the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Glance {
    ends: (IpAddr, IpAddr),
    protocol: u8,
    ports: u32,
}

impl Glance {
    /// Returns the flow of a whole packet of TCP or UDP that neither opens nor ends a connection; `None` for any other packet, which is looked at in full.
    #[inline]
    pub(crate) fn of(packet: &ip::Packet<'_>) -> Option<Self> {
        /// Bits of FIN, SYN and RST in the flags byte of TCP.
        const CONTROL: u8 = 0x07;
        /// Offset of the flags byte in the TCP header.
        const FLAGS: usize = 13;
        if packet.is_fragment() {
            return None;
        }
        let payload = packet.payload();
        let is_plain = match packet.protocol() {
            ip::TCP => payload.get(FLAGS).is_some_and(|flags| flags & CONTROL == 0) && payload.len() >= 20,
            ip::UDP => payload.len() >= 8,
            _ => false,
        };
        let ports = payload.first_chunk::<4>().filter(|_| is_plain)?;
        let ends = (packet.source(), packet.destination());
        Some(Self { ends, protocol: packet.protocol(), ports: u32::from_be_bytes(*ports) })
    }
}

/// The first fragment of a packet that was allowed in.
#[derive(Clone, Copy, Debug)]
struct Allowed {
    ends: (IpAddr, IpAddr),
    protocol: u8,
    ident: u32,
    /// Bytes of the first fragment: no later one may overwrite them (RFC 1858).
    length: usize,
}

/// The rules for one source of the peer.
#[derive(Debug)]
struct Source {
    address: IpAddr,
    rules: SourceRules,
    /// The last destination that was asked about, and whether everything may pass to it.
    open: Option<(IpAddr, bool)>,
}

/// The state of the filter at one peer.
#[derive(Debug, Default)]
pub(crate) struct PeerGate {
    sources: Vec<Source>,
    /// The flow of the last packet in, and the second until which it needs no further look; rules hold until they change.
    allowed: Option<(Glance, u32)>,
    /// The flow of the last packet out, and the second in which it was noted.
    noted: Option<(Glance, u32)>,
    fragmented: Vec<Allowed>,
    reports: Bucket,
}

impl PeerGate {
    /// Clears all cached results of the former rules.
    pub(crate) fn rules_changed(&mut self) {
        self.sources.clear();
        (self.allowed, self.noted) = (None, None);
        self.fragmented.clear();
    }

    /// Returns true if another dropped packet of this peer may be reported.
    pub(crate) fn may_report(&mut self, now: Time) -> bool {
        self.reports.take(&REPORTS, now)
    }

    /// Notes a packet of the host to the peer, so that answers pass.
    #[inline]
    pub(crate) fn sent(&mut self, gate: &Gate, id: PeerId, packet: &ip::Packet<'_>, now: Time) {
        let (glance, second) = (Glance::of(packet), seconds(now));
        if glance.is_some() && self.noted == glance.map(|glance| (glance, second)) {
            return;
        }
        self.note(gate, id, packet, second);
        self.noted = glance.map(|glance| (glance, second));
    }

    fn note(&mut self, gate: &Gate, id: PeerId, packet: &ip::Packet<'_>, second: u32) {
        if DEFAULT_PROTOCOLS.contains(&packet.protocol())
            && self.source(gate, packet.destination()).is_open_to(packet.source())
        {
            return;
        }
        let Ok(packet) = Classified::of(packet) else { return };
        let Some(flow) = FlowKey::sent(&packet, id) else { return };
        let class = FlowClass::of(&packet);
        if gate.flows.refresh(&flow, class, second) {
            return;
        }
        // Where a rule allows the answers, they need no table.
        if self.source(gate, flow.remote).rules.allow(flow.local, flow.protocol, flow.local_port) {
            return;
        }
        if gate.services.may_begin(&packet, second) {
            // If the table has no room, the packet is sent anyway. Its answers are dropped and counted when they arrive.
            let _: Remembered = gate.flows.remember(&flow, class, second);
        }
    }

    /// Returns the reason to drop a packet of the peer; `None` if it passes. The caller has checked that the source address belongs to the peer.
    #[inline]
    pub(crate) fn refusal(
        &mut self,
        gate: &Gate,
        id: PeerId,
        packet: &ip::Packet<'_>,
        now: Time,
    ) -> Option<DropReason> {
        let (glance, second) = (Glance::of(packet), seconds(now));
        if let (Some(glance), Some((allowed, until))) = (glance, self.allowed)
            && glance == allowed
            && second <= until
        {
            return None;
        }
        match self.judge(gate, id, packet, second) {
            Ok(until) => {
                self.allowed = glance.map(|glance| (glance, until));
                None
            }
            Err(reason) => Some(reason),
        }
    }

    /// Decides whether a packet passes. Returns the second until which other packets of the flow pass without a further check.
    fn judge(&mut self, gate: &Gate, id: PeerId, packet: &ip::Packet<'_>, second: u32) -> Result<u32, DropReason> {
        /// Returned if a rule allows the packet: the result holds until the rules change.
        const AS_LONG_AS_THE_RULES: u32 = u32::MAX;
        if DEFAULT_PROTOCOLS.contains(&packet.protocol())
            && self.source(gate, packet.source()).is_open_to(packet.destination())
        {
            return Ok(AS_LONG_AS_THE_RULES);
        }
        let seen = Classified::of(packet).map_err(|refusal| match refusal {
            Refusal::TinyFragment => DropReason::PolicyFragment,
            Refusal::Malformed => DropReason::Policy,
        })?;
        let ends = (seen.source, seen.destination);
        match seen.transport {
            Transport::LaterFragment { ident, offset } => {
                let of_allowed = |first: &Allowed| {
                    (first.ends, first.protocol, first.ident) == (ends, seen.protocol, ident) && offset >= first.length
                };
                let known = self.fragmented.iter().any(of_allowed);
                return known.then_some(second).ok_or(DropReason::PolicyFragment);
            }
            Transport::Error(_) => return self.judge_error(gate, id, &seen, second),
            _ => {}
        }
        // The table of flows costs the same with any number of rules. A packet that opens a connection is hardly ever in it.
        let answer = Answer::of(&seen);
        let answers = || FlowKey::received(&seen, id).is_some_and(|flow| gate.flows.is_answer(&flow, answer, second));
        let until = if answer != Answer::Opens && answers() {
            second
        } else if self.source(gate, seen.source).rules.allow(seen.destination, seen.protocol, seen.rule_port()) {
            AS_LONG_AS_THE_RULES
        } else if answer == Answer::Opens && answers() {
            second
        } else {
            return Err(DropReason::Policy);
        };
        if let Some(part) = packet.fragment_part() {
            let first = Allowed { ends, protocol: seen.protocol, ident: part.ident, length: part.length };
            if self.fragmented.len() == FRAGMENTED {
                self.fragmented.remove(0);
            }
            self.fragmented.push(first);
        }
        Ok(until)
    }

    /// Decides over an ICMP error: it passes if it is about a packet of a flow that this node began, or that a rule allows the other end to have with this node. It opens nothing
    /// (fault G7).
    #[cold]
    fn judge_error(&mut self, gate: &Gate, id: PeerId, error: &Classified, second: u32) -> Result<u32, DropReason> {
        let flow = FlowKey::received(error, id).ok_or(DropReason::PolicyError)?;
        let known = gate.flows.is_known(&flow, second) || {
            self.source(gate, flow.remote).rules.allow(flow.local, flow.protocol, flow.local_port)
        };
        known.then_some(second).ok_or(DropReason::PolicyError)
    }

    /// Returns the rules for a source of the peer. Sources are in the order of their last use.
    fn source(&mut self, gate: &Gate, address: IpAddr) -> &mut Source {
        match self.sources.iter().position(|source| source.address == address) {
            Some(place) => self.sources[..=place].rotate_right(1),
            None => {
                self.sources.truncate(SOURCES - 1);
                self.sources.insert(0, Source { address, rules: gate.filter.for_source(address), open: None });
            }
        }
        &mut self.sources[0]
    }
}

impl Source {
    /// Returns true if everything of the usual protocols may pass from this source to this destination.
    fn is_open_to(&mut self, destination: IpAddr) -> bool {
        match self.open {
            Some((known, open)) if known == destination => open,
            _ => {
                let open = self.rules.is_open_to(destination);
                self.open = Some((destination, open));
                open
            }
        }
    }
}

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;
