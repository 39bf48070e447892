//! The rare work of a relay: bindings, addresses and channels of clients. Sans-IO; a relay has one, whatever the number of its threads.
//!
//! ```text
//! bind ── RateLimits ──▶ PendingBind ── first control frame ──▶ Binding ── open ──▶ Change for each thread's Forward
//!         mac1,          10 s at most                     90 s after the last frame, or until the ticket expires
//!         cookie,
//!         ticket
//! ```
//! - **No reply to unauthenticated senders**: a bind without a valid ticket is dropped, after the check of mac1 and at most two Diffie-Hellman
//!   operations. No answer is longer than the frame that it answers.
//! - **A recorded `bind` binds no client**: a binding begins with the first control frame under its keys.
//! - **Only proof moves a client**: its address is the one that its `bound` went to, or one that returned a nonce (the file moves.rs). The same holds for each of
//!   its lanes beyond the first (the file lanes.rs).
//! - **One binding per member**: a later one replaces the former one and takes over its channels and numbers. The former client is told (fault F10).
//! - **Channels**: an `open` makes a channel in both directions if the peer is bound, and waits for the peer otherwise. A number is valid only in frames
//!   from the client that it belongs to. A channel lasts while one of its two clients wants it.
//!
//! All tables are bounded by [`RelayLimits`]. Unauthenticated senders can fill only the table of pending binds ([`RelayLimits::pending`]).

mod bindings;
mod binds;
mod channels;
mod cutoff;
mod lanes;
mod moves;
mod occupancy;
mod pendings;
mod rate_limits;
mod tally;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use taut_base::{Entropy, NodeId, PrivateKey, PublicKey, Time};
use taut_noise::{hash, public_key};
use taut_tunnel::handshake::Identity;

use crate::change::{Change, ClientAddress};
use crate::control::{ControlMessage, LeaveReason};
use crate::frame::{self, BOUND_LEN, CONTROL_LEN, COOKIE_LEN, Frame, MESSAGE_LEN};
use crate::ticket::{LATEST_VERSION, NetworkTag, VerifyingKey};
use bindings::Binding;
use cutoff::CutOffs;
pub use cutoff::Removal;
use occupancy::Occupancy;
use pendings::PendingBinds;
use rate_limits::RateLimits;
pub use tally::{Refused, Tally};

/// The two clocks of a relay, read at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerClocks {
    /// Monotonic time, used by all timers.
    pub now: Time,
    /// The host's wall clock, as time since 1970; used for tickets only.
    pub wall: Duration,
}

/// Bounds of a relay's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayLimits {
    /// Maximum number of bound clients.
    pub clients: usize,
    /// Maximum number of peers that one client has numbers for.
    pub channels: usize,
    /// Maximum number of numbers of all clients; a channel counts twice, once for each direction.
    pub all_channels: usize,
    /// Maximum number of addresses of all clients for lanes beyond the first; a client has 15 at most. With 0, clients have one lane.
    pub lanes: usize,
    /// Maximum number of binds that wait for their first control frame.
    pub pending: usize,
    /// Time after the last frame of a client until its binding ends: three of its keepalives and some seconds.
    pub patience: Duration,
}

impl RelayLimits {
    /// The default bounds. Full tables take about 600 MB: 65,536 clients of 2 KB, and 1,048,576 numbers of 300 bytes here and 30 bytes in each thread's
    /// table. That is 16 peers per client, more than nodes reach through a relay. Lanes take 40 MB more, and 12 MB in each thread's table: as many as clients, because
    /// few nodes carry so much through a relay that they need any.
    pub const DEFAULT: Self = Self {
        clients: 65_536,
        channels: 4_096,
        all_channels: 1 << 20,
        lanes: 65_536,
        pending: 1_024,
        patience: Duration::from_secs(90),
    };
}

/// An output of a [`Server`].
#[derive(Clone, Copy)]
pub enum ServerOutput {
    /// A change for the [`Forward`](crate::Forward) of every thread. Changes come before replies, so that data which a client sends after a reply is forwarded.
    Change(Change),
    /// A frame to be sent to a client.
    Reply(Reply),
}

/// A frame for a client, stored inline.
#[derive(Clone, Copy)]
pub struct Reply {
    /// Address of the client.
    pub address: ClientAddress,
    length: usize,
    bytes: [u8; Reply::MAX],
}

impl Reply {
    /// Bytes of the longest reply, `bound`.
    const MAX: usize = if BOUND_LEN > COOKIE_LEN { BOUND_LEN } else { COOKIE_LEN };

    fn new(address: ClientAddress, frame: &[u8]) -> Self {
        let mut bytes = [0; Self::MAX];
        let length = frame.len().min(Self::MAX);
        bytes[..length].copy_from_slice(&frame[..length]);
        Self { address, length, bytes }
    }

    /// Returns the bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A signer of tickets: the first bytes of the hash of its key, by which tickets name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Signer([u8; 8]);

/// A network of one signer, so that no coordinator can issue tickets for another coordinator's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Scope {
    signer: Signer,
    /// Hash over the signer's whole key and the network's tag.
    network: [u8; 16],
}

