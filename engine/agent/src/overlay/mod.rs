//! A network that is up: TUN device, sockets, lanes, and the node's rules between them.
//!
//! - this file: the overlay, and the one place where the node's outputs are carried out;
//! - `open`: the TUN device and the sockets that it works on;
//! - `growth`: lanes that come and go with the load;
//! - `bridges`: WebSockets to relays that UDP does not reach;
//! - `world`: the addresses that the internet sees of this host through an exit node;
//! - `nat_test`: sockets for the test of the NAT's filter.

mod bridges;
mod growth;
mod nat_test;
mod open;
mod world;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use taut_base::{LaneId, Placement, Prefix, PrivateKey, PublicKey, RelayId, SOCKET_MARK, Time};
use taut_dns::Question;
use taut_event::{Waker, open_files};
use taut_netlink::{Changes, Netlink, Watch};
use taut_netmap::NetworkMap;
use taut_node::{Clocks, ExitRoute, ExitWish, Node, NodeEvent, Output, ToLane};
use taut_relay::Credentials;
use taut_tun::{Offload, Tun};
use taut_tunnel::Limits;
use taut_udp::UdpSocket;
use taut_wire::control::Lanes;

use crate::api::{Failure, MtuSource, TunStatus, UdpStatus};
use crate::basics::OsEntropy;
use crate::config::DaemonConfig;
use crate::host::{
    self, ExitDevice, Forwarding, Guard, GuardPlan, Host, HostEvent, Nearby, PacketLimits, Surroundings,
};
use crate::lanes::{LaneHandles, LaneOptions, LaneThreads, Steering};
use crate::subnets::{AcceptedRoutes, RouteOptions, Vital};
use crate::upstream::{self, ServerWay, StubAnswer};
use crate::userspace::{Userspace, UserspaceNetwork};
use bridges::Bridges;
use growth::{Growth, most_lanes};
use nat_test::NatTestSockets;
use open::{bind, bind_further, describe_tun, describe_udp, open_queues, search_sockets, suites};
use world::World;

/// Shortest time between two readings of the routes into other tunnels that only changes of routes cause, 10 s. On a router with a full Internet table, routes change
/// all the time, and the kernel walks through all of them to list those of one device.
const TUNNEL_ROUTES_APART: Duration = Duration::from_secs(10);

/// A network that is up.
pub(crate) struct Overlay {
    node: Node<OsEntropy>,
    lanes: LaneThreads,
    host: Host,
    /// The program that takes the place of a TUN device.
    userspace: Option<Userspace>,
    /// The user's choices about subnet routes.
    routes: RouteOptions,
    /// Addresses of the coordinator, as far as they are known.
    coordinator: Vec<IpAddr>,
    /// The peers' routes in use.
    accepted: AcceptedRoutes,
    forwarding: Forwarding,
    /// True while the user wants the host's own way to the internet for a while.
    exit_paused: bool,
    /// True while the sockets for the names of the internet are this node's own.
    serves_names: bool,
    guard: Guard,
    world: World,
    /// The endpoints of the network's relays.
    relays: Vec<SocketAddr>,
    surroundings: Surroundings,
    /// Time of the last reading of the routes into other overlays.
    routes_read: Time,
    /// Time of the next reading, if routes have changed since.
    reread: Option<Time>,
    /// Warnings about overlay addresses that the host uses otherwise.
    conflicts: Vec<Failure>,
    prefixes: Vec<Prefix>,
    addresses: Vec<IpAddr>,
    pub(crate) port: u16,
    /// Ports of the extra lanes.
    pub(crate) ports: Vec<u16>,
    /// Preferred ports that other programs use.
    pub(crate) ports_taken: Vec<u16>,
    pub(crate) endpoints: Vec<SocketAddr>,
    tun: TunStatus,
    pub(crate) udp: UdpStatus,
    /// Duplicated handles of the lanes' sockets, for reading their counters.
    sockets: Vec<UdpSocket>,
    /// Datagrams that the kernel dropped at sockets of lanes that ended.
    dropped_before: u64,
    /// What lanes are started with later; `None` if their number is fixed.
    growth: Option<Growth>,
    /// Bridges to relays that UDP does not reach.
    bridges: Bridges,
    /// Sockets for the test of the NAT's filter.
    nat_test: NatTestSockets,
    outputs: VecDeque<OverlayOutput>,
    /// The packet limits of the paths to the peers.
    limits: PacketLimits,
    /// True if the host's MTUs have to follow the limits.
    follow: bool,
}

