//! The bridge's thread: it connects, forwards until the connection ends, and waits for the next attempt.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use taut_base::{Prefix, Time};
use taut_dial::{
    Backoff, Broken, Jitter, Server, Stage, Stream, Url, WITHOUT_TLS, WebSocket, check_scheme, connect, resolve,
};
use taut_event::{Events, Interest, Poller, Waker, boot_time};
use taut_path::acceptable;

use super::Shared;
use super::pump::{self, CloseReason, Pump};

/// Age from which the loss of a connection resets the back-off, 10 s: a shorter connection counts as a failed attempt.
const STABLE_AGE: Duration = Duration::from_secs(10);

pub(super) const WAKE: u64 = 0;

pub(super) struct BridgeWorker {
    url: Url,
    lane: UdpSocket,
    /// Prefixes of the overlay, to which no connection is made. `None` allows every address, for tests.
    overlay: Option<Vec<Prefix>>,
    shared: Arc<Shared>,
    wake: Waker,
    agent: Waker,
    poller: Poller,
    backoff: Backoff,
    jitter: Jitter,
}

impl BridgeWorker {
    pub(super) fn new(
        url: Url,
        lane: UdpSocket,
        overlay: Option<Vec<Prefix>>,
        shared: Arc<Shared>,
        wake: Waker,
        agent: Waker,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(wake.as_fd(), WAKE, Interest::READ)?;
        let (backoff, jitter) = (Backoff::default(), Jitter::new());
        Ok(Self { url, lane, overlay, shared, wake, agent, poller, backoff, jitter })
    }

    /// Runs until the handle is dropped.
    pub(super) fn run(mut self) {
        while !self.shared.cancel.is_cancelled() {
            let began = now();
            let reason = match self.dial() {
                Ok(socket) => self.serve(socket),
                Err(Broken(why)) => CloseReason::Broken(why),
            };
            if self.shared.cancel.is_cancelled() {
                return;
            }
            let requested = matches!(reason, CloseReason::Requested);
            self.report_close(reason);
            if requested || now().since(began) >= STABLE_AGE {
                self.backoff.reset();
            }
            if !requested {
                self.rest();
            }
        }
    }

    fn serve(&self, socket: WebSocket<Stream>) -> CloseReason {
        let pump = match Pump::new(socket, &self.lane, &self.poller, &self.shared) {
            Ok(pump) => pump,
            Err(error) => return CloseReason::Broken(error.to_string()),
        };
        self.shared.reconnect.store(false, Ordering::Release);
        {
            let mut report = self.shared.report();
            (report.is_open, report.problem) = (true, None);
            report.opened += 1;
        }
        self.agent.wake();
        pump.run(&self.wake)
    }

    fn report_close(&self, reason: CloseReason) {
        let mut report = self.shared.report();
        let was_open = std::mem::take(&mut report.is_open);
        if let CloseReason::Broken(why) = reason {
            report.problem = Some(why);
        }
        drop(report);
        if was_open {
            self.agent.wake();
        }
    }

    /// Waits for the next attempt. A change of the host's addresses or routes ends the wait.
    fn rest(&mut self) {
        let until = now() + self.backoff.next(&mut self.jitter);
        let mut ready = Events::with_capacity(1);
        while now() < until && !self.shared.cancel.is_cancelled() {
            if self.poller.wait(&mut ready, Some(until.since(now()))).is_err() {
                // Waiting fails only if the host is out of memory. The pause lets it recover.
                std::thread::sleep(Duration::from_millis(100));
            }
            self.wake.drain();
            if self.shared.host_changed.swap(false, Ordering::AcqRel) {
                self.backoff.reset();
                return;
            }
        }
    }

    fn dial(&self) -> Result<WebSocket<Stream>, Broken> {
        if check_scheme(&self.url).is_err() {
            let instead = "this network has to let UDP through to the relay, or the relay needs a ws:// URL";
            return Err(Broken(format!("{}: {instead}", WITHOUT_TLS[0])));
        }
        let mut last = Broken(String::from("its name has no address"));
        for address in resolve(&self.url.host, self.url.port, &[])? {
            let outcome = self.dial_address(address);
            self.shared.cancel.advance(Stage::Detached)?;
            match outcome {
                Ok(socket) => return Ok(socket),
                Err(broken) => last = broken,
            }
        }
        Err(last)
    }

    fn dial_address(&self, address: SocketAddr) -> Result<WebSocket<Stream>, Broken> {
        if self.overlay.as_ref().is_some_and(|overlay| !acceptable(address, overlay)) {
            return Err(Broken(format!("{address}: nothing may be sent there")));
        }
        let stream = connect(address, &self.url, &self.shared.cancel)?;
        WebSocket::open(stream, &self.url.authority(), &self.url.path, self.url.secure, pump::LIMITS)
            .map_err(|error| Broken(format!("{address}: {}", error.explain(Server::Relay))))
    }
}

pub(super) fn now() -> Time {
    Time::from_duration(boot_time())
}
