//! The interface: its key, its UDP socket, its node and its lane, and how requests change them.

use std::time::Duration;

use taut_base::{DEFAULT_MTU, Entropy, LaneId, PeerId, Placement, Prefix, PrivateKey, SortedMap, Time};
use taut_event::Waker;
use taut_netlink::Netlink;
use taut_node::uapi::{self, Errno, Reply, Set};
use taut_node::{Clocks, Node, Output, Reading, ToLane};
use taut_tun::{Tun, TunError};
use taut_tunnel::Limits;
use taut_udp::{BindError, SocketChoice, UdpSocket};
use taut_wire::wireguard::{TYPE_COOKIE_REPLY, TYPE_DATA, TYPE_RESPONSE, cookie_reply, data, response};

use super::links::InterfaceNames;
use super::{WgConfig, WgError, limits};
use crate::basics::{OsEntropy, clocks};
use crate::lanes::{LaneHandles, LaneOptions, LaneThreads, RECEIVE_BUFFER, SEND_BUFFER, Steering};

/// A WireGuard interface. While it is down it has no socket. Without a socket or a private key it has no lane: packets wait in the device, and nothing is sent.
pub(super) struct Device {
    config: WgConfig,
    limits: Limits,
    tun: Tun,
    /// The queues of the device after the first, one for each lane; none if the kernel does not steer packets to queues.
    queues: Vec<Tun>,
    /// The sockets of the lanes, all on one port; none while the interface is down.
    udp: Vec<UdpSocket>,
    /// Port of the present or the next socket; 0 for any.
    port: u16,
    mtu: u16,
    fwmark: u32,
    private_key: Option<PrivateKey>,
    node: Node<OsEntropy>,
    lanes: Option<LaneThreads>,
    waker: Waker,
    counters: SortedMap<PeerId, Counters>,
}

/// Counters of a peer that outlive a lane.
#[derive(Clone, Copy, Default)]
struct Counters {
    /// Bytes of data messages that former lanes received and sent.
    bytes: (u64, u64),
    /// Time of the last handshake by both clocks: it does not change when the wall clock is set.
    handshake: Option<(Time, Duration)>,
}

impl Device {
    /// Creates an interface without key and peers, which is down.
    ///
    /// # Errors
    /// If no UDP socket can be opened: the user learns of this at the start.
    pub(super) fn new(config: &WgConfig, tun: Tun, waker: Waker) -> Result<Self, WgError> {
        open(config, 0, 0).map_err(WgError::Udp)?;
        let queues = open_queues(&tun, config.lanes).map_err(WgError::Tun)?;
        let mut node = Node::new(placeholder_key(), limits(config), OsEntropy::new());
        node.divide_peers(config.lanes);
        Ok(Self {
            config: config.clone(),
            limits: limits(config),
            tun,
            queues,
            udp: Vec::new(),
            port: 0,
            mtu: DEFAULT_MTU,
            fwmark: 0,
            private_key: None,
            node,
            lanes: None,
            waker,
            counters: SortedMap::new(),
        })
    }