/// A task of the daemon for an overlay.
pub(crate) enum OverlayOutput {
    /// The ceiling of the stamps, since the Unix epoch: to be kept for the next run.
    StampCeiling(Duration),
    /// The node's endpoints outside its NAT, for the coordinator.
    Endpoints(Vec<SocketAddr>),
    /// The relays that the node is bound to, for the coordinator.
    HomeRelays(Vec<RelayId>),
    /// This number of lanes runs now, because one was busy.
    LanesStarted(u8),
    /// All lanes but the first have ended, because they were not needed.
    LanesEnded,
    /// More lanes were needed and could not be started, for this reason.
    LanesRefused(String),
    /// What happened, for the event log.
    Event(NodeEvent),
}

impl Overlay {
    /// Opens the TUN device and the sockets, configures the host and starts the lanes.
    pub(crate) fn start(
        config: &DaemonConfig,
        node_key: &PrivateKey,
        remembered_port: Option<u16>,
        map: &NetworkMap,
        coordinator: &[IpAddr],
        waker: &Waker,
        clocks: Clocks,
    ) -> Result<Self, Failure> {
        let offload = if config.tun_offload { Offload::ALL } else { Offload::NONE };
        // Lanes that open later need queues, too, and a device with one queue never gets more.
        let multi_queue = config.lanes.unwrap_or_else(most_lanes) > 1;
        let count = config.lanes.unwrap_or(1);
        let (tun, userspace) = match config.is_userspace() {
            true => Userspace::start(config).map(|(tun, userspace)| (tun, Some(userspace)))?,
            false => {
                let tun = Tun::create(&taut_tun::TunConfig { name: config.tun_name.clone(), offload, multi_queue });
                (tun.map_err(|error| Failure::new(error, "taut needs a TUN device to carry packets"))?, None)
            }
        };
        let (kernel, queues) = open_queues(&tun, config, count)?;
        let (udp, mut ports_taken) = bind(config, remembered_port)?;
        let further = bind_further(config, count, udp.port(), &mut ports_taken)?;
        let mtu = PacketLimits::new(config.mtu).device(0);
        let netlink = Netlink::open()
            .map_err(|error| Failure::new(error, "taut configures addresses and routes through netlink"))?;
        let configured = match userspace {
            Some(_) => Ok(Host::detached(netlink, tun.name(), mtu, clocks.now)),
            None => Host::configure(netlink, tun.name(), mtu, &map.me.addresses, config.ecn, clocks.now),
        };
        let host = configured.map_err(|error| {
            Failure::new(error, "taut sets the MTU, addresses and routes of its device; it tries again automatically")
        })?;

        let forwarding = Forwarding::new(host.name(), config.routes.snat, switch_record(config));
        let guard = Guard::new(host.name());
        let limits = config.rekey_after.map_or(Limits::WIREGUARD, Limits::with_rekey_after);
        let mut node = Node::new(node_key.clone(), limits, OsEntropy::new());
        node.set_suites(suites(config.suites));
        node.set_mtu(config.mtu);
        node.set_accepted_domains(&config.accept_domains);
        node.set_search_sockets(search_sockets(config.search_sockets, open_files()));
        let ports: Vec<u16> = further.iter().map(UdpSocket::port).collect();
        node.set_lanes(Lanes::with_ports(&ports));
        let growth = Growth::new(config, &tun, limits, waker)
            .map_err(|error| Failure::new(error, "raise the limit of open files: `ulimit -n`"))?;
        if config.lanes.is_none() {
            node.set_auto_lanes(most_lanes());
        }
        let (port, tun_status, udp_status) = (udp.port(), describe_tun(&tun, mtu), describe_udp(&udp));
        let sockets = std::iter::once(&udp).chain(&further).map(UdpSocket::try_clone).collect::<Result<Vec<_>, _>>();
        let sockets = sockets.map_err(|error| Failure::new(error, "raise the limit of open files: `ulimit -n`"))?;
        let handles = std::iter::once((tun, udp)).chain(queues.into_iter().zip(further));
        let handles = handles.map(|(tun, udp)| LaneHandles { tun, udp, checker: node.checker() }).collect();
        let DaemonConfig { low_latency, ecn: congestion_marks, .. } = *config;
        let options = LaneOptions { mtu, limits, low_latency, congestion_marks, by_peer: false };
        let steering = Steering::new(kernel, Placement::new(count));
        let lanes = LaneThreads::start_all(handles, steering, options, waker).map_err(|error| {
            Failure::new(error, "free memory or threads on this host; taut tries again automatically")
        })?;
        let mut overlay = Self {
            node,
            lanes,
            host,
            userspace,
            routes: config.routes.clone(),
            coordinator: coordinator.to_vec(),
            accepted: AcceptedRoutes::default(),
            forwarding,
            exit_paused: false,
            serves_names: false,
            guard,
            world: World::default(),
            relays: Vec::new(),
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
            dropped_before: 0,
            growth,
            bridges: Bridges::new(port, waker.clone()),
            nat_test: NatTestSockets::default(),
            outputs: VecDeque::new(),
            limits: PacketLimits::new(config.mtu),
            follow: false,
        };
        // A subnet's route must not hide a network of this host, not even for a moment.
        overlay.surroundings = overlay.host.surroundings(None).unwrap_or_default();
        overlay.set_map(map, clocks);
        Ok(overlay)
    }

