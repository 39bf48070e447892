//! A bridge: one WebSocket to a relay that a lane uses as a UDP address on loopback, for networks that block UDP (docs/spec/relay.md).
//!
//! ```text
//!   lane's socket ◀── UDP, loopback ──▶ Bridge's socket ── taut-bridge thread ── WebSocket, TLS ──▶ relay
//!                                          connected to the lane's port: other senders are ignored
//!
//!   Dialing ── handshakes within 10 s ──▶ Open ── broken, or asked to reconnect ──▶ Resting ── jittered backoff ──▶ Dialing
//! ```
//! One datagram is one message, in both directions. The bridge does not interpret datagrams. Datagrams that the stream does not take yet wait in a buffer of
//! [`pump::MOST_WAITING`] bytes. While it is full, new datagrams are dropped and counted. A lane therefore never waits for a stream.
//!
//! - **Owner**: the agent, by [`Bridge`]. Dropping it ends the connection at once; the thread follows as soon as a resolver or a connect under way lets it.
//! - **Memory**: the buffers exist only while the connection is open.
//! - **Trust**: none in the server. The certificate is not checked, because the relay's key authenticates the relay inside the frames.
//! - **Refused addresses**: those that no endpoint may have (loopback, the overlay itself, …), even if a name resolves to them.

mod pump;
mod worker;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use taut_base::{AtomicU64, Prefix};
use taut_dial::{Cancel, Url};
use taut_event::Waker;

use worker::BridgeWorker;

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
    /// True if the connection is open.
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
    dropped_out: AtomicU64,
    dropped_in: AtomicU64,
    cancel: Cancel,
    /// Request to check whether the host still has the connection's source address.
    host_changed: AtomicBool,
    /// Request to reconnect.
    reconnect: AtomicBool,
}

impl Shared {
    fn report(&self) -> MutexGuard<'_, BridgeReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running bridge.
pub struct Bridge {
    local_address: SocketAddr,
    shared: Arc<Shared>,
    wake: Waker,
}

impl Bridge {
    /// Starts the thread. `waker` is woken whenever [`Self::report`] says that the connection opened or closed.
    ///
    /// # Errors
    /// If the URL is malformed, or the system cannot provide a socket or a thread.
    pub fn start(options: &BridgeOptions, waker: Waker) -> io::Result<Self> {
        Self::start_with(options, waker, false)
    }

    fn start_with(options: &BridgeOptions, waker: Waker, allow_any_address: bool) -> io::Result<Self> {
        let url = parse_relay_url(&options.url)?;
        let lane = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        lane.connect((Ipv4Addr::LOCALHOST, options.lane))?;
        lane.set_nonblocking(true)?;
        let (local_address, wake, shared) = (lane.local_addr()?, Waker::new()?, Arc::new(Shared::default()));
        let overlay = (!allow_any_address).then(|| options.overlay.clone());
        let worker = BridgeWorker::new(url, lane, overlay, Arc::clone(&shared), wake.clone(), waker)?;
        thread::Builder::new().name(String::from("taut-bridge")).spawn(move || worker.run())?;
        Ok(Self { local_address, shared, wake })
    }

    /// Returns the loopback address at which the lane reaches the relay.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Returns the state.
    pub fn report(&self) -> BridgeReport {
        let mut report = self.shared.report().clone();
        report.dropped_out = self.shared.dropped_out.load(Ordering::Relaxed);
        report.dropped_in = self.shared.dropped_in.load(Ordering::Relaxed);
        report
    }

    /// Handles a change of the host's addresses, routes or links. The bridge reconnects if a new connection would have another source address.
    pub fn host_changed(&self) {
        self.shared.host_changed.store(true, Ordering::Release);
        self.wake.wake();
    }

    /// Replaces the connection. The caller uses this when the relay does not answer through the bridge.
    pub fn reconnect(&self) {
        self.shared.reconnect.store(true, Ordering::Release);
        self.wake.wake();
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.shared.cancel.cancel();
        self.wake.wake();
    }
}

/// Parses the URL of a relay. Apart from the scheme it has the form of a coordinator's URL.
fn parse_relay_url(text: &str) -> io::Result<Url> {
    let plain = text.strip_prefix("ws://").map(|rest| format!("http://{rest}"));
    let secure = text.strip_prefix("wss://").map(|rest| format!("https://{rest}"));
    let url = plain.or(secure).and_then(|url| url.parse().ok());
    url.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("`{text}` is not the URL of a relay")))
}

#[cfg(test)]
mod tests;
