//! Disabling a person ends the memberships of its devices. When the person is enabled again, it renews each device.

use super::{State, StateError, random_bits};
use crate::store::{Device, NetworkRow, NodeRow, Writing, undamaged};

/// Devices whose memberships ended. They are announced after the commit.
#[must_use = "nodes wait until this is announced"]
#[derive(Default)]
pub(super) struct EndedDevices(Vec<(NetworkRow, NodeRow, Device)>);

/// Ends the memberships of a person's devices. Tagged devices are left out, because they belong to no person; and so are all devices if another person has the same
/// login, because it is not known whose they are.
pub(super) async fn end_devices_of(tx: &mut Writing, person: i64, now: i64) -> Result<EndedDevices, StateError> {
    let mut ended = EndedDevices::default();
    let Some(login) = tx.sole_login(person).await? else { return Ok(ended) };
    for id in tx.networks_of_owner(&login).await? {
        let Some(network) = undamaged(tx.network(id).await)? else { continue };
        let mut rows = tx.members_of(id, &login).await?;
        rows.retain(|row| row.device.tags.is_empty() && !row.device.expired);
        if rows.is_empty() {
            continue;
        }
        let version = tx.next_version(id, random_bits()).await?;
        for mut row in rows {
            let after = Device { expired: true, expires_at: Some(now), ..row.device.clone() };
            tx.set_device(row.id, (&row.device, &after), version, now).await?;
            let before = std::mem::replace(&mut row.device, after);
            row.version = version;
            ended.0.push((network.clone(), row, before));
        }
    }
    Ok(ended)
}

impl State {
    /// Tells relays and channels of the devices whose memberships ended.
    pub(super) fn announce_ended(&self, ended: EndedDevices) {
        for (network, row, before) in ended.0 {
            self.announce_device(&network, &row, &before, row.version);
        }
    }
}