    /// Carries out a change: first that of the interface, which is first in the request.
    pub(super) fn set(&mut self, mut set: Set, links: &mut InterfaceNames<'_>) -> Result<(), Errno> {
        // Steps that may be refused come first, because the others would have to be undone.
        for change in &mut set.peers {
            links.resolve(change)?;
        }
        self.node.would_configure(set.replace_peers, &set.peers)?;
        let fwmark = set.fwmark.unwrap_or(self.fwmark);
        match (set.listen_port, self.udp.first()) {
            (Some(port), Some(udp)) if port == 0 || port != udp.port() => {
                let fresh = open(&self.config, port, fwmark).map_err(|error| errno(&error))?;
                self.take_sockets(fresh)?;
            }
            (_, Some(_)) if fwmark != self.fwmark => {
                self.udp.iter().try_for_each(|udp| udp.set_mark(fwmark)).map_err(|_| Errno::Access)?;
            }
            (Some(port), None) => self.port = port,
            _ => {}
        }
        // Even if the mark is the same, like the kernel's WireGuard: the user may have changed the routing rules for it.
        if let (Some(_), Some(lanes)) = (set.fwmark, &self.lanes) {
            lanes.forget_locals();
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

    /// Replaces the sockets. Sessions continue on the new ones.
    fn take_sockets(&mut self, udp: Vec<UdpSocket>) -> Result<(), Errno> {
        if let Some(lanes) = &self.lanes {
            let handles = udp.iter().map(UdpSocket::try_clone).collect::<Result<_, _>>().map_err(|_| Errno::Io)?;
            lanes.replace_sockets(handles);
        }
        self.port = udp.first().map_or(0, UdpSocket::port);
        self.udp = udp;
        Ok(())
    }

    /// Brings the interface up or down. Like the kernel's WireGuard, it keeps only port and peers while it is down. If another program uses the port when the
    /// interface comes up, every later check tries again.
    pub(super) fn set_up(&mut self, up: bool) -> Result<(), WgError> {
        if up != self.udp.is_empty() {
            return Ok(());
        }
        let opened = up.then(|| open(&self.config, self.port, self.fwmark)).transpose().map_err(WgError::Udp)?;
        self.udp = opened.unwrap_or_default();
        self.port = self.udp.first().map_or(self.port, UdpSocket::port);
        let result = self.restart();
        if result.is_err() {
            self.udp.clear();
        }
        self.drain();
        result
    }

    /// Takes a private key. Returns true if the key changed.
    fn take_key(&mut self, key: Option<Option<PrivateKey>>) -> bool {
        let Some(key) = key.filter(|key| *key != self.private_key) else { return false };
        self.node.set_private_key(key.clone().unwrap_or_else(placeholder_key));
        self.private_key = key;
        true
    }

    /// Starts lanes without sessions, if there are sockets and a private key.
    fn restart(&mut self) -> Result<(), WgError> {
        self.update_counters(clocks());
        self.keep_bytes();
        if let Some(lanes) = self.lanes.take() {
            lanes.stop();
        }
        self.node.start_over();
        if !self.udp.is_empty() && self.private_key.is_some() {
            // The lanes get handles of their own, so device and sockets survive a restart of the lanes.
            let system = |error| WgError::System("duplicate a file descriptor", error);
            let mut handles = Vec::with_capacity(self.udp.len());
            for (place, udp) in self.udp.iter().enumerate() {
                let queue = place.checked_sub(1).and_then(|place| self.queues.get(place)).unwrap_or(&self.tun);
                let (tun, udp) = (queue.try_clone().map_err(system)?, udp.try_clone().map_err(system)?);
                handles.push(LaneHandles { tun, udp, checker: self.node.checker() });
            }
            // Marks need the round trip to the peer, which nobody measures here.
            let options = LaneOptions {
                mtu: self.mtu,
                limits: self.limits,
                low_latency: self.config.low_latency,
                congestion_marks: false,
                by_peer: self.config.lanes > 1,
            };
            // Without queues, the first lane reads all packets of the host, and hands them off to the lanes of their peers.
            let steering = Steering::new(None, Placement::new(self.config.lanes));
            let lanes = LaneThreads::start_all(handles, steering, options, &self.waker);
            let mut lanes = lanes.map_err(WgError::Lane)?;
            for (own, _) in (1..).zip(&self.queues) {
                lanes.push(LaneId(own), ToLane::Read(Reading::Own));
            }
            self.lanes = Some(lanes);
        }
        Ok(())
    }

    /// Carries out all outputs of the node. It is the only place that does so, and is called after every input to the node.
    fn drain(&mut self) {
        while let Some(output) = self.node.poll_output() {
            match output {
                // Without a lane the command is dropped: a lane that is started later is told everything from the beginning.
                Output::Lane(lane, command) => {
                    if let Some(lanes) = &mut self.lanes {
                        lanes.push_by_peer(lane, command);
                    }
                }
                // The interface keeps nothing on the disk, like the kernel's WireGuard.
                Output::StampCeiling(_) => {}
                // Without a network map a node has no coordinator and no relays, and one lane.
                Output::Event(_)
                | Output::Endpoints(_)
                | Output::HomeRelays(_)
                | Output::NatTest { .. }
                | Output::Bridges(_)
                | Output::ResetBridge(_)
                | Output::Lanes(_)
                | Output::PacketLimit { .. } => {}
            }
        }
        if let Some(lanes) = &mut self.lanes {
            lanes.flush();
        }
    }

    /// Returns the configuration and the counters as a reply to `wg`.
    pub(super) fn describe(&mut self, clocks: Clocks, links: &mut InterfaceNames<'_>) -> Reply {
        self.update_counters(clocks);
        let mut allowed: SortedMap<PeerId, Vec<Prefix>> =
            self.node.native_peers().map(|peer| (peer.id, Vec::new())).collect();
        for (prefix, peer) in self.node.allowed_ips() {
            allowed.entry(peer).or_default().push(prefix);
        }
        let peers = self.node.native_peers().map(|peer| {
            let counters = self.counters.get(&peer.id).copied().unwrap_or_default();
            let now = self.lanes.as_ref().map_or((0, 0), |lanes| lanes.outer_of(peer.id));
            uapi::InterfacePeer {
                key: peer.key,
                preshared: peer.preshared,
                endpoint: peer.endpoint,
                zone: peer.endpoint.and_then(|endpoint| links.zone(endpoint)),
                last_handshake: counters.handshake.map_or(Duration::ZERO, |(_, wall)| wall),
                received: counters.bytes.0 + now.0 + peer.handshake_bytes.0,
                sent: counters.bytes.1 + now.1 + peer.handshake_bytes.1,
                keepalive: peer.keepalive,
                allowed: allowed.get_mut(&peer.id).map(std::mem::take).unwrap_or_default(),
            }
        });
        let peers = peers.collect();
        let port = self.port;
        uapi::Interface { private_key: self.private_key.as_ref(), listen_port: port, fwmark: self.fwmark, peers }
            .print()
    }

    /// Updates the counters to the present peers.
    fn update_counters(&mut self, clocks: Clocks) {
        let former = std::mem::take(&mut self.counters);
        for peer in self.node.native_peers() {
            let mut counters = former.get(&peer.id).copied().unwrap_or_default();
            if let Some(at) = peer.last_handshake.filter(|at| counters.handshake.is_none_or(|(known, _)| known != *at))
            {
                counters.handshake = Some((at, clocks.wall.saturating_sub(clocks.now.since(at))));
            }
            self.counters.insert(peer.id, counters);
        }
    }

    /// Keeps the byte counters of a lane that is about to end.
    fn keep_bytes(&mut self) {
        let Some(lanes) = &self.lanes else { return };
        for (peer, counters) in &mut self.counters {
            let (received, sent) = lanes.outer_of(*peer);
            counters.bytes = (counters.bytes.0 + received, counters.bytes.1 + sent);
        }
    }

    /// Takes the messages of the lane, and does the work that is due.
    pub(super) fn turn(&mut self, clocks: Clocks) {
        if let Some(lanes) = &mut self.lanes {
            lanes.turn(&mut self.node, clocks);
        }
        self.drain();
    }

    /// Has the lane check its local addresses, because the host's routes, addresses or rules may have changed.
    pub(super) fn check_routes(&mut self, netlink: &mut Netlink) {
        if let Some(lanes) = &mut self.lanes {
            lanes.check_routes(netlink, self.fwmark);
        }
    }

    /// Takes the MTU of the device.
    pub(super) fn set_mtu(&mut self, mtu: u16) {
        if mtu != self.mtu {
            self.mtu = mtu;
            if let Some(lanes) = &self.lanes {
                lanes.set_mtu(mtu);
            }
        }
    }

    /// Returns the time at which [`Self::turn`] has something to do.
    pub(super) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let lanes = self.lanes.as_ref()?;
        self.node.poll_timeout().into_iter().chain(lanes.poll_timeout(now)).min()
    }

    pub(super) fn tun(&self) -> &Tun {
        &self.tun
    }

    /// Returns true if the device exists, here or in the network namespace that it was moved to.
    pub(super) fn exists(&self) -> bool {
        self.tun.exists()
    }

    /// Returns true if the lane has ended, because the device is gone.
    pub(super) fn has_failed(&self) -> bool {
        self.lanes.as_ref().is_some_and(LaneThreads::has_failed)
    }
}

/// Returns a random private key, for the node while the interface has no key.
fn placeholder_key() -> PrivateKey {
    let mut bytes = [0; 32];
    OsEntropy::new().fill(&mut bytes);
    PrivateKey::from_bytes(bytes)
}

/// Opens a queue of the device for each lane after the first. The kernel puts a packet on a queue by its destination, so that most packets are read by the lane of their
/// peer (`Node::divide_peers`). Returns none if the kernel does not accept the program.
fn open_queues(tun: &Tun, lanes: u8) -> Result<Vec<Tun>, TunError> {
    if lanes < 2 || tun.steer_by_destination(1).is_err() {
        return Ok(Vec::new());
    }
    let queues = (1..lanes).map(|_| tun.add_queue()).collect::<Result<_, _>>();
    match queues {
        // An inherited descriptor may belong to a device with one queue.
        Err(TunError::SingleQueue { .. }) => Ok(Vec::new()),
        Ok(queues) => tun.steer_by_destination(lanes).map(|()| queues),
        Err(error) => Err(error),
    }
}

/// The messages that name a receiver index, whose low 4 bits are the lane ([`taut_base::ReceiverIndex`]). Initiations name none: they go to the first lane.
const BY_RECEIVER: [SocketChoice; 3] = [
    SocketChoice { first: TYPE_DATA as u8, offset: data::RECEIVER.start as u8 },
    SocketChoice { first: TYPE_RESPONSE as u8, offset: response::RECEIVER.start as u8 },
    SocketChoice { first: TYPE_COOKIE_REPLY as u8, offset: cookie_reply::RECEIVER.start as u8 },
];

/// Opens a UDP socket for each lane, all on one port, like that of the kernel's WireGuard. Routers may fragment its datagrams, because the path MTU to a stock peer cannot be measured.
fn open(config: &WgConfig, port: u16, fwmark: u32) -> Result<Vec<UdpSocket>, BindError> {
    let lanes = config.lanes;
    let config = taut_udp::UdpConfig {
        port,
        ipv4_only: false,
        send_buffer: SEND_BUFFER,
        receive_buffer: RECEIVE_BUFFER,
        gso: config.udp_gso,
        gro: config.udp_gro,
    };
    let sockets = UdpSocket::bind_chosen(&config, lanes, &BY_RECEIVER)?;
    let refused = |step| move |source| BindError::Kernel { step, source };
    for udp in &sockets {
        udp.allow_fragmentation(true).map_err(refused("allow fragmentation on the UDP socket"))?;
        if fwmark != 0 {
            udp.set_mark(fwmark).map_err(refused("mark the UDP socket"))?;
        }
    }
    Ok(sockets)
}

fn errno(error: &BindError) -> Errno {
    match error {
        BindError::PortTaken { .. } => Errno::AddressInUse,
        BindError::NotPermitted { .. } => Errno::Access,
        BindError::Kernel { .. } => Errno::Io,
    }
}