    /// Returns true if this map gives the node other addresses, which need a new TUN device.
    pub(crate) fn needs_restart(&self, map: &NetworkMap) -> bool {
        self.addresses != map.me.addresses
    }

    /// Takes another WireGuard key of this node. Sessions go on.
    pub(crate) fn rotate_key(&mut self, key: &PrivateKey, clocks: Clocks) {
        self.node.rotate_key(key.clone());
        self.drain(clocks);
    }

    /// Takes a new map: peers and routes. Sessions of peers that stay continue.
    pub(crate) fn set_map(&mut self, map: &NetworkMap, clocks: Clocks) {
        self.prefixes = vec![map.network.ipv4, map.network.ipv6];
        let opened = self.opened(map);
        let map = opened.as_ref();
        if map.filter.is_some() && !self.node.has_filter(map.filter.as_ref()) {
            self.node.set_service_ports(match &self.userspace {
                Some(userspace) => userspace.service_ports(),
                None => host::service_ports(),
            });
        }
        self.relays = map.relays.iter().flat_map(|relay| relay.endpoints.iter().copied()).collect();
        self.take_routes(map, clocks.now);
        self.node.set_map(map);
        self.drain(clocks);
        self.set_host_routes(map, clocks.now);
        let node = &self.node;
        self.follow |= self.limits.keep_only(|peer| node.peer_name(peer).is_some());
        self.lanes.keep_only(|peer| node.peer_name(peer).is_some());
        // A new route needs its MTU.
        self.follow |= !self.accepted.used.is_empty();
        self.follow_limits(clocks);
        self.conflicts = host::warnings(map, &self.surroundings);
    }

    /// Takes other choices of the user about subnet routes.
    pub(crate) fn set_route_options(&mut self, routes: &RouteOptions, map: &NetworkMap, clocks: Clocks) {
        self.routes.clone_from(routes);
        self.forwarding.set_snat(routes.snat, clocks.now);
        self.set_map(map, clocks);
    }

