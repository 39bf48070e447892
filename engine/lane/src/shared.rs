//! What other threads may read of a lane, and their requests to its thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use taut_base::AtomicU64;

use crate::drops::DropCounts;
use crate::locals::LocalTable;
use crate::replacement::Replacement;
use crate::ring::Rings;
use crate::traffic::TrafficTable;

/// What other threads may read of a lane.
#[derive(Debug, Default)]
pub struct LaneShared {
    /// Dropped packets by reason.
    pub drops: Arc<DropCounts>,
    /// Bytes by peer.
    pub traffic: Arc<TrafficTable>,
    /// The addresses of ours that peers send to.
    pub locals: Arc<LocalTable>,
    /// Another socket for the lane.
    pub(crate) replacement: Replacement,
    /// The lane's ends of the rings, until it takes them ([`taut_node::ToLane::Lanes`]).
    rings: Mutex<Option<Rings>>,
    handed_off: AtomicU64,
    strays: AtomicU64,
    stop: AtomicBool,
    /// Set when the thread ended on its own, because the TUN is gone.
    failed: AtomicBool,
}

impl LaneShared {
    /// Returns the state of a lane that starts where an earlier one ended: it goes on counting.
    #[must_use]
    pub fn successor(&self) -> Self {
        Self {
            drops: Arc::clone(&self.drops),
            traffic: Arc::clone(&self.traffic),
            handed_off: self.handed_off().into(),
            strays: self.strays().into(),
            ..Self::default()
        }
    }

    /// Leaves the ends of rings for the lane, which takes them with [`taut_node::ToLane::Lanes`].
    pub fn leave_rings(&self, rings: Rings) {
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner) = Some(rings);
    }

    /// Takes the rings that the agent left; none if the lane is alone.
    pub(crate) fn take_rings(&self) -> Rings {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    /// Returns the number of packets and superpackets of the host that this lane read and handed off to another lane.
    pub fn handed_off(&self) -> u64 {
        self.handed_off.load(Ordering::Relaxed)
    }

    /// Counts a packet that is handed off.
    pub(crate) fn add_handed_off(&self) {
        self.handed_off.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of datagrams that came to this lane's socket with another lane's receiver index.
    pub fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    /// Counts a datagram with another lane's receiver index.
    pub(crate) fn add_stray(&self) {
        self.strays.fetch_add(1, Ordering::Relaxed);
    }

    /// Has the thread end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Returns true if the thread has to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Notes that the thread ended on its own.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Returns true if the thread ended on its own.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}
