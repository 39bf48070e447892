//! The table of flows that this node began, shared by all lanes.
//!
//! # Memory
//!
//! An entry has 16 bytes: a keyed hash of the flow, and its state in one word. Four entries are a bucket, one line of the cache. The table begins with 1,024 entries and grows by
//! doubling to [`MOST_FLOWS`], 4 MiB; a flow has a place in one bucket of each doubling. Nothing is moved, so no lane ever waits for another.
//!
//! # When it is full
//!
//! A new flow takes the place of one that has expired. If there is none, it takes the place of a flow of the same peer, or of a peer that has more than its share of the table:
//! first of one that was never answered, then of the one that was silent longest. A peer that keeps within its share loses no flow to others (law 15).

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use taut_base::{KeyedHash, PeerId, Time};
use taut_wire::ip::{ICMP, ICMPV6, TCP};

use crate::classified::{Classified, Transport, quoted_ports};
use crate::protocol::has_ports;

/// Limit on the flows of the table, 262,144: twice what a busy server has open, in 4 MiB.
pub const MOST_FLOWS: usize = (FIRST * WAYS) << (DOUBLINGS - 1);

/// Entries in a bucket.
const WAYS: usize = 4;
/// Buckets of the first part of the table, and of the second. Each later part is as large as all before it.
const FIRST: usize = 256;
/// Parts of the table.
const DOUBLINGS: usize = 9;
/// Counters of the flows of peers. Peers whose numbers are equal modulo this share one, and count as one party.
const PARTIES: usize = 1024;

/// Key of an entry that no flow has.
const FREE: u64 = 0;
/// Key of an entry that a lane is writing.
const WRITING: u64 = 1;

/// A flow: the fields that all its packets have in common, seen from this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The peer at the other end. An address may move to another peer, and its flows do not.
    pub peer: PeerId,
    /// Protocol number.
    pub protocol: u8,
    /// Address of this node.
    pub local: IpAddr,
    /// Address of the other end.
    pub remote: IpAddr,
    /// Port of this node; the identifier of an ICMP echo; 0 for other protocols.
    pub local_port: u16,
    /// Port of the other end, or 0.
    pub remote_port: u16,
}

impl FlowKey {
    /// Returns the flow that a packet to this peer belongs to. Returns `None` if the packet asks for no answer: an ICMP error, an echo reply, a fragment other than the first.
    pub fn sent(packet: &Classified, peer: PeerId) -> Option<Self> {
        let (local_port, remote_port) = match packet.transport {
            Transport::Ports { source, destination, .. } => (source, destination),
            Transport::Echo { ident, reply: false } => (ident, 0),
            Transport::Other if !matches!(packet.protocol, ICMP | ICMPV6) => (0, 0),
            _ => return None,
        };
        let Classified { source: local, destination: remote, protocol, .. } = *packet;
        Some(Self { peer, protocol, local, remote, local_port, remote_port })
    }

    /// Returns the flow that a packet of this peer would answer, or that an ICMP error is about; `None` if it can be no answer.
    pub fn received(packet: &Classified, peer: PeerId) -> Option<Self> {
        let Classified { source: remote, destination: local, protocol, .. } = *packet;
        let (local_port, remote_port) = match packet.transport {
            Transport::Ports { source, destination, .. } => (destination, source),
            Transport::Echo { ident, reply: true } => (ident, 0),
            Transport::Other if !matches!(protocol, ICMP | ICMPV6) => (0, 0),
            Transport::Error(Some(quoted)) if quoted.source == local => {
                let (local_port, remote_port) = quoted_ports(&quoted)?;
                let (protocol, remote) = (quoted.protocol, quoted.destination);
                return Some(Self { peer, protocol, local, remote, local_port, remote_port });
            }
            _ => return None,
        };
        Some(Self { peer, protocol, local, remote, local_port, remote_port })
    }
}

/// The class of a flow, which decides how long it may be silent before it is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowClass {
    /// A connection of TCP whose SYN was not answered yet.
    Opening,
    /// A connection of TCP.
    Connection,
    /// A connection of TCP after FIN or RST.
    Ending,
    /// Datagrams of UDP and SCTP.
    Datagrams,
    /// ICMP echo.
    Echo,
    /// Another protocol.
    Other,
}

impl FlowClass {
    const ALL: [Self; 6] = [Self::Opening, Self::Connection, Self::Ending, Self::Datagrams, Self::Echo, Self::Other];

    /// Returns the class of a flow by the packet that adds it.
    pub fn of(packet: &Classified) -> Self {
        match packet.transport {
            Transport::Ports { opens: true, .. } => Self::Opening,
            Transport::Ports { ends: true, .. } => Self::Ending,
            Transport::Ports { .. } if packet.protocol == TCP => Self::Connection,
            Transport::Ports { .. } => Self::Datagrams,
            Transport::Echo { .. } => Self::Echo,
            _ if has_ports(packet.protocol) => Self::Datagrams,
            _ => Self::Other,
        }
    }

