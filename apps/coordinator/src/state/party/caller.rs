//! The party for which a request is carried out. A task-local value, so that rules about nodes, keys and relays learn who makes a change, and in which networks
//! that party may do so, without an argument in each of their methods.

use std::sync::Arc;

use tokio::task_local;

use super::access::{Grants, Need};
use crate::store::{NetworkId, NodeRow};

task_local! {
    static CALLER: Arc<Caller>;
}

/// A party that makes requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A person with a session.
    Person {
        /// Number of the person.
        id: i64,
        /// The name with which it signs in.
        name: String,
        /// Number of the session.
        session: i64,
    },
    /// An API token.
    Token {
        /// Number of the token.
        id: i64,
        name: String,
        /// The person that owns the token; `None` for a token of the operator.
        person: Option<i64>,
    },
    /// An operator token.
    OperatorToken(i64),
    /// A command on the coordinator's host that opens the database itself.
    Command,
    /// The coordinator itself.
    Coordinator,
    /// An unauthenticated client.
    Nobody,
}

impl Actor {
    /// Returns the kind as it is spelled in the audit log.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Person { .. } => "person",
            Self::Token { .. } => "token",
            Self::OperatorToken(_) => "operator-token",
            Self::Command => "command",
            Self::Coordinator => "coordinator",
            Self::Nobody => "nobody",
        }
    }

    /// Returns the number of the person or token.
    pub(crate) fn id(&self) -> Option<i64> {
        match self {
            Self::Person { id, .. } | Self::Token { id, .. } | Self::OperatorToken(id) => Some(*id),
            Self::Command | Self::Coordinator | Self::Nobody => None,
        }
    }

    /// Returns the name for people.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Person { name, .. } | Self::Token { name, .. } => name,
            Self::OperatorToken(_) | Self::Command | Self::Coordinator | Self::Nobody => "",
        }
    }

    /// Returns the number of the person that acts, itself or by its token.
    pub(crate) fn person(&self) -> Option<i64> {
        match self {
            Self::Person { id, .. } => Some(*id),
            Self::Token { person, .. } => *person,
            _ => None,
        }
    }
}

/// The party of a request, its rights, and the address from which the request came.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) actor: Actor,
    pub(crate) grants: Grants,
    /// Rights that the request needs.
    pub(crate) need: Need,
    /// Address of the client.
    pub(crate) source: String,
    /// Id of the request.
    pub(crate) request: String,
}

impl Caller {
    /// Returns the party of a change that no request makes.
    pub(crate) fn local(actor: Actor) -> Self {
        Self { actor, grants: Grants::all(), need: Need::OWNER, source: String::new(), request: String::new() }
    }

    /// Returns the party of this task's request; the coordinator itself outside of requests.
    pub(crate) fn current() -> Arc<Self> {
        CALLER.try_with(Arc::clone).unwrap_or_else(|_| Arc::new(Self::local(Actor::Coordinator)))
    }

    /// Carries out a request for this party.
    pub(crate) async fn scope<T>(self, request: impl Future<Output = T>) -> T {
        CALLER.scope(Arc::new(self), request).await
    }

    /// Returns true if the request is allowed in this network, for all that is in it.
    pub(crate) fn is_allowed_in(&self, network: NetworkId) -> bool {
        self.is_allowed(Some(network))
    }

    /// Returns true if the request is allowed for an object of this network. An object of no network needs a role in all networks.
    pub(crate) fn is_allowed(&self, network: Option<NetworkId>) -> bool {
        self.grants.allow(self.need, network)
    }

    /// Returns the caller's login if the request is allowed in this network only for devices that belong to the caller.
    pub(crate) fn only_own(&self, network: NetworkId) -> Option<&str> {
        self.grants.own_login(self.need, network).filter(|_| !self.is_allowed_in(network))
    }

    /// Returns true if the request is allowed in this network, at least for devices of the caller.
    pub(crate) fn reaches(&self, network: NetworkId) -> bool {
        self.is_allowed_in(network) || self.only_own(network).is_some()
    }

    /// Returns true if the request is allowed for this node. A tagged node belongs to its tags and to no person.
    pub(crate) fn may_touch(&self, row: &NodeRow) -> bool {
        let owner = row.device.owner.as_deref().filter(|_| row.device.tags.is_empty());
        self.is_allowed_in(row.network) || owner.is_some() && self.only_own(row.network) == owner
    }
}
