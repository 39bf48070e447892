//! Rows of the database as types.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use taut_base::{NodeId, Prefix, PublicKey, RelayId};
use taut_netmap::Naming;

pub(super) use super::cells::{bytes, unsigned, version};
use super::device_rows::{Device, Grants};
use super::value::Row;
use super::{StoreError, device_rows};

/// The random number of a network, part of join tokens and of the control channel's prologue. Its text form has 32 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NetworkId(pub(crate) [u8; 16]);

impl fmt::Display for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for NetworkId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(());
        }
        u128::from_str_radix(text, 16).map(|number| Self(number.to_be_bytes())).map_err(|_| ())
    }
}

/// A network.
#[derive(Clone, Debug)]
pub(crate) struct NetworkRow {
    pub(crate) id: NetworkId,
    pub(crate) name: String,
    pub(crate) ipv4: Prefix,
    pub(crate) ipv6: Prefix,
    pub(crate) version: u64,
    /// Host number that was assigned last.
    pub(crate) cursor: u32,
    pub(crate) created_at: i64,
    /// Version at which its relays last changed.
    pub(crate) relays_version: u64,
    /// Version at which groups of its nodes' owners last changed.
    pub(crate) groups_version: u64,
    /// True if new nodes wait until an operator approves them.
    pub(crate) approval: bool,
    /// Seconds for which a membership lasts; `None` for ever. A node may have its own.
    pub(crate) key_life: Option<i64>,
    /// The names that its operator chose.
    pub(crate) naming: Naming,
    /// Version at which they last changed.
    pub(crate) names_version: u64,
}

/// A relay of a network.
///
/// The endpoints are stored as text. If somebody damaged the text, the relay has no endpoints.
#[derive(Clone, Debug)]
pub(crate) struct RelayRow {
    pub(crate) id: RelayId,
    pub(crate) name: String,
    pub(crate) key: PublicKey,
    pub(crate) endpoints: Vec<SocketAddr>,
    pub(crate) stun_port: u16,
    pub(crate) web: Option<String>,
    pub(crate) created_at: i64,
    /// True while it says that it can hardly take more nodes.
    pub(crate) busy: bool,
}

/// A relay to insert.
pub(crate) struct NewRelay {
    pub(crate) network: NetworkId,
    pub(crate) name: String,
    pub(crate) key: PublicKey,
    pub(crate) endpoints: Vec<SocketAddr>,
    pub(crate) stun_port: u16,
    pub(crate) web: Option<String>,
}

/// An enrolment key. Only a hash of its secret is stored.
#[derive(Clone, Debug)]
pub(crate) struct KeyRow {
    pub(crate) id: i64,
    pub(crate) network: NetworkId,
    pub(crate) reusable: bool,
    pub(crate) expires_at: Option<i64>,
    pub(crate) revoked_at: Option<i64>,
    pub(crate) used: u64,
    pub(crate) created_at: i64,
    pub(crate) grants: Grants,
}

/// An operator token. Only a hash of it is stored.
pub(crate) struct OperatorRow {
    pub(crate) id: i64,
    pub(crate) hash: [u8; 32],
    pub(crate) created_at: i64,
    pub(crate) revoked_at: Option<i64>,
}

/// An enrolment key to insert.
pub(crate) struct NewKey {
    pub(crate) network: NetworkId,
    pub(crate) hash: [u8; 32],
    pub(crate) reusable: bool,
    pub(crate) expires_at: Option<i64>,
    pub(crate) grants: Grants,
}

/// A node, or the mark of a removed one.
///
/// Name and endpoints are stored as text, which somebody may have damaged. The rules then treat only this node as damaged (faults E10, O9).
#[derive(Clone, Debug)]
pub(crate) struct NodeRow {
    pub(crate) id: NodeId,
    pub(crate) network: NetworkId,
    pub(crate) machine_key: PublicKey,
    pub(crate) node_key: PublicKey,
    pub(crate) name: String,
    pub(crate) ipv4: Ipv4Addr,
    pub(crate) ipv6: Ipv6Addr,
    pub(crate) endpoints: Vec<SocketAddr>,
    /// Relays that it reports to be bound to.
    pub(crate) relays: Vec<RelayId>,
    /// Version of its program, as it reports.
    pub(crate) program: String,
    pub(crate) version: u64,
    pub(crate) created_at: i64,
    pub(crate) last_seen_at: i64,
    /// Time at which its budget of key changes is full again, in seconds since 1970.
    pub(crate) keys_full_at: i64,
    pub(crate) removed: bool,
    /// Number of the enrolment key with which the node joined; `None` for a node that joined before this was stored.
    pub(crate) joined_key: Option<i64>,
    /// Prefixes behind it that it advertises, sorted.
    pub(crate) advertised: Vec<Prefix>,
    pub(crate) device: Device,
}

impl NodeRow {
    /// Returns the node's routes in force: those that it advertises and that are approved.
    pub(crate) fn routes(&self) -> Vec<Prefix> {
        self.advertised.iter().copied().filter(|route| self.device.routes.contains(route)).collect()
    }
}

/// Rows of nodes, as they were read.
pub(crate) struct NodeRows {
    /// Those that are valid.
    pub(crate) valid: Vec<NodeRow>,
    /// Members whose row is damaged (fault O9).
    pub(crate) damaged: Vec<NodeId>,
}

/// The address from which a node joined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The address, in the form of [`taut_base::network`].
    pub(crate) host: [u8; 8],
    /// The prefix of the address, in the form of [`taut_base::site`].
    pub(crate) site: [u8; 8],
}

impl Origin {
    pub(crate) fn new(address: IpAddr) -> Self {
        Self { host: taut_base::network(address), site: taut_base::site(address) }
    }
}

