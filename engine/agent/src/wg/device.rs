//! The interface: its key, its UDP socket, its node and lane, and what a request does to them.

use std::collections::BTreeMap;
use std::time::Duration;

use taut_base::{DEFAULT_MTU, Entropy, PeerId, Prefix, PrivateKey, Time};
use taut_event::Waker;
use taut_netlink::Netlink;
use taut_node::uapi::{self, Answer, Errno, Set};
use taut_node::{Clocks, Node, Output};
use taut_tun::Tun;
use taut_tunnel::Limits;
use taut_udp::{BindError, UdpSocket};

use super::links::Links;
use super::{Config, Error, limits};
use crate::daemon::clocks;
use crate::entropy::OsEntropy;
use crate::link::{LaneOptions, Link};
use crate::overlay::{RECEIVE_BUFFER, SEND_BUFFER};

/// A WireGuard interface. While it is down it has no socket; without a socket or a private key it has no lane: packets wait in the device, and
/// nothing is sent.
pub(super) struct Device {
    config: Config,
    limits: Limits,
    tun: Tun,
    udp: Option<UdpSocket>,
    /// Of the socket, or of the next one; 0 for any.
    port: u16,
    mtu: u16,
    fwmark: u32,
    private_key: Option<PrivateKey>,
    node: Node<OsEntropy>,
    link: Option<Link>,
    waker: Waker,
    figures: BTreeMap<PeerId, Figures>,
}

/// What outlives a lane.
#[derive(Clone, Copy, Default)]
struct Figures {
    /// Bytes of data messages that former lanes received and sent.
    bytes: (u64, u64),
    /// The last handshake by both clocks, so that it does not wander when the wall clock is set.
    handshake: Option<(Time, Duration)>,
}

impl Device {
    /// An interface without key and peers, down.
    ///
    /// # Errors
    /// When there is no way to have a UDP socket: it is better said now.
    pub(super) fn new(config: &Config, tun: Tun, waker: Waker) -> Result<Self, Error> {
        open(config, 0, 0).map_err(Error::Udp)?;
        let node = Node::new(nobody(), limits(config), OsEntropy::new());
        Ok(Self {
            config: config.clone(),
            limits: limits(config),
            tun,
            udp: None,
            port: 0,
            mtu: DEFAULT_MTU,
            fwmark: 0,
            private_key: None,
            node,
            link: None,
            waker,
            figures: BTreeMap::new(),
        })
    }

    /// Carries a change out. What concerns the interface comes first, as it stands first in the request.
    pub(super) fn set(&mut self, mut set: Set, links: &mut Links<'_>) -> Result<(), Errno> {
        // What may be refused comes before what would have to be taken back.
        for change in &mut set.peers {
            links.resolve(change)?;
        }
        self.node.would_configure(set.replace_peers, &set.peers)?;
        let fwmark = set.fwmark.unwrap_or(self.fwmark);
        match (set.listen_port, &self.udp) {
            (Some(port), Some(udp)) if port == 0 || port != udp.port() => {
                let fresh = open(&self.config, port, fwmark).map_err(|error| errno(&error))?;
                self.take_socket(fresh)?;
            }
            (_, Some(udp)) if fwmark != self.fwmark => udp.set_mark(fwmark).map_err(|_| Errno::Access)?,
            (Some(port), None) => self.port = port,
            _ => {}
        }
        // Even the same mark, as the kernel's WireGuard: the user may have changed the rules behind it.
        if let (Some(_), Some(link)) = (set.fwmark, &self.link) {
            link.forget_locals();
        }
        self.fwmark = fwmark;
        let other_key = self.take_key(set.private_key);
        let configured = self.node.configure(set.replace_peers, set.peers);
        if other_key {
            self.restart().map_err(|_| Errno::Io)?;
        }
        self.drain();
        configured
    }

