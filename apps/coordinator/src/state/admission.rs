//! Admission of machines: members by their machine key, new ones by an enrolment secret.
//!
//! A read transaction checks each hello first. Only a new member or a new key needs a write transaction, so a machine that is refused does not occupy the one
//! writer.

use std::net::IpAddr;
use std::sync::PoisonError;
use std::time::Instant;

use taut_base::{MAX_PEERS, NodeId, PrivateKey, PublicKey};
use taut_netmap::{Enrol, Hello};
use taut_noise::dh;
use taut_relay_server::log::MEMBERSHIP;

use super::error::KeyFault;
use super::names::free_name;
use super::{Secret, State, StateError, addresses, device_rules, joins, key_changes, random, random_bits};
use crate::clock::unix_now;
use crate::log;
use crate::store::{Device, KeyRow, MARKED, NetworkId, NetworkRow, NewNode, NodeRow, Origin, Party, Reading, Writing};

/// Longest stored program version, 64 characters. Only operators read it.
const MAX_PROGRAM: usize = 64;

/// An admitted node.
pub(crate) struct Admitted {
    pub(crate) node: NodeId,
    pub(crate) name: String,
}

/// Result of the check of a hello.
enum HelloResult {
    /// The machine is a member.
    Member(NodeRow),
    /// The machine is a member with another, permitted WireGuard key. `full_at` is the time at which its budget of key changes is full again.
    NewKey { network: NetworkRow, row: NodeRow, full_at: i64 },
    /// The machine is a member, and has a valid enrolment key that renews or approves its membership.
    Renewal { network: NetworkRow, row: NodeRow, key: KeyRow },
    /// The machine has a valid enrolment key.
    Newcomer { network: NetworkRow, key: i64 },
}

impl State {
    /// Admits a member, or a new machine that has an enrolment secret. A member that sends a secret again, because the answer to its first attempt was lost, is
    /// admitted without using the key again.
    pub(crate) async fn admit(
        &self,
        network: NetworkId,
        machine: PublicKey,
        hello: &Hello,
        from: IpAddr,
    ) -> Result<Admitted, StateError> {
        // The key agreement fails exactly for points of low order, whose result every observer could compute (fault A8).
        for key in [Some(&hello.node_key), hello.bind_key.as_ref()].into_iter().flatten() {
            dh(&PrivateKey::from_bytes(random()), key).map_err(|_| StateError::BadKey)?;
        }
        let party = self.party(network);
        let first = match self.look_up(party, network, machine, hello).await {
            Err(StateError::Store(error)) if self.may_remember(&error) => {
                return self.remember(network, machine, hello).ok_or(StateError::Store(error));
            }
            other => other?,
        };
        match first {
            // The node's absence is no longer counted, so that the node is not removed before its first map (fault N12).
            HelloResult::Member(row) if row.device.absent.is_some() => {}
            HelloResult::Member(row) => return Ok(self.welcome(row, hello)),
            HelloResult::Newcomer { key, .. } => self.may_join(party, key, from).await?,
            HelloResult::Renewal { key, .. } => self.may_join(party, key.id, from).await?,
            HelloResult::NewKey { .. } => {}
        }
        let mut tx = self.store.write(party).await?;
        // Checked again, because only what the writer reads stays true until it writes.
        let row = match check_hello(&mut tx, network, machine, hello).await? {
            HelloResult::Member(row) => {
                tx.set_absent(row.id, None).await?;
                tx.commit().await?;
                row
            }
            HelloResult::Renewal { network, row, .. } => self.renew(tx, &network, row, hello).await?,
            HelloResult::NewKey { network, row, full_at } => {
                self.change_key(tx, &network, row, hello, (full_at, from)).await?
            }
            HelloResult::Newcomer { network, .. } => self.enrol(tx, &network, machine, hello, from).await?,
        };
        Ok(self.welcome(row, hello))
    }

    async fn look_up(
        &self,
        party: Party,
        network: NetworkId,
        machine: PublicKey,
        hello: &Hello,
    ) -> Result<HelloResult, StateError> {
        check_hello(&mut self.store.read(party).await?, network, machine, hello).await
    }

    /// Returns the member that this machine is by the network's rows in memory, for a database that does not answer (fault O6). All that this coordinator changed is
    /// in them, and what others changed up to a moment before the database went silent.
    fn remember(&self, network: NetworkId, machine: PublicKey, hello: &Hello) -> Option<Admitted> {
        let row = self.remembered_view(network)?.member(machine)?.clone();
        (row.node_key == hello.node_key).then(|| self.welcome(row, hello))
    }

