//! `taut wg`: a plain userspace WireGuard interface. The stock `wg` configures it over a unix socket; no coordinator, no map, no state on disk.
//!
//! It is the same machinery as a network's: node, lane and queues. The interface has no addresses and no routes of ours: `ip` and `wg-quick`
//! see to those, and to the MTU. It ends when the device is deleted, the socket's file is removed, or a signal asks for it, and leaves
//! nothing behind.
//!
//! - this file: the loop;
//! - `device`: the interface with its lane, and what a request does to it;
//! - `link`: the lane under it;
//! - `socket`: who asks.

mod device;
mod host;
mod links;
mod socket;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use taut_base::Time;
use taut_event::{Events, Interest, Poller, Signal, Signals, Waker};
use taut_netlink::{Monitor, NetlinkError};
use taut_node::uapi::{Errno, Request};
use taut_tun::{Offload, Tun, TunError};
use taut_tunnel::Limits;
use taut_udp::BindError;

use crate::daemon::clocks;
use device::Device;
use host::Host;
use links::Links;
use socket::{FIRST_CONNECTION, Socket};

/// Where `wg` looks for the sockets of userspace interfaces.
const DIRECTORY: &str = "/var/run/wireguard";

const TOKEN_SIGNALS: u64 = 0;
const TOKEN_WAKER: u64 = 1;
const TOKEN_MONITOR: u64 = 2;
const TOKEN_SOCKET: u64 = 3;
const TOKEN_AWAY: u64 = 4;

/// How often to look whether the socket's file and the device are still there: nothing reports that of a file without a watch of its own,
/// nor of a device in another network namespace.
const LOOK: Duration = Duration::from_secs(1);
/// Routes and rules come in bursts (`wg-quick` makes several); one look follows the burst.
const SETTLE: Duration = Duration::from_millis(100);

/// How an interface runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name.
    pub interface: String,
    /// Kill switch of the TUN's offloads.
    pub tun_offload: bool,
    /// Kill switch of GSO on the UDP socket.
    pub udp_gso: bool,
    /// Kill switch of GRO on the UDP socket.
    pub udp_gro: bool,
    /// Wait for packets without sleeping, for 50 ms after each: sooner there, at the price of up to a core.
    pub low_latency: bool,
    /// Tests only: shortens the life of sessions.
    pub rekey_after: Option<Duration>,
}

/// What another program has made, and handed over at the start.
#[derive(Debug, Default)]
pub struct Inherited {
    /// A queue of the TUN device; its name counts, and not the one in [`Config`].
    pub tun: Option<OwnedFd>,
    /// A unix socket that listens as the device's `.sock` file, where `wg` looks.
    pub uapi: Option<OwnedFd>,
}

/// Runs the interface until its end. `ready` is called once, when the device is made and `wg` is answered; `complain` when the device came up and
/// cannot be used, as long as that is so.
///
/// The UDP socket stays in the network namespace of this process, wherever the device is moved to.
///
/// # Errors
/// When it could not start, nothing is left then; or when the kernel refused to let it go on.
pub fn run(
    config: &Config,
    inherited: Inherited,
    ready: impl FnOnce(),
    mut complain: impl FnMut(&Error),
) -> Result<(), Error> {
    // Before any thread is started: they inherit the mask.
    let signals = Signals::new(&[Signal::Terminate, Signal::Interrupt])
        .map_err(|error| Error::System("take over signals", error))?;
    // Before the first reading of the link, so that no change falls in between.
    let monitor = Monitor::open().map_err(Error::Netlink)?;
    let offload = if config.tun_offload { Offload::ALL } else { Offload::NONE };
    let handed = inherited.tun.map(|fd| Tun::from_fd(fd, offload)).transpose().map_err(Error::Tun)?;
    let name = handed.as_ref().map_or(config.interface.as_str(), Tun::name);
    let mut socket = match inherited.uapi {
        Some(fd) => Socket::inherit(fd, DIRECTORY.as_ref(), name)?,
        None => Socket::listen(DIRECTORY.as_ref(), name)?,
    };
    let made = || Tun::create(&taut_tun::Config { name: config.interface.clone(), offload, multi_queue: false });
    let tun = handed.map_or_else(made, Ok).map_err(Error::Tun)?;
    let mut host = Host::prepare(tun.name())?;
    let waker = Waker::new().map_err(|error| Error::System("be woken", error))?;
    let device = Device::new(config, tun, waker.clone())?;

    let poller = Poller::new().map_err(|error| Error::System("wait for events", error))?;
    let add =
        |fd, token| poller.add(fd, token, Interest::READ).map_err(|error| Error::System("wait for events", error));
    add(signals.as_fd(), TOKEN_SIGNALS)?;
    add(waker.as_fd(), TOKEN_WAKER)?;
    add(monitor.as_fd(), TOKEN_MONITOR)?;
    add(socket.as_fd(), TOKEN_SOCKET)?;
    ready();
    let room = WgDaemon {
        device,
        monitor,
        host: &mut host,
        socket: &mut socket,
        poller: &poller,
        settle: None,
        complain: &mut complain,
        complained: false,
    };
    let result = room.run(&signals, &waker);
    drop(socket);
    result
}

