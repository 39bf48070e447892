//! The rare work of a relay: who is bound, from where, who has opened whom. Sans-IO, and one per relay, whatever the number of its threads.
//!
//! ```text
//! bind ── Door ──▶ Pending ── first control frame ──▶ Binding ── open ──▶ Change for each thread's Forward
//!         mac1,    10 s at most                       90 s without a sign of life, or until the ticket expires
//!         cookie,
//!         ticket
//! ```
//! - **Nothing for strangers**: without a valid ticket there is silence, after mac1 and at most two Diffie-Hellman. What is answered is never answered
//!   by more than it has.
//! - **A recorded `bind` binds nobody**: a binding counts from the first control frame under its keys.
//! - **Only proof moves a client**: it is where its `bound` went, or where a nonce came back from (the file moves.rs).
//! - **One binding per member**: the later one takes the place of the former, with its channels and numbers, and the former is told (fault F10).
//! - **Channels**: an `open` makes one in both directions if the other is bound, and waits for it if not. A number is a client's own: what bears it and
//!   comes from elsewhere means nothing. A channel lasts while one of both wants it.
//!
//! All tables are bounded by [`RelayLimits`]; what strangers can make grow is [`RelayLimits::pending`] alone.

mod bindings;
mod binds;
mod channels;
mod cutoff;
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

/// The two clocks, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerClocks {
    /// Since some fixed start; all timers use it.
    pub now: Time,
    /// Since 1970, as the host believes; only for tickets.
    pub wall: Duration,
}

/// What bounds a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayLimits {
    /// Clients that are bound at the same time.
    pub clients: usize,
    /// Peers that one client has numbers for.
    pub channels: usize,
    /// Numbers that all clients have together, each channel counted once for each direction.
    pub all_channels: usize,
    /// Bindings that wait for their first control frame.
    pub pending: usize,
    /// How long a binding lasts without a sign of life: three of a client's keepalives, and some.
    pub patience: Duration,
}

impl RelayLimits {
    /// A relay's, unless told otherwise. All of it in use takes some 600 MB: 65,536 clients of 2 KB, and 1,048,576 numbers of 300 bytes here and 30 in each
    /// thread's table. 16 peers for each of so many clients is more than nodes talk to by a relay.
    pub const DEFAULT: Self = Self {
        clients: 65_536,
        channels: 4_096,
        all_channels: 1 << 20,
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
    /// Where it goes.
    pub address: ClientAddress,
    length: usize,
    bytes: [u8; Reply::MAX],
}

impl Reply {
    /// The longest: `bound`.
    const MAX: usize = if BOUND_LEN > COOKIE_LEN { BOUND_LEN } else { COOKIE_LEN };

    fn new(address: ClientAddress, frame: &[u8]) -> Self {
        let mut bytes = [0; Self::MAX];
        let length = frame.len().min(Self::MAX);
        bytes[..length].copy_from_slice(&frame[..length]);
        Self { address, length, bytes }
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A signer of tickets: the first bytes of its key's hash, as tickets name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Signer([u8; 8]);

/// A network of one signer: no coordinator can name a network into another coordinator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Scope {
    signer: Signer,
    /// Hash of the signer's whole key and of the network.
    network: [u8; 16],
}

impl Scope {
    /// Before and behind all others in order.
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

/// An identity that has one binding at a relay: a node, whatever its key; or a key, where the ticket does not name the node.
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
}

/// What an authentic bind asks for.
#[derive(Clone, Copy)]
struct Claim {
    member: Member,
    /// The node's number, if the ticket says it.
    id: Option<NodeId>,
    /// When the bind was made, by its member's own count; 0 if it does not say.
    stamp: u64,
    /// When the ticket was signed: seconds since 1970.
    signed: u64,
    /// When the ticket expires.
    expires: Time,
}

impl Claim {
    fn owner(&self) -> Owner {
        Owner::new(&self.member, self.id)
    }
}

/// The rules of one relay.
pub struct Server {
    private: PrivateKey,
    public: PublicKey,
    trusted: Vec<VerifyingKey>,
    limits: RelayLimits,
    rate_limits: RateLimits,
    /// Clients; a slot is used again once everything that named it is gone.
    slots: Vec<Option<Binding>>,
    free: Vec<u32>,
    by_index: BTreeMap<u32, u32>,
    by_member: BTreeMap<Member, u32>,
    by_node: BTreeMap<(Scope, NodeId), u32>,
    by_address: BTreeMap<ClientAddress, u32>,
    /// By network, and in the order in which they began.
    by_age: BTreeSet<(Scope, u64, u32)>,
    /// Bindings by network.
    clients: Occupancy,
    /// Bindings that have begun since the start.
    serial: u64,
    pendings: PendingBinds,
    /// Numbers that clients have for peers, by network.
    sides: Occupancy,
    /// Clients by network, and by how many numbers they have.
    busiest: BTreeSet<(Scope, usize, u32)>,
    /// Members and keys that were removed.
    cut_off: CutOffs,
    /// Who wants to reach a member, whether it is bound or not.
    wanted: BTreeMap<Member, BTreeSet<u32>>,
    /// When to look at a binding next. One entry each.
    deadlines: BTreeSet<(Time, u32)>,
    out: VecDeque<Reply>,
    changes: VecDeque<Change>,
    tally: Tally,
    /// Behaves to tickets as a relay of release 0.1.0 does.
    #[cfg(test)]
    pub(crate) is_release_0_1_0: bool,
}

impl Server {
    /// A relay with this key. It serves whom one of `trusted` signed a ticket for. `seed` is fresh randomness, for its cookies.
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

