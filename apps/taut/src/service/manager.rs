//! The service managers that taut knows: systemd, OpenRC, and procd of OpenWrt.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

use super::below;
use crate::fault::Fault;

/// The script that adds the node's device to the firewall of OpenWrt.
pub(super) const FIREWALL: &str = "/etc/uci-defaults/70-taut";

/// A service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Manager {
    Systemd,
    Openrc,
    Procd,
}

impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Systemd => "systemd",
            Self::Openrc => "OpenRC",
            Self::Procd => "procd",
        })
    }
}

impl Manager {
    /// Returns the manager of this name.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "systemd" => Some(Self::Systemd),
            "openrc" => Some(Self::Openrc),
            "procd" => Some(Self::Procd),
            _ => None,
        }
    }

    /// Returns the manager of the system below `root`: the one that runs, else the one that is installed.
    pub(super) fn find(root: &Path) -> Option<Self> {
        let all = [Self::Procd, Self::Openrc, Self::Systemd];
        let is_live = root == Path::new("/");
        let running = all.into_iter().find(|manager| is_live && manager.runs());
        let has = |manager: &Self| manager.programs().iter().any(|program| below(root, program).exists());
        running.or_else(|| all.into_iter().find(has))
    }

    /// Returns the files of which one exists where the manager is installed.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Systemd => &["/usr/lib/systemd/systemd", "/lib/systemd/systemd"],
            Self::Openrc => &["/sbin/openrc-run", "/usr/sbin/openrc-run"],
            Self::Procd => &["/sbin/procd"],
        }
    }

    /// Returns true if it manages the services of the running system.
    pub(super) fn runs(self) -> bool {
        let sign = match self {
            // sd_booted(3).
            Self::Systemd => "/run/systemd/system",
            Self::Openrc => "/run/openrc/softlevel",
            Self::Procd => "/var/run/ubus/ubus.sock",
        };
        Path::new(sign).exists() || self == Self::Procd && Path::new("/var/run/ubus.sock").exists()
    }

    /// Returns the file by which a package has the service, if one has.
    pub(super) fn packaged(self, root: &Path) -> Option<PathBuf> {
        let files = ["/usr/lib/systemd/system/taut.service", "/lib/systemd/system/taut.service"];
        // Scripts of the others are in /etc/init.d, from whatever they come.
        files.into_iter().map(|file| below(root, file)).find(|path| self == Self::Systemd && path.exists())
    }

    /// Returns the name of the service of a network of this host.
    pub(super) fn service(self, network: Option<&str>) -> String {
        match (self, network) {
            (Self::Systemd, Some(name)) => format!("taut@{name}"),
            (Self::Openrc, Some(name)) => format!("taut.{name}"),
            (_, _) => String::from("taut"),
        }
    }

    /// Returns the command that does `action` with a service.
    fn command(self, action: &str, service: &str) -> Vec<String> {
        let words = match self {
            Self::Systemd => ["systemctl", action, service],
            Self::Openrc => ["rc-service", service, action],
            Self::Procd => ["/etc/init.d/taut", action, ""],
        };
        words.into_iter().filter(|word| !word.is_empty()).map(String::from).collect()
    }

    pub(super) fn start_command(self, service: &str) -> String {
        self.command("start", service).join(" ")
    }

    pub(super) fn restart_command(self, service: &str) -> String {
        self.command("restart", service).join(" ")
    }

    pub(super) fn enable_command(self, service: &str) -> String {
        match self {
            Self::Systemd => format!("systemctl enable --now {service}"),
            Self::Openrc => format!("rc-update add {service} default && rc-service {service} start"),
            Self::Procd => String::from("/etc/init.d/taut enable && /etc/init.d/taut start"),
        }
    }

    /// Has it read the files of services again.
    pub(super) fn reload(self) -> Result<(), Fault> {
        match self {
            Self::Systemd => carry_out(&words("systemctl daemon-reload")),
            // OpenWrt runs such a script at the next boot, and deletes it then.
            Self::Procd if Path::new(FIREWALL).exists() => {
                carry_out(&[String::from("sh"), String::from(FIREWALL)])?;
                let _ = std::fs::remove_file(FIREWALL);
                carry_out(&words("/etc/init.d/firewall reload"))
            }
            // They read scripts when they run them.
            Self::Openrc | Self::Procd => Ok(()),
        }
    }

    /// Takes back what the files of the service changed elsewhere, and ends what was started beside the service.
    pub(super) fn forget(self) {
        if self == Self::Systemd {
            for unit in ["taut-dns.socket", "taut-kill-switch.service"] {
                // Where the unit was never started, there is nothing to stop.
                let _ = self.stop(unit);
            }
        }
        if self == Self::Procd {
            for section in ["firewall.taut", "firewall.taut_in", "network.taut"] {
                // One that a user removed is missing, which is as it should be.
                let _ = carry_out(&words(&format!("uci -q delete {section}")));
            }
            let _ = carry_out(&words("uci commit firewall")).and_then(|()| carry_out(&words("uci commit network")));
            let _ = carry_out(&words("/etc/init.d/firewall reload"));
        }
    }

    pub(super) fn start(self, service: &str) -> Result<(), Fault> {
        carry_out(&self.command("start", service))
    }

    pub(super) fn stop(self, service: &str) -> Result<(), Fault> {
        carry_out(&self.command("stop", service))
    }

    #[cfg(feature = "update")]
    pub(super) fn restart(self, service: &str) -> Result<(), Fault> {
        carry_out(&self.command("restart", service))
    }

    /// Returns true if it runs a service.
    pub(super) fn is_active(self, service: &str) -> bool {
        let action = match self {
            Self::Systemd => "is-active",
            Self::Openrc => "status",
            Self::Procd => "running",
        };
        let words = self.command(action, service);
        let (program, arguments) =
            words.split_first().map_or((String::new(), &[][..]), |(first, rest)| (first.clone(), rest));
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}

/// Runs a command, and returns its own words if it fails.
fn carry_out(words: &[String]) -> Result<(), Fault> {
    let shown = words.join(" ");
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let done = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = done.map_err(|error| Fault::failed(format!("`{shown}` cannot be run: {error}"), ""))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().next().unwrap_or_default();
    Err(Fault::failed(
        format!("`{shown}` failed: {said}"),
        "the files of the service are installed; `taut service status` shows them",
    ))
}
