//! `taut set`: changes settings of the running daemon, and keeps them for the next one.

use std::net::IpAddr;

use taut_control::Command;
use taut_netlink::NetlinkError;
use taut_netmap::check_route;

use super::Daemon;
use super::mapped::Mapped;
use crate::api::{ApiResponse, Failure, SCHEMA, SettingChange, SettingStatus, SettingsStatus};
use crate::basics::clocks;
use crate::config::DaemonConfig;
use crate::host;
use crate::log::{Value, kind};
use crate::metrics::http::MetricsServer;
use crate::settings::{Effect, Origin, SETTINGS, Setting, find, meant, resolve, write_lines};
use crate::subnets::RouteOptions;
use crate::userspace;

impl Daemon {
    /// Lists all settings.
    pub(super) fn settings(&self) -> ApiResponse {
        let settings = SETTINGS.iter().map(|setting| SettingStatus {
            name: String::from(setting.name),
            value: setting.shown(&self.config),
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
        if changes.iter().any(|change| change.name == "exit-node") {
            self.pin_exit(&mut wanted);
        }
        if let Some(failure) = userspace::conflict(&wanted) {
            return ApiResponse::Failed(failure);
        }
        if let Err(failure) = self.check_routes(&wanted) {
            return ApiResponse::Failed(failure);
        }
        if let Err(failure) = self.check_exit(&wanted) {
            return ApiResponse::Failed(failure);
        }
        if let Err(failure) = check_nftables(&self.config.routes, &wanted.routes, host::probe_nftables) {
            return ApiResponse::Failed(failure);
        }
        if let Err(failure) = self.check_session(&wanted, session) {
            return ApiResponse::Failed(failure);
        }
        if let Err(failure) = self.take_metrics(&wanted) {
            return ApiResponse::Failed(failure);
        }
        let former = std::mem::replace(&mut self.config, wanted);
        let kept = write_lines(self.config.given.of(Origin::Set)) + &self.config.given.kept_lines();
        self.settings_unsaved = true;
        self.tell(Command::RememberSettings(kept));
        if changes.iter().any(|change| matches!(&*change.name, "exit-node" | "kill-switch")) {
            // A command decides, also one that changes no value.
            self.turn_kill_switch(clocks().now);
            self.release_kill_switch();
        }
        for setting in SETTINGS {
            if setting.value(&self.config) != setting.value(&former) {
                let shown = setting.shown(&self.config);
                self.note(&kind::SETTING_CHANGED, &[Value::text(setting.name), Value::text(&shown)]);
                self.take_effect(setting);
            }
        }
        self.settings()
    }

    /// Keeps the very node that the user chose: another one that has its name later is not used.
    fn pin_exit(&self, wanted: &mut DaemonConfig) {
        let pinned = self.member.map.as_ref().and_then(|map| wanted.routes.exit_node.pinned(map));
        if let Some(pinned) = pinned.filter(|_| wanted.given.origin("exit-node") == Some(Origin::Set)) {
            wanted.given.insert("exit-node", Origin::Set, pinned.to_string());
            wanted.routes.exit_node = pinned;
        }
    }

    /// Returns true if the present value of a setting is not in force yet.
    fn waits(&self, setting: &Setting) -> bool {
        match setting.effect {
            Effect::NextStart if self.overlay.is_some() => {
                self.started_with.as_ref().is_some_and(|started| setting.value(started) != setting.value(&self.config))
            }
            // The helper is started first of all, so without it the resolver waits for the next daemon.
            _ => setting.name == "dns" && self.config.dns && self.resolver.is_none() && !self.config.is_userspace(),
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

    /// Refuses a new choice that would only cut off this host: a node that is no exit node, or a name that no member has. While the coordinator is away the map may be older than the exit node, so only this
    /// host itself is refused then.
    fn check_exit(&self, wanted: &DaemonConfig) -> Result<(), Failure> {
        let choice = &wanted.routes.exit_node;
        let map = self.member.map.as_ref().filter(|_| *choice != self.config.routes.exit_node);
        let map = map.filter(|map| self.coordinator.connected || choice.is_own(map));
        match map.and_then(|map| choice.unusable(map)) {
            Some(Failure { message, hint }) => Err(Failure::new(message, format!("{hint}; nothing was changed"))),
            None => Ok(()),
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

/// Refuses to begin what needs rules of nftables on a host without them: a kill switch would not hold, an exit node would cut off connections from outside, and a router would not check packets.
fn check_nftables(
    present: &RouteOptions,
    wanted: &RouteOptions,
    probe: impl Fn() -> Result<(), NetlinkError>,
) -> Result<(), Failure> {
    let begins = |of: fn(&RouteOptions) -> bool| of(wanted) && !of(present);
    let what = [
        (begins(|routes| routes.kill_switch), "a kill switch"),
        (begins(|routes| routes.exit_node.is_on()), "a host that uses an exit node"),
        (begins(|routes| routes.advertise_exit_node), "an exit node"),
        (begins(|routes| !routes.advertise.is_empty()), "a subnet router"),
    ];
    let Some((_, what)) = what.into_iter().find(|(begins, _)| *begins) else { return Ok(()) };
    probe().map_err(|error| {
        Failure::new(
            format!("{what} needs nftables, and this host has none: {error}"),
            "load the module (`modprobe nf_tables`) or use a kernel with CONFIG_NF_TABLES_INET; a container also needs CAP_NET_ADMIN; nothing was changed",
        )
    })
}

/// Keeps one value in `config`, or none. Refused for a setting whose value a flag or the environment gives: it would have no effect.
fn keep(config: &mut DaemonConfig, change: &SettingChange) -> Result<(), Failure> {
    let SettingChange { name, value } = change;
    let unknown = || Failure::new(format!("there is no setting `{name}`{}", meant(name)), "`taut set` lists all");
    let setting = find(name).ok_or_else(unknown)?;
    if setting.effect == Effect::Restart {
        let line = if cfg!(feature = "config") {
            format!("`{name} = …` into the configuration file")
        } else {
            format!("`option {name} …` into /etc/config/taut")
        };
        let hint = format!("write {line}, or start the daemon with the flag; nothing was changed");
        return Err(Failure::new(format!("{name} holds from the daemon's start to its end"), hint));
    }
    let Some(value) = value else {
        config.given.remove(setting.name, Origin::Set);
        config.given.forget_lines(setting.name);
        return Ok(());
    };
    if let Some(origin @ (Origin::Flag | Origin::Environment)) = config.given.origin(setting.name) {
        let given = match origin {
            Origin::Environment => format!("the variable {} of its environment", setting.variable()),
            _ => format!("its flag --{name}"),
        };
        let message =
            format!("this daemon has {name} = {} from {given}, which holds before `taut set`", setting.value(config));
        return Err(Failure::new(
            message,
            "take it away there (OpenWrt has it in /etc/config/taut), and start the daemon again; nothing was changed",
        ));
    }
    let wrong = |what| Failure::new(format!("{name} {value}: {what}"), "nothing was changed");
    setting.give(&mut config.given, Origin::Set, value).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::ExitChoice;

    #[test]
    fn a_host_without_nftables_begins_nothing_that_needs_them() {
        let missing = || {
            let source = std::io::Error::from_raw_os_error(93);
            Err(NetlinkError::Socket { operation: "open nftables", source })
        };
        let none = RouteOptions::default();
        let kill_switch = RouteOptions { kill_switch: true, ..none.clone() };
        let lan = vec!["192.168.1.0/24".parse().unwrap()];
        for (wanted, named) in [
            (kill_switch.clone(), "a kill switch needs nftables"),
            (RouteOptions { exit_node: ExitChoice::Auto, ..none.clone() }, "uses an exit node"),
            (RouteOptions { advertise_exit_node: true, ..none.clone() }, "an exit node needs"),
            (RouteOptions { advertise: lan, ..none.clone() }, "a subnet router"),
        ] {
            let failure = check_nftables(&none, &wanted, missing).unwrap_err();
            assert!(failure.message.contains(named) && failure.message.contains("open nftables"), "{failure:?}");
            assert_eq!(check_nftables(&none, &wanted, || Ok(())), Ok(()));
            assert_eq!(check_nftables(&wanted, &none, missing), Ok(()), "what is there can be ended");
        }
        assert_eq!(check_nftables(&kill_switch, &kill_switch, missing), Ok(()));
    }
}
