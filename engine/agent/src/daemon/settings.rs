//! `taut set`: changes settings of the running daemon, and keeps them for the next one.

use std::net::IpAddr;

use taut_control::Command;
use taut_netmap::check_route;

use super::Daemon;
use super::mapped::Mapped;
use crate::api::{ApiResponse, Failure, SCHEMA, SettingChange, SettingStatus, SettingsStatus};
use crate::basics::clocks;
use crate::config::DaemonConfig;
use crate::log::{Value, kind};
use crate::metrics::http::MetricsServer;
use crate::settings::{Effect, Origin, SETTINGS, Setting, find, meant, resolve, write_lines};

impl Daemon {
    /// Lists all settings.
    pub(super) fn settings(&self) -> ApiResponse {
        let settings = SETTINGS.iter().map(|setting| SettingStatus {
            name: String::from(setting.name),
            value: setting.value(&self.config),
            origin: self.config.given.origin(setting.name).map(|origin| String::from(origin.name())),
            waits: self.waits(setting),
        });
        ApiResponse::Settings(Box::new(SettingsStatus {
            schema: SCHEMA,
            settings: settings.collect(),
            saved: !self.settings_unsaved,
        }))
    }

    /// Changes settings: all of them, or none if one cannot be changed.
    pub(super) fn set(&mut self, changes: &[SettingChange], session: Option<IpAddr>) -> ApiResponse {
        let mut wanted = self.config.clone();
        for change in changes {
            if let Err(failure) = keep(&mut wanted, change) {
                return ApiResponse::Failed(failure);
            }
        }
        resolve(&mut wanted);
        if let Err(failure) = self.check_routes(&wanted) {
            return ApiResponse::Failed(failure);
        }
        if let Err(failure) = self.check_exit(&wanted) {
            return ApiResponse::Failed(failure);
        }
        if let Err(failure) = self.check_session(&wanted, session) {
            return ApiResponse::Failed(failure);
        }
        if let Err(failure) = self.take_metrics(&wanted) {
            return ApiResponse::Failed(failure);
        }
        let former = std::mem::replace(&mut self.config, wanted);
        let kept = write_lines(self.config.given.of(Origin::Set));
        self.settings_unsaved = true;
        self.tell(Command::RememberSettings(kept));
        if changes.iter().any(|change| matches!(&*change.name, "exit-node" | "kill-switch")) {
            // A command decides, also one that changes no value.
            self.turn_kill_switch(clocks().now);
            self.release_kill_switch();
        }
        for setting in SETTINGS {
            let value = setting.value(&self.config);
            if value != setting.value(&former) {
                self.note(&kind::SETTING_CHANGED, &[Value::text(setting.name), Value::text(&value)]);
                self.take_effect(setting);
            }
        }
        self.settings()
    }

    /// Returns true if the present value of a setting is not in force yet.
    fn waits(&self, setting: &Setting) -> bool {
        match setting.effect {
            Effect::NextStart if self.overlay.is_some() => {
                self.started_with.as_ref().is_some_and(|started| setting.value(started) != setting.value(&self.config))
            }
            // The helper is started first of all, so without it the resolver waits for the next daemon.
            _ => setting.name == "dns" && self.config.dns && self.resolver.is_none(),
        }
    }

    /// Has the present value of a setting take effect, unless it waits for the next start of the network.
    fn take_effect(&mut self, setting: &'static Setting) {
        match setting.name {
            "log-level" => self.log.set_levels(self.config.log.levels, clocks()),
            "advertise-routes"
            | "accept-routes"
            | "snat"
            | "advertise-exit-node"
            | "exit-node"
            | "exit-node-allow-lan-access"
            | "kill-switch" => self.take_routes(),
            "accept-domains" => self.take_domains(),
            "portmap" if self.config.portmap => self.map_ports(),
            "portmap" => {
                self.mapped.end();
                self.mapped = Mapped::default();
            }
            // The resolver and the rotation of keys look at theirs in every turn; `take_metrics` has opened the port. The others wait.
            _ => {}
        }
    }

    /// Has the network and the coordinator know the present choices about subnet routes.
    fn take_routes(&mut self) {
        // The kill switch comes before routes that lead elsewhere.
        self.turn_kill_switch(clocks().now);
        self.tell(Command::Routes(self.config.routes.proposed()));
        if let (Some(overlay), Some(map)) = (&mut self.overlay, self.member.map.as_deref()) {
            overlay.set_route_options(&self.config.routes, map, clocks());
        }
        self.turn_exit(clocks().now);
    }

