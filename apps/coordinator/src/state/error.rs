//! Failures of the rules, with messages and hints for operators and nodes.

use std::error::Error;
use std::fmt;

use taut_base::{MAX_PEERS, NodeId, Prefix, PublicKey};
use taut_netmap::{BadName, DomainFault, MAX_DOMAINS, MAX_RECORDS, MapError, RelayFault};
use taut_policy::{BadFilter, PolicyError};

use super::party::PeopleError;
use crate::store::StoreError;

/// The reason for which a request was refused. Nothing was changed.
#[derive(Debug)]
pub(crate) enum StateError {
    /// The database failed.
    Store(StoreError),
    /// The enrolment key is unknown or no longer valid.
    Enrolment(KeyFault),
    /// The machine is not a member of the network.
    NotAMember,
    /// The node key belongs to another machine.
    KeyConflict,
    /// The node key is a former one of its machine, which was revoked.
    KeyRevoked,
    /// The machine has changed its node key too often.
    KeyChanges,
    /// Nodes join with this enrolment key faster than the limit.
    Crowd,
    /// Too many nodes that joined with this enrolment key, or with it from this address, were removed recently.
    Turnover,
    /// The node key is a point of low order.
    BadKey,
    /// There is no such network.
    NoNetwork(String),
    /// There are several networks, and the request names none.
    WhichNetwork,
    /// Several networks have an object of this name, and the request names no network.
    Several {
        /// The kind of object: a node or a relay.
        what: &'static str,
        name: String,
        networks: Vec<String>,
    },
    /// There is no network at all.
    NoNetworks,
    /// The network has members, and the request does not include their removal.
    HasMembers { network: String, nodes: usize },
    /// There is a network of this name.
    NetworkExists(String),
    /// The prefix cannot be that of an overlay.
    BadPrefix(Prefix),
    /// The network has no free address for another node.
    Full,
    /// There is no such node.
    NoNode(String),
    /// There is no such enrolment key.
    NoKey(i64),
    /// There is no such operator token.
    NoOperator(i64),
    /// The operator token is the last one that is valid.
    LastOperator,
    /// There is no such relay.
    NoRelay(String),
    /// No network lists a relay with this key.
    UnknownRelay(PublicKey),
    /// The network has a relay of this name or key.
    RelayExists(String),
    /// Nodes would refuse the relay.
    BadRelay(RelayFault),
    /// The relay has neither an endpoint nor a URL.
    NoPlace,
    /// The coordinator's own relay cannot be removed by a request.
    OwnRelay,
    /// Another node has this name.
    NameTaken(String),
    /// The name is not valid for a node, a network or a relay.
    BadName(String, BadName),
    /// The expiry is not in the future, or too far in it.
    BadExpiry,
    /// The number of uses of a key is out of range.
    BadUses,
    /// The time of absence after which a node is removed is out of range.
    BadAbsence,
    /// The life of a membership is out of range.
    BadLife,
    /// A text is not a valid tag, or a node has too many tags.
    BadTag(String),
    /// The text cannot name an owner.
    BadOwner,
    /// The policy does not let this person give this tag.
    NotTagOwner(String),
    /// The person owns as many devices as it may approve for itself.
    ManyDevices,
    /// An operator approves a route that the node does not advertise.
    NotAdvertised { node: String, route: String, advertised: String },
    /// A node would have more approved routes than it may have.
    ManyRoutes { node: String, most: usize },
    /// An operator revokes a route that is not approved.
    NotApproved { node: String, route: String },
    /// Nodes would not answer for this domain or record, not even with their users' consent.
    BadDomain { domain: String, fault: DomainFault },
    /// There is no such record or domain.
    NoName(String),
    /// A network would have more records or domains than nodes use.
    ManyNames,
    /// The node takes no part in its network now.
    NoPart,
    /// There is no request with this code (any more).
    NoRequest(String),
    /// An operator denied the machine's request.
    Denied,
    /// Too many machines from one address or prefix ask to join.
    Requests,
    /// A policy cannot be read.
    BadPolicy(Box<PolicyError>),
    /// The stored policy cannot be read: a newer program wrote it, or it is damaged.
    StoredPolicy(Box<PolicyError>),
    /// Another policy is being tried on the network.
    PolicyBusy,
    /// A policy or its comment is too long.
    LongPolicy,
    /// The filter of this node would be larger than a node accepts.
    LargeFilter(String, BadFilter),
    /// Tests of a policy fail.
    PolicyTests(Vec<String>),
    /// These members are too old to enforce a policy.
    TooOld(Vec<String>),
    /// The policy in force is not the version that the author edited.
    PolicyChanged(i64),
    /// There is no such version of the policy (any more).
    NoPolicy(i64),
    /// A webhook cannot have this URL.
    BadWebhook(String),
    /// The events of a webhook are none, too many, or no actions.
    BadEvents,
    /// The network has as many webhooks as it can have.
    ManyWebhooks,
    /// There is no such webhook.
    NoWebhook(i64),
    /// The row of this node is damaged; other nodes are not affected.
    Unsound(NodeId),
    /// The coordinator panicked while it made a map.
    Panicked,
    /// Every node would refuse the map, so it is not sent.
    BadMap(MapError),
    /// A request about people, sessions, tokens or the audit log.
    People(PeopleError),
}