/// WireGuard's limits, or a test's shorter ones.
fn limits(config: &Config) -> Limits {
    config.rekey_after.map_or(Limits::WIREGUARD, Limits::with_rekey_after)
}

struct WgDaemon<'a> {
    device: Device,
    monitor: Monitor,
    host: &'a mut Host,
    socket: &'a mut Socket,
    poller: &'a Poller,
    /// When to ask for the ways to peers again.
    settle: Option<Time>,
    complain: &'a mut dyn FnMut(&Error),
    complained: bool,
}

impl WgDaemon<'_> {
    fn run(mut self, signals: &Signals, waker: &Waker) -> Result<(), Error> {
        let mut events = Events::with_capacity(32);
        self.look();
        let mut look = clocks().now + LOOK;
        loop {
            let now = clocks().now;
            let due = self.device.poll_timeout(now).into_iter().chain([look]).chain(self.settle).min();
            let timeout = due.map(|due: Time| due.since(now));
            self.poller.wait(&mut events, timeout).map_err(|error| Error::System("wait for events", error))?;
            for event in events.iter() {
                match event.token {
                    // Whichever of the two it was, it asks for the end.
                    TOKEN_SIGNALS if signals.next().is_some() => return Ok(()),
                    TOKEN_WAKER => waker.drain(),
                    TOKEN_MONITOR if self.handle_news() => return Ok(()),
                    TOKEN_AWAY if self.host.drain_away() => self.look(),
                    TOKEN_SOCKET => self.socket.accept(self.poller),
                    token if token >= FIRST_CONNECTION => self.serve(token),
                    _ => {}
                }
            }
            self.device.turn(clocks());
            if self.device.has_failed() {
                return Ok(());
            }
            let now = clocks().now;
            if self.settle.take_if(|due| now >= *due).is_some() {
                self.device.check_ways(&mut self.host.netlink);
            }
            if now >= look {
                look = now + LOOK;
                if !self.socket.is_there() || !self.device.exists() {
                    return Ok(());
                }
                self.socket.accept(self.poller);
                self.look();
            }
        }
    }

    /// Takes notice of how the device is now.
    fn look(&mut self) {
        if let Some(seen) = self.host.look(self.device.tun(), self.poller) {
            self.device.set_mtu(seen.mtu);
            let result = self.device.set_up(seen.up);
            // Once is enough, it is tried every second.
            if let (Err(error), false) = (&result, self.complained) {
                (self.complain)(error);
            }
            self.complained = result.is_err();
        }
    }

    fn serve(&mut self, token: u64) {
        let (device, mut links) = (&mut self.device, Links::new(&mut self.host.netlink));
        // It may be another mark.
        self.settle.get_or_insert(clocks().now + SETTLE);
        self.socket.serve(token, self.poller, |request| match request {
            Ok(Request::Get) => device.describe(clocks(), &mut links),
            Ok(Request::Set(set)) => Errno::print(device.set(*set, &mut links)),
            Err(errno) => Errno::print(Err(errno)),
        });
    }

    /// Something changed on the host. Whether the device is gone.
    fn handle_news(&mut self) -> bool {
        // Lost news counts as a change; an error would come again with the next news.
        let Ok(changes) = self.monitor.drain() else { return false };
        if changes.any() {
            self.settle.get_or_insert(clocks().now + SETTLE);
        }
        if !changes.links {
            return false;
        }
        self.look();
        !self.device.exists()
    }
}

/// Why an interface could not start or go on.
#[derive(Debug)]
pub enum Error {
    /// Another process answers for an interface of this name.
    AlreadyRunning(PathBuf),
    /// The socket for `wg` cannot be made.
    Socket(PathBuf, io::Error),
    /// The device cannot be made.
    Tun(TunError),
    /// The UDP socket cannot be opened.
    Udp(BindError),
    /// The device cannot be configured.
    Netlink(NetlinkError),
    /// The lane cannot be started.
    Lane(taut_lane::LaneStartError),
    /// The kernel refuses something that every interface needs.
    System(&'static str, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyRunning(path) => {
                write!(f, "another WireGuard answers on {}; choose another name, or stop it", path.display())
            }
            Self::Socket(path, error) => {
                write!(f, "the socket {} for `wg` cannot be made: {error}; run as root", path.display())
            }
            Self::Tun(error) => error.fmt(f),
            Self::Udp(error) => error.fmt(f),
            Self::Netlink(error) => error.fmt(f),
            Self::Lane(error) => error.fmt(f),
            Self::System(what, error) => {
                write!(f, "the kernel did not let taut wg {what}: {error}; run it as root on Linux 4.14 or later")
            }
        }
    }
}

impl std::error::Error for Error {}
