//! A network that is up: TUN device, sockets, lanes, and the node's rules between them.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use taut_base::{DEFAULT_PORT, Prefix, PrivateKey, PublicKey, RelayId, Time};
use taut_event::{Waker, open_files};
use taut_netlink::{Changes, Netlink, Watch};
use taut_netmap::NetworkMap;
use taut_node::{Clocks, Node, NodeEvent, Output};
use taut_relay::Credentials;
use taut_tun::{Offload, Tun};
use taut_tunnel::Limits;
use taut_udp::{BindError, Config as UdpConfig, UdpSocket};
use taut_wire::control::{Lanes, Suite, Suites};

use crate::apart::Apart;
use crate::api::{Failure, TunStatus, UdpStatus};
use crate::bridges::Bridges;
use crate::config::Config;
use crate::entropy::OsEntropy;
use crate::error::failure;
use crate::host::{self, Host, HostEvent, Surroundings};
use crate::link::{Handles, LaneOptions, Link};
use crate::steering::Steering;

/// Receive buffer: what 10 Gbit/s bring while a lane is not scheduled for 10 ms (12.5 MB), as a power of two.
pub(crate) const RECEIVE_BUFFER: usize = buffer(10);
/// Send buffer: 2 ms at 10 Gbit/s; more only adds to the delay under load.
pub(crate) const SEND_BUFFER: usize = buffer(2);

/// Shortest time between two readings of the routes into other tunnels that follow from changes of routes alone, 10 s: on a router with a full Internet table
/// routes change all the time, and the kernel walks through all of them for those of one device.
const TUNNEL_ROUTES_APART: Duration = Duration::from_secs(10);

const fn buffer(milliseconds: usize) -> usize {
    const BYTES_PER_MILLISECOND: usize = 10_000_000_000 / 8 / 1000;
    (BYTES_PER_MILLISECOND * milliseconds).next_power_of_two()
}

/// A network that is up.
pub(crate) struct Overlay {
    node: Node<OsEntropy>,
    link: Link,
    host: Host,
    surroundings: Surroundings,
    /// When the routes into other overlays were last read, and when that is due again because routes changed since.
    routes_read: Time,
    reread: Option<Time>,
    /// Overlay addresses that the host uses for something else.
    conflicts: Vec<Failure>,
    prefixes: Vec<Prefix>,
    addresses: Vec<IpAddr>,
    pub(crate) port: u16,
    /// Ports of the lanes behind the first.
    pub(crate) ports: Vec<u16>,
    /// Ports that would have been used if another program did not have them.
    pub(crate) ports_taken: Vec<u16>,
    pub(crate) endpoints: Vec<SocketAddr>,
    tun: TunStatus,
    pub(crate) udp: UdpStatus,
    /// Other handles of the lanes' sockets, to read their counters.
    sockets: Vec<UdpSocket>,
    /// To relays that UDP does not reach.
    bridges: Bridges,
    /// For the test of the NAT's filter.
    apart: Apart,
    outputs: VecDeque<OverlayOutput>,
}

/// What the daemon does for an overlay.
pub(crate) enum OverlayOutput {
    /// The ceiling of the stamps, since the Unix epoch: to be kept for the next run.
    StampCeiling(Duration),
    /// The node's endpoints outside its NAT, for the coordinator.
    Endpoints(Vec<SocketAddr>),
    /// The relays that the node is bound to, for the coordinator.
    HomeRelays(Vec<RelayId>),
    /// What happened, for the log.
    Event(NodeEvent),
}

