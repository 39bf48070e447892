//! The daemon's sandbox, and the processes that the daemon starts before it enters that.

use super::Daemon;
use crate::api::{Failure, SandboxStatus};
use crate::basics::clocks;
use crate::config::DaemonConfig;
use crate::log::{Value, kind};
use crate::outside;
use crate::resolver::Resolver;
use crate::sandbox;

/// What there is once the daemon has entered its sandbox.
pub(super) struct Confined {
    /// The host's resolver, unless it is left alone.
    pub(super) resolver: Option<Resolver>,
    /// What the sandbox holds, or the reason why there is none.
    pub(super) sandbox: Result<SandboxStatus, String>,
}

impl Default for Confined {
    fn default() -> Self {
        Self { resolver: None, sandbox: Err(String::from("it was not entered")) }
    }
}

impl Confined {
    /// Starts the processes, and enters the sandbox. The process must have one thread.
    pub(super) fn enter(config: &DaemonConfig) -> Self {
        let Some(program) = &config.program else { return Self::default() };
        let outside = match config.sandbox {
            true => outside::start(program).map_err(|error| format!("`taut outside` cannot be started: {error}")),
            false => Err(String::from("it is switched off by the setting `sandbox`")),
        };
        // Before the sandbox: it decides by what only a process with all rights sees.
        // Programs of this host reach no name server of a userspace network.
        let resolver = (config.dns && !config.is_userspace()).then(|| Resolver::start(program, clocks().now));
        Self { resolver, sandbox: outside.map(|()| sandbox::enter(config)) }
    }
}

impl Daemon {
    /// Records once that the process beside the daemon has ended.
    pub(super) fn turn_outside(&mut self) {
        if !self.outside_ended && outside::has_ended() {
            self.outside_ended = true;
            self.note(&kind::OUTSIDE_ENDED, &[]);
        }
    }

    /// Returns a warning if that process has ended.
    pub(super) fn outside_warning(&self) -> Option<Failure> {
        outside::has_ended().then(|| Failure {
            message: String::from("the process `taut outside` ended: names of coordinators and relays are not looked up any more, and this host's resolver is not looked after"),
            hint: String::from("restart the daemon, such as by `systemctl restart taut` or `/etc/init.d/taut restart`, which starts it again; until then connections go on"),
        })
    }

    /// Records which rights the daemon gave up.
    pub(super) fn note_sandbox(&mut self, sandbox: &Result<SandboxStatus, String>) {
        match sandbox {
            Ok(status) => {
                let missing = status.missing.iter().map(|missing| format!("{} ({})", missing.part, missing.reason));
                let values = [status.on.join(" "), missing.collect::<Vec<_>>().join(", ")];
                self.note(&kind::SANDBOX_ENTERED, &values.map(Value::text));
            }
            Err(reason) => self.note(&kind::SANDBOX_OFF, &[Value::text(reason)]),
        }
    }
}
