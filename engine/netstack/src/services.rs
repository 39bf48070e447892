//! The sockets of this host that programs connect to, and the ports that peers connect to.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use taut_base::Time;
use taut_event::{Interest, Poller};
use taut_proxy::{Service, ServiceReport, Setup, Target};

use crate::handshake::Protocol;

/// Connections that are accepted per turn and service, 32.
const ACCEPTS: usize = 32;
/// Pause after a connection could not be accepted, as while the process has no descriptors left, 1 s.
const PAUSE: Duration = Duration::from_secs(1);

/// A listening socket of this host.
pub(crate) struct LocalService {
    listener: Option<TcpListener>,
    /// Where all its connections lead; `None` if its clients say it.
    pub(crate) target: Option<Target>,
    protocol: Protocol,
    report: ServiceReport,
    /// The end of a pause.
    pub(crate) paused: Option<Time>,
}

impl LocalService {
    /// Opens the services of a setup. What cannot be opened has the reason in its report.
    pub(crate) fn open_all(setup: &Setup) -> Vec<Self> {
        let socks5 = setup.socks5.map(|at| (Service::Socks5, at, None, Protocol::Socks5 { greeted: false }));
        let http = setup.http.map(|at| (Service::HttpProxy, at, None, Protocol::Http { tunnel: false }));
        let forwards = setup
            .forwards
            .iter()
            .map(|forward| (Service::Forward, forward.listen, Some(forward.target.clone()), Protocol::None));
        let all = socks5.into_iter().chain(http).chain(forwards);
        all.map(|(service, at, target, protocol)| Self::open(service, at, target, protocol)).collect()
    }

    fn open(service: Service, at: SocketAddr, target: Option<Target>, protocol: Protocol) -> Self {
        let opened = TcpListener::bind(at).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let problem = opened.as_ref().err().map(|error| match error.kind() {
            ErrorKind::AddrInUse => format!("another program has {at} (`ss -ltnp` names it)"),
            ErrorKind::PermissionDenied => format!("{at} is for root alone; choose a port of 1024 or more"),
            ErrorKind::AddrNotAvailable => format!("{at} is no address of this host"),
            _ => format!("{at}: {error}"),
        });
        let report =
            ServiceReport { service, listen: at.to_string(), target: target.as_ref().map(Target::to_string), problem };
        Self { listener: opened.ok(), target, protocol, report, paused: None }
    }

    /// Returns what a client of the service says first.
    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol.clone()
    }

    pub(crate) fn report(&self) -> &ServiceReport {
        &self.report
    }

    /// Has the poller watch it.
    pub(crate) fn register(&self, poller: &Poller, token: u64) -> io::Result<()> {
        self.listener.as_ref().map_or(Ok(()), |listener| poller.add(listener.as_fd(), token, Interest::READ))
    }

    /// Accepts connections, and begins a pause if that fails.
    pub(crate) fn accept(&mut self, poller: &Poller, token: u64, now: Time) -> Vec<(TcpStream, SocketAddr)> {
        let Some(listener) = &self.listener else { return Vec::new() };
        let mut accepted = Vec::new();
        while accepted.len() < ACCEPTS {
            match listener.accept() {
                Ok((stream, from)) if stream.set_nonblocking(true).is_ok() => accepted.push((stream, from)),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The client is gone already.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(_) => {
                    self.paused = Some(now + PAUSE);
                    let _ = poller.modify(listener.as_fd(), token, Interest::NONE);
                    break;
                }
            }
        }
        accepted
    }

    /// Ends a pause that is over.
    pub(crate) fn resume(&mut self, poller: &Poller, token: u64, now: Time) {
        if let (Some(_), Some(listener)) = (self.paused.take_if(|end| *end <= now), &self.listener) {
            let _ = poller.modify(listener.as_fd(), token, Interest::READ);
        }
    }
}

/// Returns the reports of the published ports.
pub(crate) fn published(setup: &Setup) -> impl Iterator<Item = ServiceReport> {
    setup.publish.iter().map(|publish| ServiceReport {
        service: Service::Publish,
        listen: publish.port.to_string(),
        target: Some(publish.target.to_string()),
        problem: None,
    })
}