impl Scope {
    /// The lowest and the highest value in the order of the tables.
    const FIRST: Self = Self { signer: Signer([0; 8]), network: [0; 16] };
    const LAST: Self = Self { signer: Signer([0xff; 8]), network: [0xff; 16] };
}

/// A node in a network, as a ticket names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    scope: Scope,
    node: PublicKey,
}

impl Member {
    fn new(signer: &VerifyingKey, network: NetworkTag, node: PublicKey) -> Self {
        let mut scope = Scope { signer: Signer(signer.hint()), network: [0; 16] };
        scope.network.copy_from_slice(&hash(&[&signer.0, &network.0])[..16]);
        Self { scope, node }
    }
}

/// An identity that has at most one binding at a relay: a node, or its key if the ticket does not name the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Owner {
    Node(Scope, NodeId),
    Key(Scope, PublicKey),
}

impl Owner {
    fn new(member: &Member, id: Option<NodeId>) -> Self {
        match id {
            Some(id) => Self::Node(member.scope, id),
            None => Self::Key(member.scope, member.node),
        }
    }

    fn scope(&self) -> Scope {
        match self {
            Self::Node(scope, _) | Self::Key(scope, _) => *scope,
        }
    }
}

/// The contents of an authentic bind.
#[derive(Clone, Copy)]
struct Claim {
    member: Member,
    /// The node's number, if the ticket has it.
    id: Option<NodeId>,
    /// The member's own stamp of the bind, which only rises; 0 if the bind has none.
    stamp: u64,
    /// Time at which the ticket was signed, in seconds since 1970.
    signed: u64,
    /// Time at which the ticket expires.
    expires: Time,
}

impl Claim {
    fn owner(&self) -> Owner {
        Owner::new(&self.member, self.id)
    }
}

/// A lane of a client; 0 is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    slot: u32,
    lane: u8,
}

/// The rules of one relay.
pub struct Server {
    private: PrivateKey,
    public: PublicKey,
    trusted: Vec<VerifyingKey>,
    limits: RelayLimits,
    rate_limits: RateLimits,
    /// Clients by slot. A slot is reused when its client has gone.
    slots: Vec<Option<Binding>>,
    free: Vec<u32>,
    by_index: BTreeMap<u32, u32>,
    by_member: BTreeMap<Member, u32>,
    by_node: BTreeMap<(Scope, NodeId), u32>,
    by_address: BTreeMap<ClientAddress, Holder>,
    /// Number of lanes beyond the first of each network.
    lanes: Occupancy,
    /// Lanes beyond the first, by network.
    by_lane: BTreeSet<(Scope, u32, u8)>,
    /// Bindings by network and by age.
    by_age: BTreeSet<(Scope, u64, u32)>,
    /// Number of bindings of each network.
    clients: Occupancy,
    /// Number of bindings that have begun since the start.
    serial: u64,
    pendings: PendingBinds,
    /// Number of channel numbers of each network.
    sides: Occupancy,
    /// Clients by network and by their number of channel numbers.
    busiest: BTreeSet<(Scope, usize, u32)>,
    /// Members and keys that the coordinator removed.
    cut_off: CutOffs,
    /// Slots of the clients that want to reach a member, bound or not.
    wanted: BTreeMap<Member, BTreeSet<u32>>,
    /// Time of the next check of each binding.
    deadlines: BTreeSet<(Time, u32)>,
    out: VecDeque<Reply>,
    changes: VecDeque<Change>,
    tally: Tally,
    /// Handles tickets as release 0.1.0 does.
    #[cfg(test)]
    pub(crate) is_release_0_1_0: bool,
}

impl Server {
    /// Returns a relay with this key. It serves members with a ticket signed by one of `trusted`. `seed` is fresh randomness for cookies.
    pub fn new(private: PrivateKey, trusted: Vec<VerifyingKey>, limits: RelayLimits, seed: [u8; 32]) -> Self {
        let identity = Identity::new(private.clone());
        Self {
            public: public_key(&private),
            private,
            trusted,
            limits,
            rate_limits: RateLimits::new(identity.checker(seed)),
            slots: Vec::new(),
            free: Vec::new(),
            by_index: BTreeMap::new(),
            by_member: BTreeMap::new(),
            by_node: BTreeMap::new(),
            by_address: BTreeMap::new(),
            lanes: Occupancy::default(),
            by_lane: BTreeSet::new(),
            by_age: BTreeSet::new(),
            clients: Occupancy::default(),
            serial: 0,
            pendings: PendingBinds::new(limits.pending),
            sides: Occupancy::default(),
            busiest: BTreeSet::new(),
            cut_off: CutOffs::default(),
            wanted: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            out: VecDeque::new(),
            changes: VecDeque::new(),
            tally: Tally::default(),
            #[cfg(test)]
            is_release_0_1_0: false,
        }
    }

    /// Returns the public key, by which clients know the relay.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Serves the members of this coordinator, too.
    pub fn trust(&mut self, key: VerifyingKey) {
        if !self.trusted.contains(&key) {
            self.trusted.push(key);
        }
    }

