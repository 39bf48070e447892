//! `taut wg`: a plain userspace WireGuard interface, configured by the stock `wg` over a unix socket. It has no coordinator, no map and no state on the disk.
//!
//! It uses the same node, lane and queues as a network. Addresses, routes and the MTU are set with `ip` or `wg-quick`. It ends when the device is deleted, when the
//! socket's file is removed, or on a signal, and leaves nothing behind.
//!
//! - this file: the loop;
//! - `device`: the interface with its lane, and how requests change it;
//! - `host`: the state of the device in the kernel;
//! - `links`: names of interfaces;
//! - `socket`: the unix socket for `wg`.

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

use crate::basics::clocks;
use device::Device;
use host::DeviceObserver;
use links::InterfaceNames;
use socket::{FIRST_CONNECTION, UapiSocket};

/// Directory in which `wg` looks for the sockets of userspace interfaces.
const DIRECTORY: &str = "/var/run/wireguard";

const TOKEN_SIGNALS: u64 = 0;
const TOKEN_WAKER: u64 = 1;
const TOKEN_MONITOR: u64 = 2;
const TOKEN_SOCKET: u64 = 3;
const TOKEN_AWAY: u64 = 4;

/// Interval of the checks whether the socket's file and the device still exist, 1 s: nothing reports the removal of an unwatched file, or of a device in another
/// network namespace.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time from a change of routes or rules to the check of routes, 100 ms: changes come in bursts (`wg-quick` makes several), and one check follows the burst.
const SETTLE: Duration = Duration::from_millis(100);

/// The options of an interface.
#[derive(Clone, Debug)]
pub struct WgConfig {
    /// Name of the interface.
    pub interface: String,
    /// Whether TUN offloads are used.
    pub tun_offload: bool,
    /// Whether GSO is used on the UDP socket.
    pub udp_gso: bool,
    /// Whether GRO is used on the UDP socket.
    pub udp_gro: bool,
    /// Threads that move packets, which peers are divided among.
    pub lanes: u8,
    /// Whether the lane busy-polls for 50 ms after each packet: lower latency, up to one core of CPU time.
    pub low_latency: bool,
    /// Lifetime of sessions in tests, shorter than WireGuard's.
    pub rekey_after: Option<Duration>,
}

/// File descriptors that another program opened and passed to this one.
#[derive(Debug, Default)]
pub struct Inherited {
    /// A queue of the TUN device. The device's name overrides that in [`WgConfig`].
    pub tun: Option<OwnedFd>,
    /// A listening unix socket, whose file is the device's `.sock` file where `wg` looks for it.
    pub uapi: Option<OwnedFd>,
}

/// Runs the interface until it ends. `ready` is called once, when the device exists and `wg` can connect. `complain` is called when the device comes up and cannot be
/// used.
///
/// The UDP socket stays in the network namespace of this process, wherever the device is moved to.
///
/// # Errors
/// If the interface could not start, in which case nothing is left behind; or if the kernel refused a later step.
pub fn run(
    config: &WgConfig,
    inherited: Inherited,
    ready: impl FnOnce(),
    mut complain: impl FnMut(&WgError),
) -> Result<(), WgError> {
    // Before any thread is started, because threads inherit the signal mask.
    let signals = Signals::new(&[Signal::Terminate, Signal::Interrupt, Signal::Hangup])
        .map_err(|error| WgError::System("take over signals", error))?;
    // Before the first reading of the link, which then misses no change.
    let monitor = Monitor::open().map_err(WgError::Netlink)?;
    let offload = if config.tun_offload { Offload::ALL } else { Offload::NONE };
    let inherited_tun = inherited.tun.map(|fd| Tun::from_fd(fd, offload)).transpose().map_err(WgError::Tun)?;
    let name = inherited_tun.as_ref().map_or(config.interface.as_str(), Tun::name);
    let mut socket = match inherited.uapi {
        Some(fd) => UapiSocket::inherit(fd, DIRECTORY.as_ref(), name)?,
        None => UapiSocket::listen(DIRECTORY.as_ref(), name)?,
    };
    let made =
        || Tun::create(&taut_tun::TunConfig { name: config.interface.clone(), offload, multi_queue: config.lanes > 1 });
    let tun = inherited_tun.map_or_else(made, Ok).map_err(WgError::Tun)?;
    let mut host = DeviceObserver::prepare(tun.name())?;
    let waker = Waker::new().map_err(|error| WgError::System("be woken", error))?;
    let device = Device::new(config, tun, waker.clone())?;

    let poller = Poller::new().map_err(|error| WgError::System("wait for events", error))?;
    let add =
        |fd, token| poller.add(fd, token, Interest::READ).map_err(|error| WgError::System("wait for events", error));
    add(signals.as_fd(), TOKEN_SIGNALS)?;
    add(waker.as_fd(), TOKEN_WAKER)?;
    add(monitor.as_fd(), TOKEN_MONITOR)?;
    add(socket.as_fd(), TOKEN_SOCKET)?;
    ready();
    let daemon = WgDaemon {
        device,
        monitor,
        host: &mut host,
        socket: &mut socket,
        poller: &poller,
        settle: None,
        complain: &mut complain,
        complained: false,
    };
    let result = daemon.run(&signals, &waker);
    drop(socket);
    result
}

