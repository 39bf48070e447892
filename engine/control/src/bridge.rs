//! A bridge: one WebSocket to a relay, shown to a lane as a UDP address of this host's loopback, for where UDP is blocked (docs/spec/relay.md).
//!
//! ```text
//!   lane's socket ◀── UDP, loopback ──▶ Bridge's socket ── taut-bridge thread ── WebSocket, TLS ──▶ relay
//!                                          connected to the lane's port: nobody else is heard
//!
//!   Dialing ── shakes hands within 10 s ──▶ Open ── broken, or told to begin anew ──▶ Resting ── jittered backoff ──▶ Dialing
//! ```
//! One datagram is one message, in both directions. The bridge reads none of them and holds none back: what the stream does not take goes into a buffer of
//! [`pump::MOST_WAITING`] bytes, and what finds no room there is dropped, the newest first, and counted. So a lane never waits for a stream.
//!
//! - **Owner**: the agent, by [`Bridge`]. Dropping it ends the connection at once; the thread follows as soon as a resolver or a connect under way lets it.
//! - **Memory**: buffers are there while the connection is open, and go with it.
//! - **Trust**: none in what is at the other end. The certificate is not checked, because whom the node speaks to is said by the relay's key, inside the frames.
//! - **It refuses**: addresses that no endpoint may have (loopback, the overlay itself, …), whatever a name resolves to.

mod pump;
mod worker;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use taut_base::Prefix;
use taut_event::Waker;

use crate::dial::Cancel;
use crate::url::Url;
use worker::Worker;

/// What to open.
#[derive(Clone, Debug)]
pub struct BridgeOptions {
    /// `wss://` or `ws://` URL of the relay.
    pub url: String,
    /// The lane's UDP port: whose datagrams are taken, and where those of the relay go.
    pub lane: u16,
    /// The overlay's own addresses: no relay is there.
    pub overlay: Vec<Prefix>,
}

/// How a bridge stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeReport {
    /// Whether the connection is open.
    pub is_open: bool,
    /// How often it was opened.
    pub opened: u64,
    /// Why it is not open, or was not the last time.
    pub problem: Option<String>,
    /// Datagrams that found no room on their way to the relay.
    pub dropped_out: u64,
    /// Datagrams of the relay's that the lane's socket did not take.
    pub dropped_in: u64,
}

/// What the handle and the thread share.
#[derive(Default)]
struct Shared {
    report: Mutex<BridgeReport>,
    out: AtomicU64,
    back: AtomicU64,
    cancel: Cancel,
    /// The thread is to look whether our address is still the one that the connection has.
    look: AtomicBool,
    /// The connection is of no use.
    renew: AtomicBool,
}

impl Shared {
    fn report(&self) -> MutexGuard<'_, BridgeReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running bridge.
pub struct Bridge {
    place: SocketAddr,
    shared: Arc<Shared>,
    wake: Waker,
}

impl Bridge {
    /// Starts the thread. `waker` is woken whenever [`Self::report`] says that the connection opened or closed.
    ///
    /// # Errors
    /// A URL that makes no sense, or when the system has no room for a socket or a thread.
    pub fn start(options: &BridgeOptions, waker: Waker) -> io::Result<Self> {
        Self::start_with(options, waker, false)
    }

    fn start_with(options: &BridgeOptions, waker: Waker, anywhere: bool) -> io::Result<Self> {
        let url = web(&options.url)?;
        let lane = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        lane.connect((Ipv4Addr::LOCALHOST, options.lane))?;
        lane.set_nonblocking(true)?;
        let (place, wake, shared) = (lane.local_addr()?, Waker::new()?, Arc::new(Shared::default()));
        let overlay = (!anywhere).then(|| options.overlay.clone());
        let worker = Worker::new(url, lane, overlay, Arc::clone(&shared), wake.clone(), waker)?;
        thread::Builder::new().name(String::from("taut-bridge")).spawn(move || worker.run())?;
        Ok(Self { place, shared, wake })
    }

    /// Where the lane reaches the relay.
    pub fn place(&self) -> SocketAddr {
        self.place
    }

    /// How it stands.
    pub fn report(&self) -> BridgeReport {
        let mut report = self.shared.report().clone();
        report.dropped_out = self.shared.out.load(Ordering::Relaxed);
        report.dropped_in = self.shared.back.load(Ordering::Relaxed);
        report
    }

    /// The host's addresses, routes or links changed: a connection from an address that is not ours any more, or not the one to use, begins anew.
    pub fn look(&self) {
        self.shared.look.store(true, Ordering::Release);
        self.wake.wake();
    }

    /// The relay does not answer by it: the connection begins anew.
    pub fn renew(&self) {
        self.shared.renew.store(true, Ordering::Release);
        self.wake.wake();
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.shared.cancel.cancel();
        self.wake.wake();
    }
}

/// A relay's URL, whose parts are those of a coordinator's.
fn web(text: &str) -> io::Result<Url> {
    let plain = text.strip_prefix("ws://").map(|rest| format!("http://{rest}"));
    let secure = text.strip_prefix("wss://").map(|rest| format!("https://{rest}"));
    let url = plain.or(secure).and_then(|url| url.parse().ok());
    url.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("`{text}` is no URL of a relay")))
}

#[cfg(test)]
mod tests;