    /// Returns the counters.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Takes a frame that [`Forward`](crate::Forward) does not handle: `bind`, `control`, or data from an unknown sender. `from` is the IP address at the other
    /// end of a stream, for the limits per address; for a datagram `address` has it. Afterwards drain
    /// [`Self::poll_output`].
    ///
    /// # Errors
    /// [`Refused`] is the reason why nothing changed. It is counted. [`Self::poll_output`] may still return an answer.
    pub fn handle_frame(
        &mut self,
        address: ClientAddress,
        from: Option<IpAddr>,
        datagram: &[u8],
        clocks: ServerClocks,
        entropy: &mut impl Entropy,
    ) -> Result<(), Refused> {
        let outcome = match frame::parse(datagram) {
            Ok(Frame::Bind(bind)) => self.handle_bind(address, from, bind, clocks, entropy),
            Ok(Frame::Control(control)) => self.handle_control(address, from, control, clocks.now, entropy),
            Ok(Frame::Data { id, .. }) => {
                self.tell_unbound(address, from, id, datagram, clocks.now);
                Err(Refused::Unbound)
            }
            _ => Err(Refused::NotAFrame),
        };
        if let Err(refused) = &outcome {
            *self.tally.counter(refused) += 1;
        }
        outcome
    }

    /// Returns the next output. Call it until it returns `None` after each method that changes the server: changes come before replies.
    pub fn poll_output(&mut self) -> Option<ServerOutput> {
        let change = self.changes.pop_front().map(ServerOutput::Change);
        change.or_else(|| self.out.pop_front().map(ServerOutput::Reply))
    }

    /// Returns the time at which [`Self::handle_timeout`] has work to do: at once while [`Self::poll_output`] has an output.
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.changes.is_empty() || !self.out.is_empty() {
            return Some(Time::ZERO);
        }
        let deadline = self.deadlines.first().map(|(time, _)| *time);
        [self.pendings.poll_timeout(), deadline].into_iter().flatten().min()
    }

    /// Ends pending binds that waited too long, and bindings that were silent too long or whose tickets expired.
    pub fn handle_timeout(&mut self, now: Time) {
        self.pendings.handle_timeout(now);
        while let Some((time, slot)) = self.deadlines.first().copied().filter(|(time, _)| *time <= now) {
            self.deadlines.remove(&(time, slot));
            self.check_deadline(slot, now);
        }
    }

    /// Ends the binding of the client at this address, whose connection has closed.
    pub fn handle_hangup(&mut self, address: ClientAddress) {
        if let Some(Holder { slot, lane: 0 }) = self.by_address.get(&address).copied() {
            self.end(slot);
        }
    }

    /// Returns an opaque identifier of the network of the client in this slot; `None` if there is no such client.
    pub fn network_of(&self, slot: u32) -> Option<[u8; 16]> {
        let binding = self.slots.get(slot as usize)?.as_ref()?;
        Some(binding.member.scope.network)
    }

    /// Tells all clients that the relay stops, so that they use another relay at once (fault F8).
    pub fn leave(&mut self) {
        for slot in 0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX) {
            self.say(slot, &ControlMessage::Leave(LeaveReason::Away));
        }
    }

    /// Sends a message to the address that a client has proven. A client without an address gets nothing.
    fn say(&mut self, slot: u32, message: &ControlMessage) {
        if let Some(binding) = self.slots.get_mut(slot as usize).and_then(Option::as_mut)
            && let Some(address) = binding.address
        {
            self.out.push_back(Reply::new(address, &binding.link.seal(message)));
        }
    }

    /// Seals any 40 bytes for the client at `address`, for [`crate::fuzzing`].
    pub(crate) fn seal(&mut self, address: ClientAddress, message: &[u8; MESSAGE_LEN]) -> Option<[u8; CONTROL_LEN]> {
        let slot = self.by_address.get(&address)?.slot;
        self.binding(slot).map(|binding| binding.link.seal_bytes(message))
    }

    /// Returns the latest version of tickets that this relay accepts.
    fn tickets(&self) -> u8 {
        #[cfg(test)]
        if self.is_release_0_1_0 {
            return 0;
        }
        LATEST_VERSION
    }

    fn binding(&mut self, slot: u32) -> Option<&mut Binding> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Tells the sender of a frame with `id` that it is not bound, so that clients of a restarted relay notice at once.
    fn tell_unbound(&mut self, address: ClientAddress, from: Option<IpAddr>, id: u32, datagram: &[u8], now: Time) {
        if self.rate_limits.may_tell(address, from, now)
            && let Some(again) = frame::again(id, datagram)
        {
            self.out.push_back(Reply::new(address, &again));
        }
    }
}

/// Returns the address that a client is told. For a stream it is unspecified, because a proxy in front of the relay may hide the client's address.
fn seen(address: Option<ClientAddress>) -> SocketAddr {
    match address {
        Some(ClientAddress::Udp(source)) => source,
        Some(ClientAddress::Stream(_)) | None => SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
    }
}