impl Overlay {
    /// Opens TUN and socket, configures the host and starts the lane.
    pub(crate) fn start(
        config: &Config,
        node_key: &PrivateKey,
        remembered_port: Option<u16>,
        map: &NetworkMap,
        waker: &Waker,
        clocks: Clocks,
    ) -> Result<Self, Failure> {
        let offload = if config.tun_offload { Offload::ALL } else { Offload::NONE };
        let multi_queue = config.lanes > 1;
        let tun = Tun::create(&taut_tun::Config { name: config.tun_name.clone(), offload, multi_queue })
            .map_err(|error| failure(error, "taut needs a TUN device to carry packets"))?;
        let (steering, queues) = open_queues(&tun, config)?;
        let (udp, mut ports_taken) = bind(config, remembered_port)?;
        let further = bind_further(config, udp.port(), &mut ports_taken)?;
        let netlink =
            Netlink::open().map_err(|error| failure(error, "taut configures addresses and routes by netlink"))?;
        let host =
            Host::configure(netlink, tun.name(), config.mtu, &map.me.addresses, clocks.now).map_err(|error| {
                failure(
                    error,
                    "taut gives its device an MTU, the overlay's addresses and routes; it tries again by itself",
                )
            })?;

        let limits = config.rekey_after.map_or(Limits::WIREGUARD, Limits::with_rekey_after);
        let mut node = Node::new(node_key.clone(), limits, OsEntropy::new());
        node.set_suites(suites(config.aes));
        node.set_mtu(config.mtu);
        node.set_search_sockets(search_sockets(config.search_sockets, open_files()));
        let ports: Vec<u16> = further.iter().map(UdpSocket::port).collect();
        node.set_lanes(Lanes::with_ports(&ports));
        let (port, tun_status, udp_status) = (udp.port(), describe_tun(&tun, config.mtu), describe_udp(&udp));
        let sockets = std::iter::once(&udp).chain(&further).map(UdpSocket::try_clone).collect::<Result<Vec<_>, _>>();
        let sockets = sockets.map_err(|error| failure(error, "raise the limit of open files: `ulimit -n`"))?;
        let handles = std::iter::once((tun, udp)).chain(queues.into_iter().zip(further));
        let handles = handles.map(|(tun, udp)| Handles { tun, udp, checker: node.checker() }).collect();
        let manner = LaneOptions { mtu: config.mtu, limits, low_latency: config.low_latency };
        let link = Link::start_all(handles, steering, manner, waker)
            .map_err(|error| failure(error, "try again when the host has more room"))?;
        let mut overlay = Self {
            node,
            link,
            host,
            surroundings: Surroundings::default(),
            routes_read: Time::ZERO,
            reread: None,
            conflicts: Vec::new(),
            prefixes: Vec::new(),
            addresses: map.me.addresses.clone(),
            port,
            ports,
            ports_taken,
            endpoints: Vec::new(),
            tun: tun_status,
            udp: udp_status,
            sockets,
            bridges: Bridges::new(port, waker.clone()),
            apart: Apart::default(),
            outputs: VecDeque::new(),
        };
        overlay.set_map(map, clocks);
        Ok(overlay)
    }

    /// Whether this map needs another TUN configuration: the node got other addresses.
    pub(crate) fn needs_restart(&self, map: &NetworkMap) -> bool {
        self.addresses != map.me.addresses
    }

    /// Takes a new map: peers and routes. Sessions of peers that stay go on.
    pub(crate) fn set_map(&mut self, map: &NetworkMap, clocks: Clocks) {
        self.prefixes = vec![map.network.ipv4, map.network.ipv6];
        self.node.set_map(map);
        self.drain(clocks);
        let routed: BTreeSet<IpAddr> = map.peers.values().flat_map(|peer| peer.addresses.iter().copied()).collect();
        self.host.set_routes(routed, clocks.now);
        self.conflicts = host::warnings(map, &self.surroundings);
    }

