//! Tests whether coordinators accept TCP: opens one connection to each address, all at the same time, and sends nothing.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;
use taut_base::{SAFE_PACKET, SOCKET_MARK};
use taut_event::connect_tcp;

use super::target::Coordinator;

/// Longest wait for a connection, 3 s: as long as the UDP survey.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The result for a coordinator, in the form that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct CoordinatorReport {
    pub(super) url: String,
    pub(super) endpoints: Vec<TcpReport>,
}

/// The result for one address of a coordinator, in the form that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct TcpReport {
    pub(super) endpoint: SocketAddr,
    /// Time to connect in milliseconds, rounded to a microsecond; `null` without a connection.
    pub(super) latency_ms: Option<f64>,
    /// The reason why no connection was made.
    pub(super) problem: Option<String>,
}

/// The attempts in progress.
pub(super) struct Attempts(Vec<(String, Vec<JoinHandle<TcpReport>>)>);

impl Attempts {
    /// Starts a connection to each address of each coordinator.
    pub(super) fn start(coordinators: Vec<Coordinator>) -> Self {
        let start = |coordinator: Coordinator| {
            let addresses = coordinator.addresses.into_iter();
            (coordinator.url, addresses.map(|endpoint| thread::spawn(move || connect(endpoint))).collect())
        };
        Self(coordinators.into_iter().map(start).collect())
    }

    /// Waits for all attempts.
    pub(super) fn finish(self) -> Vec<CoordinatorReport> {
        let finish = |(url, attempts): (String, Vec<JoinHandle<TcpReport>>)| CoordinatorReport {
            url,
            endpoints: attempts.into_iter().filter_map(|attempt| attempt.join().ok()).collect(),
        };
        self.0.into_iter().map(finish).collect()
    }
}

fn connect(endpoint: SocketAddr) -> TcpReport {
    let begin = Instant::now();
    let connected = connect_tcp(endpoint, SAFE_PACKET, TIMEOUT, SOCKET_MARK);
    let time = (begin.elapsed().as_secs_f64() * 1e6).round() / 1e3;
    match connected {
        Ok(_) => TcpReport { endpoint, latency_ms: Some(time), problem: None },
        Err(error) => TcpReport { endpoint, latency_ms: None, problem: Some(error.to_string()) },
    }
}