    /// Takes other domains that the user lets the coordinator answer for.
    pub(crate) fn set_accepted_domains(&mut self, domains: &[String], map: &NetworkMap, clocks: Clocks) {
        self.node.set_accepted_domains(domains);
        self.set_map(map, clocks);
    }

    /// Returns the next question of a lane's stub for servers of other domains, with its lane.
    pub(crate) fn poll_question(&mut self) -> Option<(LaneId, Question)> {
        self.lanes.poll_question()
    }

    /// Passes an answer to the lane whose stub was asked.
    pub(crate) fn answer(&mut self, answer: StubAnswer) {
        let StubAnswer { lane, client, message } = answer;
        self.lanes.push(lane, ToLane::Answer { client, message: message.into() });
        self.lanes.flush();
    }

    /// Returns the way to the server of a split domain.
    pub(crate) fn way_to(&self, server: IpAddr, map: &NetworkMap) -> ServerWay {
        let is_in = |prefixes: &[Prefix]| prefixes.iter().any(|prefix| prefix.contains(server));
        if self.userspace.is_some() && is_in(&self.prefixes) {
            return ServerWay::None(String::from("the daemon's own questions have no way into a userspace network"));
        }
        if self.addresses.contains(&server) || is_in(&self.forwarding.in_force()) {
            return ServerWay::Here;
        }
        let is_peer = map.peers.values().any(|peer| peer.addresses.contains(&server));
        if is_peer || is_in(&self.accepted.used) {
            return ServerWay::Through(String::from(self.host.name()));
        }
        let is_offered = map.peers.values().any(|peer| is_in(&peer.usable_routes(&map.network).collect::<Vec<_>>()));
        ServerWay::None(String::from(match (is_offered, is_in(&self.prefixes)) {
            (true, _) if self.routes.accept => "this host does not use the route to it (see `route` above)",
            (true, _) => "it is behind a subnet router; `taut set --accept-routes` uses the route",
            (false, true) => "no node that this host may see has its address",
            (false, false) => "no node and no subnet router of the network leads to it",
        }))
    }

    /// Takes the addresses of the coordinator's present connection: no route of a peer may cut it off.
    pub(crate) fn set_coordinator(&mut self, addresses: &[IpAddr], map: &NetworkMap, clocks: Clocks) {
        if self.coordinator != addresses {
            self.coordinator = addresses.to_vec();
            self.set_map(map, clocks);
        }
    }

    /// Finds out which subnets are in use. Returns true if others are than before; then the node and the host need the map again.
    fn take_routes(&mut self, map: &NetworkMap, now: Time) -> bool {
        let vital = Vital::all(&self.coordinator, self.surroundings.gateways(), map);
        let accepted = self.routes.accepted(map, &self.surroundings.taken(), &vital);
        let is_other = accepted != self.accepted;
        self.accepted = accepted;
        // A new route is opened once its rules are made.
        self.forwarding.set_routes(self.routes.in_force(map), now);
        self.node.set_subnets(self.forwarding.in_force(), self.accepted.used.clone());
        let is_exit = self.routes.is_exit(map);
        self.forwarding.set_exit(is_exit.then_some([map.network.ipv4, map.network.ipv6]), now);
        self.node.set_exit(self.exit_wish(map), self.forwarding.is_exit());
        let behind = self.routes.in_force(map).into_iter().filter(|_| !self.routes.snat).map(|route| route.real);
        if self.userspace.is_some() {
            // No packet of the overlay passes the host's network stack.
            self.avoid();
            return is_other;
        }
        let plan = GuardPlan {
            overlay: vec![map.network.ipv4, map.network.ipv6],
            own: map.me.addresses.clone(),
            bridges: self.surroundings.inner_bridges().to_vec(),
            behind: behind.collect(),
        };
        self.guard.set(plan, now);
        self.avoid();
        is_other
    }

