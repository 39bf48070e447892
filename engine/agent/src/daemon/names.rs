//! The host's resolver: it asks the stub while the network is up.

use taut_base::Time;
use taut_event::Interest;

use super::{Daemon, TOKEN_RESOLVER, clocks};
use crate::api::{Failure, ResolverStatus};
use crate::log::{Value, kind};
use crate::resolver::{NamedNetwork, Resolver, ResolverEvent};

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
        (!servers.is_empty()).then(|| NamedNetwork {
            interface: String::from(overlay.interface()),
            servers,
            zone: map.network.zone(),
            prefixes: overlay.prefixes().to_vec(),
        })
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
