//! The kill switch: a table of nftables that belongs to no process, so that it outlives the daemon (faults J1 to J5; docs/internals/exit.md).
//!
//! Any program may remove such a table. While the daemon runs, a twin of it belongs to the daemon, which no other program can flush (Linux 5.12, fault J8).

use std::time::Duration;

use taut_base::Time;
use taut_netlink::{NetlinkError, NftTable};

use super::kill_plan::{KillSwitchPlan, PAUSED};

/// Interval of checks, 500 ms: no program can be kept from removing a table that belongs to nobody, so it is looked for, and back within a second (fault J8).
const CHECKS: Duration = Duration::from_millis(500);

/// The kill switch of one network, seen by the daemon.
#[derive(Default)]
pub(crate) struct KillSwitch {
    table: Option<NftTable>,
    /// The same rules, protected by the kernel while this process exists; `None` on kernels that protect no tables.
    twin: Option<NftTable>,
    /// What should be in force; `None` if nothing should.
    plan: Option<KillSwitchPlan>,
    due: Option<Time>,
    /// The reason why it is not in force.
    error: Option<String>,
    /// True if another program's change was undone since [`Self::was_restored`].
    restored: bool,
    /// Whether it was put in force or removed since [`Self::was_switched`].
    switched: Option<bool>,
}

impl KillSwitch {
    /// Puts the switch in force, changes it, or removes the one that this process put in force. Returns once that is done, so that routes may change after it.
    pub(crate) fn set(&mut self, plan: Option<KillSwitchPlan>, now: Time) {
        if self.plan == plan && self.error.is_none() {
            return;
        }
        // The table that is held has the name of its own device, whatever the settings say now.
        let former = self.plan.take().map(|former| former.device);
        let done = match &plan {
            Some(plan) => self.replace(plan, former.as_deref()).map(|()| former.is_none()),
            None => former.map_or(Ok(false), |former| self.take_away(&former)),
        };
        if let Ok(true) = done {
            self.switched = Some(plan.is_some());
        }
        self.due = plan.is_some().then_some(now + CHECKS);
        self.error = done.err().map(|error| error.to_string());
        self.plan = plan;
    }

    /// Puts this plan in force, and removes the table of another device afterwards.
    fn replace(&mut self, plan: &KillSwitchPlan, former: Option<&str>) -> Result<(), NetlinkError> {
        let Some(former) = former.filter(|former| *former != plan.device) else { return self.put(plan) };
        let twin = self.twin.take();
        self.table = None;
        self.put(plan)?;
        drop(twin);
        remove(former).map(drop)
    }

    /// Returns the device whose kill switch should be in force.
    pub(crate) fn device(&self) -> Option<&str> {
        self.plan.as_ref().map(|plan| &*plan.device)
    }

    /// Returns true while it should be in force.
    pub(crate) fn is_wanted(&self) -> bool {
        self.plan.is_some()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    /// Restores the table if another program removed it or a part of it.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        let Some(plan) = self.plan.clone() else { return };
        self.due = Some(now + CHECKS);
        // An error is not an empty answer: then the table is made again, which changes nothing if it was there.
        let is_there = self.table.as_mut().is_some_and(|table| table.is_complete().unwrap_or(false));
        if !is_there {
            let was_there = self.error.is_none();
            self.error = self.put(&plan).err().map(|error| error.to_string());
            self.restored |= was_there && self.error.is_none();
        }
    }

    /// Returns true if another program's change was undone since the last call.
    pub(crate) fn was_restored(&mut self) -> bool {
        std::mem::take(&mut self.restored)
    }

    /// Returns whether it was put in force (`true`) or removed, if that happened since the last call.
    pub(crate) fn was_switched(&mut self) -> Option<bool> {
        self.switched.take()
    }

