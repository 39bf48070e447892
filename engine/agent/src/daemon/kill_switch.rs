//! The kill switch (docs/internals/exit.md): it is in force from the moment when a user chose an exit node and the switch, and until the user ends one of them, disconnects, or leaves the
//! network. Neither the end of the daemon nor a coordinator's refusal ends it.

use std::net::IpAddr;
use std::time::Duration;

use taut_base::Time;
use taut_control::{Command, saved_kill_switch};
use taut_node::Clocks;

use super::Daemon;
use crate::api::{Failure, KillSwitchStatus};
use crate::basics::clocks;
use crate::config::DaemonConfig;
use crate::host::{self, ExitRouting, KillSwitch, KillSwitchPlan, Nearby};
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
    /// True once the user's choice of an exit node is carried out: nothing but the user ends it.
    holds_exit: bool,
    /// The device whose kill switch an earlier run left, until this one decides. Only a user's command removes it: the settings that this run read may be lost or older ones.
    left: Option<String>,
    /// What the disk knows: the device whose kill switch is in force, if one is.
    told: Option<Option<String>>,
    /// The last failure of the kill switch that the log has.
    told_error: Option<String>,
    /// The last failure of the way to the exit node that the log has.
    told_exit_error: Option<String>,
}

impl Guard {
    /// Returns the state at the start: with the kill switch that an earlier run left.
    pub(super) fn new(config: &DaemonConfig) -> Self {
        let in_force = || host::look(&config.tun_name).ok().flatten().map(|_| config.tun_name.clone());
        Self { left: saved_kill_switch(&config.state_dir).or_else(in_force), ..Self::default() }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        [self.switch.poll_timeout(), self.paused_until].into_iter().flatten().min()
    }
}

impl Daemon {
    /// Returns true if a user disconnected.
    fn is_down(&self) -> bool {
        match &self.member.identity {
            Some(identity) => !identity.wanted,
            None => self.guard.is_down,
        }
    }

    /// Returns the networks around this host; those of the last network that was up if none is.
    fn nearby(&self) -> Nearby {
        self.overlay.as_ref().map_or_else(|| self.exit.nearby().clone(), Overlay::nearby)
    }

    /// Has the routing to the exit node follow the user's choice. It begins with the first map of a network, because until then the user may have to open the coordinator's page, and no refusal of
    /// the coordinator, other membership or loss of the device ends it.
    pub(super) fn turn_exit(&mut self, now: Time) {
        let routes = &self.config.routes;
        let is_chosen = routes.exit_node.is_on() && self.member.exists && !self.is_down();
        self.guard.holds_exit = is_chosen && (self.guard.holds_exit || self.member.map.is_some());
        let routing = ExitRouting {
            wanted: self.guard.holds_exit && self.guard.paused_until.is_none(),
            local_networks: routes.local_networks,
            kill_switch: routes.kill_switch,
        };
        let nearby = self.nearby();
        self.exit.set(routing, nearby, self.overlay.as_ref().map(Overlay::exit_device), now);
        self.exit.handle_timeout(now);
        let error = self.exit.error().map(String::from);
        if let Some(error) = error.clone().filter(|_| error != self.guard.told_exit_error) {
            self.note(&kind::EXIT_FAILED, &[Value::Text(error)]);
        }
        self.guard.told_exit_error = error;
        if let Some(missing) = self.exit.was_restored() {
            let device = Value::text(self.exit.device_name());
            self.note(&kind::EXIT_RESTORED, &[device, Value::Text(missing)]);
        }
    }

    /// Returns warnings about the way to the exit node, also while the network is down.
    pub(super) fn exit_warnings(&self) -> impl Iterator<Item = Failure> {
        let is_cut = self.exit.is_wanted() && self.overlay.is_none();
        let cut = is_cut.then(|| {
            Failure::new(
                "an exit node is chosen and the network is down: nothing of this host goes to the internet",
                "`taut set --exit-node none`, `taut down` or `taut leave` gives the host its own way back; `taut kill-switch pause 5m` does for a while",
            )
        });
        let left = self.guard.left.as_ref().map(|device| {
            Failure::new(
                format!("an earlier run left the kill switch of {device} in force, and the present settings do not want it"),
                "`taut set --kill-switch=false` removes it; if settings were lost, choose exit node and kill switch again",
            )
        });
        self.exit.warning().into_iter().chain(cut).chain(left)
    }

