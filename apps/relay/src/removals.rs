//! The handle by which a coordinator has a relay cut off removed members.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use taut_base::PublicKey;
use taut_relay::{NetworkTag, Removal, VerifyingKey};

use crate::shared::Shared;
use crate::system::clocks;

/// Number of members that are cut off while the lock is held, 64: about 0.5 ms, the longest delay of a worker with a bind or control frame. A removed network may
/// have 65,536 members.
const PIECE: usize = 64;

/// A handle to a relay for a coordinator, which reports removed members.
#[derive(Clone)]
pub struct Removals(Arc<Shared>);

impl Removals {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Ends the bindings of these members, and refuses their earlier tickets. Returns when all of them are cut off.
    pub fn cut_off(&self, signer: &VerifyingKey, removals: &[Removal]) {
        for piece in removals.chunks(PIECE) {
            self.0.order(|server| {
                let clocks = clocks();
                piece.iter().for_each(|removal| server.cut_off(signer, removal, clocks));
            });
            // A worker that waits for the lock gets it before the next piece.
            thread::yield_now();
        }
    }

    /// Notes that a channel to a coordinator opened, or that one that was open closed.
    pub(crate) fn note_channel(&self, is_open: bool) {
        let coordinators = &self.0.coordinators;
        match is_open {
            true => coordinators.fetch_add(1, Ordering::Relaxed),
            false => coordinators.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Counts revocations that a coordinator told of.
    pub(crate) fn note_revocations(&self, count: usize) {
        self.0.revocations.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Returns the earliest signing time, in seconds since 1970, at which a ticket for this key is accepted, if the key is cut off.
    pub fn taken_from(&self, signer: &VerifyingKey, network: NetworkTag, key: PublicKey) -> Option<u64> {
        self.0.ask(|server| server.taken_from(signer, network, key, clocks()))
    }
}
