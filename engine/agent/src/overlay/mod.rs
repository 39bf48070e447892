//! A network that is up: TUN device, sockets, lanes, and the node's rules between them.
//!
//! - this file: the overlay, and the one place where the node's outputs are carried out;
//! - `open`: the TUN device and the sockets that it works on;
//! - `bridges`: WebSockets to relays that UDP does not reach;
//! - `nat_test`: sockets for the test of the NAT's filter.

mod bridges;
mod nat_test;
mod open;

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use taut_base::{Prefix, PrivateKey, PublicKey, RelayId, Time};
use taut_event::{Waker, open_files};
use taut_netlink::{Changes, Netlink, Watch};
use taut_netmap::NetworkMap;
use taut_node::{Clocks, Node, Output};
use taut_relay::Credentials;
use taut_tun::{Offload, Tun};
use taut_tunnel::Limits;
use taut_udp::UdpSocket;
use taut_wire::control::Lanes;

use crate::api::{Failure, TunStatus, UdpStatus};
use crate::basics::OsEntropy;
use crate::config::Config;
use crate::host::{self, Host, Surroundings};
use crate::lanes::{LaneHandles, LaneOptions, LaneThreads};
use bridges::Bridges;
use nat_test::NatTestSockets;
use open::{bind, bind_further, describe_tun, describe_udp, open_queues, search_sockets, suites};

/// Shortest time between two readings of the routes into other tunnels that follow from changes of routes alone, 10 s: on a router with a full Internet table
/// routes change all the time, and the kernel walks through all of them for those of one device.
const TUNNEL_ROUTES_APART: Duration = Duration::from_secs(10);

/// A network that is up.
pub(crate) struct Overlay {
    node: Node<OsEntropy>,
    lanes: LaneThreads,
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
    nat_test: NatTestSockets,
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
            .map_err(|error| Failure::new(error, "taut needs a TUN device to carry packets"))?;
        let (steering, queues) = open_queues(&tun, config)?;
        let (udp, mut ports_taken) = bind(config, remembered_port)?;
        let further = bind_further(config, udp.port(), &mut ports_taken)?;
        let netlink =
            Netlink::open().map_err(|error| Failure::new(error, "taut configures addresses and routes by netlink"))?;
        let host =
            Host::configure(netlink, tun.name(), config.mtu, &map.me.addresses, clocks.now).map_err(|error| {
                Failure::new(
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
        let sockets = sockets.map_err(|error| Failure::new(error, "raise the limit of open files: `ulimit -n`"))?;
        let handles = std::iter::once((tun, udp)).chain(queues.into_iter().zip(further));
        let handles = handles.map(|(tun, udp)| LaneHandles { tun, udp, checker: node.checker() }).collect();
        let options = LaneOptions { mtu: config.mtu, limits, low_latency: config.low_latency };
        let lanes = LaneThreads::start_all(handles, steering, options, waker)
            .map_err(|error| Failure::new(error, "try again when the host has more room"))?;
        let mut overlay = Self {
            node,
            lanes,
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
            nat_test: NatTestSockets::default(),
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
        self.lanes.check_ways(self.host.netlink(), 0);
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
        self.nat_test.read(&mut self.node, clocks);
        self.lanes.turn(&mut self.node, clocks);
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
                Output::Lane(lane, command) => self.lanes.push(lane, command),
                Output::NatTest { destination, request } => self.nat_test.send(destination, &request, clocks.now),
                Output::Bridges(requests) => self.bridges.set(&requests, &mut self.node, &self.prefixes, clocks),
                Output::ResetBridge(relay) => self.bridges.reset(relay),
                Output::StampCeiling(ceiling) => self.outputs.push_back(OverlayOutput::StampCeiling(ceiling)),
                Output::Endpoints(endpoints) => self.outputs.push_back(OverlayOutput::Endpoints(endpoints)),
                Output::HomeRelays(relays) => self.outputs.push_back(OverlayOutput::HomeRelays(relays)),
            }
        }
        self.lanes.flush();
    }

    /// When [`Self::turn`] has something to do.
    pub(crate) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let own = [self.node.poll_timeout(), self.lanes.poll_timeout(now), self.nat_test.poll_timeout()];
        own.into_iter().flatten().chain([self.host.poll_timeout()]).min()
    }

    /// Whether the lane ended by itself, or the device is gone from here.
    pub(crate) fn has_failed(&self) -> bool {
        self.lanes.has_failed() || self.host.is_gone()
    }

    /// What the kernel dropped before we could: in front of the TUN, where a superpacket is one, and at full sockets. By name, as
    /// [`taut_lane::DropReason`]'s reasons.
    pub(crate) fn dropped_by_kernel(&mut self) -> [(&'static str, u64); 2] {
        let sockets = self.sockets.iter().filter_map(UdpSocket::dropped).map(u64::from).sum();
        [("out-tun-full", self.host.dropped_before_tun()), ("in-socket-full", sockets)]
    }

    pub(crate) fn bridges(&self) -> &Bridges {
        &self.bridges
    }

    pub(crate) fn node(&self) -> &Node<OsEntropy> {
        &self.node
    }

    pub(crate) fn lanes(&self) -> &LaneThreads {
        &self.lanes
    }

    /// Closes TUN and socket; the kernel takes addresses and routes away with the device.
    pub(crate) fn stop(self) {
        self.lanes.stop();
    }
}