    /// Sessions go on by another socket.
    fn take_socket(&mut self, udp: UdpSocket) -> Result<(), Errno> {
        if let Some(link) = &self.link {
            link.replace_socket(udp.try_clone().map_err(|_| Errno::Io)?);
        }
        self.port = udp.port();
        self.udp = Some(udp);
        Ok(())
    }

    /// The device is up or down. As the kernel's WireGuard, it keeps port and peers while it is down, and nothing else. A port that somebody else has
    /// when it comes up is tried again with every look.
    pub(super) fn set_up(&mut self, up: bool) -> Result<(), Error> {
        if up == self.udp.is_some() {
            return Ok(());
        }
        self.udp = up.then(|| open(&self.config, self.port, self.fwmark)).transpose().map_err(Error::Udp)?;
        self.port = self.udp.as_ref().map_or(self.port, UdpSocket::port);
        let result = self.restart();
        if result.is_err() {
            self.udp = None;
        }
        self.drain();
        result
    }

    /// Whether there is another key now.
    fn take_key(&mut self, key: Option<Option<PrivateKey>>) -> bool {
        let Some(key) = key.filter(|key| *key != self.private_key) else { return false };
        self.node.set_private_key(key.clone().unwrap_or_else(nobody));
        self.private_key = key;
        true
    }

    /// A lane with sessions of its own, if there is a key to make them with.
    fn restart(&mut self) -> Result<(), Error> {
        self.take_figures(clocks());
        self.keep_bytes();
        if let Some(link) = self.link.take() {
            link.stop();
        }
        self.node.start_over();
        if let (Some(udp), true) = (&self.udp, self.private_key.is_some()) {
            let checker = self.node.checker();
            // Device and socket stay when the lane is started again: it works on handles of its own.
            let system = |error| Error::System("have another handle", error);
            let (tun, udp) = (self.tun.try_clone().map_err(system)?, udp.try_clone().map_err(system)?);
            let manner = LaneOptions { mtu: self.mtu, limits: self.limits, low_latency: self.config.low_latency };
            let link = Link::start(tun, udp, checker, manner, &self.waker);
            self.link = Some(link.map_err(Error::Lane)?);
        }
        Ok(())
    }

    /// Carries out everything that the node wants: the one place that does so, called after every input to the node.
    fn drain(&mut self) {
        while let Some(output) = self.node.poll_output() {
            match output {
                // Without a lane the command is dropped: a lane that is started later is told everything from the beginning.
                Output::Lane(lane, command) => {
                    if let Some(link) = &mut self.link {
                        link.push(lane, command);
                    }
                }
                // The interface keeps nothing on the disk, like the kernel's WireGuard.
                Output::StampCeiling(_) => {}
                // Without a network map a node has no coordinator and no relays.
                Output::Event(_)
                | Output::Endpoints(_)
                | Output::HomeRelays(_)
                | Output::NatTest { .. }
                | Output::Bridges(_)
                | Output::ResetBridge(_) => {}
            }
        }
        if let Some(link) = &mut self.link {
            link.flush();
        }
    }

    /// Everything, with figures.
    pub(super) fn describe(&mut self, clocks: Clocks, links: &mut Links<'_>) -> Answer {
        self.take_figures(clocks);
        let mut allowed: BTreeMap<PeerId, Vec<Prefix>> = BTreeMap::new();
        for (prefix, peer) in self.node.allowed_ips() {
            allowed.entry(peer).or_default().push(prefix);
        }
        let peers = self.node.native_peers().map(|peer| {
            let figures = self.figures.get(&peer.id).copied().unwrap_or_default();
            let now = self.link.as_ref().map_or((0, 0), |link| link.outer_of(peer.id));
            uapi::Peer {
                key: peer.key,
                preshared: peer.preshared,
                endpoint: peer.endpoint,
                zone: peer.endpoint.and_then(|endpoint| links.zone(endpoint)),
                last_handshake: figures.handshake.map_or(Duration::ZERO, |(_, wall)| wall),
                received: figures.bytes.0 + now.0 + peer.handshake_bytes.0,
                sent: figures.bytes.1 + now.1 + peer.handshake_bytes.1,
                keepalive: peer.keepalive,
                allowed: allowed.remove(&peer.id).unwrap_or_default(),
            }
        });
        let peers = peers.collect();
        let port = self.port;
        uapi::Device { private_key: self.private_key.as_ref(), listen_port: port, fwmark: self.fwmark, peers }.print()
    }

