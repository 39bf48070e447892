//! Counters over HTTP: `/metrics` for Prometheus, `/status` as JSON. One small thread, one request at a time.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use taut_event::{Events, Interest, Poller, Waker};

use crate::stats::Stats;

/// How long one asker may take to ask, and to read the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request that are read: its first line is all that counts.
const REQUEST: usize = 4096;

/// A listener that answers until it is dropped.
pub struct Metrics {
    address: SocketAddr,
    stop: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Listens on `address`; `stats` is asked for each answer.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn start(address: SocketAddr, stats: impl Fn() -> Stats + Send + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (poller, stop) = (Poller::new()?, Waker::new()?);
        poller.add(listener.as_fd(), 0, Interest::READ)?;
        poller.add(stop.as_fd(), 1, Interest::READ)?;
        let thread =
            thread::Builder::new().name("metrics".to_owned()).spawn(move || serve(&listener, &poller, &stats))?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, poller: &Poller, stats: &impl Fn() -> Stats) {
    let mut events = Events::with_capacity(2);
    while poller.wait(&mut events, None).is_ok() {
        if events.iter().any(|event| event.token == 1) {
            return;
        }
        if let Ok((stream, _)) = listener.accept() {
            // Whoever goes away meanwhile gets no answer; that is all.
            let _ = answer(stream, stats);
        }
    }
}

fn answer(mut stream: TcpStream, stats: &impl Fn() -> Stats) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = [0; REQUEST];
    let length = stream.read(&mut request)?;
    let line = request.get(..length).unwrap_or_default();
    let (status, kind, body) = if line.starts_with(b"GET /metrics ") {
        ("200 OK", "text/plain; version=0.0.4", stats().prometheus())
    } else if line.starts_with(b"GET /status ") {
        ("200 OK", "application/json", stats().json().to_string())
    } else {
        ("404 Not Found", "text/plain", String::from("ask for /metrics or /status\n"))
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
