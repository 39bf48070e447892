//! The relay's channel to a coordinator that it trusts (docs/spec/relay.md). One small thread for each.
//!
//! ```text
//!   Dialing ── handshakes within 30 s ──▶ Open ── load every 10 s ──▶ coordinator
//!      ▲                                   │ ◀── revocations ── (relay: bindings end, tickets are refused)
//!      └──── jittered back-off ◀── broken, refused, silent for 45 s
//! ```
//! The relay serves without it: tickets are checked offline. What it was told of stays in force while the channel is away.
//!
//! - **Owner**: the program, by [`CoordinatorLink`]. Dropping it says goodbye and ends the thread.
//! - **Trust**: the coordinator's pinned key, which the relay token names. Revocations of one coordinator concern its own members only.

mod load;
mod worker;

use std::io;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use taut_base::PrivateKey;
use taut_event::Waker;
use taut_netmap::RelayToken;

use crate::removals::Removals;
use crate::stats::Stats;
use load::LoadMeter;
use worker::LinkWorker;

/// What a link needs of the relay.
pub(crate) struct LinkOptions {
    /// The coordinator.
    pub(crate) token: RelayToken,
    /// The relay's key, by which the coordinator knows it.
    pub(crate) key: PrivateKey,
    /// Version of the program.
    pub(crate) version: String,
    /// Traffic that the relay can forward, in bits per second; 0 if unknown.
    pub(crate) capacity: u64,
    /// Most clients that the relay serves.
    pub(crate) clients: usize,
    /// Threads that forward.
    pub(crate) workers: usize,
}

/// A running link. It ends when it is dropped.
pub struct CoordinatorLink {
    stop: Option<Sender<()>>,
    wake: Waker,
    thread: Option<JoinHandle<()>>,
}

impl CoordinatorLink {
    /// Starts the thread.
    pub(crate) fn start(
        options: LinkOptions,
        removals: Removals,
        stats: impl Fn() -> Stats + Send + 'static,
    ) -> io::Result<Self> {
        let wake = Waker::new()?;
        let (stop, stopped) = mpsc::channel();
        let meter = LoadMeter::new(options.capacity, options.clients, options.workers, Box::new(stats));
        let worker = LinkWorker::new(options, removals, meter, wake.clone(), stopped)?;
        let thread = thread::Builder::new().name(String::from("coordinator")).spawn(move || worker.run())?;
        Ok(Self { stop: Some(stop), wake, thread: Some(thread) })
    }
}

impl Drop for CoordinatorLink {
    fn drop(&mut self) {
        // The thread sees that the sender is gone.
        self.stop = None;
        self.wake.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
