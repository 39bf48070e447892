//! The signals that `serve` acts on.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use taut_relay_server::log::{HANGUP, LevelSwitch};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};

use crate::log;

/// The signals that `serve` acts on.
pub(super) struct ServeSignals {
    terminate: Signal,
    interrupt: Signal,
    raise: Signal,
    hangup: Signal,
}

/// State of the program's shutdown, which SIGTERM and SIGINT begin.
pub(super) struct Ending {
    /// True from the first signal on: the coordinator still serves, and is not ready for new connections.
    pub(super) leaving: watch::Receiver<bool>,
    /// True once it must not serve any more: after the time to drain, or at the second signal.
    pub(super) stop: watch::Receiver<bool>,
}

impl ServeSignals {
    pub(super) fn new(runtime: &Runtime) -> io::Result<Self> {
        let _context = runtime.enter();
        let wanted =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::user_defined1(), SignalKind::hangup()];
        let [terminate, interrupt, raise, hangup] = wanted.map(signal);
        Ok(Self { terminate: terminate?, interrupt: interrupt?, raise: raise?, hangup: hangup? })
    }

    /// Records one level more at each SIGUSR1. SIGHUP notifies `reload`, by which the certificate is read again; without it, as when a terminal closes, SIGHUP changes
    /// nothing and is logged. SIGTERM and SIGINT end the program after the time to drain.
    pub(super) fn handle(self, levels: LevelSwitch, drain: Duration, reload: Option<Arc<Notify>>) -> Ending {
        let Self { mut terminate, mut interrupt, mut raise, mut hangup } = self;
        tokio::spawn(async move {
            while raise.recv().await.is_some() {
                let levels = levels.next_levels();
                tracing::info!(target: log::DAEMON, event = "levels-changed", %levels);
            }
        });
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                match &reload {
                    Some(reload) => reload.notify_one(),
                    None => tracing::info!(target: log::DAEMON, event = "hangup-ignored", hint = HANGUP),
                }
            }
        });
        let ((leave, leaving), (end, stop)) = (watch::channel(false), watch::channel(false));
        tokio::spawn(async move {
            let mut ended = async || {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            ended().await;
            leave.send_replace(true);
            tracing::info!(target: log::DAEMON, event = "stopping", drain_s = drain.as_secs());
            // A second signal ends the wait.
            let _ = tokio::time::timeout(drain, ended()).await;
            end.send_replace(true);
        });
        Ending { leaving, stop }
    }
}
