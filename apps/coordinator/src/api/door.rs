//! Unauthenticated connections (faults E11, F13).
//!
//! Every connection is unauthenticated until its node was admitted as a member, or until a client of the relay is bound on it.
//! [`taut_relay_server::Admission`] has the limits: a share per address and prefix, and eviction of the oldest idle connection of the address that has most.
//! A connection is not evicted while the coordinator works for it (an operator's request, a node that said hello); that time is bounded.

use std::sync::Arc;

use taut_relay_server::Pass;
use tokio::sync::watch;
use tokio::time::Instant;

/// An unauthenticated connection. Its place is free when the last handle is dropped, or when the pass is admitted.
pub(super) struct Guest {
    pass: Arc<Pass>,
    leave: watch::Receiver<bool>,
}

/// While it lives, the connection is not evicted.
pub(super) struct Busy(Arc<Guest>);

impl Guest {
    pub(super) fn new(pass: Pass) -> Arc<Self> {
        let (sender, leave) = watch::channel(false);
        let pass = Arc::new(pass);
        // An eviction before this line drops the sender, which ends the wait in `asked_to_leave`, too.
        pass.on_loss(move || _ = sender.send_replace(true));
        Arc::new(Self { pass, leave })
    }

    /// Returns the pass, for the relay that the connection is given to.
    pub(super) fn pass(&self) -> &Arc<Pass> {
        &self.pass
    }

    /// Waits until the connection is evicted.
    pub(super) async fn asked_to_leave(&self) {
        let _ = self.leave.clone().wait_for(|leave| *leave).await;
    }

    /// Returns when the connection is closed unless it was authenticated.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.pass.remaining()
    }

    /// Keeps the connection from being evicted.
    pub(super) fn busy(self: Arc<Self>) -> Busy {
        self.pass.set_busy(true);
        Busy(self)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.pass.set_busy(false);
    }
}
