//! The agent's commands to the control thread, and the thread's events.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use taut_base::{NodeId, Prefix, PrivateKey, PublicKey, RelayId};
use taut_netmap::{Connection, Decision, JoinToken, NetworkMap, Prefixes, Problem, Waiting};

use crate::event_log::LogDisk;

/// A command of the user or the agent.
pub enum Command {
    /// Joins the token's network, and generates keys if there are none. Implies [`Command::Up`]. A node that is a member of that network already
    /// sends the new secret with the same keys. A member of another network is refused.
    Join {
        /// The join token.
        token: Box<JoinToken>,
        /// The name that the node requests.
        name: String,
    },
    /// Asks a person to approve this node: to let it into a network of the coordinator, or to renew its membership. Implies [`Command::Up`], and generates keys
    /// if there are none.
    Ask {
        /// The coordinator; `None` for the one that this node knows.
        place: Option<Place>,
        /// The name that the node requests.
        name: String,
    },
    /// Makes another WireGuard key, and uses it once the coordinator lists it: [`ControlEvent::Identity`] follows, and before it [`ControlEvent::Refused`] if the
    /// coordinator refuses the key. Sessions go on. Does nothing unless this node is a member.
    RotateKey,
    /// Connects, now and after each restart. An attempt starts at once, whether or not one was scheduled.
    Up,
    /// Sends a goodbye and disconnects. The node stays disconnected after a restart.
    Down,
    /// Gives up the membership. The coordinator is told first, if it answers within ten seconds; then the keys are removed from the disk.
    /// [`ControlEvent::Leaving`] and [`ControlEvent::Left`] follow, or [`ControlEvent::NotLeft`]. A daemon that ends between these two events has left, too: its next start
    /// removes the remaining files.
    Leave,
    /// Handles a change of the host's addresses, routes or links, or the end of its sleep. A channel whose source address is no longer the right one is
    /// reopened, and a pending attempt starts at once.
    HostChanged,
    /// The endpoints where peers may reach this node now. They are sent to the coordinator on this and on every later channel.
    Endpoints {
        /// Interface addresses with the node's UDP ports, best first.
        endpoints: Vec<SocketAddr>,
        /// The node's UDP ports, one per lane.
        ports: Vec<u16>,
        /// The node's endpoints as seen from outside its NAT: mapped ports first, then those that relays report by STUN.
        observed: Vec<SocketAddr>,
    },
    /// Asks the coordinator whether the policy allows a connection; [`ControlEvent::Decision`] follows. Lost if no channel is open, or the coordinator is older
    /// than the question.
    Explain(Connection),
    /// The relays that this node is bound to, the nearest first. They are sent to the coordinator on this and on every later channel.
    Relays(Vec<RelayId>),
    /// The prefixes behind this node that it advertises. They are sent to the coordinator on this and on every later channel.
    Routes(Vec<Prefix>),
    /// The UDP port to use again after a restart.
    RememberPort(u16),
    /// The peers that have a session now. After a restart this node tells them that the session is gone.
    RememberPeers(Vec<PublicKey>),
    /// Pins the prefixes of the map in force, which came up on this host for the first time (fault E24).
    PinPrefixes,
    /// The user's consent to these prefixes of a map that waits ([`ControlEvent::OtherPrefixes`]).
    AcceptPrefixes(Prefixes),
    /// Upper limit, since the Unix epoch, of the stamps in this run's initiations. The next run's stamps begin at it (protocol.md 1.9).
    RememberStamps(Duration),
    /// What `taut set` keeps for the next start, in the state directory.
    RememberSettings(String),
    /// The device whose kill switch is loaded at the next boot, before the network; `None` for none.
    RememberKillSwitch(Option<String>),
}

/// A coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The coordinator's URL.
    pub url: String,
    /// The coordinator's public key, which the node pins.
    pub key: PublicKey,
}