    /// Returns the reason why it is not in force although it should be.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref().filter(|_| self.plan.is_some())
    }

    /// Returns the number of packets that it kept from leaving, and the rest of a pause.
    pub(crate) fn figures(&mut self) -> (u64, Option<Duration>) {
        let left = self.table.as_mut().and_then(|table| table.families_left(PAUSED).ok().flatten());
        let tables = self.table.iter_mut().chain(&mut self.twin);
        (tables.filter_map(|table| table.counted().ok().flatten()).sum(), left)
    }

    /// Opens the twin for this time, as the user's command opened the table; `None` closes it at once.
    pub(crate) fn pause(&mut self, time: Option<Duration>) {
        let Some(twin) = &mut self.twin else { return };
        let done = match time {
            Some(time) => twin.add_families(PAUSED, time),
            None => twin.remove_families(PAUSED),
        };
        if let Err(error) = done {
            self.error = Some(error.to_string());
        }
    }

    fn put(&mut self, plan: &KillSwitchPlan) -> Result<(), NetlinkError> {
        let table = match &mut self.table {
            Some(table) => table,
            none => none.insert(NftTable::open_unprotected(&table_name(&plan.device))?),
        };
        let left = table.families_left(PAUSED).ok().flatten();
        table.replace_with(Some(PAUSED), &plan.chains())?;
        // A pause goes on with other rules.
        if let Some(left) = left {
            table.add_families(PAUSED, left)?;
        }
        self.put_twin(plan, left)
    }

    fn put_twin(&mut self, plan: &KillSwitchPlan, left: Option<Duration>) -> Result<(), NetlinkError> {
        let twin = match &mut self.twin {
            Some(twin) => twin,
            none => none.insert(NftTable::open(&twin_name(&plan.device))?),
        };
        twin.replace_with(Some(PAUSED), &plan.chains())?;
        if !twin.is_protected() {
            // An old kernel: a second table that anyone may remove helps nobody.
            let removed = twin.remove();
            self.twin = None;
            return removed;
        }
        left.map_or(Ok(()), |left| twin.add_families(PAUSED, left))
    }

    fn take_away(&mut self, device: &str) -> Result<bool, NetlinkError> {
        self.table = None;
        // The kernel removes it with its socket.
        self.twin = None;
        remove(device)
    }
}

/// Returns the name of the table for the network with this device.
pub(crate) fn table_name(device: &str) -> String {
    format!("{device}_kill_switch")
}

/// Returns the name of the daemon's own copy of the table.
fn twin_name(device: &str) -> String {
    format!("{device}_kill_twin")
}

/// Puts the kill switch of a network in force, unless it is.
pub(crate) fn load(device: &str) -> Result<(), NetlinkError> {
    let mut table = NftTable::open_unprotected(&table_name(device))?;
    if table.counted()?.is_some() {
        return Ok(());
    }
    let plan = KillSwitchPlan { device: String::from(device), ..KillSwitchPlan::default() };
    table.replace_with(Some(PAUSED), &plan.chains())
}

/// Removes the kill switch of a network. Returns false if there was none.
pub(crate) fn remove(device: &str) -> Result<bool, NetlinkError> {
    let mut table = NftTable::open_unprotected(&table_name(device))?;
    let is_there = table.counted()?.is_some();
    if is_there {
        table.remove()?;
    }
    Ok(is_there)
}

/// The kill switch of a network, seen from outside the daemon.
pub(crate) struct Seen {
    /// Number of packets that it kept from leaving.
    pub(crate) dropped: u64,
    /// The rest of a pause.
    pub(crate) paused: Option<Duration>,
}

/// Returns the state of a network's kill switch; `None` if it is not in force.
pub(crate) fn look(device: &str) -> Result<Option<Seen>, NetlinkError> {
    let mut table = NftTable::open_unprotected(&table_name(device))?;
    let Some(dropped) = table.counted()? else { return Ok(None) };
    let of_twin = NftTable::open_unprotected(&twin_name(device))?.counted()?;
    Ok(Some(Seen { dropped: dropped.saturating_add(of_twin.unwrap_or(0)), paused: table.families_left(PAUSED)? }))
}

/// Opens the kill switch of a network for this time, after which the kernel closes it; `None` closes it at once.
pub(crate) fn pause(device: &str, time: Option<Duration>) -> Result<(), NetlinkError> {
    let mut table = NftTable::open_unprotected(&table_name(device))?;
    match time {
        Some(time) => table.add_families(PAUSED, time),
        None => table.remove_families(PAUSED),
    }
}
