//! The table of flows that this node began, shared by all lanes.
//!
//! # Memory
//!
//! An entry has 16 bytes, 32 on 32-bit MIPS: a keyed hash of the flow, and its state in one word. Four entries are a bucket, one line of the cache. The table begins with 1,024 entries and grows by
//! doubling to [`MOST_FLOWS`], 4 MiB; a flow has a place in one bucket of each doubling, and in two of the last. Nothing is moved, and there is no lock. A lane waits for another only if both need the next
//! doubling at the same moment, and one of them allocates it: eight times in a run.
//!
//! A lane may read an entry while another gives it to a new flow. The state of an entry therefore has a part of the flow's hash (its tag), and is changed by compare-and-exchange:
//! a change that comes late finds another tag and does nothing.
//!
//! # When it is full
//!
//! A new flow takes the place of one that has expired. If there is none, it takes the place of a flow of the same peer, or of a peer that has more than its share of the table:
//! first of one that was never answered, then of the one that was silent longest. If all places belong to other peers within their shares, the one of them that was never answered
//! and was silent longest gives way. A peer that keeps within its share loses no answered flow to others (law 15).

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use taut_base::{AtomicU64, KeyedHash, PeerId, Time};
use taut_wire::ip::{ICMP, ICMPV6, UDP};

use crate::classified::{Classified, Transport, quoted_ports};

/// Limit on the flows of the table, 262,144: twice what a busy server has open, in 4 MiB (8 MiB on 32-bit MIPS).
pub const MOST_FLOWS: usize = (FIRST * WAYS) << (DOUBLINGS - 1);

/// Entries in a bucket.
const WAYS: usize = 4;
/// Buckets of the first part of the table, and of the second. Each later part is as large as all before it.
const FIRST: usize = 256;
/// Parts of the table.
const DOUBLINGS: usize = 9;
/// Counters of the flows of peers. Peers whose numbers are equal modulo this share one, and count as one party.
const PARTIES: usize = 1 << PARTY_BITS;

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
    /// A connection of TCP or an association of SCTP that was not answered yet.
    Opening,
    /// A connection of TCP or an association of SCTP.
    Connection,
    /// A connection of TCP after FIN or RST.
    Ending,
    /// Datagrams of UDP.
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
            Transport::Ports { .. } if packet.protocol == UDP => Self::Datagrams,
            Transport::Ports { .. } => Self::Connection,
            Transport::Echo { .. } => Self::Echo,
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

/// What a packet of a peer does to the flow that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It opens a connection. Such a packet is an answer only while both ends open the same connection (simultaneous open, RFC 9293, 3.5).
    Opens,
    /// It belongs to the flow.
    Continues,
    /// It ends the connection.
    Ends,
}