    /// Reads the host's interfaces again after these changes; returns true if this node's endpoints are others now.
    pub(crate) fn refresh_endpoints(&mut self, map: &NetworkMap, changes: Changes, clocks: Clocks) -> bool {
        let soon = self.routes_read + TUNNEL_ROUTES_APART;
        let skip = !changes.links && !changes.addresses && clocks.now < soon;
        self.reread = Some(soon).filter(|_| skip);
        // On an error the last known ones stay: an error is not an empty answer (law 6).
        let known = skip.then_some(&self.surroundings);
        let Ok(surroundings) = self.host.surroundings(known) else { return false };
        if !skip {
            self.routes_read = clocks.now;
        }
        if surroundings.overlays() != self.surroundings.overlays() {
            self.node.set_avoided(surroundings.overlays());
            self.node.set_map(map);
        }
        self.surroundings = surroundings;
        self.conflicts = host::warnings(map, &self.surroundings);
        let endpoints = self.surroundings.endpoints(self.port, &self.prefixes);
        let changed = endpoints != self.endpoints;
        self.endpoints = endpoints;
        self.node.set_networks(self.surroundings.networks());
        self.node.set_interfaces(&self.endpoints, clocks);
        self.drain(clocks);
        changed
    }

    /// When the interfaces are to be read again although nothing changes.
    pub(crate) fn poll_reread(&mut self) -> Option<Time> {
        self.reread.take()
    }

    /// What the kernel's news has to be watched for.
    pub(crate) fn watch(&self) -> Watch {
        Watch { interface: self.host.index(), destinations: self.prefixes.clone() }
    }

    /// The kernel has news about the device, its addresses or its routes.
    pub(crate) fn handle_news(&mut self, now: Time) {
        self.host.handle_news(now);
    }

    /// What another program takes apart.
    pub(crate) fn problem(&self) -> Option<Failure> {
        self.host.problem()
    }

    /// What a user should know though packets flow.
    pub(crate) fn warnings(&self) -> Vec<Failure> {
        self.host.warnings().into_iter().chain(self.conflicts.iter().cloned()).collect()
    }

    /// The TUN device, as users see it.
    pub(crate) fn tun(&self) -> TunStatus {
        TunStatus { ipv6: self.host.has_ipv6(), ..self.tun.clone() }
    }

    /// The host's routes, addresses or links changed, or it slept: lanes choose their addresses anew, and every path is proven anew.
    pub(crate) fn look_around(&mut self, clocks: Clocks) {
        self.link.check_ways(self.host.netlink(), 0);
        self.bridges.look();
        self.node.handle_look_around(self.surroundings.families(), clocks);
        self.drain(clocks);
    }

    /// What the router in front of this host forwards to the first lane's port, as it says.
    pub(crate) fn set_mapped(&mut self, endpoints: &[SocketAddr], clocks: Clocks) {
        self.node.set_mapped(endpoints, clocks);
        self.drain(clocks);
    }

    /// UDP ports of all lanes.
    pub(crate) fn ports(&self) -> Vec<u16> {
        std::iter::once(self.port).chain(self.ports.iter().copied()).collect()
    }

    /// The overlay's own addresses.
    pub(crate) fn prefixes(&self) -> &[Prefix] {
        &self.prefixes
    }

    /// Leave to use the network's relays.
    pub(crate) fn set_ticket(&mut self, credentials: Credentials, clocks: Clocks) {
        self.node.set_ticket(credentials, clocks);
        self.drain(clocks);
    }

    /// Returns the next thing that the daemon does for this overlay. It is asked after every input.
    pub(crate) fn poll_output(&mut self) -> Option<OverlayOutput> {
        self.outputs.pop_front()
    }

    /// Takes what the lanes said, and does what is due.
    pub(crate) fn turn(&mut self, clocks: Clocks) {
        self.host.handle_timeout(clocks.now);
        self.apart.read(&mut self.node, clocks);
        self.link.turn(&mut self.node, clocks);
        self.bridges.turn(&mut self.node, clocks);
        self.drain(clocks);
    }

    /// Starts handshakes with these peers: they may still send to a session, or a place, that is gone.
    pub(crate) fn greet(&mut self, peers: &[PublicKey], clocks: Clocks) {
        self.node.greet(peers, clocks);
        self.drain(clocks);
    }

