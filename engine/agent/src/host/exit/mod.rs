//! The host while an exit node is in use: a table of routes into the overlay, and rules that lead everything there but our own packets (docs/internals/exit.md).
//!
//! - this file: what is there, what is missing, and its restoration (fault J8);
//! - `plan`: the routing rules that should be there;
//! - `marks`: the rules of nftables beside them; `passes`: what they let through;
//! - `source_check`: strict reverse path filters;
//! - `kill_switch`, `kill_plan`: what stays without the daemon.

mod kill_plan;
mod kill_switch;
mod marks;
mod passes;
mod plan;
mod source_check;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use taut_base::Time;
use taut_netlink::{Netlink, NetlinkError, NftTable, Route};

use super::services::listening_ports_now;
use crate::api::Failure;
use marks::{ALIVE, MOST_PORTS, MarkPlan};
use plan::routing_rules;
use source_check::SourceCheck;

pub(crate) use kill_plan::KillSwitchPlan;
pub(crate) use kill_switch::{KillSwitch, load, look, pause, remove};
pub(crate) use plan::{ExitRouting, Nearby, Slot};
pub(crate) use source_check::restore_source_check;

/// Time from news about rules or routes to the check, 10 ms: `ip rule flush` causes a message for each rule.
const SETTLE: Duration = Duration::from_millis(10);

/// Shortest time between two checks, 100 ms. A program that removes our rules again and again is not given way to: packets would leave in the clear.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Interval of checks without news, 2 s: the table of a kernel before Linux 5.12 may be removed without any.
const IDLE: Duration = Duration::from_secs(2);

/// Time until a failed change is tried again, 1 s.
const RETRY: Duration = Duration::from_secs(1);

/// Index of the loopback interface, 1: it is the first one of every network namespace (net/core/net_namespace.c).
const LOOPBACK: u32 = 1;

/// Time for which a table that the kernel does not remove with the daemon holds packets back after the daemon's last check, 10 s: five times [`IDLE`] (before Linux 5.12).
const HOLD: Duration = Duration::from_secs(10);

/// All addresses of each family.
const ANY: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

/// The TUN device of a network that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExitDevice {
    /// Its index.
    pub(crate) index: u32,
    /// Its present name.
    pub(crate) name: String,
    /// Whether it carries IPv6.
    pub(crate) has_ipv6: bool,
}

/// The routes and rules of an exit node on this host. They follow the user's choice, not the network: if the coordinator removes this node, or another program removes the device, they stay,
/// and nothing leaves. What holds packets back ends with this process: rules of nftables that belong to it, and routes of its device. After a crash the routing rules alone are left, which find
/// no route and so change nothing.
pub(crate) struct ExitRoutes {
    /// The connection to the kernel; `None` until it is needed.
    netlink: Option<Netlink>,
    slot: Slot,
    /// The TUN device, if the network is up.
    device: Option<ExitDevice>,
    /// Its last name.
    device_name: String,
    /// Name of the table of nftables.
    name: String,
    routing: ExitRouting,
    nearby: Nearby,
    /// The rules in force, and the plan that they follow.
    table: Option<(NftTable, MarkPlan)>,
    /// Ports of TCP on which the host listened when the exit node was chosen.
    listening: Vec<u16>,
    source_check: SourceCheck,
    checked: Time,
    due: Option<Time>,
    /// The reason why packets do not take the exit node.
    error: Option<String>,
    /// True if everything was there at the last check.
    is_complete: bool,
    /// What another program had removed, since it was told.
    restored: Option<String>,
}

impl ExitRoutes {
    /// Creates the routing of the network with this device, without an exit node. `record` is a file for the next start after a crash.
    pub(crate) fn new(device: &str, record: PathBuf) -> Self {
        Self {
            netlink: None,
            slot: Slot::of(device),
            device: None,
            device_name: String::from(device),
            name: format!("{device}_exit"),
            routing: ExitRouting::default(),
            nearby: Nearby::default(),
            table: None,
            listening: Vec::new(),
            source_check: SourceCheck::new(record),
            checked: Time::ZERO,
            due: None,
            error: None,
            is_complete: false,
            restored: None,
        }
    }