    /// The key that clients know it by.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Serves the members of another coordinator, too.
    pub fn trust(&mut self, key: VerifyingKey) {
        if !self.trusted.contains(&key) {
            self.trusted.push(key);
        }
    }

    /// What has happened so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Takes a frame that is not for [`Forward`](crate::Forward): `bind`, `control`, or data from somebody whom it does not know. `from` is the address at the
    /// other end of a stream, for the limits per address; of a datagram the place says it. Afterwards drain
    /// [`Self::poll_output`].
    ///
    /// # Errors
    /// [`Refused`] says why nothing changed; it is counted. [`Self::poll_output`] may still return an answer.
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

    /// Time has passed: what waited too long, was silent too long or has expired ends.
    pub fn handle_timeout(&mut self, now: Time) {
        self.pendings.handle_timeout(now);
        while let Some((time, slot)) = self.deadlines.first().copied().filter(|(time, _)| *time <= now) {
            self.deadlines.remove(&(time, slot));
            self.check_deadline(slot, now);
        }
    }

    /// The connection that a client was at has ended: so has its binding, if it is still there.
    pub fn handle_hangup(&mut self, address: ClientAddress) {
        if let Some(slot) = self.by_address.get(&address).copied() {
            self.end(slot);
        }
    }

    /// Returns which network the client in this slot is a member of, as a number that means nothing else; `None` where there is no such client.
    pub fn network_of(&self, slot: u32) -> Option<[u8; 16]> {
        let binding = self.slots.get(slot as usize)?.as_ref()?;
        Some(binding.member.scope.network)
    }

    /// The relay ends: all clients are told, so that they are elsewhere at once (fault F8).
    pub fn leave(&mut self) {
        for slot in 0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX) {
            self.say(slot, &ControlMessage::Leave(LeaveReason::Away));
        }
    }

    /// Sends a message to a client, to the place that it has proven. A client without a place gets nothing.
    fn say(&mut self, slot: u32, message: &ControlMessage) {
        if let Some(binding) = self.slots.get_mut(slot as usize).and_then(Option::as_mut)
            && let Some(address) = binding.address
        {
            self.out.push_back(Reply::new(address, &binding.link.seal(message)));
        }
    }

    /// Seals any 40 bytes for the client at `place`, for [`crate::fuzzing`].
    pub(crate) fn seal(&mut self, address: ClientAddress, message: &[u8; MESSAGE_LEN]) -> Option<[u8; CONTROL_LEN]> {
        let slot = self.by_address.get(&address).copied()?;
        self.binding(slot).map(|binding| binding.link.seal_bytes(message))
    }

    /// The latest version of tickets that this relay takes.
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

    /// Answers what bears `id` and comes from nobody, so that a client of a relay that was started again notices at once.
    fn tell_unbound(&mut self, address: ClientAddress, from: Option<IpAddr>, id: u32, datagram: &[u8], now: Time) {
        if self.rate_limits.may_tell(address, from, now)
            && let Some(again) = frame::again(id, datagram)
        {
            self.out.push_back(Reply::new(address, &again));
        }
    }
}

/// Returns the address that a client is told. A client of a stream is told none, because the relay may be behind a proxy that hides it.
fn seen(address: Option<ClientAddress>) -> SocketAddr {
    match address {
        Some(ClientAddress::Udp(source)) => source,
        Some(ClientAddress::Stream(_)) | None => SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
    }
}
