//! Forwarding between the overlay and the networks behind this node, and for an exit node between the overlay and the internet: the kernel's switches, and our table of nftables (docs/internals/routes.md).
//!
//! IPv4 is switched on for the interfaces that lead to the networks, and off again at the end. IPv6 has one switch for the whole host, which also ends the use of router
//! advertisements, so that the user decides about it.

mod ports;
mod rules;
mod switches;

use std::path::PathBuf;
use std::time::Duration;

use taut_base::{Prefix, SortedSet, Time, is_internet};
use taut_netlink::{DroppingChain, Netlink, NetlinkError, NftTable, chains_that_drop_forwarded};

use super::services::open_ports;
use crate::api::Failure;
use crate::subnets::AdvertisedRoute;
use rules::{ExitPlan, Plan};
use switches::Switches;

pub(crate) use switches::restore_switches;

/// Interval of checks on a kernel that does not protect our table, 500 ms: another program's changes are undone within a second (fault J8).
const UNPROTECTED_CHECKS: Duration = Duration::from_millis(500);

/// Interval of checks otherwise, 10 s: another program may switch forwarding off.
const PROTECTED_CHECKS: Duration = Duration::from_secs(10);

/// Interval of checks while an interface forwards because of the overlay alone, 2 s: another program that switches the whole host's forwarding on wants to use it.
const GUARDED_CHECKS: Duration = Duration::from_secs(2);

/// Networks of this host that have rules, 64: each costs a comparison for each packet to the internet.
const MOST_NETWORKS: usize = 64;

/// Most chains of other programs that a warning names, 3.
const SHOWN_CHAINS: usize = 3;

/// Time until a failed change is tried again, 2 s.
const RETRY: Duration = Duration::from_secs(2);

/// The forwarding of this host for the overlay.
pub(crate) struct Forwarding {
    snat: bool,
    /// Name of the table.
    name: String,
    /// Routes in force.
    routes: Vec<AdvertisedRoute>,
    /// The overlay's prefixes, while this node is an exit node.
    exit: Option<[Prefix; 2]>,
    /// The rules in force.
    plan: Option<Plan>,
    /// Routes that the table in force has rules for.
    covered: Vec<AdvertisedRoute>,
    /// True if it has the rules of an exit node.
    covers_exit: bool,
    table: Option<NftTable>,
    switches: Switches,
    due: Option<Time>,
    /// The reason why packets are not forwarded.
    error: Option<String>,
    /// True if IPv6 is not forwarded, because the host's switch is off.
    is_without_ipv6: bool,
    /// True if the kernel cannot answer packets before it forwards them (before Linux 5.9).
    cannot_refuse: bool,
    /// Number of times that another program's change of the table was undone, not told yet.
    restored: u64,
    /// Chains of other programs that may drop forwarded packets.
    dropping: Vec<DroppingChain>,
    /// True until they were told.
    is_dropping_news: bool,
}

impl Forwarding {
    /// Creates the forwarding of the overlay with this device. `record` is a file that names the switches while they are on, for the next start after a crash.
    pub(crate) fn new(device: &str, snat: bool, record: PathBuf) -> Self {
        Self {
            snat,
            name: format!("{device}_routes"),
            routes: Vec::new(),
            exit: None,
            plan: None,
            covered: Vec::new(),
            covers_exit: false,
            table: None,
            switches: Switches::new(record),
            due: None,
            error: None,
            is_without_ipv6: false,
            cannot_refuse: false,
            restored: 0,
            dropping: Vec::new(),
            is_dropping_news: false,
        }
    }

    /// Sets the routes in force.
    pub(crate) fn set_routes(&mut self, routes: Vec<AdvertisedRoute>, now: Time) {
        if routes != self.routes {
            self.routes = routes;
            self.due = Some(now);
        }
    }

    /// Sets whether this node is an exit node: then with the prefixes of the overlay.
    pub(crate) fn set_exit(&mut self, exit: Option<[Prefix; 2]>, now: Time) {
        if exit != self.exit {
            self.exit = exit;
            self.due = Some(now);
        }
    }

    /// Sets whether packets to the networks get this host's address.
    pub(crate) fn set_snat(&mut self, snat: bool, now: Time) {
        if snat != self.snat {
            self.snat = snat;
            self.due = Some(now);
        }
    }

    /// Returns the published prefixes that packets may be forwarded to: those with rules (fault G9). Without a table there are none.
    pub(crate) fn in_force(&self) -> Vec<Prefix> {
        self.routes.iter().filter(|route| self.covered.contains(route)).map(|route| route.published).collect()
    }