    /// Sets the user's choices, the networks around this host, and the TUN device, if the network is up.
    pub(crate) fn set(&mut self, routing: ExitRouting, nearby: Nearby, device: Option<ExitDevice>, now: Time) {
        if routing.wanted && !self.routing.wanted {
            self.listening = listening_ports_now().into_iter().take(MOST_PORTS).collect();
            self.is_complete = false;
        }
        if (routing, &nearby, &device) != (self.routing, &self.nearby, &self.device) {
            // The plan changed, so what is missing at the next check was not removed by another program.
            self.is_complete = false;
            (self.routing, self.nearby, self.device, self.due) = (routing, nearby, device, Some(now));
        }
    }

    /// Notes that rules, routes or interfaces of the host changed.
    pub(crate) fn handle_news(&mut self, now: Time) {
        if self.routing.wanted {
            let soon = (now + SETTLE).max(self.checked + CHECK_INTERVAL);
            self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    /// Returns true while packets of this host go to an exit node, or nowhere.
    pub(crate) fn is_wanted(&self) -> bool {
        self.routing.wanted
    }

    /// Returns the networks around this host as they were set last.
    pub(crate) fn nearby(&self) -> &Nearby {
        &self.nearby
    }

    /// Returns the last name of the TUN device.
    pub(crate) fn device_name(&self) -> &str {
        &self.device_name
    }

    /// Makes routes and rules as they should be, if that is due.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.checked = now;
        if !self.routing.wanted {
            self.due = None;
            return self.stop();
        }
        let was_complete = std::mem::replace(&mut self.is_complete, false);
        match self.update() {
            Ok(missing) => {
                (self.is_complete, self.error, self.due) = (true, None, Some(now + IDLE));
                if was_complete && !missing.is_empty() {
                    self.restored = Some(missing.join(", "));
                }
            }
            Err(error) => (self.error, self.due) = (Some(error), Some(now + RETRY)),
        }
    }

    /// Adds what is missing, and returns what that was. The marks come before the rules that look at them, and the routes before the rules that ask for them.
    fn update(&mut self) -> Result<Vec<&'static str>, String> {
        let mut missing = Vec::new();
        let mut netlink = match self.netlink.take() {
            Some(netlink) => netlink,
            None => Netlink::open().map_err(|error| error.to_string())?,
        };
        if self.set_table(&mut netlink).map_err(|error| error.to_string())? {
            missing.push("marks");
        }
        // A filter that stays strict drops answers, but must not keep the rules away.
        let filters = self.source_check.loosen(&self.nearby.uplinks);
        let routes = self.set_routes(&mut netlink);
        let rules = self.set_rules(&mut netlink);
        self.netlink = Some(netlink);
        // The rules come without the routes, too: then nothing leaves.
        if rules.map_err(|error| error.to_string())? {
            missing.push("rules");
        }
        if routes.map_err(|error| error.to_string())? {
            missing.push("routes");
        }
        filters.map_err(|error| format!("the strict reverse path filter cannot be loosened: {error}"))?;
        Ok(missing)
    }

    /// Makes the table of nftables. Returns true if it was missing, or a part of it.
    fn set_table(&mut self, netlink: &mut Netlink) -> Result<bool, NetlinkError> {
        if let Some(device) = &self.device {
            self.device_name.clone_from(&device.name);
        }
        let mut plan = MarkPlan::new(LOOPBACK, &self.device_name, self.routing, &self.nearby, self.device.is_some());
        plan.listening.clone_from(&self.listening);
        let [_, exit, _] = self.slot.priorities();
        plan.others = netlink.other_rules_before(exit)?;
        let (table, present) = match &mut self.table {
            Some((table, present)) => (table, present),
            none => {
                let made = none.insert((NftTable::open(&self.name)?, MarkPlan::default()));
                (&mut made.0, &mut made.1)
            }
        };
        plan.expires = !table.is_protected();
        // An error is not an empty answer: then the table is made again, which changes nothing if it was there.
        let (is_same, mut is_made) = (*present == plan, false);
        if !is_same || !table.is_complete().unwrap_or(false) {
            (*present, is_made) = (put(table, plan)?, true);
        }
        if present.expires {
            table.renew_families(ALIVE, HOLD)?;
        }
        Ok(is_same && is_made)
    }

