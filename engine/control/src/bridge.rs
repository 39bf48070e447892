//! A bridge: one WebSocket to a relay that a lane uses as a UDP address on loopback, for networks that block UDP (docs/spec/relay.md).
//!
//! ```text
//!   lane's socket ◀── UDP, loopback ──▶ Bridge's socket ── taut-bridge thread ── WebSocket, TLS ──▶ relay
//!                                          connected to the lane's port: other senders are ignored
//!
//!   Dialing ── shakes hands within 10 s ──▶ Open ── broken, or told to reconnect  ──▶ Resting ── jittered backoff ──▶ Dialing
//! ```
//! One datagram is one message, in both directions. The bridge does not interpret datagrams. Datagrams that the stream does not take wait in a buffer of
//! [`pump::MOST_WAITING`] bytes; if it is full, new ones are dropped and counted. Thus a lane never waits for a stream.
//!
//! - **Owner**: the agent, by [`Bridge`]. Dropping it ends the connection at once; the thread follows as soon as a resolver or a connect under way lets it.
//! - **Memory**: the buffers exist only while the connection is open.
//! - **Trust**: none in the server. The certificate is not checked, because the relay's key authenticates the relay inside the frames.
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

/// The settings of a bridge.
#[derive(Clone, Debug)]
pub struct BridgeOptions {
    /// `wss://` or `ws://` URL of the relay.
    pub url: String,
    /// The lane's UDP port. Datagrams are exchanged only with it.
    pub lane: u16,
    /// The overlay's own addresses, which no relay has.
    pub overlay: Vec<Prefix>,
}

/// The state of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeReport {
    /// Whether the connection is open.
    pub is_open: bool,
    /// Number of times that the connection was opened.
    pub opened: u64,
    /// The last reason why the connection was not open.
    pub problem: Option<String>,
    /// Number of datagrams to the relay that were dropped because the buffer was full.
    pub dropped_out: u64,
    /// Number of datagrams from the relay that the lane's socket did not take.
    pub dropped_in: u64,
}

/// State that the handle and the thread share.
#[derive(Default)]
struct Shared {
    report: Mutex<BridgeReport>,
    out: AtomicU64,
    back: AtomicU64,
    cancel: Cancel,
    /// Request to check whether the host still has the connection's source address.
    look: AtomicBool,
    /// Request to reconnect.
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
    /// If the URL is malformed, or the system has no room for a socket or a thread.
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

    /// Returns the loopback address at which the lane reaches the relay.
    pub fn place(&self) -> SocketAddr {
        self.place
    }

    /// Returns the state.
    pub fn report(&self) -> BridgeReport {
        let mut report = self.shared.report().clone();
        report.dropped_out = self.shared.out.load(Ordering::Relaxed);
        report.dropped_in = self.shared.back.load(Ordering::Relaxed);
        report
    }

    /// Notes that the host's addresses, routes or links changed: the bridge reconnects if a new connection would have another source address.
    pub fn look(&self) {
        self.shared.look.store(true, Ordering::Release);
        self.wake.wake();
    }

    /// Reconnects, because the relay does not answer through the bridge.
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

/// Parses the URL of a relay, with the parts of a coordinator's URL.
fn web(text: &str) -> io::Result<Url> {
    let plain = text.strip_prefix("ws://").map(|rest| format!("http://{rest}"));
    let secure = text.strip_prefix("wss://").map(|rest| format!("https://{rest}"));
    let url = plain.or(secure).and_then(|url| url.parse().ok());
    url.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("`{text}` is no URL of a relay")))
}

#[cfg(test)]
mod tests;
