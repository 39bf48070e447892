//! What nodes do: enrol, come back, say where they are, ask for the map.

use std::net::{IpAddr, SocketAddr};

use taut_base::{MAX_PEERS, NodeId, PrivateKey, PublicKey};
use taut_netmap::{Delta, Enrol, Hello, MAX_NAME, NetworkMap, name_from_host};
use taut_noise::dh;

use super::error::KeyFault;
use super::{Secret, State, StateError, addresses, endpoints, maps, random, random_bits, relays};
use crate::clock::unix_now;
use crate::log;
use crate::store::{NetworkId, NetworkRow, NewNode, NodeRow, Reading, Writing};

/// Longest program version that is kept, in characters; it is for the operator's eyes only.
const MAX_PROGRAM: usize = 64;

/// A node that was let in.
pub(crate) struct Admitted {
    pub(crate) node: NodeId,
    pub(crate) name: String,
}

/// Where a node says that it may be reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// Interface addresses, best first.
    pub(crate) listed: Vec<SocketAddr>,
    /// Its UDP ports.
    pub(crate) ports: Vec<u16>,
    /// Where it is seen from outside: mapped ports, then what relays say.
    pub(crate) observed: Vec<SocketAddr>,
}

/// What a node is sent.
#[derive(Debug)]
pub(crate) enum Update {
    Map(NetworkMap),
    /// Empty when nothing changed.
    Delta(Delta),
}

impl State {
    /// Lets a member in, makes one of a machine that shows an enrolment secret, or says why not. A member that shows a secret again
    /// (the answer to its first try was lost) is let in without using the key again.
    pub(crate) async fn admit(
        &self,
        network: NetworkId,
        machine: PublicKey,
        hello: &Hello,
    ) -> Result<Admitted, StateError> {
        // The agreement fails exactly for the points that everybody could compute with (fault A8).
        for key in [Some(&hello.node_key), hello.bind_key.as_ref()].into_iter().flatten() {
            dh(&PrivateKey::from_bytes(random()), key).map_err(|_| StateError::BadKey)?;
        }
        let program = printable(&hello.version);
        if let Some(row) = self.store.read(self.party(network)).await?.node_by_machine(network, machine).await?
            && row.node_key == hello.node_key
            && row.program == program
        {
            return Ok(Admitted { node: row.id, name: row.name });
        }
        let mut tx = self.store.write(self.party(network)).await?;
        let Some(network) = tx.network(network).await? else {
            return Err(if hello.enrol.is_some() {
                StateError::Enrolment(KeyFault::Unknown)
            } else {
                StateError::NotAMember
            });
        };
        refuse_foreign_key(&mut tx, machine, hello.node_key).await?;
        let row = match (tx.node_by_machine(network.id, machine).await?, &hello.enrol) {
            (Some(row), _) => self.come_back(tx, &network, row, hello, &program).await?,
            (None, Some(enrol)) => self.enrol(tx, &network, machine, hello, enrol, program).await?,
            (None, None) => return Err(StateError::NotAMember),
        };
        Ok(Admitted { node: row.id, name: row.name })
    }

    async fn enrol(
        &self,
        mut tx: Writing,
        network: &NetworkRow,
        machine: PublicKey,
        hello: &Hello,
        enrol: &Enrol,
        program: String,
    ) -> Result<NodeRow, StateError> {
        let now = unix_now();
        let key = consume_key(&mut tx, network.id, &enrol.secret, now).await?;
        let host = free_host(&mut tx, network).await?;
        tx.set_cursor(network.id, host).await?;
        let new = NewNode {
            network: network.id,
            machine_key: machine,
            node_key: hello.node_key,
            name: free_name(&mut tx, network.id, &enrol.name).await?,
            ipv4: addresses::ipv4(network.ipv4, host),
            ipv6: addresses::ipv6(network.ipv6, host),
            program,
            version: tx.next_version(network.id, random_bits()).await?,
        };
        let row = tx.insert_node(&new, now).await?;
        tx.commit().await?;
        self.hub(network.id).announce(row.version);
        let fields: [(&str, &dyn std::fmt::Display); 5] =
            [("network", &network.name), ("node", &row.id), ("name", &row.name), ("ipv4", &row.ipv4), ("key", &key)];
        log::event("joined", &fields);
        Ok(row)
    }

    async fn come_back(
        &self,
        mut tx: Writing,
        network: &NetworkRow,
        row: NodeRow,
        hello: &Hello,
        program: &str,
    ) -> Result<NodeRow, StateError> {
        tx.set_program(row.id, program).await?;
        if row.node_key == hello.node_key {
            tx.commit().await?;
            return Ok(row);
        }
        let version = tx.next_version(network.id, random_bits()).await?;
        tx.set_node_key(row.id, hello.node_key, version).await?;
        tx.commit().await?;
        self.hub(network.id).announce(version);
        log::event("node-key-changed", &[("network", &network.name), ("node", &row.id), ("name", &row.name)]);
        Ok(row)
    }