/// An event that the control thread reports to the agent.
#[derive(Debug)]
pub enum ControlEvent {
    /// The state directory holds no membership. The thread waits for [`Command::Join`].
    NeedsJoin,
    /// This node's identity: at the start if it is a member, and after each accepted [`Command::Join`]. If the network is another one than before (this
    /// node was never admitted to the former one, or was removed from it), earlier maps are no longer valid.
    Identity(Box<MemberIdentity>),
    /// The peers that had a session when this node last ran. Comes once, before the first map.
    Recent(Vec<PublicKey>),
    /// The last limit of [`Command::RememberStamps`] in an earlier run. Comes once, before the first map.
    Stamps(Duration),
    /// What [`Command::RememberSettings`] gave last is on the disk.
    SettingsSaved,
    /// A ticket for the network's relays: the saved one at the start, before the first map, then each new one. It is valid for
    /// [`MemberIdentity::bind_key`] only, and only until another network's [`ControlEvent::Identity`] comes.
    Ticket {
        /// The ticket in version 1, as it is sent to relays.
        ticket: Vec<u8>,
        /// The ticket in version 2, if the coordinator sent it.
        numbered: Option<Vec<u8>>,
        /// Expiry in seconds since 1970, by the coordinator's clock. This host's clock may be wrong; relays refuse an expired ticket.
        expires: u64,
    },
    /// The map in force: the last good one from disk at the start, then each new checked map. If the coordinator left the address of its own relay
    /// unspecified, the map has the address by which this node reaches the coordinator.
    Map(Arc<NetworkMap>),
    /// The prefixes of the coordinator's map, if they differ from the pinned ones: the last good map stays in force until the user consents
    /// ([`Command::AcceptPrefixes`]). `None` once they agree again.
    OtherPrefixes(Option<OtherPrefixes>),
    /// The nodes that are connected to the coordinator, for display only.
    Presence {
        /// True if `nodes` lists all nodes; false if it lists only those that changed.
        whole: bool,
        /// Nodes, each with true if it is online.
        nodes: Vec<(NodeId, bool)>,
    },
    /// The coordinator accepted this node on a new channel.
    Connected {
        /// Addresses of the coordinator, that of this connection among them.
        addresses: Vec<IpAddr>,
        /// The URL in use.
        url: String,
    },
    /// No channel is open: an attempt failed, or the open channel broke. The next attempt follows automatically.
    Disconnected {
        /// Why the attempt failed or the channel broke.
        why: String,
        /// Time until the next attempt.
        retry_in: Duration,
    },
    /// The coordinator's warning that another host uses this node's keys, or `None` once no other host does. The coordinator repeats the warning on each new
    /// channel, and sends nothing on a new channel if there is no such host.
    Twin(Option<Problem>),
    /// The coordinator's message that this node takes no part in the network, and what it waits for; `None` once a map arrived.
    Waiting(Option<Waiting>),
    /// Time until this node's membership expires; `None` if it never does.
    Expiry(Option<Duration>),
    /// The coordinator's answer to [`Command::Explain`].
    Decision(Decision),
    /// A refusal, by the coordinator or by the control thread. If the problem [is final](taut_netmap::ProblemCode::is_final), it is the coordinator's, the
    /// channel is closed, and no attempt follows until the next [`Command::Join`] or [`Command::Up`]. After any other refusal of the coordinator
    /// [`ControlEvent::Disconnected`] follows. If the control thread refused a [`Command::Join`] to another network, no event follows and an open channel stays
    /// open.
    Refused(Problem),
    /// The decision to leave is on the disk: no later start finds a membership. The agent ends the overlay; [`ControlEvent::Left`] follows within seconds.
    Leaving,
    /// [`Command::Leave`] is complete: the state directory holds no membership.
    Left(Left),
    /// The disk refused the decision to leave, and the node is still a member: the reason, and how to fix it.
    NotLeft(String),
    /// A problem of the state directory, its reason, and how to fix it. The node continues. The event is repeated every half minute while the problem
    /// lasts, so a display may drop it after a minute without one.
    DiskProblem(String),
    /// The disk refused what a command needs saved first.
    NotSaved {
        /// Error for the user: what the command did not do, and the reason.
        message: String,
        /// Kind of the disk's error, such as a full disk.
        kind: std::io::ErrorKind,
    },
    /// All state is saved again after problems of the disk.
    DiskWorks,
    /// A change of the event log's state: it cannot be written, or is written again. Each change is reported once.
    Log(LogDisk),
}

/// Outcome of [`Command::Leave`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Why the coordinator may still list this node; `None` if it does not.
    pub listed: Option<String>,
    /// The files that could not be removed from the disk, and why; `None` if all were removed.
    pub leftover: Option<String>,
}

/// The prefixes in force, and those of the coordinator's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherPrefixes {
    /// The pinned prefixes, which are in force.
    pub pinned: Prefixes,
    /// The prefixes of the map that waits for consent.
    pub wanted: Prefixes,
}

/// This node's identity. It holds private keys, which `Debug` leaves out.
pub struct MemberIdentity {
    /// The private WireGuard key.
    pub node_key: PrivateKey,
    /// The coordinator's pinned key.
    pub coordinator: PublicKey,
    /// The private key with which this node binds to relays.
    pub bind_key: PrivateKey,
    /// The network's id.
    pub network: [u8; 16],
    /// The coordinator's first URL.
    pub url: String,
    /// The name that the node requested when it joined.
    pub name: String,
    /// The UDP port of the last run.
    pub port: Option<u16>,
    /// Time at which the node key was made, in seconds since 1970 by this host's clock; 0 if that is not known.
    pub key_made_at: u64,
    /// True if the user wants the node up.
    pub wanted: bool,
    /// True if the network was never up on this host: no prefixes are pinned.
    pub is_new: bool,
    /// The public machine key, by which the coordinator knows this host.
    pub machine: PublicKey,
}

impl fmt::Debug for MemberIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberIdentity")
            .field("network", &self.network)
            .field("url", &self.url)
            .field("name", &self.name)
            .field("port", &self.port)
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}
