//! Threads that apply policies. Applying one takes up to seconds of a core, so it happens beside the threads that serve connections, and a bounded number of times at once.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

/// Policies that are tried at once, 2. Each try is a request of an operator; the members' maps have threads of their own.
const TRIES: usize = 2;

/// Limits on policies that are applied at once.
pub(super) struct PolicyThreads {
    maps: Arc<Semaphore>,
    tries: Arc<Semaphore>,
}

impl PolicyThreads {
    pub(super) fn new() -> Self {
        // One network's policy delays no other network while there is a core for it.
        let cores = available_parallelism().map_or(1, NonZero::get);
        Self { maps: Arc::new(Semaphore::new(cores.max(2))), tries: Arc::new(Semaphore::new(TRIES)) }
    }

    /// Applies a policy for maps.
    pub(super) async fn for_maps<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        run(Arc::clone(&self.maps), work).await
    }

    /// Tries a policy that an operator wants to apply. `turn` is the network's, and is given back when the try ends.
    pub(super) async fn for_try<T: Send + 'static>(
        &self,
        turn: OwnedSemaphorePermit,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let work = move || {
            let _turn = turn;
            work()
        };
        run(Arc::clone(&self.tries), work).await
    }
}

/// Works on a thread of its own. A thread cannot be stopped, so it keeps its permit until its work ends, also if the request was abandoned before.
async fn run<T: Send + 'static>(threads: Arc<Semaphore>, work: impl FnOnce() -> T + Send + 'static) -> T {
    let permit = threads.acquire_owned().await;
    let work = move || {
        let _permit = permit;
        work()
    };
    // A panic goes on in the caller (fault N7).
    spawn_blocking(work).await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}