    /// Seconds of silence after which the flow is forgotten. Those of TCP are the kernel's for its own connection tracking (nf_conntrack_proto_tcp.c), because people know them
    /// from every firewall; UDP keeps what RFC 4787, 4.3 recommends.
    const fn lifetime(self, answered: bool) -> u32 {
        match self {
            Self::Connection if answered => 5 * 24 * 3600,
            Self::Opening | Self::Connection | Self::Ending => 120,
            Self::Datagrams => 300,
            Self::Echo => 60,
            Self::Other => 600,
        }
    }
}

/// Result of [`FlowTable::remember`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// The flow was already in the table.
    Known,
    /// The flow was added.
    New,
    /// The table has no room for the flow: all its places belong to peers within their shares. Answers to the flow are dropped.
    NoRoom,
}

/// The table of flows that this node began.
#[derive(Debug)]
pub struct FlowTable {
    hash: KeyedHash,
    parts: [OnceLock<Box<[Bucket]>>; DOUBLINGS],
    /// Flows of each party, expired ones included until another takes their place.
    held: Box<[AtomicU32]>,
    /// Parties that have flows.
    parties: AtomicU32,
}

/// A bucket of entries, which fills one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket([Entry; WAYS]);

#[derive(Debug, Default)]
struct Entry {
    key: AtomicU64,
    state: AtomicU64,
}

/// The state of an entry, as it is stored: the peer in the upper half; below it the class, whether an answer came, and the second of the last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    peer: u32,
    class: FlowClass,
    answered: bool,
    /// The second of the last packet, in 28 bits: enough for eight years since the start of the host.
    second: u32,
}

const SECOND_BITS: u32 = 28;
const SECOND_MASK: u32 = (1 << SECOND_BITS) - 1;

impl State {
    fn pack(self) -> u64 {
        let low = (self.class as u32) << 29 | u32::from(self.answered) << SECOND_BITS | self.second & SECOND_MASK;
        u64::from(self.peer) << 32 | u64::from(low)
    }

    fn unpack(word: u64) -> Self {
        let low = (word & u64::from(u32::MAX)) as u32;
        let class = FlowClass::ALL.get((low >> 29) as usize).copied().unwrap_or(FlowClass::Other);
        Self { peer: (word >> 32) as u32, class, answered: low >> SECOND_BITS & 1 == 1, second: low & SECOND_MASK }
    }

    /// Returns the seconds since the flow's last packet.
    fn silence(self, now: u32) -> u32 {
        // A lane that began its turn earlier may be a second behind.
        (now & SECOND_MASK).saturating_sub(self.second)
    }

    fn is_expired(self, now: u32) -> bool {
        self.silence(now) > self.class.lifetime(self.answered)
    }
}

impl FlowTable {
    /// Returns an empty table. The key of its hashes is random and secret, so that no peer can choose flows that share a bucket.
    pub fn new(key: [u8; 16]) -> Self {
        Self {
            hash: KeyedHash::new(key),
            parts: Default::default(),
            held: (0..PARTIES).map(|_| AtomicU32::new(0)).collect(),
            parties: AtomicU32::new(0),
        }
    }

    /// Notes a packet of the host in a flow that it may begin: an unknown flow is added. `now` is in seconds.
    pub fn remember(&self, flow: &FlowKey, class: FlowClass, now: u32) -> Remembered {
        let key = self.key(flow);
        if let Some(entry) = self.find(key) {
            entry.sent(class, now);
            return Remembered::Known;
        }
        let state = State { peer: flow.peer.0, class, answered: false, second: now & SECOND_MASK };
        // Another lane may take the same place at the same moment.
        for _ in 0..WAYS {
            match self.place(key, flow.peer, now) {
                Some((entry, was)) if self.occupy(entry, was, key, state) => return Remembered::New,
                Some(_) => {}
                None => return Remembered::NoRoom,
            }
        }
        Remembered::NoRoom
    }

    /// Notes a packet of the host in a known flow. Returns false if the flow is unknown.
    pub fn refresh(&self, flow: &FlowKey, class: FlowClass, now: u32) -> bool {
        let found = self.find(self.key(flow)).filter(|entry| !entry.state().is_expired(now));
        if let Some(entry) = found {
            entry.sent(class, now);
        }
        found.is_some()
    }

    /// Returns true if a packet of a peer answers this flow, and notes the answer. `ends` says that it ends a connection.
    pub fn is_answer(&self, flow: &FlowKey, ends: bool, now: u32) -> bool {
        let Some(entry) = self.find(self.key(flow)) else { return false };
        let state = entry.state();
        if state.is_expired(now) {
            return false;
        }
        let class = match state.class {
            _ if ends => FlowClass::Ending,
            FlowClass::Opening => FlowClass::Connection,
            class => class,
        };
        entry.note(state, State { class, answered: true, second: now & SECOND_MASK, ..state });
        true
    }