/// Returns true if a signal that ends the interface has arrived. A hangup, as when a terminal closes, does not.
fn is_told_to_end(signals: &Signals) -> bool {
    std::iter::from_fn(|| signals.next()).any(|signal| signal != Signal::Hangup)
}

/// WireGuard's limits, or a test's shorter ones.
fn limits(config: &WgConfig) -> Limits {
    config.rekey_after.map_or(Limits::WIREGUARD, Limits::with_rekey_after)
}

struct WgDaemon<'a> {
    device: Device,
    monitor: Monitor,
    host: &'a mut DeviceObserver,
    socket: &'a mut UapiSocket,
    poller: &'a Poller,
    /// Time of the next check of routes.
    settle: Option<Time>,
    complain: &'a mut dyn FnMut(&WgError),
    complained: bool,
}

impl WgDaemon<'_> {
    fn run(mut self, signals: &Signals, waker: &Waker) -> Result<(), WgError> {
        let mut events = Events::with_capacity(32);
        self.check_device();
        let mut check_due = clocks().now + CHECK_INTERVAL;
        loop {
            let now = clocks().now;
            let due = self.device.poll_timeout(now).into_iter().chain([check_due]).chain(self.settle).min();
            let timeout = due.map(|due: Time| due.since(now));
            self.poller.wait(&mut events, timeout).map_err(|error| WgError::System("wait for events", error))?;
            for event in events.iter() {
                match event.token {
                    TOKEN_SIGNALS if is_told_to_end(signals) => return Ok(()),
                    TOKEN_WAKER => waker.drain(),
                    TOKEN_MONITOR if self.handle_news() => return Ok(()),
                    TOKEN_AWAY if self.host.drain_away() => self.check_device(),
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
                self.device.check_routes(&mut self.host.netlink);
            }
            if now >= check_due {
                check_due = now + CHECK_INTERVAL;
                if !self.socket.exists() || !self.device.exists() {
                    return Ok(());
                }
                self.socket.accept(self.poller);
                self.check_device();
            }
        }
    }

    /// Reads the state of the device, and applies it.
    fn check_device(&mut self) {
        if let Some(state) = self.host.read(self.device.tun(), self.poller) {
            self.device.set_mtu(state.mtu);
            let result = self.device.set_up(state.up);
            // The attempt is repeated every second; its failure is reported once.
            if let (Err(error), false) = (&result, self.complained) {
                (self.complain)(error);
            }
            self.complained = result.is_err();
        }
    }

    fn serve(&mut self, token: u64) {
        let (device, mut links) = (&mut self.device, InterfaceNames::new(&mut self.host.netlink));
        // The request may change the mark.
        self.settle.get_or_insert(clocks().now + SETTLE);
        self.socket.serve(token, self.poller, |request| match request {
            Ok(Request::Get) => device.describe(clocks(), &mut links),
            Ok(Request::Set(set)) => Errno::print(device.set(*set, &mut links)),
            Err(errno) => Errno::print(Err(errno)),
        });
    }

    /// Takes the kernel's news. Returns true if the device is gone.
    fn handle_news(&mut self) -> bool {
        // A lost message counts as a change. An error occurs again with the next message.
        let Ok(changes) = self.monitor.drain() else { return false };
        if changes.any() {
            self.settle.get_or_insert(clocks().now + SETTLE);
        }
        if !changes.links {
            return false;
        }
        self.check_device();
        !self.device.exists()
    }
}

/// The reason why an interface could not start or continue.
#[derive(Debug)]
pub enum WgError {
    /// Another process serves an interface with this name.
    AlreadyRunning(PathBuf),
    /// The socket for `wg` cannot be created.
    Socket(PathBuf, io::Error),
    /// The device cannot be created.
    Tun(TunError),
    /// The UDP socket cannot be opened.
    Udp(BindError),
    /// The device cannot be configured.
    Netlink(NetlinkError),
    /// The lane cannot be started.
    Lane(taut_lane::LaneStartError),
    /// The kernel refused a step that every interface needs.
    System(&'static str, io::Error),
}

impl fmt::Display for WgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyRunning(path) => {
                write!(
                    f,
                    "another WireGuard program answers on {}; choose another interface name, or stop that program",
                    path.display()
                )
            }
            Self::Socket(path, error) => {
                write!(f, "the socket {} for `wg` cannot be created: {error}; run taut wg as root", path.display())
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

impl std::error::Error for WgError {}
