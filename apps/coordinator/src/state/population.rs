//! The members of a simulation. They are written to the database directly, because one host may enrol only a few hundred nodes at once (`joins`).

use std::net::{IpAddr, Ipv4Addr};

use taut_base::{NodeId, Prefix, PublicKey};

use super::{Expiry, State, StateError, addresses, keys, networks, random_bits};
use crate::clock::unix_now;
use crate::store::{Device, NetworkId, NewNode, Origin, Party};

/// The public keys of a member to create.
pub(crate) struct MemberKeys {
    /// Its machine key, with which it opens channels.
    pub(crate) machine: PublicKey,
    /// Its WireGuard key.
    pub(crate) node: PublicKey,
}

impl State {
    /// Creates a network and its members. Returns its number, and the numbers of the members in the order of their keys.
    pub(crate) async fn populate(
        &self,
        name: &str,
        ipv4: Prefix,
        members: &[MemberKeys],
    ) -> Result<(NetworkId, Vec<NodeId>), StateError> {
        let now = unix_now();
        let mut tx = self.store.write(Party::Coordinator).await?;
        let network = networks::create(&mut tx, name, ipv4, now).await?;
        let (key, _) = keys::create(&mut tx, network.id, true, Expiry::Default, now).await?;
        let version = tx.next_version(network.id, random_bits()).await?;
        let mut numbers = Vec::with_capacity(members.len());
        let mut host = 0;
        for keys in members {
            host = addresses::next_host(network.ipv4, host);
            let new = NewNode {
                network: network.id,
                machine_key: keys.machine,
                node_key: keys.node,
                name: format!("n{host}"),
                ipv4: addresses::ipv4(network.ipv4, host),
                ipv6: addresses::ipv6(network.ipv6, host),
                program: String::new(),
                version,
                key: key.id,
                from: Origin::new(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                device: Device { approved: true, ..Device::default() },
            };
            numbers.push(tx.insert_node(&new, now).await?.id);
        }
        tx.set_cursor(network.id, host).await?;
        tx.commit().await?;
        Ok((network.id, numbers))
    }
}
