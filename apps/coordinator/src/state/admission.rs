//! Which machines are let in: members by their machine key, others by an enrolment secret.
//!
//! Each hello is judged by a read first. Only a new member and a new key need the turn to write, so that a machine that will be refused
//! costs the one writer nothing.

use std::net::IpAddr;
use std::sync::PoisonError;
use std::time::Instant;

use taut_base::{MAX_PEERS, NodeId, PrivateKey, PublicKey};
use taut_netmap::{Enrol, Hello};
use taut_noise::dh;

use super::error::KeyFault;
use super::names::free_name;
use super::{Secret, State, StateError, addresses, joins, key_changes, random, random_bits};
use crate::clock::unix_now;
use crate::log;
use crate::store::{KeyRow, MARKED, NetworkId, NetworkRow, NewNode, NodeRow, Origin, Party, Reading, Writing};

/// Longest program version that is kept, in characters; it is for the operator's eyes only.
const MAX_PROGRAM: usize = 64;

/// A node that was let in.
pub(crate) struct Admitted {
    pub(crate) node: NodeId,
    pub(crate) name: String,
}

/// Outcome of a hello.
enum Verdict {
    /// It is a member's.
    Member(NodeRow),
    /// A member has another WireGuard key now, and may. Its budget of changes is full again at that moment afterwards.
    NewKey { network: NetworkRow, row: NodeRow, full_at: i64 },
    /// It shows an enrolment key that opens the network.
    Newcomer { network: NetworkRow, key: i64 },
}

impl State {
    /// Lets a member in, makes one of a machine that shows an enrolment secret, or says why not. A member that shows a secret again
    /// (the answer to its first try was lost) is let in without using the key again.
    pub(crate) async fn admit(
        &self,
        network: NetworkId,
        machine: PublicKey,
        hello: &Hello,
        from: IpAddr,
    ) -> Result<Admitted, StateError> {
        // The agreement fails exactly for the points that everybody could compute with (fault A8).
        for key in [Some(&hello.node_key), hello.bind_key.as_ref()].into_iter().flatten() {
            dh(&PrivateKey::from_bytes(random()), key).map_err(|_| StateError::BadKey)?;
        }
        let party = self.party(network);
        let first = judge(&mut self.store.read(party).await?, network, machine, hello).await?;
        match first {
            Verdict::Member(row) => return Ok(self.welcome(row, hello)),
            Verdict::Newcomer { key, .. } => self.may_join(party, key, from).await?,
            Verdict::NewKey { .. } => {}
        }
        let mut tx = self.store.write(party).await?;
        // Judged again: what the writer reads stays true until it is written upon.
        let row = match judge(&mut tx, network, machine, hello).await? {
            Verdict::Member(row) => row,
            Verdict::NewKey { network, row, full_at } => self.change_key(tx, &network, row, hello, full_at).await?,
            Verdict::Newcomer { network, .. } => self.enrol(tx, &network, machine, hello, from).await?,
        };
        Ok(self.welcome(row, hello))
    }

    /// Returns an error if the limits of this enrolment key, or of the address within it, are used up.
    async fn may_join(&self, party: Party, key: i64, from: IpAddr) -> Result<(), StateError> {
        if !self.joins.take(key, from, Instant::now()) {
            return Err(StateError::Crowd);
        }
        let marks = self.store.read(party).await?.marks(key, &Origin::new(from), unix_now() - MARKED).await?;
        if joins::has_room(&marks) { Ok(()) } else { Err(StateError::Turnover) }
    }

    async fn enrol(
        &self,
        mut tx: Writing,
        network: &NetworkRow,
        machine: PublicKey,
        hello: &Hello,
        from: IpAddr,
    ) -> Result<NodeRow, StateError> {
        let enrol = hello.enrol.as_ref().ok_or(StateError::NotAMember)?;
        let now = unix_now();
        let key = consume_key(&mut tx, network.id, enrol, now).await?;
        let host = free_host(&mut tx, network).await?;
        tx.set_cursor(network.id, host).await?;
        let new = NewNode {
            network: network.id,
            machine_key: machine,
            node_key: hello.node_key,
            name: free_name(&mut tx, network.id, &enrol.name).await?,
            ipv4: addresses::ipv4(network.ipv4, host),
            ipv6: addresses::ipv6(network.ipv6, host),
            program: printable(&hello.version),
            version: tx.next_version(network.id, random_bits()).await?,
            key,
            from: Origin::new(from),
        };
        let row = tx.insert_node(&new, now).await?;
        tx.commit().await?;
        self.hub(network.id).announce(row.version);
        let fields: [(&str, &dyn std::fmt::Display); 5] =
            [("network", &network.name), ("node", &row.id), ("name", &row.name), ("ipv4", &row.ipv4), ("key", &key)];
        log::event("joined", &fields);
        Ok(row)
    }

