//! Names: the host's resolver, which asks the stub while the network is up, and the servers of the operator's split domains.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use taut_base::{Prefix, SortedSet, Time};
use taut_dns::{EXIT_PORT, PORT, Question, Zones, is_at};
use taut_event::Interest;
use taut_netmap::{NetworkMap, RefusedDomain, SplitDomain, is_below};
use taut_node::Clocks;

use super::state::host_name;
use super::{Daemon, TOKEN_RESOLVER, TOKEN_SERVED, clocks};
use crate::api::{DomainStatus, Failure, InternetNames, NamesStatus, ResolverStatus, ServerTrouble};
use crate::config::AnswerFilter;
use crate::log::{Value, kind};
use crate::overlay::Overlay;
use crate::resolver::{NamedNetwork, Resolver, ResolverEvent, former_servers};
use crate::upstream::{PRIVATE, ServedPeers, ServerWay};

/// Warnings about domains of each kind that a status has at most, 8: a coordinator could name hundreds, and one shows what is wrong.
const MOST_WARNINGS: usize = 8;

/// Time until sockets that could not be opened are tried again, 5 s: another program may have ended.
const RETRY_SERVED: Duration = Duration::from_secs(5);

/// Names of the operator's records that a status has at most, 16: more than most networks have, and a few lines of a terminal.
const MOST_RECORD_NAMES: usize = 16;

/// The resolver of this exit node for its peers.
#[derive(Default)]
pub(super) struct Served {
    peers: Option<ServedPeers>,
    /// False if the peers that may ask are to be read from the map again.
    pub(super) is_current: bool,
    /// True if the poller knows the sockets.
    is_registered: bool,
    /// Why the peers cannot ask.
    problem: Option<String>,
    /// Time of the next attempt to open the sockets.
    retry: Option<Time>,
}

impl Served {
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.retry
    }

    /// Takes the questions that wait.
    pub(super) fn turn(&self) {
        if let Some(peers) = &self.peers {
            peers.turn();
        }
    }
}

impl Daemon {
    /// Has the host's resolver follow the network, by a new helper if the former one ended.
    pub(super) fn turn_resolver(&mut self, now: Time) {
        let network = self.named_network();
        let Some(resolver) = &mut self.resolver else { return };
        resolver.set(network, self.config.dns_search);
        if resolver.turn(now)
            && let Some(socket) = resolver.as_fd()
        {
            // Without its news, the status stays without a resolver, and the helper works all the same.
            let _ = self.poller.add(socket, TOKEN_RESOLVER, Interest::READ);
        }
    }

    /// Returns what the resolver has to know; `None` while no address answers.
    fn named_network(&self) -> Option<NamedNetwork> {
        let (overlay, map) = (self.overlay.as_ref().filter(|_| self.config.dns)?, self.member.map.as_ref()?);
        let servers = overlay.name_servers();
        let (usable, _) = map.network.naming.usable(&map.network.name, &self.config.accept_domains);
        (!servers.is_empty()).then(|| NamedNetwork {
            interface: String::from(overlay.interface()),
            servers,
            outside: usable.outside(),
            accepted: self.config.accept_domains.clone(),
            filtered: filtered(self.config.dns_filter, overlay.prefixes()),
            asks_exit: overlay.asks_exit(),
            zone: usable.zone,
            prefixes: overlay.prefixes().to_vec(),
        })
    }

    /// Has servers asked that stubs have questions for, and passes on what they answered.
    pub(super) fn turn_upstream(&mut self) {
        let (Some(overlay), Some(map)) = (&mut self.overlay, &self.member.map) else {
            // Nobody waits for these any more.
            while self.upstream.poll_answer().is_some() {}
            return;
        };
        while let Some((lane, question)) = overlay.poll_question() {
            let split = question.servers.iter();
            let ways = match question.servers.is_empty() {
                true => {
                    let vital = vital_names(&self.coordinator.url, map);
                    exit_ways(overlay, &self.config.exit_dns, &question, &vital)
                }
                false => split.map(|server| ((*server, PORT).into(), overlay.way_to(*server, map))).collect(),
            };
            // The operator chose the servers of split domains, whose names are private ones. They cannot make names for members, as those of the internet cannot.
            let filter = match self.config.dns_filter {
                AnswerFilter::Private if !question.servers.is_empty() => AnswerFilter::Overlay,
                filter => filter,
            };
            let filtered = filtered(filter, overlay.prefixes());
            self.upstream.ask(lane, question, ways, filtered.into());
        }
        while let Some(answer) = self.upstream.poll_answer() {
            overlay.answer(answer);
        }
    }

