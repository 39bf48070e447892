//! The coordinator under load: `serve` of this very program, as a child.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cli::CommandError;
use crate::cli::settings::KNOWN;
use crate::store::Location;

/// Clock ticks per second in /proc/PID/stat: the same on every Linux (proc(5), `sysconf(_SC_CLK_TCK)`).
const TICKS: f64 = 100.0;

/// The child. Dropping it ends it as a crash would.
pub(super) struct Coordinator {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Coordinator {
    /// Starts it on a state directory, and on a server's database if there is one, and waits until it listens.
    pub(super) fn start(state: &Path, database: Option<&Location>, listen: SocketAddr) -> Result<Self, CommandError> {
        let failed =
            |error: &dyn std::fmt::Display| CommandError::Run(format!("the coordinator does not start: {error}"));
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let mut command = Command::new(program);
        // The settings of this host belong to its own coordinator, not to the simulated one.
        KNOWN.iter().for_each(|known| _ = command.env_remove(known.variable()));
        match database {
            // In the environment, because every local user can read the command line.
            Some(Location::Server(url)) => command.env("TAUT_DATABASE", url.as_str()),
            _ => &mut command,
        };
        let mut child = command
            .args([
                "serve",
                "--config",
                "/dev/null",
                "--no-relay",
                "--log-level",
                "warn",
                "--listen",
                &listen.to_string(),
                "--state",
            ])
            .arg(state)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed(&error))?;
        let lines = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        let mut lines = lines.into_iter().flatten().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("listening on ")?.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(&"it ended before it listened; try `taut-coordinator serve` alone"));
        };
        Ok(Self { child, address })
    }

    /// Returns the memory that it holds now (`VmRSS`) or held at most (`VmHWM`), in KiB.
    pub(super) fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(self.file("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    /// Returns the processor time that it used so far.
    pub(super) fn processor(&self) -> Duration {
        let stat = std::fs::read_to_string(self.file("stat")).unwrap_or_default();
        // The name of the program may contain spaces; the fields after it are numbered from 3 (proc(5)).
        let fields = stat.rsplit(") ").next().unwrap_or_default().split_whitespace();
        let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
        Duration::from_secs_f64(ticks / TICKS)
    }

    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.child.id()))
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