    async fn change_key(
        &self,
        mut tx: Writing,
        network: &NetworkRow,
        row: NodeRow,
        hello: &Hello,
        full_at: i64,
    ) -> Result<NodeRow, StateError> {
        let version = tx.next_version(network.id, random_bits()).await?;
        tx.set_node_key(row.id, hello.node_key, full_at, version).await?;
        tx.commit().await?;
        // With tickets that do not name the node, the former key would have a place of its own at the relay.
        self.cut_key_off(network.id, row.node_key);
        self.hub(network.id).announce(version);
        log::event("node-key-changed", &[("network", &network.name), ("node", &row.id), ("name", &row.name)]);
        Ok(row)
    }

    /// A hello may say another program version each time. It is written with what is written once a minute, not at once.
    fn welcome(&self, row: NodeRow, hello: &Hello) -> Admitted {
        let program = printable(&hello.version);
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if row.program == program {
            programs.remove(&row.id);
        } else {
            programs.insert(row.id, program);
        }
        Admitted { node: row.id, name: row.name }
    }
}

async fn judge(tx: &mut Reading, network: NetworkId, machine: PublicKey, hello: &Hello) -> Result<Verdict, StateError> {
    let unknown = if hello.enrol.is_some() { StateError::Enrolment(KeyFault::Unknown) } else { StateError::NotAMember };
    let network = tx.network(network).await?.ok_or(unknown)?;
    refuse_foreign_key(tx, machine, hello.node_key).await?;
    match (tx.node_by_machine(network.id, machine).await?, &hello.enrol) {
        (Some(row), _) if row.node_key == hello.node_key => Ok(Verdict::Member(row)),
        (Some(row), _) => {
            let full_at = key_changes::take(row.keys_full_at, unix_now()).ok_or(StateError::KeyChanges)?;
            Ok(Verdict::NewKey { network, row, full_at })
        }
        (None, Some(enrol)) => {
            let key = shown_key(tx, network.id, enrol).await?;
            match fault(&key, unix_now()) {
                Some(fault) => Err(StateError::Enrolment(fault)),
                None => Ok(Verdict::Newcomer { network, key: key.id }),
            }
        }
        (None, None) => Err(StateError::NotAMember),
    }
}

/// One machine may bring its key into several networks; another machine may bring it into none (fault E6).
async fn refuse_foreign_key(tx: &mut Reading, machine: PublicKey, node_key: PublicKey) -> Result<(), StateError> {
    let owners = tx.nodes_by_node_key(node_key).await?;
    if owners.iter().any(|owner| owner.machine_key != machine) {
        return Err(StateError::KeyConflict);
    }
    Ok(())
}

/// The enrolment key whose secret a node shows.
async fn shown_key(tx: &mut Reading, network: NetworkId, enrol: &Enrol) -> Result<KeyRow, StateError> {
    let unknown = StateError::Enrolment(KeyFault::Unknown);
    let Some(secret) = Secret::from_base64url(&enrol.secret) else { return Err(unknown) };
    tx.key_by_hash(network, &secret.hash()).await?.ok_or(unknown)
}

/// Returns why an enrolment key cannot be used; `None` if it can.
fn fault(key: &KeyRow, now: i64) -> Option<KeyFault> {
    if key.revoked_at.is_some() {
        Some(KeyFault::Revoked)
    } else if !key.reusable && key.used > 0 {
        Some(KeyFault::Used)
    } else if key.expires_at.is_some_and(|end| end <= now) {
        Some(KeyFault::Expired)
    } else {
        None
    }
}

/// Uses the key once, or says what is wrong with it. Returns its number.
async fn consume_key(tx: &mut Writing, network: NetworkId, enrol: &Enrol, now: i64) -> Result<i64, StateError> {
    if let Some(secret) = Secret::from_base64url(&enrol.secret)
        && let Some(key) = tx.consume_key(network, &secret.hash(), now).await?
    {
        return Ok(key.id);
    }
    let key = shown_key(tx, network, enrol).await?;
    Err(StateError::Enrolment(fault(&key, now).unwrap_or(KeyFault::Unknown)))
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

fn printable(text: &str) -> String {
    text.chars().filter(|character| character.is_ascii_graphic() || *character == ' ').take(MAX_PROGRAM).collect()
}