    /// Brings `figures` up to the peers that there are.
    fn take_figures(&mut self, clocks: Clocks) {
        let mut former = std::mem::take(&mut self.figures);
        for peer in self.node.native_peers() {
            let mut figures = former.remove(&peer.id).unwrap_or_default();
            if let Some(at) = peer.last_handshake.filter(|at| figures.handshake.is_none_or(|(known, _)| known != *at)) {
                figures.handshake = Some((at, clocks.wall.saturating_sub(clocks.now.since(at))));
            }
            self.figures.insert(peer.id, figures);
        }
    }

    /// The lane is about to go: its bytes stay.
    fn keep_bytes(&mut self) {
        let Some(link) = &self.link else { return };
        for (peer, figures) in &mut self.figures {
            let (received, sent) = link.outer_of(*peer);
            figures.bytes = (figures.bytes.0 + received, figures.bytes.1 + sent);
        }
    }

    /// Takes what the lane said, does what is due.
    pub(super) fn turn(&mut self, clocks: Clocks) {
        if let Some(link) = &mut self.link {
            link.turn(&mut self.node, clocks);
        }
        self.drain();
    }

    /// The host's routes, addresses or rules may have changed.
    pub(super) fn check_ways(&mut self, netlink: &mut Netlink) {
        if let Some(link) = &mut self.link {
            link.check_ways(netlink, self.fwmark);
        }
    }

    /// The device has another MTU.
    pub(super) fn set_mtu(&mut self, mtu: u16) {
        if mtu != self.mtu {
            self.mtu = mtu;
            if let Some(link) = &self.link {
                link.set_mtu(mtu);
            }
        }
    }

    /// When [`Self::turn`] has something to do.
    pub(super) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let link = self.link.as_ref()?;
        self.node.poll_timeout().into_iter().chain(link.poll_timeout(now)).min()
    }

    pub(super) fn tun(&self) -> &Tun {
        &self.tun
    }

    /// Whether the device exists, here or in the network namespace that it was moved to.
    pub(super) fn exists(&self) -> bool {
        self.tun.exists()
    }

    /// Whether the lane ended by itself: the device is gone.
    pub(super) fn has_failed(&self) -> bool {
        self.link.as_ref().is_some_and(Link::has_failed)
    }
}

/// Whom the node takes itself for while it has no key: nobody knows this one.
fn nobody() -> PrivateKey {
    let mut bytes = [0; 32];
    OsEntropy::new().fill(&mut bytes);
    PrivateKey::from_bytes(bytes)
}

/// A UDP socket as the kernel's WireGuard has it. Routers may fragment what it sends: the way to a stock peer cannot be measured.
fn open(config: &Config, port: u16, fwmark: u32) -> Result<UdpSocket, BindError> {
    let config = taut_udp::Config {
        port,
        ipv4_only: false,
        send_buffer: SEND_BUFFER,
        receive_buffer: RECEIVE_BUFFER,
        gso: config.udp_gso,
        gro: config.udp_gro,
    };
    let udp = UdpSocket::bind(&config)?;
    let refused = |step| move |source| BindError::Kernel { step, source };
    udp.allow_fragmentation(true).map_err(refused("allow fragmentation on the UDP socket"))?;
    if fwmark != 0 {
        udp.set_mark(fwmark).map_err(refused("mark the UDP socket"))?;
    }
    Ok(udp)
}

fn errno(error: &BindError) -> Errno {
    match error {
        BindError::PortTaken { .. } => Errno::AddressInUse,
        BindError::NotPermitted { .. } => Errno::Access,
        BindError::Kernel { .. } => Errno::Io,
    }
}