    /// Has no endpoint in other overlays probed, or in subnets in use: the kernel sends packets to it into the overlay, where they would go round in circles (fault I8).
    fn avoid(&mut self) {
        let avoided = self.surroundings.overlays().into_iter().chain(self.accepted.used.iter().copied());
        self.node.set_avoided(avoided.collect());
    }

    /// Has the host's packets take its own way for a while, or the exit node again.
    pub(crate) fn pause_exit(&mut self, paused: bool, map: &NetworkMap, clocks: Clocks) {
        self.exit_paused = paused;
        self.set_map(map, clocks);
    }

    /// Returns the user's choice of an exit node, which is none during a pause.
    fn exit_wish(&self, map: &NetworkMap) -> ExitWish {
        if self.exit_paused { ExitWish::None } else { self.routes.exit_node.wish(map) }
    }

    /// Returns true if names of the internet are asked through the exit node.
    pub(crate) fn asks_exit(&self) -> bool {
        self.routes.exit_node.is_on() && !self.exit_paused
    }

    /// Returns the TUN device, for the routes to the exit node.
    pub(crate) fn exit_device(&self) -> ExitDevice {
        ExitDevice { index: self.host.index(), name: String::from(self.host.name()), has_ipv6: self.host.has_ipv6() }
    }

    /// Returns the networks around this host that the kill switch lets through.
    pub(crate) fn nearby(&self) -> Nearby {
        self.surroundings.nearby()
    }

    /// Routes peers, subnets and the stub into the device.
    fn set_host_routes(&mut self, map: &NetworkMap, now: Time) {
        let peers = map.peers.values().flat_map(|peer| peer.addresses.iter().copied());
        // Questions for names go into the device, too, where a lane answers them.
        let stub = self.node.names().map(|names| names.stub()).unwrap_or_default();
        self.host.set_routes(peers, &self.accepted.used, stub, now);
        let Some(userspace) = &mut self.userspace else { return };
        let (usable, _) = map.network.naming.usable(&map.network.name, &[]);
        userspace.tell(UserspaceNetwork {
            addresses: self.addresses.clone(),
            mtu: self.tun.mtu,
            reachable: self.prefixes.iter().chain(&self.accepted.used).copied().collect(),
            name_servers: stub.to_vec(),
            zone: usable.zone,
        });
    }

    /// Returns the program that takes the place of a TUN device, after its reports were read.
    pub(crate) fn userspace(&self) -> Option<&Userspace> {
        self.userspace.as_ref()
    }

    /// Reads the reports of the program that takes the place of a TUN device.
    /// Returns false if the program says nothing any more: it ends, or is broken.
    pub(crate) fn read_userspace(&mut self) -> bool {
        self.userspace.as_mut().is_none_or(Userspace::read)
    }

    /// Returns the addresses that the internet sees of this host through its exit node, as far as they were measured.
    pub(crate) fn seen_by_the_internet(&self) -> impl Iterator<Item = IpAddr> {
        self.world.seen()
    }

