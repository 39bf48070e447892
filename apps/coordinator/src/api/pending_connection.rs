//! Unauthenticated connections (faults E11, F13).
//!
//! Every connection is unauthenticated until its node was admitted as a member, or until a client of the relay is bound on it.
//! [`taut_relay_server::ConnectionAdmission`] has the limits: a share per address and prefix, and eviction of the oldest idle connection of the address with the most.
//! A connection is not evicted while the coordinator works for it (an operator's request, a node that said hello); that time is bounded.

use std::sync::Arc;

use taut_relay_server::Pass;
use tokio::sync::watch;
use tokio::time::Instant;

use super::work::Work;

/// An unauthenticated connection. It counts as one until its last handle is dropped, or its pass is admitted.
pub(super) struct PendingConnection {
    pass: Arc<Pass>,
    leave: watch::Receiver<bool>,
    work: Arc<Work>,
}

/// Guard that keeps a connection from being evicted, and the program from ending.
pub(super) struct BusyGuard(Arc<PendingConnection>);

impl PendingConnection {
    pub(super) fn new(pass: Pass, work: Arc<Work>) -> Arc<Self> {
        let (sender, leave) = watch::channel(false);
        let pass = Arc::new(pass);
        // An eviction before this line drops the sender, which also ends the wait in `evicted`.
        pass.on_loss(move || _ = sender.send_replace(true));
        Arc::new(Self { pass, leave, work })
    }

    /// Returns the pass, which goes with the connection to the relay.
    pub(super) fn pass(&self) -> &Arc<Pass> {
        &self.pass
    }

    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        let _ = self.leave.clone().wait_for(|leave| *leave).await;
    }

    /// Returns the time at which the connection is closed if it is still unauthenticated.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.pass.remaining()
    }

    /// Keeps the connection from being evicted, and the program from ending, while the guard exists.
    pub(super) fn busy(self: Arc<Self>) -> BusyGuard {
        self.work.begin();
        self.pass.set_busy(true);
        BusyGuard(self)
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.pass.set_busy(false);
        self.0.work.end();
    }
}