    /// Returns an error if the limits of this enrolment key, or of the address for this key, are used up.
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
        let KeyRow { id: key, grants, .. } = consume_key(&mut tx, network.id, enrol, now).await?;
        let device = Device {
            approved: grants.approves || !network.approval,
            tags: grants.tags,
            owner: grants.owner,
            ephemeral: grants.ephemeral,
            ..Device::default()
        };
        let device = Device { expires_at: device_rules::end(network, &device, now), ..device };
        let host = take_host(&mut tx, network, machine).await?;
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
            device,
        };
        let row = tx.insert_node(&new, now).await?;
        tx.commit().await?;
        self.hub(network.id).announce(row.version);
        self.figures.joined.add(1);
        let (node, ipv4) = (row.id.0, row.ipv4);
        let network = &network.name;
        tracing::info!(target: log::MEMBERS, limited = MEMBERSHIP, event = "joined", network, node, name = row.name, %ipv4, key, address = %from);
        Ok(row)
    }

    /// Renews a membership by an enrolment key. The node keeps its number, name and addresses.
    async fn renew(
        &self,
        mut tx: Writing,
        network: &NetworkRow,
        row: NodeRow,
        hello: &Hello,
    ) -> Result<NodeRow, StateError> {
        let enrol = hello.enrol.as_ref().ok_or(StateError::NotAMember)?;
        let now = unix_now();
        let key = consume_key(&mut tx, network.id, enrol, now).await?;
        let is_approved = row.device.approved || key.grants.approves;
        let after = Device { approved: is_approved, ..device_rules::approved(network, &row.device, now) };
        let version = tx.next_version(network.id, random_bits()).await?;
        tx.set_device(row.id, (&row.device, &after), version, now).await?;
        tx.set_joined_key(row.id, key.id).await?;
        tx.set_absent(row.id, None).await?;
        tx.commit().await?;
        let before = row.device;
        let row = NodeRow { device: after, version, ..NodeRow { device: Device::default(), ..row } };
        self.announce_device(network, &row, &before, version);
        Ok(row)
    }

    async fn change_key(
        &self,
        mut tx: Writing,
        network: &NetworkRow,
        row: NodeRow,
        hello: &Hello,
        (full_at, from): (i64, IpAddr),
    ) -> Result<NodeRow, StateError> {
        let version = tx.next_version(network.id, random_bits()).await?;
        tx.set_node_key(row.id, hello.node_key, full_at, version, unix_now()).await?;
        tx.commit().await?;
        // With tickets that do not name the node, the former key would keep a place of its own at the relay.
        self.cut_key_off(network.id, row.node_key);
        self.hub(network.id).announce(version);
        let (network, node) = (&network.name, row.id.0);
        tracing::info!(target: log::MEMBERS, limited = MEMBERSHIP, event = "node-key-changed", network, node, name = row.name, address = %from);
        Ok(row)
    }

    /// Notes the program version of an admitted node. It is stored once a minute, because each hello may report another one.
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

async fn check_hello(
    tx: &mut Reading,
    network: NetworkId,
    machine: PublicKey,
    hello: &Hello,
) -> Result<HelloResult, StateError> {
    let unknown = if hello.enrol.is_some() { StateError::Enrolment(KeyFault::Unknown) } else { StateError::NotAMember };
    let network = tx.network(network).await?.ok_or(unknown)?;
    refuse_foreign_key(tx, network.id, machine, hello.node_key).await?;
    match (tx.node_by_machine(network.id, machine).await?, &hello.enrol) {
        (Some(row), Some(enrol)) if row.node_key == hello.node_key && may_renew(&row) => {
            let key = match shown_key(tx, network.id, enrol).await {
                Ok(key) => key,
                Err(StateError::Enrolment(_)) if !row.device.expired => return Ok(HelloResult::Member(row)),
                Err(error) => return Err(error),
            };
            let renews = row.device.approved || key.grants.approves;
            // The node used this key before, and may not have received the answer: its second attempt does not count as a use.
            let is_repeated = row.joined_key == Some(key.id) && !row.device.expired;
            match fault(&key, unix_now()) {
                Some(fault) if row.device.expired => Err(StateError::Enrolment(fault)),
                None if renews && !is_repeated => Ok(HelloResult::Renewal { network, row, key }),
                _ => Ok(HelloResult::Member(row)),
            }
        }
        (Some(row), _) if row.node_key == hello.node_key => Ok(HelloResult::Member(row)),
        (Some(_), _) if tx.is_former_key(network.id, hello.node_key).await? => Err(StateError::KeyRevoked),
        (Some(row), _) => {
            let full_at = key_changes::take(row.keys_full_at, unix_now()).ok_or(StateError::KeyChanges)?;
            Ok(HelloResult::NewKey { network, row, full_at })
        }
        (None, Some(_)) if tx.is_former_key(network.id, hello.node_key).await? => Err(StateError::KeyRevoked),
        (None, Some(enrol)) => {
            let key = shown_key(tx, network.id, enrol).await?;
            match fault(&key, unix_now()) {
                Some(fault) => Err(StateError::Enrolment(fault)),
                None => Ok(HelloResult::Newcomer { network, key: key.id }),
            }
        }
        (None, None) => Err(StateError::NotAMember),
    }
}

