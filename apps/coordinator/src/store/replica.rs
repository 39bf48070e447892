//! The interface through which a coordinator follows the other coordinators that serve the same database.

use taut_base::{NodeId, PublicKey};

use super::NetworkId;
use super::error::Answer;

/// The version in the hint of a network that was removed: no network has it.
pub(crate) const REMOVED: u64 = u64::MAX;

/// A sign that rows changed. The rows are the truth: who can send hints to the database, and nothing else, causes a few reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hint {
    /// A network may have this version now, or may be removed: [`REMOVED`].
    Network(NetworkId, u64),
    /// Nodes came or went.
    Presence,
}

/// The channel of a node, as the database has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PresenceRow {
    pub(crate) node: NodeId,
    pub(crate) network: NetworkId,
    /// The coordinator that has it; `None` if the node is offline.
    pub(crate) replica: Option<i64>,
    /// Number of the start of the node's program.
    pub(crate) run: u64,
    /// Number of the change, in the order of commits.
    pub(crate) change: i64,
}

/// A node that has a channel here, to be entered into the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) node: NodeId,
    pub(crate) network: NetworkId,
    pub(crate) run: u64,
}

/// This coordinator's link to the others.
pub(crate) trait Replica: Send {
    /// Returns the number of this coordinator.
    fn id(&self) -> i64;

    /// Connects, and listens for hints from now on.
    fn connect(&mut self) -> Answer<'_, ()>;

    /// Shows that this coordinator lives. Returns true if it was not known, or no longer: then it has to enter all its nodes.
    fn beat(&mut self) -> Answer<'_, bool>;

    /// Declares the nodes of coordinators that do not live offline.
    fn forget_dead(&mut self) -> Answer<'_, ()>;

    /// Enters nodes that have a channel here, and declares nodes offline that no longer have one. Returns the numbers of the first ones' changes, in their order.
    fn tell<'a>(&'a mut self, entered: &'a [Announced], left: &'a [NodeId]) -> Answer<'a, Vec<i64>>;

    /// Returns the rows that changed after this change, in the order of changes.
    fn presence_since(&mut self, change: i64) -> Answer<'_, Vec<PresenceRow>>;

    /// Stores what the relays with a channel here said last, as JSON, and returns what those of other coordinators said.
    fn share_relays<'a>(&'a mut self, said: &'a [(PublicKey, String)]) -> Answer<'a, Vec<(PublicKey, String)>>;

    /// Waits for hints, and returns all that have come. Fails if some may be lost. Dropping the future loses none.
    fn hints(&mut self) -> Answer<'_, Vec<Hint>>;

    /// Declares this coordinator ended. Its nodes stay online for a while, because they connect to others.
    fn leave(&mut self) -> Answer<'_, ()>;
}