    /// Returns true if packets may be forwarded to the internet: this node is an exit node, and has the rules of one.
    pub(crate) fn is_exit(&self) -> bool {
        self.exit.is_some() && self.covers_exit
    }

    /// Returns true if there is nothing to forward.
    fn is_idle(&self) -> bool {
        self.routes.is_empty() && self.exit.is_none()
    }

    /// Notes that interfaces, addresses or routes of the host changed.
    pub(crate) fn handle_news(&mut self, now: Time) {
        if !self.is_idle() {
            self.due = Some(now);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    /// Makes rules and switches as the routes need them, if that is due. `device` is the index and the name of the TUN device.
    pub(crate) fn handle_timeout(&mut self, netlink: &mut Netlink, device: (u32, &str), now: Time) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        let done = self.update(netlink, device);
        self.look_for_firewalls(device.1);
        self.due = match &done {
            Err(_) => Some(now + RETRY),
            Ok(()) if self.is_idle() => None,
            Ok(()) if !self.table.as_ref().is_some_and(NftTable::is_protected) => Some(now + UNPROTECTED_CHECKS),
            Ok(()) if self.switches.has_guarded() => Some(now + GUARDED_CHECKS),
            Ok(()) => Some(now + PROTECTED_CHECKS),
        };
        self.error = done.err();
    }

    fn update(&mut self, netlink: &mut Netlink, (index, name): (u32, &str)) -> Result<(), String> {
        if self.is_idle() {
            return self.clear().map_err(|error| error.to_string());
        }
        let interfaces = switches::leading_to(netlink, &self.routes, self.exit.is_some(), index)
            .map_err(|error| error.to_string())?;
        let has_ipv6 = self.exit.is_some() || self.routes.iter().any(|route| route.real.address().is_ipv6());
        self.is_without_ipv6 = has_ipv6 && !switches::forwards_ipv6();
        // The rules come first: no packet is forwarded without them.
        self.switches.look();
        let guarded = self.switches.guarded(&interfaces);
        let own = match self.exit {
            Some(_) => own_networks(netlink, index).map_err(|error| error.to_string())?,
            None => Vec::new(),
        };
        let exit = self.exit.map(|overlay| ExitPlan {
            overlay,
            ports: self.ports(),
            refuses_ipv6: self.is_without_ipv6 && !self.cannot_refuse,
            own: own.clone(),
        });
        let plan = Plan { index, snat: self.snat, routes: self.routes.clone(), guarded, exit };
        let refuses = plan.exit.as_ref().is_some_and(|exit| exit.refuses_ipv6);
        let made = self.set_table(plan);
        self.cannot_refuse |= made.is_err() && refuses;
        self.note_table(made.is_ok());
        made.map_err(|error| error.to_string())?;
        self.switches.turn_on(name, &interfaces)
    }

    /// Looks for firewalls of other programs that drop forwarded packets: a drop is final, whatever other tables say (fault J10).
    fn look_for_firewalls(&mut self, name: &str) {
        // An error is not an empty answer, and the table has its own.
        let found = if self.is_idle() { Ok(Vec::new()) } else { chains_that_drop_forwarded(name) };
        if let Ok(found) = found
            && found != self.dropping
        {
            self.is_dropping_news = !found.is_empty();
            self.dropping = found;
        }
    }

    /// Returns the chains of other programs that may drop forwarded packets, once.
    pub(crate) fn take_dropping(&mut self) -> Option<String> {
        std::mem::take(&mut self.is_dropping_news).then(|| self.shown_dropping())
    }

    fn shown_dropping(&self) -> String {
        let names: Vec<String> = self.dropping.iter().take(SHOWN_CHAINS).map(ToString::to_string).collect();
        names.join(", ")
    }

    /// Returns the ports for connections to the internet.
    fn ports(&self) -> (u16, u16) {
        let present = self.plan.as_ref().and_then(|plan| plan.exit.as_ref()).map(|exit| exit.ports);
        ports::choose(ports::ephemeral(), &open_ports(), present)
    }

    /// Notes whether the table has the rules for all routes. If not, the former table may be gone, and nothing is forwarded.
    fn note_table(&mut self, is_made: bool) {
        self.covered = if is_made { self.routes.clone() } else { Vec::new() };
        self.covers_exit = is_made && self.exit.is_some();
    }

    fn set_table(&mut self, plan: Plan) -> Result<(), NetlinkError> {
        let table = match &mut self.table {
            Some(table) => table,
            none => none.insert(NftTable::open(&self.name)?),
        };
        let is_same = self.plan.as_ref() == Some(&plan);
        // An error is not an empty answer: then the table is made again, which changes nothing if it was there.
        let is_there = is_same && table.is_complete().unwrap_or(false);
        if !is_there {
            table.replace(&plan.chains())?;
            self.restored += u64::from(is_same);
            self.plan = Some(plan);
        }
        Ok(())
    }

    /// Removes the rules, and switches off what was switched on, in this order: nothing is forwarded without rules.
    fn clear(&mut self) -> Result<(), NetlinkError> {
        self.switches.turn_off();
        self.covered.clear();
        self.covers_exit = false;
        (self.plan, self.is_without_ipv6) = (None, false);
        match self.table.take() {
            Some(mut table) => table.remove(),
            None => Ok(()),
        }
    }

    /// Leaves the host as it was.
    pub(crate) fn stop(&mut self) {
        // The kernel removes a protected table with its socket; otherwise the next start tries again.
        let _ = self.clear();
    }

    /// Returns true if another program's change of the table was undone since the last call.
    pub(crate) fn was_restored(&mut self) -> bool {
        std::mem::take(&mut self.restored) > 0
    }

    /// Returns what this node forwards for, for users.
    fn what(&self) -> &'static str {
        match (self.routes.is_empty(), self.exit.is_some()) {
            (true, _) => "the ways to the internet through this exit node",
            (false, false) => "this node's subnet routes",
            (false, true) => "this node's subnet routes and the ways to the internet through it",
        }
    }