    /// Adds the default routes into the overlay. Returns true if one was missing. Without the device there are none, and the rules of nftables hold packets back.
    fn set_routes(&self, netlink: &mut Netlink) -> Result<bool, NetlinkError> {
        let Some(device) = &self.device else { return Ok(false) };
        let table = self.slot.table();
        let present = netlink.routes_by(device.index)?;
        let mut added = false;
        for any in ANY {
            let is_there = present.iter().any(|route| {
                route.table == table && route.prefix_len == 0 && route.destination == any && route.is_ours()
            });
            if !is_there && (any.is_ipv4() || device.has_ipv6) {
                added |= netlink.claim_route(&Route { table, ..Route::new(any, 0, device.index) })?;
            }
        }
        Ok(added)
    }

    /// Adds missing rules, and removes others and second ones of ours. Returns true if one was missing.
    fn set_rules(&self, netlink: &mut Netlink) -> Result<bool, NetlinkError> {
        let wanted = routing_rules(self.slot, self.routing, &self.nearby);
        let mut present = netlink.own_rules(&self.slot.priorities())?;
        let mut added = false;
        for rule in &wanted {
            match present.iter().position(|found| found == rule) {
                Some(place) => {
                    present.swap_remove(place);
                }
                None => {
                    match netlink.add_rule(rule) {
                        // A host without IPv6 has no rules for it.
                        Err(error) if !rule.ipv4 && is_without(&error) => continue,
                        other => other?,
                    }
                    added = true;
                }
            }
        }
        // Those that are left are there a second time, or of another plan.
        present.iter().try_for_each(|rule| netlink.remove_rule(rule))?;
        Ok(added)
    }

    /// Leaves the host as it was.
    pub(crate) fn stop(&mut self) {
        let netlink = self.netlink.take().or_else(|| Netlink::open().ok());
        if let Some(mut netlink) = netlink {
            remove_routing(&mut netlink, self.slot);
        }
        if let Some((mut table, _)) = self.table.take() {
            // The kernel removes a protected table with its socket.
            let _ = table.remove();
        }
        self.source_check.restore();
        (self.error, self.is_complete) = (None, false);
    }

    /// Returns what another program had removed and is back, since the last call.
    pub(crate) fn was_restored(&mut self) -> Option<String> {
        self.restored.take()
    }

    /// Returns the reason why packets do not take the exit node.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref().filter(|_| self.routing.wanted)
    }

    /// Returns a warning for the user.
    pub(crate) fn warning(&self) -> Option<Failure> {
        let error = self.error.as_ref()?;
        Some(Failure::new(
            format!("packets of this host may not take the exit node, and leave in the clear: {error}"),
            "taut tries again every second; a kernel without nf_tables or policy routing, or a container without CAP_NET_ADMIN, cannot use an exit node",
        ))
    }
}

/// Makes the table as planned. Returns the plan that is in force: a kernel that does not protect tables keeps this one after a crash, so that it has to end on its own.
fn put(table: &mut NftTable, plan: MarkPlan) -> Result<MarkPlan, NetlinkError> {
    if !plan.expires {
        table.replace(&plan.chains())?;
        if table.is_protected() {
            return Ok(plan);
        }
    }
    let plan = MarkPlan { expires: true, ..plan };
    table.replace_with(Some(ALIVE), &plan.chains())?;
    Ok(plan)
}

/// Removes rules and routes of a network, as those that a crash left.
pub(crate) fn remove_routing(netlink: &mut Netlink, slot: Slot) {
    for rule in netlink.own_rules(&slot.priorities()).unwrap_or_default() {
        let _ = netlink.remove_rule(&rule);
    }
    for any in ANY {
        let mut into_overlay = Route { table: slot.table(), ..Route::new(any, 0, 0) };
        into_overlay.interface = None;
        let _ = netlink.remove_route(&into_overlay);
    }
}

/// Returns true for the answers of kernels without IPv6.
fn is_without(error: &NetlinkError) -> bool {
    // EAFNOSUPPORT and EOPNOTSUPP of Linux; this crate has no libc.
    matches!(error.code(), Some(97 | 95))
}