    /// Goes on from the stamps of an earlier run, or an earlier overlay.
    pub(crate) fn resume_stamps(&mut self, ceiling: Duration) {
        self.node.resume_stamps(ceiling);
    }

    /// Carries out everything that the node wants: the one place that does so, called after every input to the node.
    fn drain(&mut self, clocks: Clocks) {
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Lane(lane, command) => self.link.push(lane, command),
                Output::NatTest { destination, request } => self.apart.send(destination, &request, clocks.now),
                Output::Bridges(requests) => self.bridges.set(&requests, &mut self.node, &self.prefixes, clocks),
                Output::ResetBridge(relay) => self.bridges.reset(relay),
                Output::StampCeiling(ceiling) => self.outputs.push_back(OverlayOutput::StampCeiling(ceiling)),
                Output::Endpoints(endpoints) => self.outputs.push_back(OverlayOutput::Endpoints(endpoints)),
                Output::HomeRelays(relays) => self.outputs.push_back(OverlayOutput::HomeRelays(relays)),
                Output::Event(event) => self.outputs.push_back(OverlayOutput::Event(event)),
            }
        }
        self.link.flush();
    }

    /// When [`Self::turn`] has something to do.
    pub(crate) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let own = [self.node.poll_timeout(), self.link.poll_timeout(now), self.apart.poll_timeout()];
        own.into_iter().flatten().chain([self.host.poll_timeout()]).min()
    }

    /// Whether the lane ended by itself, or the device is gone from here.
    pub(crate) fn has_failed(&self) -> bool {
        self.link.has_failed() || self.host.is_gone()
    }

    /// What the kernel dropped before we could: in front of the TUN, where a superpacket is one, and at full sockets. By name, as
    /// [`taut_lane::DropReason`]'s reasons.
    pub(crate) fn dropped_by_kernel(&mut self) -> [(&'static str, u64); 2] {
        let sockets = self.sockets.iter().filter_map(UdpSocket::dropped).map(u64::from).sum();
        [("out-tun-full", self.host.dropped_before_tun()), ("in-socket-full", sockets)]
    }

    /// Returns the next event of the host's configuration, for the log.
    pub(crate) fn poll_host_event(&mut self) -> Option<HostEvent> {
        self.host.poll_event()
    }

    /// The TUN device's present name.
    pub(crate) fn interface(&self) -> &str {
        self.host.name()
    }

    pub(crate) fn bridges(&self) -> &Bridges {
        &self.bridges
    }

    pub(crate) fn node(&self) -> &Node<OsEntropy> {
        &self.node
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Closes TUN and socket; the kernel takes addresses and routes away with the device.
    pub(crate) fn stop(self) {
        self.link.stop();
    }
}

/// What this processor seals fast and in constant time (protocol.md 1.10): AES needs its own instructions, and carry-less multiplication for GCM.
fn suites(aes: bool) -> Suites {
    #[cfg(target_arch = "x86_64")]
    let hardware = std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let hardware = std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let hardware = false;
    if aes && hardware { Suites::STOCK.with(Suite::Aes256Gcm) } else { Suites::STOCK }
}

/// One queue for each lane behind the first, and who steers. Where the kernel does not, those are further handles of the first queue, to be written to
/// only.
fn open_queues(tun: &Tun, config: &Config) -> Result<(Steering, Vec<Tun>), Failure> {
    let lanes = config.lanes;
    if lanes < 2 {
        return Ok((Steering::new(None, lanes), Vec::new()));
    }
    let by_kernel = config.tun_steering && tun.steer(1).is_ok();
    let queues = (1..lanes).map(|_| {
        if by_kernel {
            tun.add_queue().map_err(|error| failure(error, "start the daemon with fewer --lanes"))
        } else {
            tun.try_clone().map_err(|error| failure(error, "raise the limit of file descriptors"))
        }
    });
    let queues = queues.collect::<Result<Vec<_>, _>>()?;
    let handle = by_kernel.then(|| tun.try_clone()).transpose();
    let handle = handle.map_err(|error| failure(error, "raise the limit of file descriptors"))?;
    Ok((Steering::new(handle, lanes), queues))
}

/// A quarter of the descriptors at most: the rest is for the control channel, the local API and whoever else opens files here.
fn search_sockets(wanted: u16, open_files: Option<u64>) -> u16 {
    let quarter = open_files.map_or(u64::MAX, |limit| limit / 4);
    wanted.min(u16::try_from(quarter).unwrap_or(u16::MAX))
}

/// Opens a socket for each lane behind the first: on the ports that follow the first one's, or any. Adds ports that other programs have to `taken`.
fn bind_further(config: &Config, first: u16, taken: &mut Vec<u16>) -> Result<Vec<UdpSocket>, Failure> {
    let open = |lane: u8| {
        let near = first.checked_add(lane.into()).unwrap_or(0);
        open_free(config, near, taken).unwrap_or_else(|| open(config, 0))
    };
    let sockets = (1..config.lanes).map(open).collect::<Result<Vec<_>, _>>();
    sockets
        .map_err(|error| failure(error, "each lane needs a UDP port of its own; start the daemon with fewer --lanes"))
}

fn open(config: &Config, port: u16) -> Result<UdpSocket, BindError> {
    UdpSocket::bind(&UdpConfig {
        port,
        ipv4_only: false,
        send_buffer: SEND_BUFFER,
        receive_buffer: RECEIVE_BUFFER,
        gso: config.udp_gso,
        gro: config.udp_gro,
    })
}

/// Opens a socket on this port; `None` if that fails. Adds a port that another program has to `taken`.
fn open_free(config: &Config, port: u16, taken: &mut Vec<u16>) -> Option<Result<UdpSocket, BindError>> {
    match open(config, port) {
        Err(BindError::PortTaken { port }) if !taken.contains(&port) => {
            taken.push(port);
            None
        }
        Err(_) => None,
        Ok(socket) => Some(Ok(socket)),
    }
}

/// Opens a socket on the port that the user chose; otherwise on that of the last run, the usual one, or any. Returns the ports that other programs have
/// with it.
fn bind(config: &Config, remembered: Option<u16>) -> Result<(UdpSocket, Vec<u16>), Failure> {
    let mut taken = Vec::new();
    if let Some(port) = config.port {
        let hint = "choose another --port, or leave it out to let taut choose";
        let socket = open(config, port).map_err(|error| match error {
            BindError::PortTaken { port } => {
                failure(format!("another program has UDP port {port} (`ss -ulpn` names it)"), hint)
            }
            error => failure(error, hint),
        });
        return socket.map(|socket| (socket, taken));
    }
    let usual = [remembered.unwrap_or(DEFAULT_PORT), DEFAULT_PORT];
    let socket = usual.iter().find_map(|port| open_free(config, *port, &mut taken)).unwrap_or_else(|| open(config, 0));
    let socket = socket.map_err(|error| failure(error, "taut sends its packets by UDP"))?;
    Ok((socket, taken))
}

fn describe_tun(tun: &Tun, mtu: u16) -> TunStatus {
    let granted = tun.offload();
    let all = [
        (granted.vnet_header, "vnet-header"),
        (granted.checksum, "checksum"),
        (granted.tso, "tso"),
        (granted.uso, "uso"),
    ];
    TunStatus { name: String::from(tun.name()), mtu, ipv6: true, offload: names(&all) }
}

fn describe_udp(udp: &UdpSocket) -> UdpStatus {
    let (features, buffers) = (udp.features(), udp.buffers());
    UdpStatus {
        offload: names(&[(features.gso, "gso"), (features.gro, "gro")]),
        send_buffer: buffers.send,
        receive_buffer: buffers.receive,
    }
}

fn names(all: &[(bool, &str)]) -> Vec<String> {
    all.iter().filter(|(granted, _)| *granted).map(|(_, name)| String::from(*name)).collect()
}
