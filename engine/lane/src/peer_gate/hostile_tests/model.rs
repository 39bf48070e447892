//! A slow and obvious filter, as docs/internals/filter.md describes it.

use std::collections::{HashMap, VecDeque};

use taut_filter::{Filter, Rule, Target};
use taut_testkit::Seeded;

use super::made::{HERE, ICMP, Made, PEER, Part, Quoted, Upper};

/// Protocols of a rule that names none.
const USUAL: [u8; 4] = [6, 17, 1, 58];
const WITH_PORTS: [u8; 3] = [6, 17, 132];
const ALL: (u16, u16) = (0, 65_535);
/// First ephemeral port of the host.
const EPHEMERAL: u16 = 32_768;
/// Packets in fragments that a peer may have under way.
const FRAGMENTED: usize = 8;

/// A rule for packets from the peer to this host.
#[derive(Clone, Debug)]
struct Allowed {
    proto: Vec<u8>,
    ports: (u16, u16),
    six: bool,
}

/// The fields of a flow: family, host at the other end, protocol, ports here and there.
type Flow = (bool, u8, u8, u16, u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Opening,
    Connection,
    Ending,
    Datagrams,
    Echo,
    Other,
}

#[derive(Clone, Copy, Debug)]
struct State {
    class: Class,
    answered: bool,
    last: u32,
}

impl State {
    fn is_over(self, now: u32) -> bool {
        let lifetime = match self.class {
            Class::Connection if self.answered => 5 * 24 * 3600,
            Class::Opening | Class::Connection | Class::Ending => 120,
            Class::Datagrams => 300,
            Class::Echo => 60,
            Class::Other => 600,
        };
        now > self.last + lifetime
    }
}

/// What the peer may send.
#[derive(Debug)]
pub(super) struct Model {
    rules: Vec<Allowed>,
    flows: HashMap<Flow, State>,
    firsts: VecDeque<(bool, u8, u8, u32, usize)>,
}

impl Model {
    /// Returns a model with some rules, and nothing that the host began.
    pub(super) fn drawn(seeded: &mut Seeded) -> Self {
        let mut rule = || {
            let proto: &[u8] = [&[][..], &[6], &[17], &[6, 17], &[132], &[47], &[1]][seeded.index(7)];
            let ports = [(22, 22), (0, 1_023), (40_000, 65_535), ALL][seeded.index(4)];
            Allowed { proto: proto.to_vec(), ports, six: seeded.index(2) == 1 }
        };
        let all: Vec<Allowed> = (0..4).map(|_| rule()).collect();
        let rules = all.into_iter().take(seeded.index(5)).collect();
        Self { rules, flows: HashMap::new(), firsts: VecDeque::new() }
    }

    /// Returns its rules as the node gets them.
    pub(super) fn filter(&self) -> Filter {
        let host = |six: bool, last: u8| {
            let text = if six {
                format!("fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fd{last:02x}/128")
            } else {
                format!("10.0.0.{last}/32")
            };
            text.parse().unwrap()
        };
        let rule = |allowed: &Allowed| Rule {
            src: vec![host(allowed.six, PEER)],
            proto: allowed.proto.clone(),
            dst: vec![Target { prefix: host(allowed.six, HERE), ports: vec![allowed.ports] }],
        };
        Filter { rules: self.rules.iter().map(rule).collect() }
    }

    /// Returns the number of flows, also of those that are over, which keep their places.
    pub(super) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Forgets flows and fragments.
    pub(super) fn forget(&mut self) {
        self.flows.clear();
        self.firsts.clear();
    }

    fn allows(&self, six: bool, host: u8, proto: u8, port: u16) -> bool {
        let is_icmp = proto == ICMP[usize::from(six)];
        let by = |rule: &Allowed| {
            let named = if rule.proto.is_empty() { USUAL.contains(&proto) } else { rule.proto.contains(&proto) };
            let ports = if WITH_PORTS.contains(&proto) {
                (rule.ports.0..=rule.ports.1).contains(&port)
            } else {
                rule.ports == ALL
            };
            // ICMP passes between hosts that may exchange anything.
            rule.six == six && (is_icmp || named && ports)
        };
        host == PEER && self.rules.iter().any(by)
    }