impl Answer {
    /// Returns what a packet does.
    pub fn of(packet: &Classified) -> Self {
        match packet.transport {
            Transport::Ports { opens: true, .. } => Self::Opens,
            Transport::Ports { ends: true, .. } => Self::Ends,
            _ => Self::Continues,
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
    /// The table has no room for the flow: all its places belong to answered flows of peers within their shares. Answers to the flow are dropped.
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

/// The state of an entry, as it is stored: tag and party in the upper half; below it the class, whether an answer came, and the second of the last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// A part of the flow's key, by which a lane notices that another flow has the entry now.
    tag: u32,
    /// Number of the counter of the peer's flows.
    party: u32,
    class: FlowClass,
    answered: bool,
    /// The second of the last packet, in 28 bits: enough for eight years since the start of the host.
    second: u32,
}

const PARTY_BITS: u32 = 10;
const TAG_BITS: u32 = u32::BITS - PARTY_BITS;
const SECOND_BITS: u32 = 28;
const SECOND_MASK: u32 = (1 << SECOND_BITS) - 1;

impl State {
    fn pack(self) -> u64 {
        let low = (self.class as u32) << 29 | u32::from(self.answered) << SECOND_BITS | self.second & SECOND_MASK;
        u64::from(self.tag << PARTY_BITS | self.party) << 32 | u64::from(low)
    }

    fn unpack(word: u64) -> Self {
        let (high, low) = ((word >> 32) as u32, (word & u64::from(u32::MAX)) as u32);
        let class = FlowClass::ALL.get((low >> 29) as usize).copied().unwrap_or(FlowClass::Other);
        let (tag, party) = (high >> PARTY_BITS, high & ((1 << PARTY_BITS) - 1));
        Self { tag, party, class, answered: low >> SECOND_BITS & 1 == 1, second: low & SECOND_MASK }
    }

    /// Returns the seconds since the flow's last packet.
    fn silence(self, now: u32) -> u32 {
        // A lane that began its turn earlier may be a second behind.
        (now & SECOND_MASK).saturating_sub(self.second)
    }

    fn is_expired(self, now: u32) -> bool {
        self.silence(now) > self.class.lifetime(self.answered)
    }

    /// Returns the state after a packet of the host.
    fn sent(self, class: FlowClass, now: u32) -> Self {
        let (class, answered) = match class {
            // A SYN or INIT opens a new connection on the same ports, so an earlier answer no longer counts.
            FlowClass::Opening => (class, self.answered && self.class == FlowClass::Opening),
            FlowClass::Ending => (class, self.answered),
            _ if self.is_expired(now) => (class, false),
            _ => (self.class, self.answered),
        };
        Self { class, answered, second: now & SECOND_MASK, ..self }
    }

    /// Returns the state after an answer; `None` if the packet is no answer.
    fn answered(self, answer: Answer, now: u32) -> Option<Self> {
        let class = match (answer, self.class) {
            // The host has not accepted the peer's SYN yet, which may come again.
            (Answer::Opens, FlowClass::Opening) => FlowClass::Opening,
            (Answer::Opens, _) => return None,
            (Answer::Ends, _) => FlowClass::Ending,
            (Answer::Continues, FlowClass::Opening) => FlowClass::Connection,
            (Answer::Continues, class) => class,
        };
        (!self.is_expired(now)).then_some(Self { class, answered: true, second: now & SECOND_MASK, ..self })
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
        if self.change(key, |state| Some(state.sent(class, now))) {
            return Remembered::Known;
        }
        let party = party(flow.peer);
        let state = State { tag: tag(key), party, class, answered: false, second: now & SECOND_MASK };
        // Another lane may take the same place at the same moment.
        for _ in 0..WAYS {
            match self.place(key, party, now) {
                Some((entry, was)) if self.occupy(entry, was, key, state) => return Remembered::New,
                Some(_) => {}
                None => return Remembered::NoRoom,
            }
        }
        Remembered::NoRoom
    }

    /// Notes a packet of the host in a known flow. Returns false if the flow is unknown.
    pub fn refresh(&self, flow: &FlowKey, class: FlowClass, now: u32) -> bool {
        self.change(self.key(flow), |state| (!state.is_expired(now)).then(|| state.sent(class, now)))
    }

    /// Returns true if a packet of a peer answers this flow, and notes the answer.
    pub fn is_answer(&self, flow: &FlowKey, answer: Answer, now: u32) -> bool {
        self.change(self.key(flow), |state| state.answered(answer, now))
    }

    /// Returns true if an ICMP error about this flow may pass. An error prolongs nothing.
    pub fn is_known(&self, flow: &FlowKey, now: u32) -> bool {
        self.change(self.key(flow), |state| (!state.is_expired(now)).then_some(state))
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

    /// Returns the buckets of a flow: one in each part that exists, and a second one in the last part, which has no next one for what finds no place.
    fn buckets(&self, key: u64) -> impl Iterator<Item = &Bucket> {
        let parts = self.parts.iter().chain(self.parts.last()).map_while(OnceLock::get);
        parts.zip(0_u32..).filter_map(move |(part, number)| part.get(place_in(key, number, part.len())))
    }

    /// Changes the state of a flow. Returns false if the flow is not in the table, or if `change` returns `None`.
    fn change(&self, key: u64, change: impl Fn(State) -> Option<State>) -> bool {
        let mut entries = self.buckets(key).flat_map(|bucket| &bucket.0);
        entries.find(|entry| entry.key.load(Ordering::Acquire) == key).is_some_and(|entry| entry.change(key, change))
    }

    /// Returns the entry for a new flow of this party, with the key that it has now.
    fn place(&self, key: u64, own: u32, now: u32) -> Option<(&Entry, u64)> {
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
            return self.place(key, own, now);
        }
        let share = MOST_FLOWS as u32 / self.parties.load(Ordering::Relaxed).max(1);
        let may_go = |state: State| state.party == own || self.counter(state.party).load(Ordering::Relaxed) > share;
        let candidates = entries().filter_map(|entry| {
            let was = entry.key.load(Ordering::Acquire);
            let state = entry.state();
            let order = (may_go(state), !state.answered, state.silence(now));
            (was != WRITING && (order.0 || order.1)).then_some((entry, was, order))
        });
        candidates.max_by_key(|(_, _, order)| *order).map(|(entry, was, _)| (entry, was))
    }

    /// Takes an entry that has the key `was`. Returns false if another lane was quicker.
    fn occupy(&self, entry: &Entry, was: u64, key: u64, state: State) -> bool {
        if entry.key.compare_exchange(was, WRITING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        let former = entry.state();
        entry.state.store(state.pack(), Ordering::Relaxed);
        entry.key.store(key, Ordering::Release);
        if was != FREE && self.counter(former.party).fetch_sub(1, Ordering::Relaxed) == 1 {
            self.parties.fetch_sub(1, Ordering::Relaxed);
        }
        if self.counter(state.party).fetch_add(1, Ordering::Relaxed) == 0 {
            self.parties.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    fn counter(&self, party: u32) -> &AtomicU32 {
        &self.held[party as usize]
    }
}

impl Entry {
    fn state(&self) -> State {
        State::unpack(self.state.load(Ordering::Relaxed))
    }

    /// Changes the state. Returns false if the entry has another flow than that of the key, or if `change` returns `None`. A state that stays costs no write, so the packets of one
    /// second cost one.
    fn change(&self, key: u64, change: impl Fn(State) -> Option<State>) -> bool {
        let next = |word: u64| {
            let state = State::unpack(word);
            change(state).filter(|_| state.tag == tag(key)).map(State::pack)
        };
        let mut word = self.state.load(Ordering::Relaxed);
        loop {
            match next(word) {
                None => return false,
                Some(next) if next == word => return true,
                Some(next) => {
                    match self.state.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                        Ok(_) => return true,
                        Err(now) => word = now,
                    }
                }
            }
        }
    }
}

/// Returns the whole seconds of a time, as the table counts them.
pub fn seconds(time: Time) -> u32 {
    u32::try_from(time.since(Time::ZERO).as_secs()).unwrap_or(u32::MAX)
}

/// Returns the number of the counter of a peer's flows.
fn party(peer: PeerId) -> u32 {
    peer.0 % PARTIES as u32
}

/// Returns the number of the bucket of a key in a part of the table. Flows that share a bucket in one part do not share one in the next: otherwise a table that is a third full would
/// have no room for some of them.
fn place_in(key: u64, part: u32, buckets: usize) -> usize {
    /// An odd number without pattern: the golden ratio, as in Fibonacci hashing (Knuth, 6.4).
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    // The upper half of a product depends on all bits of the key.
    let spread = key.wrapping_mul(SPREAD.wrapping_mul(u64::from(2 * part + 1))) >> 32;
    spread as usize & (buckets - 1)
}

/// Returns the part of a key that the state has, too.
fn tag(key: u64) -> u32 {
    (key >> (u64::BITS - TAG_BITS)) as u32
}

#[cfg(test)]
mod tests;