    /// Notes a user's command about exit node or kill switch, or the end of the connection: what an earlier run left is decided, too.
    pub(super) fn release_kill_switch(&mut self) {
        let Some(device) = self.guard.left.take() else { return };
        if let Err(error) = host::remove(&device) {
            self.note(&kind::KILL_SWITCH_FAILED, &[Value::Text(error.to_string())]);
        }
        self.guard.told = None;
    }

    /// Gives the host its own way back at once, because a user disconnected.
    pub(super) fn end_exit(&mut self, now: Time) {
        self.turn_kill_switch(now);
        self.release_kill_switch();
        self.turn_exit(now);
    }

    /// Has the kill switch follow the user's choices.
    pub(super) fn turn_kill_switch(&mut self, now: Time) {
        let routes = &self.config.routes;
        let is_wanted = routes.kill_switch && routes.exit_node.is_on() && self.member.exists && !self.is_down();
        let routing = ExitRouting { wanted: true, local_networks: routes.local_networks, kill_switch: true };
        let nearby = self.nearby();
        // Another name takes effect when the network starts again.
        let device = self.started_with.as_ref().filter(|_| self.overlay.is_some()).unwrap_or(&self.config);
        let plan = is_wanted.then(|| KillSwitchPlan::new(&device.tun_name, routing, &nearby));
        self.guard.switch.set(plan, now);
        self.guard.switch.handle_timeout(now);
        if is_wanted && self.guard.switch.error().is_none() {
            // Removed once the present one is in force, if it has another name.
            match self.guard.left.take() {
                Some(left) if self.guard.switch.device() != Some(&left) => drop(host::remove(&left)),
                _ => {}
            }
        }
        if self.guard.paused_until.take_if(|until| now >= *until).is_some() {
            self.turn_exit_pause(clocks());
        }
        self.tell_of_kill_switch();
    }

    fn tell_of_kill_switch(&mut self) {
        let wanted = self.guard.switch.device().or(self.guard.left.as_deref()).map(String::from);
        if self.guard.told.as_ref() != Some(&wanted) {
            // For the next boot, before the daemon and the network start.
            self.tell(Command::RememberKillSwitch(wanted.clone()));
            self.guard.told = Some(wanted);
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
        self.turn_exit(clocks.now);
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
        let (routes, present) = (&wanted.routes, &self.config.routes);
        if (routes.kill_switch, &routes.exit_node, routes.local_networks)
            == (present.kill_switch, &present.exit_node, present.local_networks)
        {
            return Ok(());
        }
        let Some(client) = session.filter(|_| routes.kill_switch && routes.exit_node.is_on()) else { return Ok(()) };
        let nearby = self.nearby();
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
            // One that an earlier run left is in force, too.
            let left = self.guard.left.as_deref().and_then(|device| host::look(device).ok().flatten());
            let waits = self.config.routes.kill_switch && !self.config.routes.exit_node.is_on();
            return match left {
                Some(seen) => Some(KillSwitchStatus {
                    in_force: true,
                    waits,
                    dropped: seen.dropped,
                    paused_s: seen.paused.map(|left| left.as_secs_f64().round()),
                }),
                None => waits.then_some(KillSwitchStatus { in_force: false, waits, dropped: 0, paused_s: None }),
            };
        }
        let (dropped, paused) = self.guard.switch.figures();
        let in_force = self.guard.switch.error().is_none();
        Some(KillSwitchStatus {
            in_force,
            waits: false,
            dropped,
            paused_s: paused.map(|left| left.as_secs_f64().round()),
        })
    }

    /// Returns the problem that the kill switch is not in force.
    pub(super) fn kill_switch_warning(&self) -> Option<Failure> {
        let error = self.guard.switch.error()?;
        let hint = "packets may leave in the clear while the daemon does not run; a kernel without nf_tables, or a container without CAP_NET_ADMIN, has no kill switch";
        Some(Failure::new(format!("the kill switch is not in force: {error}"), hint))
    }
}