/// Numbers of marks of removed nodes that joined with one key: all, those from one prefix, and those from one address.
pub(crate) struct Marks {
    pub(crate) key: u64,
    pub(crate) site: u64,
    pub(crate) host: u64,
}

/// A node to insert.
pub(crate) struct NewNode {
    pub(crate) network: NetworkId,
    pub(crate) machine_key: PublicKey,
    pub(crate) node_key: PublicKey,
    pub(crate) name: String,
    pub(crate) ipv4: Ipv4Addr,
    pub(crate) ipv6: Ipv6Addr,
    pub(crate) program: String,
    pub(crate) version: u64,
    /// Number of the enrolment key with which it joins.
    pub(crate) key: i64,
    pub(crate) from: Origin,
    pub(crate) device: Device,
}

pub(super) fn network(row: &Row) -> Result<NetworkRow, StoreError> {
    let prefix = |column, is_ipv6| -> Result<Prefix, StoreError> {
        let text: String = row.get(column)?;
        let prefix: Option<Prefix> = text.parse().ok();
        prefix
            .filter(|prefix| prefix.address().is_ipv6() == is_ipv6)
            .ok_or(StoreError::Damaged("a prefix that is none"))
    };
    Ok(NetworkRow {
        id: NetworkId(bytes(row, "id")?),
        name: row.get("name")?,
        ipv4: prefix("ipv4", false)?,
        ipv6: prefix("ipv6", true)?,
        version: version(row, "version")?,
        // It only says where the search for a free address begins.
        cursor: u32::try_from(row.get::<i64>("cursor")?).unwrap_or(0),
        created_at: row.get("created_at")?,
        relays_version: version(row, "relays_version")?,
        groups_version: version(row, "groups_version")?,
        approval: row.get("approval")?,
        key_life: row.get("key_life")?,
        naming: naming(row)?,
        names_version: version(row, "names_version")?,
    })
}

/// Longest text of a network's names that is read, 256 KiB: twice what the longest names and all addresses take.
const LONGEST_NAMES: usize = 256 * 1024;

/// Reads the names that an operator chose. Damaged names are not read as none: every node would lose them.
fn naming(row: &Row) -> Result<Naming, StoreError> {
    let text: String = row.get("names")?;
    let naming = (text.len() <= LONGEST_NAMES).then(|| serde_json::from_str(&text).ok()).flatten();
    naming.ok_or(StoreError::Damaged("names that are none"))
}

pub(super) fn key(row: &Row) -> Result<KeyRow, StoreError> {
    Ok(KeyRow {
        id: row.get("id")?,
        network: NetworkId(bytes(row, "network")?),
        reusable: row.get("reusable")?,
        expires_at: row.get("expires_at")?,
        revoked_at: row.get("revoked_at")?,
        used: unsigned(row.get("used")?)?,
        created_at: row.get("created_at")?,
        grants: device_rows::grants(row)?,
    })
}

/// Longest text of a node's row that is read, 64 KiB: 16 endpoints have 1 KiB.
const LONGEST_TEXT: usize = 64 * 1024;

pub(super) fn node(row: &Row) -> Result<NodeRow, StoreError> {
    let lossy = |column| -> Result<String, StoreError> {
        let text: Vec<u8> = row.get(column)?;
        Ok(String::from_utf8_lossy(&text[..text.len().min(LONGEST_TEXT)]).into_owned())
    };
    Ok(NodeRow {
        id: NodeId(unsigned(row.get("id")?)?),
        network: NetworkId(bytes(row, "network")?),
        machine_key: PublicKey(bytes(row, "machine_key")?),
        node_key: PublicKey(bytes(row, "node_key")?),
        name: lossy("name")?,
        ipv4: Ipv4Addr::from(bytes::<4>(row, "ipv4")?),
        ipv6: Ipv6Addr::from(bytes::<16>(row, "ipv6")?),
        // Endpoints are only candidates. Without them the node is reachable after it has sent a packet.
        endpoints: serde_json::from_str(&lossy("endpoints")?).unwrap_or_default(),
        // Without relays the node is still reachable on direct paths.
        relays: serde_json::from_str(&lossy("relays")?).unwrap_or_default(),
        program: lossy("program")?,
        version: version(row, "version")?,
        created_at: row.get("created_at")?,
        last_seen_at: row.get("last_seen_at")?,
        keys_full_at: row.get("keys_full_at")?,
        removed: row.get::<Option<i64>>("removed_at")?.is_some(),
        joined_key: row.get("joined_key")?,
        advertised: device_rows::routes(row, "advertised")?,
        device: device_rows::device(row)?,
    })
}

/// Returns a damaged row of a node with zeros for what cannot be read, for its removal. `None` without its number.
pub(super) fn lossy_node(row: &Row) -> Option<NodeRow> {
    fn padded<const N: usize>(row: &Row, column: &str) -> [u8; N] {
        bytes(row, column).unwrap_or([0; N])
    }
    let number = |column| row.get::<i64>(column).unwrap_or(0);
    Some(NodeRow {
        id: NodeId(unsigned(row.get("id").ok()?).ok()?),
        network: NetworkId(padded(row, "network")),
        machine_key: PublicKey(padded(row, "machine_key")),
        node_key: PublicKey(padded(row, "node_key")),
        name: row.get("name").unwrap_or_default(),
        ipv4: Ipv4Addr::from(padded::<4>(row, "ipv4")),
        ipv6: Ipv6Addr::from(padded::<16>(row, "ipv6")),
        endpoints: Vec::new(),
        relays: Vec::new(),
        program: String::new(),
        version: 0,
        created_at: number("created_at"),
        last_seen_at: number("last_seen_at"),
        keys_full_at: 0,
        removed: false,
        joined_key: None,
        advertised: Vec::new(),
        device: Device::default(),
    })
}
