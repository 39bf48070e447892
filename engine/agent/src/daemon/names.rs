//! Names: the host's resolver, which asks the stub while the network is up, and the servers of the operator's split domains.

use std::net::IpAddr;

use taut_base::{Prefix, Time};
use taut_event::Interest;
use taut_netmap::{NetworkMap, RefusedDomain, SplitDomain, is_below};

use super::{Daemon, TOKEN_RESOLVER, clocks};
use crate::api::{DomainStatus, Failure, NamesStatus, ResolverStatus, ServerTrouble};
use crate::config::AnswerFilter;
use crate::log::{Value, kind};
use crate::overlay::Overlay;
use crate::resolver::{NamedNetwork, Resolver, ResolverEvent};
use crate::upstream::ServerWay;

/// Warnings about domains of each kind that a status has at most, 8: a coordinator could name hundreds, and one shows what is wrong.
const MOST_WARNINGS: usize = 8;

/// Addresses that no host of the Internet has (RFC 6890): this host, its link, private and shared networks.
const PRIVATE: [&str; 10] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "::/127",
    "fc00::/7",
    "fe80::/10",
];

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
            let ways = question.servers.iter().map(|server| (*server, overlay.way_to(*server, map))).collect();
            // The operator chose these servers, whose names are private ones. They cannot make names for members, as those of the Internet cannot.
            let is_filtered = self.config.dns_filter != AnswerFilter::None;
            let filtered = if is_filtered { overlay.prefixes() } else { &[] };
            self.upstream.ask(lane, question, ways, filtered.into());
        }
        while let Some(answer) = self.upstream.poll_answer() {
            overlay.answer(answer);
        }
    }

    /// Forgets the failures of servers that the operator took away.
    pub(super) fn forget_servers(&mut self, map: &NetworkMap) {
        let domains = &map.network.naming.domains;
        self.upstream.keep_only(|server| domains.iter().any(|split| split.servers.contains(&server)));
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
            domains: usable.domains.into_iter().map(domain).collect(),
            domain: usable.zone,
        }
    }

    /// Returns warnings about domains of the coordinator that this node does not answer for (fault E17), or that give way to the host's own (fault H1).
    pub(super) fn names_warnings(&self, map: &NetworkMap) -> Vec<Failure> {
        let accepted = &self.config.accept_domains;
        let (_, refused) = map.network.naming.usable(&map.network.name, accepted);
        let with = |domain: &str| {
            let all: Vec<&str> = accepted.iter().map(String::as_str).chain([domain]).collect();
            format!("`taut set --accept-domains {}` lets it", all.join(","))
        };
        let refused = refused.iter().take(MOST_WARNINGS).map(|RefusedDomain { domain, fault }| {
            let message =
                format!("the network's operator wants this host to ask for {domain}, and it does not: {fault}");
            let plain = domain.strip_prefix("*.").unwrap_or(domain);
            let hint = if fault.can_be_accepted() { with(plain) } else { String::from("tell the operator") };
            Failure::new(message, hint)
        });
        let given_way = self.resolver.as_ref().filter(|_| self.config.dns).map_or(&[][..], Resolver::given_way);
        let given_way = given_way.iter().take(MOST_WARNINGS).map(|domain| {
            let message = format!(
                "the network's operator wants this host to ask for {domain}, and it does not: one of the host's own search domains has these names"
            );
            Failure::new(message, with(domain))
        });
        refused.chain(given_way).collect()
    }

    /// Returns the state of the host's resolver for users.
    pub(super) fn resolver_status(&self) -> Option<ResolverStatus> {
        let off = || ResolverStatus {
            by: None,
            problem: Some(Failure::new("dns is off", "`taut set --dns` switches it on")),
        };
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
