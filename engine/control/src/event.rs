//! What the agent asks, and what it is told.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use taut_base::{NodeId, PrivateKey, PublicKey, RelayId};
use taut_netmap::{JoinToken, NetworkMap, Prefixes, Problem};

use crate::event_log::LogDisk;

/// What the user or the agent wants.
pub enum Command {
    /// Becomes a member of the token's network; the first time, keys are made. Implies [`Command::Up`]. For a node that is a member of
    /// that network already it shows the new secret with the same keys; for a member of another one it is refused.
    Join {
        /// The join token.
        token: Box<JoinToken>,
        /// The name that the node would like.
        name: String,
    },
    /// Connects, and remembers to do so after a restart. Tries at once, even when the next attempt was minutes away or none was to come.
    Up,
    /// Says goodbye, disconnects, and remembers to stay so after a restart.
    Down,
    /// Gives up the membership, and removes the keys from the disk. The coordinator is told first, if it answers within ten seconds.
    /// [`Event::Leaving`] and [`Event::Left`] follow, or [`Event::NotLeft`]. A daemon that ends in between has left, too: the rest is removed by the next
    /// start.
    Leave,
    /// The host's addresses, routes or links changed, or it slept: a channel from an address that is not the one to use any more begins anew, and whoever
    /// waits for the next attempt tries now.
    Look,
    /// Where this node may be reached now; said to the coordinator on this and on every later channel.
    Endpoints {
        /// Interface addresses with the node's UDP ports, best first.
        endpoints: Vec<SocketAddr>,
        /// The node's UDP ports, one per lane.
        ports: Vec<u16>,
        /// Where the node is seen from outside its NAT: mapped ports, then what relays' STUN says.
        observed: Vec<SocketAddr>,
    },
    /// The relays that this node is bound to, the nearest first; said to the coordinator on this and on every later channel.
    Relays(Vec<RelayId>),
    /// The UDP port to use again after a restart.
    RememberPort(u16),
    /// The peers that have a session now: after a restart they are to be told that it is gone.
    RememberPeers(Vec<PublicKey>),
    /// The map in force came up on this host for the first time: its prefixes are pinned (fault E24).
    PinPrefixes,
    /// The user consents to these prefixes, which a map that is not obeyed has ([`Event::OtherPrefixes`]).
    AcceptPrefixes(Prefixes),
    /// No initiation of this run is stamped later than this, since the Unix epoch: the next run begins there (protocol.md 1.9).
    RememberStamps(Duration),
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// The state directory holds no membership; waits for [`Command::Join`].
    NeedsJoin,
    /// Who this node is: at the start when it is a member, and after each [`Command::Join`] that was taken. When the network is another
    /// one than before (a node that had never been let in, or was removed), earlier maps count no more.
    Identity(Box<Identity>),
    /// The peers that had a session when this node last ran; comes once, before the first map.
    Recent(Vec<PublicKey>),
    /// What [`Command::RememberStamps`] said last in an earlier run; comes once, before the first map.
    Stamps(Duration),
    /// Leave to use the network's relays: the last one from disk at the start, before the first map, then each new one. It is for
    /// [`Identity::bind_key`] alone, and counts no more when another network's [`Event::Identity`] comes.
    Ticket {
        /// What a relay is shown.
        ticket: Vec<u8>,
        /// The same in version 2, if the coordinator gave it.
        numbered: Option<Vec<u8>>,
        /// When it ends: seconds since 1970, by the coordinator's clock. This host's may be wrong; relays say no when it did end.
        expires: u64,
    },
    /// The map to act upon: the last good one from disk at the start, then each new one that was checked. Where the coordinator left open
    /// by which address its own relay is reached, that by which this node reaches the coordinator stands there.
    Map(Arc<NetworkMap>),
    /// The coordinator's map has other prefixes than those that are pinned: the last good map stays in force until the user consents
    /// ([`Command::AcceptPrefixes`]). `None` when that is over.
    OtherPrefixes(Option<OtherPrefixes>),
    /// Who is connected to the coordinator; for the eyes of users.
    Presence {
        /// Whether `nodes` is everybody, or only who changed.
        whole: bool,
        /// Node and whether it is online.
        nodes: Vec<(NodeId, bool)>,
    },
    /// The coordinator took this node in.
    Connected {
        /// The URL in use.
        url: String,
    },
    /// There is no channel: an attempt failed, or the open one broke. The next attempt comes by itself.
    Disconnected {
        /// What happened and why.
        why: String,
        /// How long until the next attempt.
        retry_in: Duration,
    },
    /// Whether another host uses this node's keys, as the coordinator saw: what to tell the user, or `None` when it is over. Each new channel says it
    /// anew, and says nothing while there is none.
    Twin(Option<Problem>),
    /// Somebody said no. When the problem [is final](taut_netmap::ProblemCode::is_final), the coordinator said it, the channel is closed,
    /// and nothing more is tried until the next [`Command::Join`] or [`Command::Up`]. Otherwise the channel's state is told by other
    /// events: [`Event::Disconnected`] follows when the coordinator said it; nothing follows, and an open channel stays open, when this
    /// thread itself refused a [`Command::Join`] to another network.
    Refused(Problem),
    /// The decision to leave is on the disk: no start finds the membership any more. The agent ends the overlay; [`Event::Left`] follows within seconds.
    Leaving,
    /// [`Command::Leave`] is done: the state directory holds no membership.
    Left(Left),
    /// The disk did not take the decision to leave, and the node is a member as before: the reason, and what to do.
    NotLeft(String),
    /// The state directory has a problem: what, why, what to do. The node runs on. It is said again every half minute while it lasts,
    /// so whoever shows it may let it go after a minute of silence.
    DiskProblem(String),
    /// The event log on the disk cannot be written, or is written again. Said once each.
    Log(LogDisk),
}

/// Outcome of [`Command::Leave`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Why the coordinator may still list this node; `None` when it does not.
    pub listed: Option<String>,
    /// What could not be removed from the disk, and why; `None` when nothing is left.
    pub leftover: Option<String>,
}

/// The prefixes in force, and those that the coordinator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherPrefixes {
    /// In force, and pinned.
    pub pinned: Prefixes,
    /// Of the map that is not obeyed.
    pub wanted: Prefixes,
}

/// Who this node is. It holds a private key, which `Debug` leaves out.
pub struct Identity {
    /// The WireGuard key.
    pub node_key: PrivateKey,
    /// The coordinator's pinned key.
    pub coordinator: PublicKey,
    /// The key that this node binds to relays with.
    pub bind_key: PrivateKey,
    /// The network.
    pub network: [u8; 16],
    /// The coordinator's first URL.
    pub url: String,
    /// The name that the node asked for when it joined.
    pub name: String,
    /// The UDP port of the last run.
    pub port: Option<u16>,
    /// Whether the user wants the node up.
    pub wanted: bool,
    /// The network was never up on this host: no prefixes are pinned.
    pub is_new: bool,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("network", &self.network)
            .field("url", &self.url)
            .field("name", &self.name)
            .field("port", &self.port)
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}