    /// Has the peers of an exit node ask it, while it is one.
    pub(super) fn turn_served(&mut self, clocks: Clocks) {
        let overlay = self.overlay.as_ref().filter(|overlay| overlay.is_exit());
        // A new overlay has a new device, to which former sockets are not bound.
        let is_current = overlay.is_some_and(|overlay| match &self.served.peers {
            Some(peers) => overlay.serves_names() && peers.is_at(overlay.interface(), overlay.own_addresses()),
            None => !overlay.serves_names(),
        });
        if !is_current {
            self.end_served(clocks);
        }
        let due = self.served.retry.take_if(|due| clocks.now >= *due);
        if self.served.is_current && due.is_none() {
            return;
        }
        let overlay = self.overlay.as_mut().filter(|overlay| overlay.is_exit());
        let (Some(overlay), Some(map)) = (overlay, self.member.map.as_deref()) else { return };
        self.served.is_current = true;
        let opened = self
            .served
            .peers
            .take()
            .map_or_else(|| ServedPeers::open(overlay.interface(), overlay.own_addresses()), Ok);
        let peers = match opened {
            Ok(peers) => peers,
            Err(error) => {
                (self.served.problem, self.served.retry) = (Some(error.to_string()), Some(clocks.now + RETRY_SERVED));
                return;
            }
        };
        let (usable, _) = map.network.naming.usable(&map.network.name, &self.config.accept_domains);
        peers.set(map.filter.as_ref(), usable.outside().into_iter().chain([usable.zone]));
        self.served.problem = None;
        if !self.served.is_registered {
            for socket in peers.descriptors() {
                let _ = self.poller.add(socket, TOKEN_SERVED, Interest::READ);
            }
            self.served.is_registered = true;
        }
        // The filter is opened once the sockets are there, and closed before they are.
        overlay.set_serving(true, map, clocks);
        self.served.peers = Some(peers);
    }

    fn end_served(&mut self, clocks: Clocks) {
        if let (Some(overlay), Some(map)) = (&mut self.overlay, self.member.map.as_deref()) {
            overlay.set_serving(false, map, clocks);
        }
        if let Some(peers) = self.served.peers.take() {
            // A question in progress may hold a socket open for a moment.
            for socket in peers.descriptors() {
                self.poller.remove(socket);
            }
        }
        self.served = Served::default();
    }

    /// Forgets the failures of servers that the operator took away.
    pub(super) fn forget_servers(&mut self, map: &NetworkMap) {
        let domains = &map.network.naming.domains;
        let is_exit = |server| map.peers.values().any(|peer| peer.is_exit() && peer.addresses.contains(&server));
        self.upstream
            .keep_only(|server| domains.iter().any(|split| split.servers.contains(&server)) || is_exit(server));
    }

    /// Returns the network's names for users.
    pub(super) fn names_status(&self, map: &NetworkMap) -> NamesStatus {
        let overlay = self.overlay.as_ref();
        let (usable, _) = map.network.naming.usable(&map.network.name, &self.config.accept_domains);
        let given_way = self.resolver.as_ref().filter(|_| self.config.dns).map_or(&[][..], Resolver::given_way);
        let domain = |split: SplitDomain| {
            let trouble = |server: IpAddr| {
                let no_way = match overlay?.way_to(server, map) {
                    ServerWay::None(reason) => Some(reason),
                    ServerWay::Here | ServerWay::Through(_) => None,
                };
                let reason = no_way.or_else(|| self.upstream.trouble(server).map(String::from))?;
                Some(ServerTrouble { server, reason })
            };
            DomainStatus {
                yields: given_way.iter().any(|other| *other == split.domain || is_below(&split.domain, other)),
                troubles: split.servers.iter().filter_map(|server| trouble(*server)).collect(),
                domain: split.domain,
                servers: split.servers,
            }
        };
        NamesStatus {
            servers: overlay.map_or_else(Vec::new, Overlay::name_servers),
            resolver: self.resolver_status(),
            records: usable.records.len(),
            record_names: usable.records.into_iter().take(MOST_RECORD_NAMES).map(|record| record.name).collect(),
            domains: usable.domains.into_iter().map(domain).collect(),
            internet: self.internet_names(),
            domain: usable.zone,
        }
    }

    /// Returns who answers names of the internet while an exit node is chosen.
    fn internet_names(&self) -> Option<InternetNames> {
        let overlay = self.overlay.as_ref().filter(|overlay| overlay.asks_exit())?;
        let exit = overlay.exit_address();
        let servers = match (exit, &self.config.exit_dns) {
            (None, _) => Vec::new(),
            (Some((address, _)), given) if given.is_empty() => vec![address],
            (Some(_), given) => given.clone(),
        };
        let trouble = |server: &IpAddr| {
            let reason = self.upstream.trouble(*server)?;
            Some(ServerTrouble { server: *server, reason: String::from(reason) })
        };
        Some(InternetNames {
            through: exit.map(|(_, name)| String::from(name)),
            troubles: servers.iter().filter_map(trouble).collect(),
            servers,
        })
    }