/// The reason for which an enrolment key cannot be used. Only a node that has the key's secret is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyFault {
    Unknown,
    Used,
    Expired,
    Revoked,
}

impl StateError {
    /// Returns what to do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Store(StoreError::Migration(_)) => {
                "start the program that last opened this database, or a newer one; or go back with `taut-coordinator restore` and a backup from before the upgrade"
            }
            Self::Store(StoreError::NoTables) => {
                "give the --database of `taut-coordinator serve`, or run `taut-coordinator serve` first"
            }
            Self::Store(StoreError::Occupied) => "nothing was changed; if none is running, try again in 20 s",
            Self::Store(StoreError::NoConnection(_)) => {
                "look at the URL of the database (--database, TAUT_DATABASE) and at its server; a running coordinator tries again by itself"
            }
            Self::Store(StoreError::SharedSchema) => {
                "run `REVOKE CREATE ON SCHEMA public FROM PUBLIC` in this database (PostgreSQL 14 needs that always), and look for functions of others with `\\df` in psql"
            }
            Self::Store(StoreError::Moved) => {
                "name the new database (--database, TAUT_DATABASE); to come back here without what changed there, stop the other one and run in this database `DELETE FROM meta WHERE name = 'moved'`, and on PostgreSQL `ALTER TABLE turns_moved RENAME TO turns`"
            }
            Self::Store(StoreError::DamagedRow(_)) => {
                "`taut-coordinator check` names each damaged row and the command that helps; other rows are not affected"
            }
            Self::Store(StoreError::OldTables) => "nothing was changed",
            Self::Store(StoreError::Uncertain) => "a list shows whether it was made",
            Self::Store(StoreError::Url(_)) => {
                "write postgres://USER:PASSWORD@HOST/DATABASE, with `?sslmode=…` and `&sslrootcert=FILE` if they are needed"
            }
            Self::Store(StoreError::Busy | StoreError::Slow) => {
                "it passes with the load that causes it: look at the processor and the disk of the database's host, and at `taut_coordinator_database_seconds` of `--metrics`"
            }
            Self::Store(StoreError::Log { .. }) => {
                "nothing was changed; changes are possible again once that program has ended: `fuser coordinator.db` in the state directory shows which it is"
            }
            Self::Store(StoreError::Directory { .. }) => {
                "give the directory to the user of the coordinator, and make room on its disk; or choose another --state"
            }
            Self::Store(StoreError::Damaged(_)) => {
                "stop the coordinator, and run `taut-coordinator check`: if it finds damages, restore the last good backup (`taut-coordinator restore`)"
            }
            Self::Store(StoreError::Database(_)) => {
                "repeating it does not help until the cause is removed: look at the disk or the server of the database"
            }
            Self::Enrolment(_) => "ask the operator for a new join token (`taut-coordinator keys create`)",
            Self::NotAMember => "join again with a join token: `taut up --join TOKEN`",
            Self::KeyConflict | Self::BadKey => {
                "make new keys on this machine: delete its state directory and join again; never copy it from another one"
            }
            Self::KeyChanges => {
                "the node tries again; one change is possible in six hours; until then start it with the keys that it had"
            }
            Self::Crowd => {
                "the node tries again; revoke the key (`taut-coordinator keys revoke`) if you do not know the nodes that are joining"
            }
            Self::Turnover => {
                "make another join token (`taut-coordinator keys create`), and revoke this one (`taut-coordinator keys revoke`) if nodes that you do not know join with it"
            }
            Self::NoNetwork(_) => "`taut-coordinator networks list` shows the networks that exist",
            Self::WhichNetwork => "name one with `--network NAME`; `taut-coordinator networks list` shows them",
            Self::Several { .. } => "name one with `--network NAME` (in the API `?network=NAME`)",
            Self::NoNetworks => "`taut-coordinator networks create NAME` makes one",
            Self::HasMembers { .. } => {
                "remove its nodes first (`taut-coordinator nodes remove`), or give `--force` (in the API `?force=true`) to remove them with it"
            }
            Self::NetworkExists(_) => "choose another name",
            Self::BadPrefix(_) => "choose a /8 to /30 of 10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12 or 192.168.0.0/16",
            Self::Full => {
                "remove nodes that are gone (`taut-coordinator nodes remove`), or make a network with a larger prefix"
            }
            Self::NoNode(_) => "`taut-coordinator nodes list` shows the nodes that exist",
            Self::NoKey(_) => "`taut-coordinator keys list` shows the keys that exist",
            Self::NoOperator(_) => "`taut-coordinator operator-token list` shows the tokens that exist",
            Self::LastOperator => {
                "make another one first: `taut-coordinator operator-token create` on the coordinator's host"
            }
            Self::NoRelay(_) => "`taut-coordinator relays list` shows the relays that exist",
            Self::UnknownRelay(_) => {
                "name it: `taut-coordinator relays add NAME KEY ENDPOINT`; until then it serves no node of this coordinator"
            }
            Self::RelayExists(_) => "choose another name; a relay that moved is removed and added again",
            Self::BadRelay(_) => {
                "give up to 8 endpoints such as 203.0.113.7:3478, none of them loopback, multicast, link-local or in the overlay"
            }
            Self::NoPlace => "give at least one endpoint, such as 203.0.113.7:3478, or `--web wss://HOST/PATH`",
            Self::OwnRelay => "start the coordinator with `serve --no-relay`",
            Self::NameTaken(_) => "choose another name, or rename the other node first",
            Self::BadName(_, BadName::Reserved | BadName::TopLevel) => "choose another name",
            Self::BadName(_, BadName::NoLabel) => {
                "use 1 to 63 lower-case letters, digits and hyphens, with no hyphen at the ends and not digits only"
            }
            Self::BadExpiry => "give a number of seconds from 1 to 10 years, or null for a key that never expires",
            Self::KeyRevoked => {
                "the state directory is an old copy: run `taut leave` and join again, or bring the present one back"
            }
            Self::BadUses => "give a number of uses from 1 to 65536, or none for a key without a limit",
            Self::BadAbsence => "give a time from 5 minutes to 30 days",
            Self::BadLife => "give a time from 1 hour to 10 years, or none for memberships that never expire",
            Self::BadTag(_) => {
                "a tag is such as `tag:web`: up to 63 lower-case letters, digits and hyphens; a node has up to 32"
            }
            Self::NotTagOwner(_) => "ask an administrator, or have `tagOwners` of the policy name you",
            Self::ManyDevices => {
                "remove devices that are not used any more, or ask an administrator to approve this one"
            }
            Self::BadOwner => "give up to 128 characters without control characters, such as ann@example.com",
            Self::NotAdvertised { .. } => {
                "run `taut set --advertise-routes PREFIX` or `--advertise-exit-node` on the node first; `taut-coordinator routes list` shows what is advertised"
            }
            Self::ManyRoutes { .. } => {
                "revoke those that are not advertised any more: `taut-coordinator routes list` shows them"
            }
            Self::NotApproved { .. } => "`taut-coordinator routes list` shows the routes that are approved",
            Self::BadDomain { fault: DomainFault::NoAddress, .. } => {
                "give 1 to 8 addresses for a record, or 1 to 3 servers for a domain, other than loopback, link-local and multicast ones"
            }
            Self::BadDomain { .. } => {
                "write a name such as printer or git.corp.example, and a domain such as corp.example"
            }
            Self::NoName(_) => "`taut-coordinator names list` shows the records and domains that exist",
            Self::ManyNames => {
                "remove records that a wildcard such as *.apps.corp.example can replace, or have a DNS server answer for their domain"
            }
            Self::NoPart => "`taut-coordinator devices list` shows why",
            Self::NoRequest(_) => {
                "run `taut up` again on the machine for a new code; `taut-coordinator devices requests` shows the codes that are valid"
            }
            Self::Denied => "ask the network's operator; the machine may ask again in 10 minutes",
            Self::Requests => {
                "wait until a person has approved or denied some of them, or 10 minutes, or join with a token"
            }
            Self::BadPolicy(_) | Self::PolicyTests(_) => {
                "the policy in force stays; `taut-coordinator policy check FILE` finds the same without a coordinator"
            }
            Self::StoredPolicy(_) => {
                "nodes keep what they have; start the program that applied the policy, or a newer one, or apply another policy"
            }
            Self::PolicyBusy => "try again in a moment",
            Self::LongPolicy | Self::LargeFilter(..) => "shorten it: groups and IP sets say the same with fewer rules",
            Self::TooOld(_) => {
                "upgrade these nodes, or give --force (in the API `\"force\": true`): until then they accept everything that their peers send"
            }
            Self::PolicyChanged(_) => {
                "look at it (`taut-coordinator policy show`), and repeat your change on top of it"
            }
            Self::NoPolicy(_) => "`taut-coordinator policy history` shows the versions that exist",
            Self::BadWebhook(_) => {
                "write https://HOST/PATH of a server at a public address; `serve --webhooks-allow-private` allows http and private addresses"
            }
            Self::BadEvents => "name up to 64 actions of the audit log, such as node-renamed, or `*` for all",
            Self::ManyWebhooks => "remove webhooks that are not used (`taut-coordinator webhooks remove`)",
            Self::NoWebhook(_) => "`taut-coordinator webhooks list` shows the webhooks that exist",
            Self::Unsound(_) => {
                "give it a good name (`taut-coordinator nodes rename ID NAME`), or remove it and join it again"
            }
            Self::Panicked => {
                "this is a defect of the coordinator; nodes keep their last good map; please report it with the lines `map-panicked` of the coordinator's log"
            }
            Self::People(error) => error.hint(),
            Self::BadMap(_) => "this is a defect of the coordinator; nodes keep their last good map; please report it",
        }
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => fmt::Display::fmt(error, f),
            Self::Enrolment(fault) => f.write_str(match fault {
                KeyFault::Unknown => "the enrolment key of this join token does not exist in this network",
                KeyFault::Used => "the enrolment key of this join token is for one node, and a node has used it",
                KeyFault::Expired => "the enrolment key of this join token has expired",
                KeyFault::Revoked => "the enrolment key of this join token was revoked",
            }),
            Self::NotAMember => f.write_str("this machine is not a member of the network (any more)"),
            Self::KeyConflict => f.write_str("the node's WireGuard key is in use by another machine"),
            Self::KeyRevoked => f.write_str("this WireGuard key was revoked when its machine got another one"),
            Self::KeyChanges => f.write_str("this machine has changed its WireGuard key too often"),
            Self::Crowd => f.write_str("too many nodes join with the enrolment key of this join token at this moment"),
            Self::Turnover => f.write_str(
                "too many nodes that joined with the enrolment key of this join token have left or were removed in the last three days",
            ),
            Self::BadKey => {
                f.write_str("the node's WireGuard key is a point of low order, with which nothing can be kept secret")
            }
            Self::NoNetwork(name) => write!(f, "there is no network `{name}`"),
            Self::WhichNetwork => f.write_str("there are several networks, and the request names none"),
            Self::Several { what, name, networks } => {
                write!(f, "there is a {what} `{name}` in several networks: {}", networks.join(", "))
            }
            Self::NoNetworks => f.write_str("this coordinator has no network"),
            Self::HasMembers { network, nodes } => write!(f, "the network `{network}` has members: {nodes}"),
            Self::NetworkExists(name) => write!(f, "there already is a network `{name}`"),
            Self::BadPrefix(prefix) => {
                write!(f, "{prefix} cannot be the prefix of an overlay: it covers foreign addresses or has no room")
            }
            Self::Full => write!(f, "the network is full: no address is free, or it has {MAX_PEERS} nodes"),
            Self::NoNode(name) => write!(f, "there is no node `{name}`"),
            Self::NoKey(id) => write!(f, "there is no enrolment key {id}"),
            Self::NoOperator(id) => write!(f, "there is no operator token {id}"),
            Self::LastOperator => f.write_str(
                "this is the last operator token that is valid; without it nobody could use this API any more",
            ),
            Self::NoRelay(name) => write!(f, "there is no relay `{name}`"),
            Self::UnknownRelay(key) => write!(f, "no network lists a relay with the key {key}"),
            Self::RelayExists(name) => write!(f, "there already is a relay `{name}`, or one with its key"),
            Self::BadRelay(fault) => write!(f, "nodes would refuse this relay: {fault}"),
            Self::NoPlace => f.write_str("no node could reach this relay"),
            Self::OwnRelay => f.write_str("this is the coordinator's own relay"),
            Self::NameTaken(name) => write!(f, "a node has the name `{name}` already"),
            Self::BadName(name, BadName::NoLabel) => write!(f, "{name:?} cannot be a name"),
            Self::BadName(name, BadName::Reserved) => write!(
                f,
                "the name `{name}` is reserved: hosts and programs look it up for a purpose of their own, such as this host itself or a proxy; choose another one"
            ),
            Self::BadName(name, BadName::TopLevel) => {
                write!(f, "`{name}` is a top-level domain: nodes of such a network would have names of Internet hosts")
            }
            Self::BadExpiry => f.write_str("the expiry is not in the future, or too far in it"),
            Self::BadUses => f.write_str("the number of uses is not positive, or too large"),
            Self::BadAbsence => f.write_str("the time of absence after which a node is removed is too short or too long"),
            Self::BadLife => f.write_str("the time after which a membership expires is too short or too long"),
            Self::BadTag(tag) => write!(f, "{tag:?} cannot be a tag, or there are too many tags"),
            Self::NotTagOwner(tag) => write!(f, "the policy does not let you give the tag {tag}"),
            Self::ManyDevices => f.write_str("you own as many devices as one person may approve for itself"),
            Self::ManyRoutes { node, most } => write!(f, "{node} would have more than {most} approved routes"),
            Self::BadOwner => f.write_str("this cannot be the name of an owner"),
            Self::NotAdvertised { node, route, advertised } if advertised.is_empty() => {
                write!(f, "node `{node}` does not advertise {route}, or any other route")
            }
            Self::NotAdvertised { node, route, advertised } => {
                write!(f, "node `{node}` does not advertise {route}; it advertises {advertised}")
            }
            Self::NotApproved { node, route } => write!(f, "the route {route} of node `{node}` is not approved"),
            Self::BadDomain { domain, fault } => write!(f, "nodes would not answer for {domain:?}: {fault}"),
            Self::NoName(name) => write!(f, "there is no record or domain `{name}`"),
            Self::ManyNames => write!(f, "a network has up to {MAX_RECORDS} records and {MAX_DOMAINS} domains"),
            Self::NoPart => f.write_str("this node takes no part in its network now"),
            Self::NoRequest(code) => write!(f, "no machine waits for its approval with the code {code:?}"),
            Self::Denied => f.write_str("an operator denied the request of this machine"),
            Self::Requests => f.write_str("too many machines at this address, or near it, wait for their approval"),
            Self::BadPolicy(error) => f.write_str(&place(error)),
            Self::StoredPolicy(error) => write!(f, "the network's policy cannot be read: {}", place(error)),
            Self::PolicyBusy => f.write_str("another policy is being tried on this network"),
            Self::LongPolicy => f.write_str("a policy has up to 512 KiB, and a comment up to 500 characters"),
            Self::LargeFilter(node, bad) => write!(f, "the filter of node `{node}` would be too large: {bad}"),
            Self::PolicyTests(failures) => {
                write!(f, "tests of the policy fail: {}", failures.join("; "))
            }
            Self::TooOld(names) => write!(f, "these nodes are too old to enforce a policy: {}", names.join(", ")),
            Self::PolicyChanged(number) => write!(f, "version {number} of the policy is in force meanwhile"),
            Self::NoPolicy(number) => write!(f, "there is no version {number} of the policy"),
            Self::BadWebhook(why) => write!(f, "a webhook cannot have this URL: {why}"),
            Self::BadEvents => f.write_str("these cannot be the events of a webhook"),
            Self::ManyWebhooks => f.write_str("this network has 16 webhooks, as many as it can have"),
            Self::NoWebhook(id) => write!(f, "there is no webhook {id}"),
            Self::Unsound(id) => write!(f, "the coordinator's entry for node {id} is damaged"),
            Self::Panicked => f.write_str("the coordinator cannot make this map: it failed while it tried"),
            Self::People(error) => fmt::Display::fmt(error, f),
            Self::BadMap(refusal) => write!(f, "no map is sent because every node would refuse it: {refusal}"),
        }
    }
}

/// Returns a mistake in a policy with its place.
fn place(error: &PolicyError) -> String {
    let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("line {}, column {}: {}{hint}", error.line, error.column, error.message)
}

impl Error for StateError {}

impl From<StoreError> for StateError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<PeopleError> for StateError {
    fn from(error: PeopleError) -> Self {
        Self::People(error)
    }
}

impl StateError {
    pub(crate) fn bad_name(name: &str) -> impl FnOnce(BadName) -> Self {
        move |why| Self::BadName(String::from(name), why)
    }
}
