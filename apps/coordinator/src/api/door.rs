//! Connections before it is known whose they are (faults E11, F13).
//!
//! Every connection is a guest until its node was let in as a member, or until a relay's client is bound on it. [`taut_relay_server::Admission`] has the
//! limits: a share per address and prefix, and the oldest idle guest of the greediest address makes room. Guests that the coordinator works for (an
//! operator's request, a node whose hello has come) stay; they are bounded by time.

use std::sync::Arc;

use taut_relay_server::Pass;
use tokio::sync::watch;
use tokio::time::Instant;

/// A connection that holds a place among the guests. The place is free when the last handle is dropped, or the pass is admitted.
pub(super) struct Guest {
    pass: Arc<Pass>,
    leave: watch::Receiver<bool>,
}

/// While it lives, its guest is not asked to make room.
pub(super) struct Busy(Arc<Guest>);

impl Guest {
    pub(super) fn new(pass: Pass) -> Arc<Self> {
        let (sender, leave) = watch::channel(false);
        let pass = Arc::new(pass);
        // Not lost yet, as it was just made; if it were, the sender would be dropped, which is the same to whoever waits.
        pass.on_loss(move || _ = sender.send_replace(true));
        Arc::new(Self { pass, leave })
    }

    /// What the connection holds, for the relay that it is given to.
    pub(super) fn pass(&self) -> &Arc<Pass> {
        &self.pass
    }

    /// Waits until another connection needs the place.
    pub(super) async fn asked_to_leave(&self) {
        let _ = self.leave.clone().wait_for(|leave| *leave).await;
    }

    /// Until when it has to be known whose the connection is.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.pass.remaining()
    }

    /// The guest is worked for from now on.
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