    /// Returns warnings about domains of the coordinator that this node does not answer for (fault E17), or that give way to the host's own (fault H1).
    pub(super) fn names_warnings(&self, map: &NetworkMap) -> Vec<Failure> {
        let accepted = &self.config.accept_domains;
        let (_, refused) = map.network.naming.usable(&map.network.name, accepted);
        let given_way = self.resolver.as_ref().filter(|_| self.config.dns).map_or(&[][..], Resolver::given_way);
        let missing = refused.iter().filter(|refused| refused.fault.can_be_accepted()).take(MOST_WARNINGS);
        let missing = missing.map(|refused| refused.domain.trim_start_matches("*."));
        // A list of all of them: each `taut set` replaces the list that was there.
        let all = accepted.iter().map(String::as_str).chain(missing);
        let all: SortedSet<&str> = all.chain(given_way.iter().take(MOST_WARNINGS).map(String::as_str)).collect();
        let all = all.into_iter().collect::<Vec<_>>().join(",");
        let with = || {
            format!(
                "`taut set --accept-domains {all}` lets it; the list is the whole one, so leave out what you do not want"
            )
        };
        let refused = refused.iter().take(MOST_WARNINGS).map(|RefusedDomain { domain, fault }| {
            let message =
                format!("the network's operator wants this host to ask for {domain}, and it does not: {fault}");
            let hint = if fault.can_be_accepted() { with() } else { String::from("tell the operator") };
            Failure::new(message, hint)
        });
        let given_way = given_way.iter().take(MOST_WARNINGS).map(|domain| {
            let message = format!(
                "the network's operator wants this host to ask for {domain}, and it does not: one of the host's own search domains has these names"
            );
            Failure::new(message, with())
        });
        let served = self.served.problem.iter().map(|error| {
            let message = format!("peers that use this exit node cannot ask it for names: port {EXIT_PORT} of its overlay addresses: {error}");
            Failure::new(message, format!("taut tries again every 5 s; `ss -lnup 'sport = :{EXIT_PORT}'` says which program has the port"))
        });
        refused.chain(given_way).chain(served).collect()
    }

    /// Returns the state of the host's resolver for users.
    pub(super) fn resolver_status(&self) -> Option<ResolverStatus> {
        let off = || ResolverStatus {
            by: None,
            problem: Some(Failure::new("dns is off", "`taut set --dns` switches it on")),
        };
        if self.config.is_userspace() {
            let hint = "the proxies find names of the network; see docs/containers.md";
            let problem = Failure::new("a userspace network leaves the host's resolver alone", hint);
            return Some(ResolverStatus { by: None, problem: Some(problem) });
        }
        if self.config.dns { self.resolver.as_ref().map(Resolver::status) } else { Some(off()) }
    }

    /// Takes the reports of the helper process.
    pub(super) fn read_resolver(&mut self) {
        for event in self.resolver.as_mut().map(|resolver| resolver.read(clocks().now)).unwrap_or_default() {
            match event {
                ResolverEvent::Set(back_end) => self.note(&kind::RESOLVER_SET, &[Value::Word(back_end)]),
                ResolverEvent::Failed(reason) => self.note(&kind::RESOLVER_FAILED, &[Value::Text(reason)]),
                ResolverEvent::Restored => self.note(&kind::RESOLVER_RESTORED, &[]),
            }
        }
    }

    /// Waits until the host has its own resolver again, because the daemon ends.
    pub(super) fn end_resolver(&mut self) {
        if let Some(resolver) = self.resolver.take() {
            resolver.stop();
        }
    }
}

/// Returns the prefixes that answers for public names must not have an address in.
fn filtered(filter: AnswerFilter, overlay: &[Prefix]) -> Vec<Prefix> {
    let private = PRIVATE.iter().filter(|_| filter == AnswerFilter::Private).filter_map(|text| text.parse().ok());
    match filter {
        AnswerFilter::None => Vec::new(),
        AnswerFilter::Overlay | AnswerFilter::Private => overlay.iter().copied().chain(private).collect(),
    }
}

/// Returns the ways of a question for a name of the internet: to the exit node, or through it to servers of the user's choice. None while no exit node can be used: nothing leaves in the clear (fault
/// H8). The names that this node needs to reach an exit node at all (`vital`) are asked where the host asked them before.
fn exit_ways(overlay: &Overlay, given: &[IpAddr], question: &Question, vital: &Zones) -> Vec<(SocketAddr, ServerWay)> {
    if is_at(&question.message, vital) {
        return former_servers(overlay.prefixes()).into_iter().map(|server| (server, ServerWay::Here)).collect();
    }
    let through = || ServerWay::Through(String::from(overlay.interface()));
    match (overlay.exit_address(), given) {
        (None, _) => Vec::new(),
        (Some((exit, _)), []) => vec![((exit, EXIT_PORT).into(), through())],
        (Some(_), given) => given.iter().map(|server| ((*server, PORT).into(), through())).collect(),
    }
}

/// Returns the names of the coordinator's host and of relays: without them there may be no way to an exit node.
fn vital_names(coordinator: &str, map: &NetworkMap) -> Zones {
    let relays = map.relays.iter().filter_map(|relay| relay.web.as_deref());
    Zones::new([coordinator].into_iter().chain(relays).filter_map(host_name))
}