    /// Returns warnings for the user.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = Failure> {
        let broken = self.error.as_ref().map(|error| {
            Failure::new(
                format!("{} do not work: {error}", self.what()),
                "taut tries again every 2 s; a kernel without nf_tables, or a container that may not write to /proc/sys/net, cannot be a router",
            )
        });
        let without = self.is_without_ipv6.then(|| {
            Failure::new(
                format!("this host does not forward IPv6, so {} do not work for IPv6", self.what()),
                "run `sysctl -w net.ipv6.conf.all.forwarding=1`; a host that gets its address by router advertisements also needs `net.ipv6.conf.IF.accept_ra=2` before",
            )
        });
        let dropping = (!self.dropping.is_empty()).then(|| {
            let device = self.name.trim_end_matches("_routes");
            Failure::new(
                format!(
                    "a firewall of this host drops forwarded packets ({}), so {} may not work",
                    self.shown_dropping(),
                    self.what()
                ),
                format!(
                    "let it accept what comes from {device} and goes there, such as `nft insert rule ip filter FORWARD iifname {device} accept` and the same with `oifname`; with Docker `iptables -I DOCKER-USER -i {device} -j ACCEPT` and `-o {device}`"
                ),
            )
        });
        broken.into_iter().chain(without).chain(dropping)
    }
}

/// Returns the networks of this host's other interfaces: their hosts are reached without a router.
fn own_networks(netlink: &mut Netlink, device: u32) -> Result<Vec<Prefix>, NetlinkError> {
    let addresses = netlink.addresses()?.into_iter().filter(|address| address.index != device);
    let networks = addresses.filter_map(|address| Prefix::new(address.ip, address.prefix_len).ok());
    // Only public ones: to the others the lanes forward nothing but approved subnets.
    let public = networks.filter(|network| network.length() > 0 && is_internet(network.address()));
    Ok(public.collect::<SortedSet<_>>().into_iter().take(MOST_NETWORKS).collect())
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_g9_nothing_is_forwarded_without_rules() {
        let [lan, mapped] = ["192.168.10.0/24", "10.1.0.0/24 as 10.201.0.0/24"].map(|text| text.parse().unwrap());
        let mut forwarding = Forwarding::new("none", true, std::env::temp_dir().join("taut-no-switches"));
        forwarding.set_routes(vec![lan, mapped], Time::ZERO);
        assert_eq!(forwarding.in_force(), [], "the table is not made yet");
        forwarding.note_table(true);
        assert_eq!(forwarding.in_force(), [lan.published, mapped.published]);
        forwarding.set_routes(vec![mapped], Time::ZERO);
        assert_eq!(forwarding.in_force(), [mapped.published], "one that goes needs no table");
        forwarding.set_routes(vec![lan, mapped], Time::ZERO);
        forwarding.note_table(false);
        assert_eq!(forwarding.in_force(), [], "the table could not be restored");
        forwarding.note_table(true);
        forwarding.stop();
        assert_eq!(forwarding.in_force(), []);
    }
}
