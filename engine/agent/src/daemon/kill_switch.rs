//! The kill switch (docs/internals/exit.md): it is in force from the moment when a user chose an exit node and the switch, and until the user ends one of them, disconnects, or leaves the
//! network. Neither the end of the daemon nor a coordinator's refusal ends it.

use std::net::IpAddr;
use std::time::Duration;

use taut_base::Time;
use taut_control::Command;
use taut_node::Clocks;

use super::Daemon;
use crate::api::{Failure, KillSwitchStatus};
use crate::basics::clocks;
use crate::config::DaemonConfig;
use crate::host::{ExitRouting, KillSwitch, KillSwitchPlan, Nearby};
use crate::log::{Value, kind};
use crate::overlay::Overlay;

/// The kill switch, and what the daemon told of it.
#[derive(Default)]
pub(super) struct Guard {
    switch: KillSwitch,
    /// True if a user disconnected, also from a network that does not know this node any more.
    pub(super) is_down: bool,
    /// The end of a pause.
    paused_until: Option<Time>,
    /// What the log and the disk know: whether it is in force.
    told: Option<bool>,
    /// The last failure that the log has.
    told_error: Option<String>,
}

impl Guard {
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        [self.switch.poll_timeout(), self.paused_until].into_iter().flatten().min()
    }
}

impl Daemon {
    /// Has the kill switch follow the user's choices.
    pub(super) fn turn_kill_switch(&mut self, now: Time) {
        let routes = &self.config.routes;
        let is_down = match &self.member.identity {
            Some(identity) => !identity.wanted,
            None => self.guard.is_down,
        };
        let is_wanted = routes.kill_switch && routes.exit_node.is_on() && self.member.exists && !is_down;
        let routing = ExitRouting { wanted: true, local_networks: routes.local_networks, kill_switch: true };
        let nearby = self.overlay.as_ref().map_or_else(Nearby::default, Overlay::nearby);
        let device = &self.config.tun_name;
        let plan = is_wanted.then(|| KillSwitchPlan::new(device, routing, &nearby));
        self.guard.switch.set(plan, device, now);
        self.guard.switch.handle_timeout(now);
        if self.guard.paused_until.take_if(|until| now >= *until).is_some() {
            self.turn_exit_pause(clocks());
        }
        self.tell_of_kill_switch();
    }

    fn tell_of_kill_switch(&mut self) {
        let is_wanted = self.guard.switch.is_wanted();
        if self.guard.told.replace(is_wanted) != Some(is_wanted) {
            // For the next boot, before the daemon and the network start.
            self.tell(Command::RememberKillSwitch(is_wanted.then(|| self.config.tun_name.clone())));
        }
        let error = self.guard.switch.error().map(String::from);
        let is_new = error != self.guard.told_error;
        if let Some(error) = error.clone().filter(|_| is_new) {
            self.note(&kind::KILL_SWITCH_FAILED, &[Value::Text(error)]);
        }
        self.guard.told_error = error;
        if self.guard.switch.was_restored() {
            self.note(&kind::KILL_SWITCH_RESTORED, &[]);
        }
        if let Some(is_on) = self.guard.switch.was_switched() {
            self.note(if is_on { &kind::KILL_SWITCH_ON } else { &kind::KILL_SWITCH_OFF }, &[]);
        }
    }

    /// Has this host's packets take its own way for this time, as to sign in at a captive portal; zero ends that. The user's command opens the kill switch itself.
    pub(super) fn pause_exit(&mut self, time: Duration, clocks: Clocks) {
        self.guard.paused_until = (!time.is_zero()).then_some(clocks.now + time);
        self.guard.switch.pause((!time.is_zero()).then_some(time));
        self.turn_exit_pause(clocks);
        if !time.is_zero() {
            self.note(&kind::KILL_SWITCH_PAUSED, &[Value::s(time)]);
        }
    }

    /// Has the overlay follow the pause.
    fn turn_exit_pause(&mut self, clocks: Clocks) {
        let is_paused = self.guard.paused_until.is_some();
        if let (Some(overlay), Some(map)) = (&mut self.overlay, self.member.map.as_deref()) {
            overlay.pause_exit(is_paused, map, clocks);
        }
    }

    /// Returns the rest of a pause.
    pub(super) fn exit_paused(&self, now: Time) -> Option<Duration> {
        self.guard.paused_until.map(|until| until.since(now))
    }

    /// Refuses a kill switch that would cut off the ssh session from this address (fault J10).
    pub(super) fn check_session(&self, wanted: &DaemonConfig, session: Option<IpAddr>) -> Result<(), Failure> {
        let routes = &wanted.routes;
        let Some(client) = session.filter(|_| routes.kill_switch && routes.exit_node.is_on()) else { return Ok(()) };
        let nearby = self.overlay.as_ref().map_or_else(Nearby::default, Overlay::nearby);
        let overlay = self.overlay.as_ref().map_or(&[][..], Overlay::prefixes);
        let local = nearby.local.iter().filter(|_| routes.local_networks);
        let inside = nearby.inside.iter().map(|(_, prefix)| prefix);
        let is_link_local = matches!(client, IpAddr::V6(v6) if v6.is_unicast_link_local()) && routes.local_networks;
        if client.is_loopback()
            || is_link_local
            || overlay.iter().chain(local).chain(inside).any(|prefix| prefix.contains(client))
        {
            return Ok(());
        }
        let is_local = nearby.local.iter().any(|prefix| prefix.contains(client));
        let hint = match is_local {
            true => {
                "add --exit-node-allow-lan-access, which keeps the local network reachable, or repeat the command with --cut-ssh; nothing was changed"
            }
            false => {
                "log in over the overlay or from the local network (with --exit-node-allow-lan-access), or repeat the command with --cut-ssh; nothing was changed"
            }
        };
        Err(Failure::new(format!("the kill switch would cut off {client}, from where you are logged in by ssh"), hint))
    }

    /// Returns the state of the kill switch for users; `None` if it is off.
    pub(super) fn kill_switch_status(&mut self) -> Option<KillSwitchStatus> {
        if !self.guard.switch.is_wanted() {
            return None;
        }
        let (dropped, paused) = self.guard.switch.figures();
        let in_force = self.guard.switch.error().is_none();
        Some(KillSwitchStatus { in_force, dropped, paused_s: paused.map(|left| left.as_secs_f64().round()) })
    }

    /// Returns the problem that the kill switch is not in force.
    pub(super) fn kill_switch_warning(&self) -> Option<Failure> {
        let error = self.guard.switch.error()?;
        let hint = "packets may leave in the clear while the daemon does not run; a kernel without nf_tables, or a container without CAP_NET_ADMIN, has no kill switch";
        Some(Failure::new(format!("the kill switch is not in force: {error}"), hint))
    }
}
