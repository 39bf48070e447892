//! A parsed policy: everything that its text says, checked, and not yet applied to nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use taut_base::Prefix;

use crate::selector::Selector;

/// A parsed policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `groups`: logins by the group's name with `group:`.
    pub groups: BTreeMap<String, Vec<String>>,
    /// `tagOwners`: who may give a tag to a node, by the tag with `tag:`.
    pub tag_owners: BTreeMap<String, Vec<Selector>>,
    /// `hosts`: addresses by name.
    pub hosts: BTreeMap<String, Prefix>,
    /// `ipsets`: steps by the set's name with `ipset:`.
    pub ipsets: BTreeMap<String, Vec<IpSetStep>>,
    /// The rules of `acls`, then those of `grants`.
    pub rules: Vec<PolicyRule>,
    /// `autoApprovers.routes`: whose nodes may advertise a prefix, or a part of it, without approval.
    pub route_approvers: Vec<(Prefix, Vec<Selector>)>,
    /// `autoApprovers.exitNode`: whose nodes may be exit nodes without approval.
    pub exit_approvers: Vec<Selector>,
    /// `tests`.
    pub tests: Vec<PolicyTest>,
}

/// One step of an IP set. Steps are taken in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpSetStep {
    /// True: the target's addresses are added. False: they are removed.
    pub add: bool,
    /// The addresses.
    pub target: IpSetTarget,
}

/// The addresses that a step of an IP set adds or removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IpSetTarget {
    /// An address or a prefix.
    Prefix(Prefix),
    /// `FIRST-LAST`: both ends and all between them.
    Range(IpAddr, IpAddr),
    /// `host:NAME`: a name of `hosts`, without `host:`.
    Host(String),
    /// `ipset:NAME`: another set, the whole word.
    Set(String),
    /// `autogroup:internet`
    Internet,
}

/// A rule of `acls` or `grants`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// Place of the rule in the text.
    pub origin: Origin,
    /// The sources; the rule is for each of them.
    pub src: Vec<Selector>,
    /// Destinations and services that the sources may reach.
    pub access: Vec<Access>,
}

/// Place of a rule in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// `acls` or `grants`.
    pub section: &'static str,
    /// The number of the rule in its section, from 1.
    pub number: usize,
    /// The line where the rule starts, from 1.
    pub line: u32,
}

/// Destinations, and the services that are open at each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The destinations.
    pub dst: Vec<Selector>,
    /// The services.
    pub services: Vec<Service>,
}

/// A protocol and its ports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service {
    /// The protocol number. `None`: [`DEFAULT_PROTOCOLS`](crate::DEFAULT_PROTOCOLS).
    pub proto: Option<u8>,
    /// Port ranges, first and last included.
    pub ports: Vec<(u16, u16)>,
}

/// An entry of `tests`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyTest {
    /// The line where the entry starts.
    pub line: u32,
    /// The source.
    pub src: Selector,
    /// The protocol. `None`: TCP or UDP.
    pub proto: Option<u8>,
    /// Connections that must be allowed.
    pub accept: Vec<TestTarget>,
    /// Connections that must not be allowed.
    pub deny: Vec<TestTarget>,
}

/// A destination of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestTarget {
    /// The line.
    pub line: u32,
    /// The host.
    pub dst: Selector,
    /// The port; 0 for a protocol without ports.
    pub port: u16,
}