    /// Returns true if an ICMP error about this flow may pass. An error prolongs nothing.
    pub fn is_known(&self, flow: &FlowKey, now: u32) -> bool {
        self.find(self.key(flow)).is_some_and(|entry| !entry.state().is_expired(now))
    }

    /// Returns the number of remembered flows, expired ones included until another takes their place.
    pub fn len(&self) -> usize {
        self.held.iter().map(|held| held.load(Ordering::Relaxed) as usize).sum()
    }

    /// Returns true if no flow was remembered yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory that the table has.
    pub fn bytes(&self) -> usize {
        let buckets: usize = self.parts.iter().filter_map(OnceLock::get).map(|part| part.len()).sum();
        buckets * size_of::<Bucket>() + self.held.len() * size_of::<AtomicU32>()
    }

    fn key(&self, flow: &FlowKey) -> u64 {
        self.hash.of(flow).max(WRITING + 1)
    }

    /// Returns the buckets of a flow, one in each part that exists.
    fn buckets(&self, key: u64) -> impl Iterator<Item = &Bucket> {
        self.parts.iter().map_while(OnceLock::get).filter_map(move |part| part.get(key as usize & (part.len() - 1)))
    }

    fn find(&self, key: u64) -> Option<&Entry> {
        self.buckets(key).flat_map(|bucket| &bucket.0).find(|entry| entry.key.load(Ordering::Acquire) == key)
    }

    /// Returns the entry for a new flow of this peer, with the key that it has now.
    fn place(&self, key: u64, peer: PeerId, now: u32) -> Option<(&Entry, u64)> {
        let entries = || self.buckets(key).flat_map(|bucket| &bucket.0);
        let free = entries().find_map(|entry| {
            let was = entry.key.load(Ordering::Acquire);
            (was == FREE || was != WRITING && entry.state().is_expired(now)).then_some((entry, was))
        });
        if free.is_some() {
            return free;
        }
        if let Some(next) = self.parts.iter().position(|part| part.get().is_none()) {
            let buckets = FIRST << next.saturating_sub(1);
            self.parts.get(next)?.get_or_init(|| (0..buckets).map(|_| Bucket::default()).collect());
            return self.place(key, peer, now);
        }
        let share = MOST_FLOWS as u32 / self.parties.load(Ordering::Relaxed).max(1);
        let may_go = |state: State| party(state.peer) == party(peer.0) || self.held_by(state.peer) > share;
        let candidates = entries().filter_map(|entry| {
            let was = entry.key.load(Ordering::Acquire);
            let state = entry.state();
            (was != WRITING && may_go(state)).then_some((entry, was, state))
        });
        let victim = candidates.max_by_key(|(_, _, state)| (!state.answered, state.silence(now)));
        victim.map(|(entry, was, _)| (entry, was))
    }

    /// Takes an entry that has the key `was`. Returns false if another lane was quicker.
    fn occupy(&self, entry: &Entry, was: u64, key: u64, state: State) -> bool {
        if entry.key.compare_exchange(was, WRITING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        let former = entry.state();
        entry.state.store(state.pack(), Ordering::Relaxed);
        entry.key.store(key, Ordering::Release);
        if was != FREE && self.counter(former.peer).fetch_sub(1, Ordering::Relaxed) == 1 {
            self.parties.fetch_sub(1, Ordering::Relaxed);
        }
        if self.counter(state.peer).fetch_add(1, Ordering::Relaxed) == 0 {
            self.parties.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    fn counter(&self, peer: u32) -> &AtomicU32 {
        &self.held[party(peer)]
    }

    fn held_by(&self, peer: u32) -> u32 {
        self.counter(peer).load(Ordering::Relaxed)
    }
}

impl Entry {
    fn state(&self) -> State {
        State::unpack(self.state.load(Ordering::Relaxed))
    }

    /// Notes a packet of the host.
    fn sent(&self, class: FlowClass, now: u32) {
        let state = self.state();
        let (class, answered) = match class {
            // A SYN opens a new connection on the same ports, so an earlier answer no longer counts.
            FlowClass::Opening => (class, state.answered && state.class == FlowClass::Opening),
            FlowClass::Ending => (class, state.answered),
            _ if state.is_expired(now) => (class, false),
            _ => (state.class, state.answered),
        };
        self.note(state, State { class, answered, second: now & SECOND_MASK, ..state });
    }

    /// Stores a state if it differs, so that the packets of one second cost one write.
    fn note(&self, was: State, state: State) {
        if was != state {
            self.state.store(state.pack(), Ordering::Relaxed);
        }
    }
}

/// Returns the whole seconds of a time, as the table counts them.
pub fn seconds(time: Time) -> u32 {
    u32::try_from(time.since(Time::ZERO).as_secs()).unwrap_or(u32::MAX)
}

/// Returns the counter of a peer's flows.
fn party(peer: u32) -> usize {
    peer as usize % PARTIES
}

#[cfg(test)]
mod tests;