    /// Has the network answer for the domains that the user accepts now.
    fn take_domains(&mut self) {
        if let (Some(overlay), Some(map)) = (&mut self.overlay, self.member.map.as_deref()) {
            overlay.set_accepted_domains(&self.config.accept_domains, map, clocks());
        }
    }

    /// Refuses routes that overlap the network's own prefixes: the coordinator would never approve them.
    fn check_routes(&self, wanted: &DaemonConfig) -> Result<(), Failure> {
        let Some(map) = &self.member.map else { return Ok(()) };
        let overlay = [map.network.ipv4, map.network.ipv6];
        for route in wanted.routes.published() {
            let wrong = |error| Failure::new(format!("{route} cannot be advertised: {error}"), "nothing was changed");
            check_route(route, &overlay).map_err(wrong)?;
        }
        Ok(())
    }

    /// Refuses an exit node that can be none: this host itself, or an address outside of the overlay.
    fn check_exit(&self, wanted: &DaemonConfig) -> Result<(), Failure> {
        let choice = &wanted.routes.exit_node;
        let Some(map) = self.member.map.as_ref().filter(|_| *choice != self.config.routes.exit_node) else {
            return Ok(());
        };
        if choice.is_own(map) {
            let hint = "choose another node, or offer this one to others with `taut set --advertise-exit-node`; nothing was changed";
            return Err(Failure::new("this host cannot be its own exit node", hint));
        }
        let overlay = [map.network.ipv4, map.network.ipv6];
        match choice.to_string().parse() {
            Ok(address) if !overlay.iter().any(|prefix| prefix.contains(address)) => Err(Failure::new(
                format!("{address} is no overlay address, so no exit node has it"),
                "give the exit node's name, or its overlay address; nothing was changed",
            )),
            _ => Ok(()),
        }
    }

    /// Opens another port for the metrics, if `wanted` has another one. The former one stays open if that is not possible.
    fn take_metrics(&mut self, wanted: &DaemonConfig) -> Result<(), Failure> {
        if wanted.metrics == self.config.metrics {
            return Ok(());
        }
        let Some(address) = wanted.metrics else {
            self.metrics = None;
            return Ok(());
        };
        // The poller knows the port by one token, so the former one is closed first.
        let former = self.metrics.take().and(self.config.metrics);
        match MetricsServer::listen(address, &self.poller) {
            Ok(server) => self.metrics = Some(server),
            Err(error) => {
                self.metrics = former.and_then(|former| MetricsServer::listen(former, &self.poller).ok());
                let message = format!("metrics cannot be served on {address}: {error}");
                return Err(Failure::new(message, "nothing was changed; choose another address or port"));
            }
        }
        Ok(())
    }
}

/// Keeps one value in `config`, or none. Refused for a setting whose value a flag or the environment gives: it would have no effect.
fn keep(config: &mut DaemonConfig, change: &SettingChange) -> Result<(), Failure> {
    let SettingChange { name, value } = change;
    let unknown = || Failure::new(format!("there is no setting `{name}`{}", meant(name)), "`taut set` lists all");
    let setting = find(name).ok_or_else(unknown)?;
    if setting.effect == Effect::Restart {
        let hint = format!(
            "write `{name} = …` into the configuration file, or start the daemon with the flag; nothing was changed"
        );
        return Err(Failure::new(format!("{name} holds from the daemon's start to its end"), hint));
    }
    let Some(value) = value else {
        config.given.remove(setting.name, Origin::Set);
        return Ok(());
    };
    if let Some(origin @ (Origin::Flag | Origin::Environment)) = config.given.origin(setting.name) {
        let given = match origin {
            Origin::Environment => format!("the variable {} of its environment", setting.variable()),
            _ => format!("its flag --{name}"),
        };
        let message =
            format!("this daemon has {name} = {} from {given}, which holds before `taut set`", setting.value(config));
        return Err(Failure::new(message, "take it away there, and start the daemon again; nothing was changed"));
    }
    let wrong = |what| Failure::new(format!("{name} {value}: {what}"), "nothing was changed");
    setting.give(&mut config.given, Origin::Set, value).map_err(wrong)
}