    /// Returns true if the rules allow everything usual from this host.
    fn is_open(&self, six: bool, host: u8) -> bool {
        let open = |rule: &Allowed| rule.six == six && rule.proto.is_empty() && rule.ports == ALL;
        host == PEER && self.rules.iter().any(open)
    }

    /// Notes a packet of the host.
    pub(super) fn sent(&mut self, made: &Made, now: u32) {
        let (six, host, proto) = (made.six, made.remote_host, made.proto());
        if USUAL.contains(&proto) && self.is_open(six, host) {
            return;
        }
        let (flow, class, begins) = match made.upper {
            Upper::Ports { local, remote, opens, ends, .. } => {
                let class = match proto {
                    _ if opens => Class::Opening,
                    _ if ends => Class::Ending,
                    17 => Class::Datagrams,
                    _ => Class::Connection,
                };
                ((six, host, proto, local, remote), class, opens || proto == 17 || local >= EPHEMERAL)
            }
            Upper::Echo { ident, reply: false } => ((six, host, proto, ident, 0), Class::Echo, true),
            Upper::Other { .. } if !ICMP.contains(&proto) => ((six, host, proto, 0, 0), Class::Other, true),
            _ => return,
        };
        let allowed = self.allows(six, host, proto, flow.3);
        match self.flows.get_mut(&flow) {
            Some(state) if !state.is_over(now) => {
                if matches!(class, Class::Opening | Class::Ending) {
                    state.answered &= class == Class::Ending || state.class == Class::Opening;
                    state.class = class;
                }
                state.last = now;
            }
            _ if allowed || !begins => {}
            _ => _ = self.flows.insert(flow, State { class, answered: false, last: now }),
        }
    }

    /// Returns true if a packet of the peer passes, and notes what it does.
    pub(super) fn passes(&mut self, made: &Made, now: u32) -> bool {
        let (six, host, proto) = (made.six, made.remote_host, made.proto());
        if USUAL.contains(&proto) && self.is_open(six, host) {
            return true;
        }
        match made.part {
            Part::Cut => return false,
            Part::Later { ident, offset } => {
                return self.firsts.iter().any(|first| {
                    (first.0, first.1, first.2, first.3) == (six, host, proto, ident) && offset >= first.4
                });
            }
            Part::Whole | Part::First { .. } => {}
        }
        let passes = match made.upper {
            // An error with a fragment header is not believed.
            Upper::Error { quoted } => {
                return made.part == Part::Whole
                    && !made.has_fragment_header()
                    && quoted.is_some_and(|quoted| self.believes(six, quoted, now));
            }
            Upper::Ports { local, remote, opens, ends, .. } => {
                self.answers((six, host, proto, local, remote), opens, ends, now)
                    || self.allows(six, host, proto, local)
            }
            Upper::Echo { ident, reply: true } => {
                self.answers((six, host, proto, ident, 0), false, false, now) || self.allows(six, host, proto, 0)
            }
            Upper::Other { .. } if !ICMP.contains(&proto) => {
                self.answers((six, host, proto, 0, 0), false, false, now) || self.allows(six, host, proto, 0)
            }
            Upper::Echo { .. } | Upper::Other { .. } => self.allows(six, host, proto, 0),
        };
        if let (true, Part::First { ident, length }) = (passes, made.part) {
            self.firsts.truncate(FRAGMENTED - 1);
            self.firsts.push_front((six, host, proto, ident, length));
        }
        passes
    }

    fn believes(&self, six: bool, quoted: Quoted, now: u32) -> bool {
        let flow = (six, quoted.remote_host, quoted.proto, quoted.local, quoted.remote);
        self.flows.get(&flow).is_some_and(|state| !state.is_over(now))
            || self.allows(six, quoted.remote_host, quoted.proto, quoted.local)
    }

    fn answers(&mut self, flow: Flow, opens: bool, ends: bool, now: u32) -> bool {
        let Some(state) = self.flows.get_mut(&flow).filter(|state| !state.is_over(now)) else { return false };
        let class = match state.class {
            Class::Opening if opens => Class::Opening,
            _ if opens => return false,
            _ if ends => Class::Ending,
            Class::Opening => Class::Connection,
            class => class,
        };
        *state = State { class, answered: true, last: now };
        true
    }
}
