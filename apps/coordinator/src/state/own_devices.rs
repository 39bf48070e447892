//! Rules for members who change their own devices. A member may rename a device, end its membership, remove it, and add tags that `tagOwners` of the policy lets the
//! member add. Only an administrator may change anything else.

use taut_policy::Policy;

use super::StateError;
use super::device_rules::DeviceChange;
use super::enforced::inventory;
use super::party::PeopleError;
use super::people::{GroupsOf, users_of_policy};
use crate::store::{NetworkId, NodeRow, Reading, StoreError};

/// Devices that one person approves for itself, 256: more are the work of an administrator.
const MOST: u64 = 256;

/// Checks a change of a device by its owner.
pub(super) async fn check(
    tx: &mut Reading,
    row: &NodeRow,
    login: &str,
    change: &DeviceChange,
) -> Result<(), StateError> {
    let DeviceChange { name: _, tags, owner, disabled, approve, expire: _, key_life, approve_routes, revoke_routes } =
        change;
    let routes = !approve_routes.is_empty() || !revoke_routes.is_empty();
    if owner.is_some() || disabled.is_some() || *approve || key_life.is_some() || routes {
        return Err(PeopleError::Forbidden.into());
    }
    match tags {
        Some(tags) => check_tags(tx, row.network, login, &row.device.tags, tags).await,
        None => Ok(()),
    }
}

/// Checks that the policy lets a person give these tags: `tagOwners` names the person, one of its groups, or its role.
pub(super) async fn check_tags(
    tx: &mut Reading,
    network: NetworkId,
    login: &str,
    present: &[String],
    wanted: &[String],
) -> Result<(), StateError> {
    let new: Vec<&String> = wanted.iter().filter(|tag| !present.contains(tag)).collect();
    if new.is_empty() {
        return Ok(());
    }
    let users = users_of_policy(tx, network, GroupsOf::Login(login)).await?;
    let row = tx.policy(network).await?.ok_or(StoreError::Damaged("a network without a policy"))?;
    let network = tx.network(network).await?.ok_or(StateError::NotAMember)?;
    let policy = Policy::parse(&row.text).map_err(|error| StateError::StoredPolicy(Box::new(error)))?;
    let inventory = inventory(std::iter::empty(), users, [network.ipv4, network.ipv6]);
    match new.into_iter().find(|tag| !policy.may_assign_tag(tag, login, &inventory)) {
        Some(tag) => Err(StateError::NotTagOwner(tag.clone())),
        None => Ok(()),
    }
}

/// Checks that a person may approve one more device for itself.
pub(super) async fn check_number(tx: &mut Reading, network: NetworkId, login: &str) -> Result<(), StateError> {
    match tx.count_owned(network, login).await? {
        count if count < MOST => Ok(()),
        _ => Err(StateError::ManyDevices),
    }
}