    /// Returns the map for the node's rules: at an exit node, with a filter that also lets its users ask for names.
    fn opened<'a>(&self, map: &'a NetworkMap) -> Cow<'a, NetworkMap> {
        match &map.filter {
            Some(filter) if self.serves_names && self.routes.is_exit(map) => {
                let filter = Some(upstream::opened(filter, &map.me.addresses));
                Cow::Owned(NetworkMap { filter, ..map.clone() })
            }
            _ => Cow::Borrowed(map),
        }
    }

    /// Returns true if the filter lets users of this exit node ask for names.
    pub(crate) fn serves_names(&self) -> bool {
        self.serves_names
    }

    /// Sets whether the sockets for the names of the internet are this node's own: while they are not, another program may have the port, and the filter lets nobody ask there.
    pub(crate) fn set_serving(&mut self, serves: bool, map: &NetworkMap, clocks: Clocks) {
        if self.serves_names != serves {
            self.serves_names = serves;
            self.set_map(map, clocks);
        }
    }

    /// Returns the overlay address of the exit node in use, and its name.
    pub(crate) fn exit_address(&self) -> Option<(IpAddr, &str)> {
        let ExitRoute::Through(exit) = self.node.exit() else { return None };
        let peer = self.node.peers().find(|peer| peer.id == exit)?;
        Some((*peer.addresses.first()?, peer.name))
    }

    /// Returns this node's own overlay addresses.
    pub(crate) fn own_addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Returns true if this host forwards packets of its peers to the internet.
    pub(crate) fn is_exit(&self) -> bool {
        self.forwarding.is_exit()
    }

    /// Returns the peers' routes that this host does not use, each with the network of the host that contains it, or the address that it would cut off.
    pub(crate) fn hidden_routes(&self) -> impl Iterator<Item = (Prefix, Prefix)> {
        let cut = self.accepted.cut.iter().map(|(route, vital)| (*route, Prefix::host(vital.address)));
        self.accepted.hidden.iter().copied().chain(cut)
    }

    /// Reads the host's interfaces after these changes. Returns true if this node's endpoints changed.
    pub(crate) fn refresh_endpoints(&mut self, map: &NetworkMap, changes: Changes, clocks: Clocks) -> bool {
        let soon = self.routes_read + TUNNEL_ROUTES_APART;
        let skip = !changes.links && !changes.addresses && clocks.now < soon;
        self.reread = Some(soon).filter(|_| skip);
        // On an error the last known interfaces stay in use: an error is not an empty answer (law 6).
        let known = skip.then_some(&self.surroundings);
        let Ok(surroundings) = self.host.surroundings(known) else { return false };
        if !skip {
            self.routes_read = clocks.now;
        }
        let other_overlays = surroundings.overlays() != self.surroundings.overlays();
        self.surroundings = surroundings;
        if self.take_routes(map, clocks.now) | other_overlays {
            let opened = self.opened(map);
            self.node.set_map(&opened);
            self.drain(clocks);
            self.set_host_routes(map, clocks.now);
        }
        self.forwarding.handle_news(clocks.now);
        self.conflicts = host::warnings(map, &self.surroundings);
        let endpoints = self.surroundings.endpoints(self.port, &self.prefixes);
        let changed = endpoints != self.endpoints;
        self.endpoints = endpoints;
        self.node.set_networks(self.surroundings.networks());
        self.node.set_interface_mtu(self.surroundings.mtu());
        self.node.set_interfaces(&self.endpoints, clocks);
        self.drain(clocks);
        changed
    }

    /// Returns the time at which the interfaces have to be read again, even without news.
    pub(crate) fn poll_reread(&mut self) -> Option<Time> {
        self.reread.take()
    }

    /// Returns the interface and the prefixes that the kernel's news is watched for.
    pub(crate) fn watch(&self) -> Watch {
        Watch { interface: self.host.index(), destinations: self.prefixes.clone() }
    }

    /// Notes that the device, its addresses or its routes changed.
    pub(crate) fn handle_news(&mut self, now: Time) {
        self.host.handle_news(now);
    }

    /// Returns the problem that keeps packets from flowing, if another program undoes the device's configuration.
    pub(crate) fn problem(&self) -> Option<Failure> {
        self.host.problem()
    }

    /// Returns warnings for the user; packets flow nevertheless.
    pub(crate) fn warnings(&self) -> Vec<Failure> {
        let host = self.host.warnings().into_iter().chain(self.conflicts.iter().cloned());
        let userspace = self.userspace.as_ref().map_or_else(Vec::new, Userspace::warnings);
        host.chain(self.forwarding.warnings()).chain(self.accepted.warnings()).chain(userspace).collect()
    }

    /// Returns the addresses at which this node answers its host's questions for names.
    pub(crate) fn name_servers(&self) -> Vec<IpAddr> {
        self.host.routed_stub().collect()
    }

    /// Returns the state of the TUN device for users.
    pub(crate) fn tun(&self) -> TunStatus {
        let mtu_by = match (self.host.has_foreign_mtu(), self.limits.is_fixed()) {
            (true, _) => MtuSource::Program,
            (false, true) => MtuSource::Setting,
            (false, false) => MtuSource::Paths,
        };
        TunStatus { ipv6: self.host.has_ipv6(), mtu_by: Some(mtu_by), ..self.tun.clone() }
    }

    /// Notes that the host's routes, addresses or links changed, or that the host slept: lanes choose their local addresses again, and all paths need a new proof.
    pub(crate) fn handle_network_change(&mut self, clocks: Clocks) {
        self.lanes.check_routes(self.host.netlink(), SOCKET_MARK);
        self.bridges.check();
        self.node.handle_look_around(self.surroundings.families(), clocks);
        self.drain(clocks);
    }

    /// Sets the endpoints that the router claims to forward to the first lane's port.
    pub(crate) fn set_mapped(&mut self, endpoints: &[SocketAddr], clocks: Clocks) {
        self.node.set_mapped(endpoints, clocks);
        self.drain(clocks);
    }

    /// Returns the UDP ports of all lanes.
    pub(crate) fn ports(&self) -> Vec<u16> {
        std::iter::once(self.port).chain(self.ports.iter().copied()).collect()
    }

    /// Returns the overlay's prefixes.
    pub(crate) fn prefixes(&self) -> &[Prefix] {
        &self.prefixes
    }

    /// Sets the ticket and the key for the network's relays.
    pub(crate) fn set_ticket(&mut self, credentials: Credentials, clocks: Clocks) {
        self.node.set_ticket(credentials, clocks);
        self.drain(clocks);
    }

    /// Returns the next task of the daemon. Drain it after every input.
    pub(crate) fn poll_output(&mut self) -> Option<OverlayOutput> {
        self.outputs.pop_front()
    }

    /// Takes the messages of the lanes, and does the work that is due.
    pub(crate) fn turn(&mut self, clocks: Clocks) {
        self.host.handle_timeout(clocks.now);
        if self.forwarding.poll_timeout().is_some_and(|due| due <= clocks.now) {
            let (index, name) = (self.host.index(), String::from(self.host.name()));
            self.forwarding.handle_timeout(self.host.netlink(), (index, &name), clocks.now);
            self.node.set_forwarded(self.forwarding.in_force());
            self.node.set_is_exit(self.forwarding.is_exit());
            if self.forwarding.was_restored() {
                self.host.note(HostEvent::RulesRestored);
            }
            if let Some(chains) = self.forwarding.take_dropping() {
                self.host.note(HostEvent::ForwardingDropped(chains));
            }
        }
        self.guard.handle_timeout(clocks.now);
        if let Some(reason) = self.guard.take_error() {
            self.host.note(HostEvent::GuardFailed(reason));
        }
        self.world.turn(self.node.exit(), &self.relays, &self.addresses, &mut OsEntropy::new(), clocks.now);
        // Another program may have changed it.
        self.follow |= self.host.mtu() != self.tun.mtu;
        self.nat_test.read(&mut self.node, clocks);
        if self.lanes.turn(&mut self.node, clocks) {
            self.lanes_ended(clocks);
        }
        self.bridges.turn(&mut self.node, clocks);
        self.drain(clocks);
        self.follow |= self.limits.handle_timeout(clocks.now);
        self.follow_limits(clocks);
    }

    /// Has the host's MTUs follow the packet limits of the paths, if these changed.
    fn follow_limits(&mut self, clocks: Clocks) {
        if !std::mem::take(&mut self.follow) {
            return;
        }
        let wanted = self.limits.device(self.node.peers().count());
        let device = self.host.followed_mtu(wanted);
        let limits = &self.limits;
        let routes = self.node.peers().filter_map(|peer| {
            let mtu = limits.route(peer.id, peer.path.is_none(), device)?;
            let subnets =
                self.node.carriers().filter(move |(_, carrier)| *carrier == peer.id).map(|(subnet, _)| subnet);
            Some(peer.addresses.iter().copied().map(Prefix::host).chain(subnets).map(move |route| (route, mtu)))
        });
        let routes = routes.flatten().collect();
        self.host.set_mtus(device, routes);
        let device = self.host.mtu();
        if device != self.tun.mtu {
            self.tun.mtu = device;
            self.lanes.set_mtu(device);
            self.drain(clocks);
        }
    }

    /// Starts handshakes with these peers, which may still send to a session or an endpoint that no longer exists.
    pub(crate) fn greet(&mut self, peers: &[PublicKey], clocks: Clocks) {
        self.node.greet(peers, clocks);
        self.drain(clocks);
    }

    /// Continues from the timestamps of an earlier run or an earlier overlay.
    pub(crate) fn resume_stamps(&mut self, ceiling: Duration) {
        self.node.resume_stamps(ceiling);
    }

    /// Carries out all outputs of the node. It is the only place that does so, and is called after every input to the node.
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
                Output::Lanes(placement) => self.set_lanes(placement, clocks),
                Output::PacketLimit { peer, limit } => self.follow |= self.limits.set(peer, limit, clocks.now),
                Output::Event(event) => {
                    // The route's MTU is that of its router.
                    self.follow |= matches!(event, NodeEvent::RouteMoved { .. } | NodeEvent::ExitMoved { .. });
                    self.outputs.push_back(OverlayOutput::Event(event));
                }
            }
        }
        self.lanes.flush();
    }

    /// Returns the time at which [`Self::turn`] has something to do.
    pub(crate) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let own = [
            self.node.poll_timeout(),
            self.lanes.poll_timeout(now),
            self.nat_test.poll_timeout(),
            self.limits.poll_timeout(),
            self.forwarding.poll_timeout(),
            self.guard.poll_timeout(),
            self.world.poll_timeout(),
        ];
        own.into_iter().flatten().chain(self.host.poll_timeout()).min()
    }

    /// Returns true if a lane has ended, or the device was deleted or moved away.
    pub(crate) fn has_failed(&self) -> bool {
        self.lanes.has_failed() || self.host.is_gone()
    }

    /// Returns the drops of the kernel, by reason, like those of [`taut_lane::DropReason`]: in front of the TUN, where a superpacket counts once, and at full
    /// sockets.
    pub(crate) fn dropped_by_kernel(&mut self) -> [(&'static str, u64); 2] {
        let sockets =
            self.sockets.iter().filter_map(UdpSocket::dropped).map(u64::from).sum::<u64>() + self.dropped_before;
        [("out-tun-full", self.host.dropped_before_tun()), ("in-socket-full", sockets)]
    }

    /// Returns the next event of the host's configuration, for the log.
    pub(crate) fn poll_host_event(&mut self) -> Option<HostEvent> {
        self.host.poll_event()
    }

    /// Returns the TUN device's present name.
    pub(crate) fn interface(&self) -> &str {
        self.host.name()
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

    /// Closes the TUN device and the sockets. The kernel removes addresses and routes with the device.
    pub(crate) fn stop(mut self) {
        self.forwarding.stop();
        self.guard.stop();
        self.lanes.stop();
    }
}

/// Returns the file that names the switches of forwarding that are on. It does not outlive the host's next boot, like the switches themselves.
pub(crate) fn switch_record(config: &DaemonConfig) -> PathBuf {
    config.socket.with_extension("forwarding")
}

/// Returns the file with the former values of reverse path filters that are loose while an exit node is in use.
pub(crate) fn exit_record(config: &DaemonConfig) -> PathBuf {
    config.socket.with_extension("exit")
}