    /// Takes what a node says of where it is; nobody is told when nothing changed.
    pub(crate) async fn set_endpoints(
        &self,
        network: NetworkId,
        node: NodeId,
        said: &Places,
        seen: IpAddr,
    ) -> Result<(), StateError> {
        let mut tx = self.store.write(self.party(network)).await?;
        let row = tx.node(node).await?.ok_or(StateError::NotAMember)?;
        let network = tx.network(row.network).await?.ok_or(StateError::NotAMember)?;
        let endpoints = endpoints::fit(&network, said, seen);
        if endpoints == row.endpoints {
            return Ok(());
        }
        let version = tx.next_version(network.id, random_bits()).await?;
        tx.set_endpoints(node, &endpoints, version).await?;
        tx.commit().await?;
        self.hub(network.id).announce(version);
        Ok(())
    }

    /// What a node that has version `have` is missing: changes, or the whole map when this database has not been through that version
    /// (a node without a map, one that was away for too long, or a coordinator restored from a backup). Both come from one complete
    /// read; a whole map has passed the check that the node will make (law 6).
    pub(crate) async fn update_for(&self, network: NetworkId, node: NodeId, have: u64) -> Result<Update, StateError> {
        let mut tx = self.store.read(self.party(network)).await?;
        let (network, own) = member(&mut tx, node).await?;
        if !tx.knows_version(network.id, have).await? {
            let relays = relays::of(&mut tx, &network).await?;
            return maps::whole(&network, node, &tx.nodes(network.id).await?, relays).map(Update::Map);
        }
        let changed = tx.nodes_since(network.id, have).await?;
        let relays = match network.relays_version > have {
            true => Some(relays::of(&mut tx, &network).await?),
            false => None,
        };
        maps::delta(&network, &own, have, &changed, relays).map(Update::Delta)
    }
}

pub(super) async fn member(tx: &mut Reading, node: NodeId) -> Result<(NetworkRow, NodeRow), StateError> {
    let row = tx.node(node).await?.ok_or(StateError::NotAMember)?;
    let network = tx.network(row.network).await?.ok_or(StateError::NotAMember)?;
    Ok((network, row))
}

/// One machine may bring its key into several networks; another machine may bring it into none (fault E6).
async fn refuse_foreign_key(tx: &mut Reading, machine: PublicKey, node_key: PublicKey) -> Result<(), StateError> {
    let owners = tx.nodes_by_node_key(node_key).await?;
    if owners.iter().any(|owner| owner.machine_key != machine) {
        return Err(StateError::KeyConflict);
    }
    Ok(())
}

/// Uses the key once, or says what is wrong with it. Returns its number.
async fn consume_key(tx: &mut Writing, network: NetworkId, secret: &str, now: i64) -> Result<i64, StateError> {
    let unknown = StateError::Enrolment(KeyFault::Unknown);
    let Some(secret) = Secret::from_base64url(secret) else { return Err(unknown) };
    if let Some(key) = tx.consume_key(network, &secret.hash(), now).await? {
        return Ok(key.id);
    }
    let Some(key) = tx.key_by_hash(network, &secret.hash()).await? else { return Err(unknown) };
    Err(StateError::Enrolment(match key {
        key if key.revoked_at.is_some() => KeyFault::Revoked,
        key if !key.reusable && key.used > 0 => KeyFault::Used,
        _ => KeyFault::Expired,
    }))
}

/// The next free host number. The cursor only goes forward, so that an address that was given back rests as long as possible.
async fn free_host(tx: &mut Reading, network: &NetworkRow) -> Result<u32, StateError> {
    let members = tx.count_nodes(network.id).await?;
    let room = u64::from(addresses::last_host(network.ipv4)).min(MAX_PEERS as u64);
    if members >= room {
        return Err(StateError::Full);
    }
    let mut host = addresses::next_host(network.ipv4, network.cursor);
    // Ends: fewer hosts are taken than there are.
    while tx.is_address_taken(network.id, addresses::ipv4(network.ipv4, host)).await? {
        host = addresses::next_host(network.ipv4, host);
    }
    Ok(host)
}

/// The name that the node would like, made a DNS label (fault E10) and unique.
async fn free_name(tx: &mut Reading, network: NetworkId, wish: &str) -> Result<String, StateError> {
    let mut base = name_from_host(wish);
    if is_number(&base) {
        base = name_from_host(&format!("node-{base}"));
    }
    if tx.node_by_name(network, &base).await?.is_none() {
        return Ok(base);
    }
    let taken: std::collections::BTreeSet<String> = tx.nodes(network).await?.into_iter().map(|row| row.name).collect();
    let numbered = |number: u32| {
        let tail = format!("-{number}");
        let head = &base[..base.len().min(MAX_NAME - tail.len())];
        format!("{}{tail}", head.trim_end_matches('-'))
    };
    (2..).map(numbered).find(|name| !taken.contains(name)).ok_or(StateError::Full)
}

/// A name of digits only would be mistaken for a node's number.
pub(super) fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

fn printable(text: &str) -> String {
    text.chars().filter(|character| character.is_ascii_graphic() || *character == ' ').take(MAX_PROGRAM).collect()
}