/// Returns true if an enrolment key can renew or approve this membership.
fn may_renew(row: &NodeRow) -> bool {
    row.device.expires_at.is_some() || row.device.expired || !row.device.approved
}

/// Returns an error if another machine has this node key in any network (fault E6). One machine may use its key in several networks.
async fn refuse_foreign_key(
    tx: &mut Reading,
    network: NetworkId,
    machine: PublicKey,
    node_key: PublicKey,
) -> Result<(), StateError> {
    let owners = tx.owners(node_key).await?;
    let own =
        owners.iter().find(|(_, place, owner)| *place == network && *owner == Some(machine)).map(|(node, ..)| *node);
    for (node, place, owner) in owners {
        // Damaged rows of one network may have one key. The earlier member keeps it, as in maps (fault O9).
        if place == network && own.is_some_and(|own| own < node) {
            continue;
        }
        match owner {
            Some(owner) if owner == machine => {}
            // It may be this machine, which is then no former member (fault O9).
            None if place == network => return Err(StateError::Unsound(node)),
            _ => return Err(StateError::KeyConflict),
        }
    }
    Ok(())
}

/// Returns the enrolment key that a node has the secret of.
async fn shown_key(tx: &mut Reading, network: NetworkId, enrol: &Enrol) -> Result<KeyRow, StateError> {
    let unknown = StateError::Enrolment(KeyFault::Unknown);
    let Some(secret) = Secret::from_base64url(&enrol.secret) else { return Err(unknown) };
    tx.key_by_hash(network, &secret.hash()).await?.ok_or(unknown)
}

/// Returns why an enrolment key cannot be used; `None` if it can.
fn fault(key: &KeyRow, now: i64) -> Option<KeyFault> {
    if key.revoked_at.is_some() {
        Some(KeyFault::Revoked)
    } else if is_used_up(key) {
        Some(KeyFault::Used)
    } else if key.expires_at.is_some_and(|end| end <= now) {
        Some(KeyFault::Expired)
    } else {
        None
    }
}

/// Returns true if no further node can join with a key.
pub(crate) fn is_used_up(key: &KeyRow) -> bool {
    let most = if key.reusable { key.grants.most_uses } else { Some(1) };
    most.is_some_and(|most| key.used >= u64::try_from(most).unwrap_or(0))
}

/// Uses an enrolment key once, and returns it.
async fn consume_key(tx: &mut Writing, network: NetworkId, enrol: &Enrol, now: i64) -> Result<KeyRow, StateError> {
    if let Some(secret) = Secret::from_base64url(&enrol.secret)
        && let Some(key) = tx.consume_key(network, &secret.hash(), now).await?
    {
        return Ok(key);
    }
    let key = shown_key(tx, network, enrol).await?;
    Err(StateError::Enrolment(fault(&key, now).unwrap_or(KeyFault::Unknown)))
}

/// Assigns a host number to a machine that joins: the one that it had before it was removed, if nobody has it now; else the next free one.
pub(super) async fn take_host(tx: &mut Writing, network: &NetworkRow, machine: PublicKey) -> Result<u32, StateError> {
    let members = tx.count_nodes(network.id).await?;
    let room = u64::from(addresses::last_host(network.ipv4)).min(MAX_PEERS as u64);
    if members >= room {
        return Err(StateError::Full);
    }
    let former = tx.former_address(network.id, machine).await?;
    if let Some(host) = former.and_then(|address| addresses::host_number(network.ipv4, address))
        && is_free(tx, network, host).await?
    {
        return Ok(host);
    }
    let host = free_host(tx, network).await?;
    tx.set_cursor(network.id, host).await?;
    Ok(host)
}

async fn is_free(tx: &mut Reading, network: &NetworkRow, host: u32) -> Result<bool, StateError> {
    let (ipv4, ipv6) = (addresses::ipv4(network.ipv4, host), addresses::ipv6(network.ipv6, host));
    Ok(!tx.is_address_taken(network.id, ipv4, ipv6).await?)
}

/// Returns the next free host number. The cursor only moves forward, so that an address is assigned again as late as possible.
async fn free_host(tx: &mut Reading, network: &NetworkRow) -> Result<u32, StateError> {
    let mut host = addresses::next_host(network.ipv4, network.cursor);
    // A host number is free unless damaged rows have two of them each (fault O9).
    for _ in 0..addresses::last_host(network.ipv4) {
        if is_free(tx, network, host).await? {
            return Ok(host);
        }
        host = addresses::next_host(network.ipv4, host);
    }
    Err(StateError::Full)
}

pub(super) fn printable(text: &str) -> String {
    text.chars().filter(|character| character.is_ascii_graphic() || *character == ' ').take(MAX_PROGRAM).collect()
}
